//! Jobs: run Pods until enough of them have succeeded.
//!
//! A Pod keeps a finalizer until the status counts its end, so that none is counted twice or lost.
//! Upstream is
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/job/job_controller.go>.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    claims,
    client::{Refused, if_found},
    control_loop::{Context, Controller},
    job_pods::{self, GROUP, RESOURCE},
    job_status::{self, is_finished},
    job_tally::Tally,
    object::{count, has_finalizer, is_terminating, number, text, time},
    pod_control::{self, resource},
    world::{Change, Key, World},
};

/// The seconds to wait after a Pod's first failure. They double with each one, up to the longest.
const FIRST_BACKOFF: i64 = 10;
const LONGEST_BACKOFF: i64 = 600;

/// Runs Jobs to their end.
pub(super) struct Jobs;

impl Controller for Jobs {
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        if change.key.is_of(GROUP, RESOURCE) {
            keys.push(change.key.clone());
        } else if change.key.is_of("", "pods") {
            claims::owners(change, (GROUP, RESOURCE, "Job"), world, keys);
            let pod = change.object();
            if has_finalizer(pod, job_pods::TRACKING) {
                keys.push(change.key.clone());
            }
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        if key.is_of("", "pods") {
            return job_pods::release_orphan(key, context).map(|()| None);
        }
        let Some(job) = context.world.get(key) else {
            return Ok(None);
        };

        let pods = claims::claim(job, "", "pods", context)?;
        if is_finished(job) {
            return job_pods::release(pods.iter(), context).map(|()| None);
        }
        if is_terminating(job) {
            return Ok(None);
        }

        run(job, &pods, context)
    }
}

fn run(
    job: &Value,
    pods: &[Arc<Value>],
    context: &Context<'_>,
) -> Result<Option<Duration>, Refused> {
    let mut tally = Tally::count(job, pods);
    let mut status = tally.status(job, context.now);

    let is_suspended = job["spec"]["suspend"] == true;
    let deadline = job["spec"]["activeDeadlineSeconds"].as_i64();
    let started = time(&status["startTime"]);
    let over = started
        .zip(deadline)
        .map(|(started, limit)| started.as_second() + limit - context.now.as_second());

    let verdict = job_status::verdict(job, &tally, over.is_some_and(|left| left <= 0));
    let mut wait = over
        .and_then(|left| u64::try_from(left).ok())
        .filter(|left| *left > 0)
        .map(Duration::from_secs);

    let active: Vec<Arc<Value>> = tally.active.clone();
    match &verdict {
        Some(verdict) => {
            job_status::announce(&mut status, verdict, context.now);
            for pod in &active {
                pod_control::delete(pod, job, context)?;
            }

            // The Job ends once nothing of it runs and everything is counted.
            if active.is_empty() && tally.terminating == 0 && tally.is_counted() {
                job_status::finish(job, &mut status, verdict, context);
            }
        }
        None if is_suspended => {
            active
                .iter()
                .try_for_each(|pod| pod_control::delete(pod, job, context))?;
            job_status::suspend(job, &mut status, context);
        }
        None => {
            job_status::resume(job, &mut status, context);
            let delay = manage(job, &mut tally, context)?;
            wait = [wait, delay].into_iter().flatten().min();
        }
    }

    if status != job["status"] {
        let mut changed = job.clone();
        changed["status"] = status;
        if_found(
            context
                .client
                .update(&*resource(GROUP, RESOURCE, context)?, &changed, "status"),
        )?;
    }

    // Only Pods that the stored status counts may be released.
    job_pods::release(tally.counted_pods.iter(), context)?;

    Ok(wait)
}

/// Creates missing Pods and deletes surplus ones. Returns when a failed one may be replaced.
fn manage(
    job: &Value,
    tally: &mut Tally,
    context: &Context<'_>,
) -> Result<Option<Duration>, Refused> {
    let parallelism = number(job, "/spec/parallelism", 1);
    let active = count(tally.active.len());

    let wanted = match job["spec"]["completions"].as_i64() {
        Some(completions) => parallelism.min(completions - tally.succeeded).max(0),
        // Any success ends such a Job, so no more Pods start.
        None if tally.succeeded > 0 => active,
        None => parallelism,
    };

    if active > wanted {
        pod_control::sort_for_deletion(&mut tally.active);
        let surplus = usize::try_from(active - wanted).unwrap_or_default();
        tally.active[..surplus]
            .iter()
            .try_for_each(|pod| pod_control::delete(pod, job, context))?;
        return Ok(None);
    }

    let held = if text(job, &["spec", "podReplacementPolicy"]) == "Failed" {
        tally.terminating
    } else {
        0
    };

    let missing = wanted - active - held;
    if missing <= 0 {
        return Ok(None);
    }
    if let Some(wait) = backoff(tally, context) {
        return Ok(Some(wait));
    }

    let mut indexes = tally.free_indexes(job).into_iter();
    let is_indexed = text(job, &["spec", "completionMode"]) == "Indexed";
    for _ in 0..missing {
        let index = if is_indexed {
            indexes.next().map(Some)
        } else {
            Some(None)
        };

        let Some(index) = index else { break };
        pod_control::create(&job_pods::new_pod(job, index), job, context)?;
    }

    Ok(None)
}

/// How long the successor of a failed Pod has to wait.
fn backoff(tally: &Tally, context: &Context<'_>) -> Option<Duration> {
    let failures = u32::try_from(tally.failures.0)
        .ok()
        .filter(|failures| *failures > 0)?;

    let delay = FIRST_BACKOFF
        .saturating_mul(1 << (failures - 1).min(16))
        .min(LONGEST_BACKOFF);

    let left = tally.failures.1? + delay - context.now.as_second();
    u64::try_from(left)
        .ok()
        .filter(|left| *left > 0)
        .map(Duration::from_secs)
}
