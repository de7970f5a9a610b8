//! A Deployment's status: numbers, and the conditions `Available`, `Progressing` and
//! `ReplicaFailure`. Upstream is
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/deployment/progress.go>.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    client::{Refused, if_found},
    control_loop::Context,
    deployment::{GROUP, RESOURCE, Rollout, replicas},
    object::{condition, name, number, set_count, text, time},
    pod_control,
};
use crate::server::format_time;

/// A condition as its type, status, reason and message.
type Condition<'a> = (&'a str, &'a str, &'a str, &'a str);

/// The `progressDeadlineSeconds` that means no deadline.
const NO_DEADLINE: i64 = i32::MAX as i64;

pub(super) fn has_deadline(deployment: &Value) -> bool {
    deployment["spec"]["progressDeadlineSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds != NO_DEADLINE)
}

/// Sets a condition, unless its status and reason are unchanged.
pub(super) fn set(deployment: &mut Value, condition: Condition<'_>, now: Timestamp) {
    let old = super::object::condition(&deployment["status"], condition.0);
    if old.is_none_or(|old| old["status"] != condition.1 || old["reason"] != condition.2) {
        put(&mut deployment["status"], condition, now);
    }
}

/// Sets a condition and its update time.
fn put(status: &mut Value, (kind, value, reason, message): Condition<'_>, now: Timestamp) {
    let now = Value::from(format_time(now));
    let old = condition(status, kind).filter(|old| old["status"] == value);
    let since = old.map_or_else(|| now.clone(), |old| old["lastTransitionTime"].clone());

    let new = json!({
        "type": kind, "status": value, "reason": reason, "message": message,
        "lastTransitionTime": since, "lastUpdateTime": now,
    });

    remove(status, kind);
    match status["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(new),
        None => status["conditions"] = json!([new]),
    }
}

fn remove(status: &mut Value, kind: &str) {
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"] != kind);
    }
}

fn write(rollout: &mut Rollout, status: Value, context: &Context<'_>) -> Result<(), Refused> {
    if status == rollout.deployment["status"] {
        return Ok(());
    }

    let mut changed = rollout.deployment.clone();
    changed["status"] = status;
    let resource = pod_control::resource(GROUP, RESOURCE, context)?;
    match context.client.update(&resource, &changed, "status") {
        Ok(written) => {
            rollout.deployment = written;
            Ok(())
        }
        refused => if_found(refused),
    }
}

/// Records that a rollout was paused or resumed.
pub(super) fn check_paused(rollout: &mut Rollout, context: &Context<'_>) -> Result<(), Refused> {
    let deployment = &rollout.deployment;
    if !has_deadline(deployment) {
        return Ok(());
    }

    let reason = condition(&deployment["status"], "Progressing")
        .map_or("", |found| text(found, &["reason"]));
    if reason == "ProgressDeadlineExceeded" {
        return Ok(());
    }

    let mut status = deployment["status"].clone();
    match (
        deployment["spec"]["paused"] == true,
        reason == "DeploymentPaused",
    ) {
        (true, false) => {
            put(
                &mut status,
                (
                    "Progressing",
                    "Unknown",
                    "DeploymentPaused",
                    "Deployment is paused",
                ),
                context.now,
            );
        }
        (false, true) => {
            put(
                &mut status,
                (
                    "Progressing",
                    "Unknown",
                    "DeploymentResumed",
                    "Deployment is resumed",
                ),
                context.now,
            );
        }
        _ => return Ok(()),
    }

    write(rollout, status, context)
}

/// The status that follows from the ReplicaSets, except its progress.
pub(super) fn calculate(rollout: &Rollout, now: Timestamp) -> Value {
    let deployment = &rollout.deployment;
    let sum = |member: &str| -> i64 {
        rollout
            .sets
            .iter()
            .map(|set| set["status"][member].as_i64().unwrap_or_default())
            .sum()
    };

    let available = sum("availableReplicas");
    let total: i64 = rollout.sets.iter().map(replicas).sum();
    let updated = rollout
        .new_set()
        .map_or(0, |set| number(set, "/status/replicas", 0));

    let mut status = deployment["status"].clone();
    if status.is_null() {
        status = json!({});
    }

    status["observedGeneration"] = deployment["metadata"]["generation"].clone();
    set_count(&mut status, "replicas", sum("replicas"));
    set_count(&mut status, "updatedReplicas", updated);
    set_count(&mut status, "readyReplicas", sum("readyReplicas"));
    set_count(&mut status, "availableReplicas", available);
    set_count(
        &mut status,
        "unavailableReplicas",
        (total - available).max(0),
    );
    status["terminatingReplicas"] = sum("terminatingReplicas").into();

    let is_available = available >= rollout.wanted() - rollout.margins().1;
    let (value, reason, message) = if is_available {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };

    if condition(&status, "Available")
        .is_none_or(|old| old["status"] != value || old["reason"] != reason)
    {
        put(&mut status, ("Available", value, reason, message), now);
    }

    status
}

/// Writes the status of a Deployment that is paused, being scaled or deleted.
pub(super) fn sync(rollout: &mut Rollout, context: &Context<'_>) -> Result<(), Refused> {
    let status = calculate(rollout, context.now);
    write(rollout, status, context)
}

