//! The reports on a Plugin: its status, Events, and lines of its log.

use std::{sync::Arc, time::Duration};

use operetta_api::reasons::{self, Reason};
use operetta_core::{
    gate::{
        finalizers::is_same_kind,
        operation::{PatchBody, Write, WriteAction, WriteOptions},
    },
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{EventSink, EventType, LogLevel, ObjectApi},
    status::{ApiError, ErrorKind},
};
use operetta_kube::clock;
use serde_json::{Value, json};

use crate::{
    context::Context,
    events::Regarding,
    plugin::{
        crd::{self, PluginStatus},
        host_informers::HostInformers,
        hosted_plugin::{HostedPlugin, PluginRef, State},
        ownership::{
            CONFLICT_RETRY, ConditionalWrite, Ownership,
            owners::{self, Owners},
        },
        status::{
            is_same_but_for_counts,
            observed::Observed,
            shards::{self, View},
            status,
        },
    },
    problem::Problem,
};

/// How often the counts in a status are written while the plugin works.
pub const COUNTS_INTERVAL: Duration = Duration::from_secs(60);
/// The interval at which the status of an idle plugin is computed: the bytes that it makes the host
/// cache change without its calls, and not each authorizer reports what it changed.
const IDLE_INTERVAL: Duration = Duration::from_secs(600);

/// Reports on Plugins.
///
/// The owner of the first shard reports on the whole Plugin. The owners of other shards write their
/// own view into the status, from which that owner takes it.
pub struct Reporter {
    context: Arc<Context>,
    informers: Arc<HostInformers>,
    ownership: Arc<Ownership>,
}

impl Reporter {
    /// Creates a reporter.
    pub fn new(
        context: Arc<Context>,
        informers: Arc<HostInformers>,
        ownership: Arc<Ownership>,
    ) -> Arc<Self> {
        Arc::new(Self {
            context,
            informers,
            ownership,
        })
    }

    /// Writes the status if it differs from the stored one. If only counts differ, it is written
    /// once a minute.
    ///
    /// # Errors
    /// The API server's error, unless the Plugin is gone.
    pub async fn write_status(
        &self,
        key: &ObjectKey,
        hosted: &HostedPlugin,
        observed: &Observed,
    ) -> Result<(), ApiError> {
        if observed.running {
            // That it no longer waits is worth a look sooner.
            let next = match observed.throttled {
                Some(_) => COUNTS_INTERVAL,
                None => IDLE_INTERVAL,
            };
            self.context.queue.enqueue_after(key, next);
        }
        // Not the Plugin from the start of this reconcile: the reconcile may have written a status
        // since.
        let Some(cached) = self.informers.plugins.cache.get(key) else {
            return Ok(());
        };

        // A status that cannot be decoded was not written by the host, and is replaced.
        let before = cached
            .at(".status")
            .and_then(|text| serde_json::from_str::<PluginStatus>(text).ok());
        let before = before.unwrap_or_default();

        // A replica that does not own a shard of the Plugin reports nothing.
        if !hosted.is_owner() {
            return Ok(());
        }

        report_finalizers(hosted, observed, &before);
        let now = clock::now().to_string();
        let own = status(observed, &before, &now);
        let owners = Owners::from_status(&before.owner);
        let status = match owners.is_split() {
            false => own,
            true => {
                let is_member = |epoch| self.ownership.is_member(epoch);
                let view = View {
                    replica: self.ownership.identity(),
                    is_leading: hosted.is_leading(),
                    now: &now,
                };
                shards::status(view, own, &before, &owners, is_member)
            }
        };
        if status == before {
            return Ok(());
        }
        if is_same_but_for_counts(&status, &before) && !hosted.is_status_older(COUNTS_INTERVAL) {
            self.context.queue.enqueue_after(key, COUNTS_INTERVAL);
            return Ok(());
        }

        hosted.record_status_write();
        // Other replicas write their views into the status of a split Plugin, so it is written on
        // the version that was read.
        if !owners.is_split() {
            return self.write(key, &status).await;
        }
        let fields = without_owner(&status);
        if self.ownership.write(&cached, fields).await? == ConditionalWrite::Conflict {
            hosted.forget_status_write();
            self.context.queue.enqueue_after(key, CONFLICT_RETRY);
        }
        Ok(())
    }

