//! A plugin's last reconciles and the state of its keys, as served at /reconciles/NAMESPACE/PLUGIN
//! for `operetta why` and the page.

use std::time::Duration;

use operetta_core::{
    object::ObjectKey,
    queue::KeyPhase,
    recorder::record::{CallRecord, Cause, Reconcile, Trigger},
};
use serde::{Deserialize, Serialize};

use crate::plugin::hosted_plugin::HostedPlugin;

/// A plugin's last reconciles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct History {
    /// The state of the key in each controller that knows it; empty if no key was asked for.
    pub states: Vec<KeyState>,
    /// Newest first.
    pub reconciles: Vec<Past>,
    /// How many older reconciles are recorded.
    pub older: usize,
    /// How many objects are left out, because the user may not read them.
    pub hidden: usize,
}

/// The state of a key in a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyState {
    /// The controller.
    pub controller: String,
    /// The key as namespace/name.
    pub key: String,
    /// `idle`, `queued`, `reconciling` or `waiting`.
    pub phase: String,
    /// How long the key has been queued or reconciled, or until it is queued, in milliseconds.
    pub milliseconds: u64,
    /// The number of failures in a row.
    pub failures: u32,
    /// True if it waits because of a hot loop.
    pub is_looping: bool,
    /// The last failure's reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The last failure's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Past {
    /// The id, as in logs and the audit log.
    pub id: String,
    /// The controller.
    pub controller: String,
    /// The key as namespace/name.
    pub key: String,
    /// When it started, in milliseconds since 1970-01-01 UTC.
    pub started: u64,
    /// How long the key waited in the queue, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_micros: Option<u64>,
    /// Wall time in microseconds.
    pub took_micros: u64,
    /// Processor time in microseconds.
    pub cpu_micros: u64,
    /// The result: `success`, `requeue`, `requeue_after`, `error`, or `aborted`.
    pub result: String,
    /// The delay of `requeue_after`, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeue_after_milliseconds: Option<u64>,
    /// The reason for an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How often the key had failed in a row before this reconcile: the number of the retry.
    pub retries: u32,
    /// The triggers. A retry has those of the reconciles that failed.
    pub triggers: Vec<PastTrigger>,
    /// The calls.
    pub calls: Vec<PastCall>,
    /// How many triggers and calls were too many to be recorded.
    pub more: u32,
}

/// A trigger of a reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PastTrigger {
    /// The cause: `added`, `modified`, `deleted`, `initial`, `resync` or `retry`.
    pub cause: String,
    /// The object the event was about, as `Kind namespace/name`; empty for other causes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// The object's resourceVersion.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

/// A call of a reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PastCall {
    /// The verb, with the subresource after a slash.
    pub verb: String,
    /// The object or objects, as `Kind namespace/name`.
    pub object: String,
    /// True for a read that may have been answered from the cache.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cached: bool,
    /// Wall time in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_micros: Option<u64>,
    /// The resourceVersion read or written.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The fields changed by a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// `ok`, `unchanged` for a suppressed write, `dry run`, or the kind of error.
    pub result: String,
    /// The id of the failed request in the API server's audit log; empty without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub audit_id: String,
}

/// Returns the keys a user may mean: `NAMESPACE/NAME`, or `NAME`, which is in the Plugin's
/// namespace or of a cluster-scoped kind.
pub fn keys(plugin: &ObjectKey, text: &str) -> Vec<ObjectKey> {
    match text.split_once('/') {
        Some((namespace, name)) => vec![ObjectKey::namespaced(namespace, name)],
        None => vec![plugin.beside(text), ObjectKey::cluster_scoped(text)],
    }
}

/// Returns the states of keys in the controllers that know them.
pub async fn states(hosted: &HostedPlugin, keys: &[ObjectKey]) -> Vec<KeyState> {
    let state = hosted.state.lock().await;
    let Some(running) = &state.running else {
        return Vec::new();
    };

    let mut states = Vec::new();
    for controller in running.iter().flat_map(|running| running.controllers()) {
        for key in keys {
            let health = hosted.health.of_key(controller.name(), key);
            let (phase, time) = match controller.queue().phase(key) {
                None if health.problem.is_none() => continue,
                None => ("idle", Duration::ZERO),
                Some(KeyPhase::Queued(time)) => ("queued", time),
                Some(KeyPhase::Processing(time)) => ("reconciling", time),
                Some(KeyPhase::Waiting(time)) => ("waiting", time),
            };

            states.push(KeyState {
                controller: controller.name().to_owned(),
                key: key.to_string(),
                phase: phase.to_owned(),
                milliseconds: millis(time),
                failures: controller.queue().num_requeues(key),
                is_looping: health.is_looping,
                reason: health
                    .problem
                    .as_ref()
                    .map(|problem| problem.reason.as_str().to_owned()),
                message: health.problem.map(|problem| problem.message),
            });
        }
    }

    states
}

impl From<Reconcile> for Past {
    fn from(record: Reconcile) -> Self {
        Self {
            id: record.id,
            controller: record.controller,
            key: record.key.to_string(),
            started: millis(record.started),
            waited_micros: record.waited.map(micros),
            took_micros: micros(record.took),
            cpu_micros: micros(record.cpu),
            result: record.result,
            requeue_after_milliseconds: record.requeue_after.map(millis),
            error: record.error,
            retries: record.retries,
            triggers: record.triggers.into_iter().map(PastTrigger::from).collect(),
            calls: record.calls.into_iter().map(PastCall::from).collect(),
            more: record.more_triggers + record.more_calls,
        }
    }
}

impl From<Trigger> for PastTrigger {
    fn from(
        Trigger {
            cause,
            object,
            resource_version,
        }: Trigger,
    ) -> Self {
        let cause = match cause {
            Cause::Added => "added",
            Cause::Modified => "modified",
            Cause::Deleted => "deleted",
            Cause::Initial => "initial",
            Cause::Resync => "resync",
            Cause::Retry => "retry",
        };

        let object = object
            .map(|object| format!("{} {}", object.kind.kind, object.key))
            .unwrap_or_default();
        Self {
            cause: cause.to_owned(),
            object,
            resource_version,
        }
    }
}

impl From<CallRecord> for PastCall {
    fn from(call: CallRecord) -> Self {
        let verb = call.verb_and_subresource();
        let object = match (&call.namespace, &call.name) {
            (Some(namespace), Some(name)) => format!("{} {namespace}/{name}", call.resource),
            (None, Some(name)) => format!("{} {name}", call.resource),
            (Some(namespace), None) => format!("{} in {namespace}", call.resource),
            (None, None) => call.resource,
        };
        let result = match call.error {
            Some(error) => error,
            None if call.is_suppressed => "unchanged".to_owned(),
            None if call.is_dry_run => "dry run".to_owned(),
            None => "ok".to_owned(),
        };

        Self {
            verb,
            object,
            is_cached: call.is_cached,
            took_micros: call.took.map(micros),
            resource_version: call.resource_version,
            paths: call.paths,
            result,
            audit_id: call.audit_id,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconcile_has_the_number_of_its_retry() {
        let record = Reconcile {
            retries: 15,
            ..Reconcile::default()
        };
        let past = Past::from(record);
        let json = serde_json::to_value(&past).expect("JSON");
        assert_eq!(json["retries"], 15);

        let of_an_older_host: Past = serde_json::from_str("{}").expect("a reconcile");
        assert_eq!(of_an_older_host.retries, 0);
    }
}