/// Reports whether all Pods are new and available.
pub(super) fn is_complete(rollout: &Rollout, status: &Value) -> bool {
    let member = |name: &str| status[name].as_i64().unwrap_or_default();
    let wanted = rollout.wanted();
    ["updatedReplicas", "replicas", "availableReplicas"]
        .into_iter()
        .all(|name| member(name) == wanted)
        && member("observedGeneration") >= number(&rollout.deployment, "/metadata/generation", 0)
}

/// Reports whether a status is closer to completion than the one before.
fn is_progressing(old: &Value, new: &Value) -> bool {
    let member = |status: &Value, name: &str| status[name].as_i64().unwrap_or_default();
    let outdated = |status: &Value| member(status, "replicas") - member(status, "updatedReplicas");
    let grows = |name: &str| member(new, name) > member(old, name);

    grows("updatedReplicas")
        || grows("readyReplicas")
        || grows("availableReplicas")
        || outdated(new) < outdated(old)
}

/// Writes the status of a rollout with its progress. Returns the time left until its deadline.
pub(super) fn sync_progress(
    rollout: &mut Rollout,
    context: &Context<'_>,
) -> Result<Option<Duration>, Refused> {
    let mut status = calculate(rollout, context.now);
    if has_deadline(&rollout.deployment) {
        set_progress(rollout, &mut status, context.now);
    } else {
        remove(&mut status, "Progressing");
    }

    set_failure(rollout, &mut status, context.now);
    write(rollout, status, context)?;

    Ok(time_left(rollout, context.now))
}

fn set_progress(rollout: &Rollout, status: &mut Value, now: Timestamp) {
    let old = &rollout.deployment["status"];
    let current = condition(old, "Progressing");
    let was_complete = current.is_some_and(|current| current["reason"] == "NewReplicaSetAvailable");
    if was_complete && number(status, "/replicas", 0) == number(status, "/updatedReplicas", 0) {
        return;
    }

    let title = match rollout.new_set() {
        Some(set) => format!("ReplicaSet \"{}\"", name(set)),
        None => format!("Deployment \"{}\"", name(&rollout.deployment)),
    };

    if is_complete(rollout, status) {
        let message = format!("{title} has successfully progressed.");
        let new = (
            "Progressing",
            "True",
            "NewReplicaSetAvailable",
            message.as_str(),
        );
        if current.is_none_or(|current| current["reason"] != new.2 || current["status"] != new.1) {
            put(status, new, now);
        }
    } else if is_progressing(old, status) {
        put(
            status,
            (
                "Progressing",
                "True",
                "ReplicaSetUpdated",
                &format!("{title} is progressing."),
            ),
            now,
        );
    } else if has_timed_out(rollout, current, now)
        && current.is_none_or(|current| current["reason"] != "ProgressDeadlineExceeded")
    {
        let message = format!("{title} has timed out progressing.");
        put(
            status,
            ("Progressing", "False", "ProgressDeadlineExceeded", &message),
            now,
        );
    }
}

fn deadline(rollout: &Rollout, current: &Value) -> Option<i64> {
    let seconds = rollout.deployment["spec"]["progressDeadlineSeconds"].as_i64()?;
    Some(time(&current["lastUpdateTime"])?.as_second() + seconds)
}

fn has_timed_out(rollout: &Rollout, current: Option<&Value>, now: Timestamp) -> bool {
    let Some(current) = current else { return false };
    match text(current, &["reason"]) {
        "NewReplicaSetAvailable" => false,
        "ProgressDeadlineExceeded" => true,
        _ => deadline(rollout, current).is_some_and(|deadline| deadline < now.as_second()),
    }
}

/// When to look again at a rollout that does not progress.
fn time_left(rollout: &Rollout, now: Timestamp) -> Option<Duration> {
    let status = &rollout.deployment["status"];
    let current = condition(status, "Progressing")?;

    let is_over = matches!(
        text(current, &["reason"]),
        "NewReplicaSetAvailable" | "ProgressDeadlineExceeded"
    );
    if is_over || !has_deadline(&rollout.deployment) || is_complete(rollout, status) {
        return None;
    }

    // One second more, because the deadline has to have passed.
    let left = deadline(rollout, current)? - now.as_second() + 1;

    Some(Duration::from_secs(
        u64::try_from(left).unwrap_or_default().max(1),
    ))
}

/// Copies the failure condition of a ReplicaSet that cannot create or delete Pods.
fn set_failure(rollout: &Rollout, status: &mut Value, now: Timestamp) {
    let newest = rollout.new_set().into_iter().chain(&rollout.sets);
    let failure = newest
        .filter_map(|set| condition(&set["status"], "ReplicaFailure"))
        .next();

    let Some(failure) = failure else {
        return remove(status, "ReplicaFailure");
    };

    let (value, reason) = (text(failure, &["status"]), text(failure, &["reason"]));
    let old = condition(status, "ReplicaFailure");
    if old.is_none_or(|old| old["status"] != value || old["reason"] != reason) {
        put(
            status,
            ("ReplicaFailure", value, reason, text(failure, &["message"])),
            now,
        );
    }
}
