//! ReplicaSets: keep as many Pods of a template as they want.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    claims,
    client::{Refused, if_found},
    control_loop::{Context, Controller},
    object::{condition, count, is_terminating, number, set_count},
    pod_control::{self, is_active, is_available, is_ready},
    world::{Change, Key, World},
};
use crate::{apimachinery::selector::objects::matches, server::format_time};

const GROUP: &str = "apps";
const RESOURCE: &str = "replicasets";
/// The most Pods that are created or deleted at once.
const BURST: usize = 500;

/// Keeps the Pods of ReplicaSets.
pub(super) struct ReplicaSets;

impl Controller for ReplicaSets {
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        if change.key.is_of(GROUP, RESOURCE) {
            keys.push(change.key.clone());
        } else if change.key.is_of("", "pods") {
            claims::owners(change, (GROUP, RESOURCE, "ReplicaSet"), world, keys);
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let Some(set) = context.world.get(key) else {
            return Ok(None);
        };

        let pods = claims::claim(set, "", "pods", context)?;
        let managed = if is_terminating(set) {
            Ok(())
        } else {
            manage(set, &pods, context)
        };

        let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        update_status(set, &pods, &active, managed.as_ref().err(), context)?;
        managed?;

        Ok(pod_control::next_available(
            active.iter(),
            number(set, "/spec/minReadySeconds", 0),
            context.now,
        ))
    }
}

/// Creates missing Pods and deletes surplus ones.
fn manage(set: &Value, pods: &[Arc<Value>], context: &Context<'_>) -> Result<(), Refused> {
    let mut active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
    let wanted = usize::try_from(number(set, "/spec/replicas", 1)).unwrap_or_default();

    if active.len() < wanted {
        let pod = pod_control::from_template(&set["spec"]["template"], set);
        for _ in 0..(wanted - active.len()).min(BURST) {
            match pod_control::create(&pod, set, context) {
                // The namespace is being deleted, so nothing more can be created in it.
                Err(error) if error.code == 403 && error.message.contains("being terminated") => {
                    return Ok(());
                }
                answer => drop(answer?),
            }
        }
    }

    let surplus = active.len().saturating_sub(wanted).min(BURST);
    if surplus > 0 {
        pod_control::sort_for_deletion(&mut active);
        active[..surplus]
            .iter()
            .try_for_each(|pod| pod_control::delete(pod, set, context))?;
    }

    Ok(())
}

fn update_status(
    set: &Value,
    pods: &[Arc<Value>],
    active: &[Arc<Value>],
    failure: Option<&Refused>,
    context: &Context<'_>,
) -> Result<(), Refused> {
    let template_labels = json!({"matchLabels": set["spec"]["template"]["metadata"]["labels"]});
    let min_ready = number(set, "/spec/minReadySeconds", 0);
    let number_of =
        |is: &dyn Fn(&Value) -> bool| count(active.iter().filter(|pod| is(pod)).count());

    let mut status = set["status"].clone();
    status["replicas"] = count(active.len()).into();
    set_count(
        &mut status,
        "fullyLabeledReplicas",
        number_of(&|pod| matches(&template_labels, &pod["metadata"]["labels"])),
    );
    set_count(&mut status, "readyReplicas", number_of(&is_ready));
    set_count(
        &mut status,
        "availableReplicas",
        number_of(&|pod| is_available(pod, min_ready, context.now)),
    );

    status["terminatingReplicas"] = count(pods.iter().filter(|pod| is_ending(pod)).count()).into();
    status["observedGeneration"] = set["metadata"]["generation"].clone();
    set_failure(&mut status, failure, set, context);

    if status == set["status"] {
        return Ok(());
    }

    let mut changed = set.clone();
    changed["status"] = status;
    let resource = pod_control::resource(GROUP, RESOURCE, context)?;
    if_found(context.client.update(&resource, &changed, "status"))
}

fn is_ending(pod: &Value) -> bool {
    is_terminating(pod) && !pod_control::has_ended(pod)
}

/// Sets or removes the condition `ReplicaFailure`.
fn set_failure(status: &mut Value, failure: Option<&Refused>, set: &Value, context: &Context<'_>) {
    let has_condition = condition(status, "ReplicaFailure").is_some();
    if failure.is_some() == has_condition {
        return;
    }

    let kept = status["conditions"].as_array().into_iter().flatten();
    let mut conditions: Vec<Value> = kept
        .filter(|one| one["type"] != "ReplicaFailure")
        .cloned()
        .collect();

    if let Some(failure) = failure {
        let is_surplus = number(set, "/spec/replicas", 1) < number(set, "/status/replicas", 0);
        conditions.push(json!({
            "type": "ReplicaFailure", "status": "True", "message": failure.message,
            "reason": if is_surplus { "FailedDelete" } else { "FailedCreate" },
            "lastTransitionTime": format_time(context.now),
        }));
    }

    match status.as_object_mut() {
        Some(members) if conditions.is_empty() => drop(members.remove("conditions")),
        _ => status["conditions"] = conditions.into(),
    }
}