    async fn write(&self, key: &ObjectKey, status: &PluginStatus) -> Result<(), ApiError> {
        let action = WriteAction::Patch {
            key: key.clone(),
            subresource: Some("status".to_owned()),
            body: PatchBody::Merge(json!({"status": without_owner(status)}).to_string()),
            force: false,
        };
        let write = Write {
            kind: GroupVersionKind::new(crd::API_VERSION, crd::KIND),
            action,
            options: WriteOptions::default(),
        };

        match self.context.cluster.api.write(write).await {
            Err(error) if error.kind != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Reports each missing permission once, as an Event.
    pub fn report_denials(&self, key: &ObjectKey, observed: &Observed, state: &mut State) {
        let denials: Vec<String> = observed
            .watches
            .denied
            .iter()
            .chain(&observed.refused)
            .map(|advice| advice.text.clone())
            .collect();

        let is_new = |denial: &&String| !state.reported_denials.contains(denial);
        for denial in denials.iter().filter(is_new) {
            self.event(
                key,
                None,
                EventType::Warning,
                reasons::FORBIDDEN,
                denial.clone(),
            );
        }
        state.reported_denials = denials;
    }

    /// Reports once, as an Event, that the plugin has begun to wait for a quota.
    pub fn report_throttling(&self, key: &ObjectKey, observed: &Observed, state: &mut State) {
        let before =
            std::mem::replace(&mut state.reported_throttling, observed.throttled.is_some());
        if let (false, Some(message)) = (before, &observed.throttled) {
            self.event(
                key,
                None,
                EventType::Warning,
                reasons::THROTTLED,
                message.clone(),
            );
        }
    }

    /// Records why the newest source was not loaded, and reports it once: in the log, and as Events
    /// on the Plugin and its ConfigMap.
    pub fn report_load_problem(
        &self,
        plugin: PluginRef<'_>,
        config_map: Option<&ObjectKey>,
        problem: Problem,
        state: &mut State,
    ) {
        if state.problems.load.as_ref() == Some(&problem) {
            return;
        }
        if !plugin.hosted.is_owner() {
            state.problems.load = Some(problem);
            return;
        }

        plugin.hosted.log.write_host_line(
            LogLevel::Error,
            format!("failed to load: {}", problem.message),
        );
        if !plugin.hosted.is_leading() {
            state.problems.load = Some(problem);
            return;
        }

        self.event(
            plugin.key,
            None,
            EventType::Warning,
            problem.reason,
            problem.message.clone(),
        );

        if let Some(key) = config_map {
            let uid = self
                .informers
                .config_maps
                .cache
                .get(key)
                .map(|found| found.uid().to_owned());
            let regarding = Regarding {
                kind: GroupVersionKind::new("v1", "ConfigMap"),
                key: key.clone(),
                uid,
            };
            self.context
                .cluster
                .recorder
                .emit(regarding.warning(problem.reason, problem.message.clone()));
        }

        state.problems.load = Some(problem);
    }

    /// Reports a problem in the Plugin's log and as an Event.
    pub fn warn(&self, key: &ObjectKey, hosted: &HostedPlugin, problem: &Problem) {
        if !hosted.is_owner() {
            return;
        }
        hosted
            .log
            .write_host_line(LogLevel::Error, problem.message.clone());

        if hosted.is_leading() {
            self.event(
                key,
                None,
                EventType::Warning,
                problem.reason,
                problem.message.clone(),
            );
        }
    }

    /// Writes an Event about a Plugin.
    pub fn event(
        &self,
        key: &ObjectKey,
        uid: Option<String>,
        event_type: EventType,
        reason: Reason,
        message: String,
    ) {
        let uid = uid.or_else(|| {
            self.informers
                .plugins
                .cache
                .get(key)
                .map(|plugin| plugin.uid().to_owned())
        });

        let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        let regarding = Regarding {
            kind,
            key: key.clone(),
            uid,
        };
        self.context
            .cluster
            .recorder
            .emit(regarding.event(event_type, reason, message));
    }
}

/// Reports finalizers that the plugin has begun to set without declaring them, in its log.
fn report_finalizers(hosted: &HostedPlugin, observed: &Observed, before: &PluginStatus) {
    let declared_in = match observed.process {
        Some(_) => "spec.process.finalizers",
        None => "the manifest, with its controller",
    };
    for of_kind in observed.finalizers.iter().flatten() {
        let kind = of_kind.group_version_kind();
        let is_reported = |finalizer: &String| {
            let reported = before.finalizers.iter();
            reported
                .filter(|of| is_same_kind(&of.group_version_kind(), &kind))
                .any(|of| of.finalizers.contains(finalizer))
        };
        for finalizer in of_kind.finalizers.iter().filter(|one| !is_reported(one)) {
            let line = format!(
                "it has put the finalizer {finalizer:?} on objects of {kind} without declaring it: if the Plugin is deleted, it \
                 runs on until it has removed the finalizer from those that are deleted; declare it in {declared_in}"
            );
            hosted.log.write_host_line(LogLevel::Info, line);
        }
    }
}

/// Returns a status without the fields that name the owner: an old status must not change them.
fn without_owner(status: &PluginStatus) -> Value {
    let mut status = json!(status);
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|name, _| !owners::FIELDS.contains(&name.as_str()));
    }
    status
}
