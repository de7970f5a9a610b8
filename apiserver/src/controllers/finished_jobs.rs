//! Deletes finished Jobs after their time to live.

use std::time::Duration;

use serde_json::Value;

use super::{
    client::Refused,
    control_loop::{Context, Controller},
    job_pods::{GROUP, RESOURCE},
    job_status::is_finished,
    object::{condition, is_terminating, is_true, time},
    pod_control::resource,
    world::{Change, Key, World},
};

/// Deletes finished Jobs.
pub(super) struct FinishedJobs;

impl Controller for FinishedJobs {
    fn affected(&mut self, change: &Change, _world: &World, keys: &mut Vec<Key>) {
        if change.key.is_of(GROUP, RESOURCE) {
            keys.push(change.key.clone());
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let job = context
            .world
            .get(key)
            .filter(|job| is_finished(job) && !is_terminating(job));
        let Some((job, ends)) = job.and_then(|job| Some((job, expiry(job)?))) else {
            return Ok(None);
        };

        let left = ends - context.now.as_second();
        if let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) {
            return Ok(Some(Duration::from_secs(left)));
        }

        context
            .client
            .delete(&*resource(GROUP, RESOURCE, context)?, job, "Foreground")
            .map(|()| None)
    }
}

/// When to delete a finished Job, in seconds since 1970.
fn expiry(job: &Value) -> Option<i64> {
    let ttl = job["spec"]["ttlSecondsAfterFinished"].as_i64()?;
    let kind = ["Complete", "Failed"]
        .into_iter()
        .find(|kind| is_true(&job["status"], kind))?;
    let end = time(&condition(&job["status"], kind)?["lastTransitionTime"])?;
    Some(end.as_second() + ttl)
}
