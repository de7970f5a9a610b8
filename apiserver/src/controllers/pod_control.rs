//! Pods as controllers see them: their state, how they are created from a template, and the order in
//! which they are deleted.

use std::{cmp::Reverse, sync::Arc};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    client::{Answer, Refused},
    control_loop::Context,
    object::{
        condition, controller_reference, is_terminating, is_true, name, namespace, number, text,
        time,
    },
    world::Key,
};
use crate::server::Resource;

/// The resource of Pods.
///
/// # Errors
///
/// An internal error: Pods are always served.
pub(super) fn pods(context: &Context<'_>) -> Result<Arc<Resource>, Refused> {
    resource("", "pods", context)
}

/// A built-in resource.
///
/// # Errors
///
/// An internal error: built-in resources are always served.
pub(super) fn resource(
    group: &str,
    plural: &str,
    context: &Context<'_>,
) -> Result<Arc<Resource>, Refused> {
    let found = context
        .world
        .resource(&Key::new(group, plural, None, "").resource);

    found.ok_or_else(|| Refused {
        code: 500,
        message: format!("the resource {plural} is not served"),
    })
}

pub(super) fn phase(pod: &Value) -> &str {
    text(pod, &["status", "phase"])
}

pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Reports whether a Pod counts as a replica.
pub(super) fn is_active(pod: &Value) -> bool {
    !has_ended(pod) && !is_terminating(pod)
}

pub(super) fn is_ready(pod: &Value) -> bool {
    is_true(&pod["status"], "Ready")
}

/// When a Pod became or will be available, which it is after being ready for some seconds.
pub(super) fn available_at(pod: &Value, min_ready_seconds: i64) -> Option<i64> {
    let ready = condition(&pod["status"], "Ready").filter(|ready| ready["status"] == "True")?;
    if min_ready_seconds == 0 {
        return Some(i64::MIN);
    }
    Some(time(&ready["lastTransitionTime"])?.as_second() + min_ready_seconds)
}

pub(super) fn is_available(pod: &Value, min_ready_seconds: i64, now: Timestamp) -> bool {
    available_at(pod, min_ready_seconds).is_some_and(|at| at <= now.as_second())
}

/// The time until the next Pod becomes available.
pub(super) fn next_available<'a>(
    pods: impl Iterator<Item = &'a Arc<Value>>,
    min_ready_seconds: i64,
    now: Timestamp,
) -> Option<std::time::Duration> {
    let times = pods.filter_map(|pod| available_at(pod, min_ready_seconds));

    let waits = times
        .map(|at| at.saturating_sub(now.as_second()))
        .filter(|seconds| *seconds > 0);

    waits
        .min()
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map(std::time::Duration::from_secs)
}

/// A Pod of a template, controlled by an owner.
pub(super) fn from_template(template: &Value, owner: &Value) -> Value {
    let mut metadata = Map::new();
    for member in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"]
            .get(member)
            .filter(|value| !value.is_null())
        {
            metadata.insert(member.into(), value.clone());
        }
    }

    metadata.insert("generateName".into(), format!("{}-", name(owner)).into());
    metadata.insert("namespace".into(), namespace(owner).into());
    metadata.insert(
        "ownerReferences".into(),
        json!([controller_reference(owner)]),
    );

    json!({"metadata": metadata, "spec": template["spec"]})
}

/// Creates a Pod, with an Event of its owner.
pub(super) fn create(pod: &Value, owner: &Value, context: &Context<'_>) -> Answer {
    let answer = context
        .client
        .create(&*pods(context)?, Some(namespace(owner)), pod);

    match &answer {
        Ok(created) => {
            context.client.event(
                owner,
                "Normal",
                "SuccessfulCreate",
                &format!("Created pod: {}", name(created)),
            );
        }
        Err(error) => {
            context.client.event(
                owner,
                "Warning",
                "FailedCreate",
                &format!("Error creating: {error}"),
            );
        }
    }

    answer
}

/// Deletes a Pod, with an Event of its owner.
pub(super) fn delete(pod: &Value, owner: &Value, context: &Context<'_>) -> Result<(), Refused> {
    context.client.delete(&*pods(context)?, pod, "")?;

    context.client.event(
        owner,
        "Normal",
        "SuccessfulDelete",
        &format!("Deleted pod: {}", name(pod)),
    );
    Ok(())
}

/// Sorts Pods so that the least useful comes first, in the order of `ActivePodsWithRanks` in
/// <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/controller_utils.go>, without
/// its ranks.
pub(super) fn sort_for_deletion(pods: &mut [Arc<Value>]) {
    pods.sort_by_cached_key(|pod| {
        let phase = match phase(pod) {
            "Pending" | "" => 0,
            "Unknown" => 1,
            _ => 2,
        };

        let cost = text(
            pod,
            &[
                "metadata",
                "annotations",
                "controller.kubernetes.io/pod-deletion-cost",
            ],
        );

        let ready =
            condition(&pod["status"], "Ready").and_then(|ready| time(&ready["lastTransitionTime"]));

        let restarts = pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|status| number(status, "/restartCount", 0))
            .max()
            .unwrap_or_default();

        (
            !text(pod, &["spec", "nodeName"]).is_empty(),
            phase,
            is_ready(pod),
            cost.parse::<i64>().unwrap_or_default(),
            Reverse(ready),
            Reverse(restarts),
            Reverse(time(&pod["metadata"]["creationTimestamp"])),
        )
    });
}
