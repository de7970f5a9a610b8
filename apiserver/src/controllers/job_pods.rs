//! A Job's Pods: their finalizer, and their indexes if they have any.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    client::{Refused, if_found},
    control_loop::Context,
    object::{has_finalizer, is_controlled_by, name, text, uid},
    pod_control,
    world::Key,
};

pub(super) const GROUP: &str = "batch";
pub(super) const RESOURCE: &str = "jobs";

/// The finalizer of Pods that are not counted yet.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label with the index of a Pod.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) fn new_pod(job: &Value, index: Option<i64>) -> Value {
    let mut pod = pod_control::from_template(&job["spec"]["template"], job);
    let own = pod["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .cloned();
    pod["metadata"]["finalizers"] = own.chain([json!(TRACKING)]).collect();

    let Some(index) = index else { return pod };
    pod["metadata"]["generateName"] = format!("{}-{index}-", name(job)).into();
    pod["metadata"]["annotations"][INDEX] = index.to_string().into();
    pod["metadata"]["labels"][INDEX] = index.to_string().into();
    pod["spec"]["hostname"] = format!("{}-{index}", name(job)).into();

    let source = json!({"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX}']")}});
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let variable = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": source});
            match container["env"].as_array_mut() {
                Some(variables) => variables.push(variable),
                None => container["env"] = json!([variable]),
            }
        }
    }

    pod
}

pub(super) fn index_of(pod: &Value) -> Option<i64> {
    text(pod, &["metadata", "annotations", INDEX]).parse().ok()
}

/// Removes the Pods' finalizer.
pub(super) fn release<'a>(
    pods: impl Iterator<Item = &'a Arc<Value>>,
    context: &Context<'_>,
) -> Result<(), Refused> {
    for pod in pods.filter(|pod| has_finalizer(pod, TRACKING)) {
        let all = pod["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten();
        let kept: Vec<&Value> = all.filter(|one| *one != TRACKING).collect();

        let kept = if kept.is_empty() {
            Value::Null
        } else {
            json!(kept)
        };

        let patch = json!({"metadata": {"uid": uid(pod), "finalizers": kept}});
        let pods = pod_control::pods(context)?;
        match context.client.patch(&pods, pod, "", &patch) {
            // Another Pod has taken the name.
            Err(error) if error.is_conflict() => {}
            answer => if_found(answer)?,
        }
    }

    Ok(())
}

/// Removes the finalizer from a Pod without a Job.
pub(super) fn release_orphan(key: &Key, context: &Context<'_>) -> Result<(), Refused> {
    let Some(pod) = context.world.get(key) else {
        return Ok(());
    };
    let job =
        Key::of_controller(pod, (GROUP, RESOURCE, "Job")).and_then(|job| context.world.get(&job));

    let is_orphan = job.is_none_or(|job| !is_controlled_by(pod, uid(job)));
    if is_orphan {
        release([pod].into_iter(), context)
    } else {
        Ok(())
    }
}
