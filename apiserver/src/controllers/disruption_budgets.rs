//! The status of PodDisruptionBudgets: how many Pods may be evicted now.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use super::{
    client::{Refused, if_found},
    control_loop::{Context, Controller},
    deployment::resolve,
    object::{condition, controller_of, count, is_terminating, name, namespace, number, time},
    pod_control::{is_ready, resource},
    world::{Change, Key, World},
};
use crate::{apimachinery::selector::objects::matches, server::format_time};

const GROUP: &str = "policy";
const RESOURCE: &str = "poddisruptionbudgets";
/// Seconds after which an evicted Pod that was not deleted counts again.
const DELETION_TIMEOUT: i64 = 120;

/// Keeps the status of PodDisruptionBudgets.
pub(super) struct DisruptionBudgets;

impl Controller for DisruptionBudgets {
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        if change.key.is_of(GROUP, RESOURCE) {
            keys.push(change.key.clone());
            return;
        }

        let is_pod = change.key.is_of("", "pods");
        let is_scaled = ["deployments", "replicasets", "statefulsets"]
            .iter()
            .any(|kind| change.key.is_of("apps", kind));
        if !is_pod && !is_scaled && !change.key.is_of("", "replicationcontrollers") {
            return;
        }

        for budget in world.list(GROUP, RESOURCE, change.key.namespace()) {
            let selects =
                |pod: &Value| matches(&budget["spec"]["selector"], &pod["metadata"]["labels"]);
            if !is_pod || change.both().any(selects) {
                keys.push(Key::new(
                    GROUP,
                    RESOURCE,
                    Some(change.key.namespace()),
                    name(budget),
                ));
            }
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let Some(budget) = context.world.get(key) else {
            return Ok(None);
        };

        let pods: Vec<_> = context
            .world
            .list("", "pods", key.namespace())
            .into_iter()
            .filter(|pod| matches(&budget["spec"]["selector"], &pod["metadata"]["labels"]))
            .collect();

        let (disrupted, next) = disrupted(budget, &pods, context);
        let status = match wanted(budget, &pods, context) {
            Ok((expected, desired)) => {
                let healthy = pods.iter().filter(|pod| {
                    !is_terminating(pod) && !disrupted.contains_key(name(pod)) && is_ready(pod)
                });

                let healthy = count(healthy.count());
                let allowed = if expected > 0 {
                    (healthy - desired).max(0)
                } else {
                    0
                };

                let mut status = json!({
                    "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected,
                    "disruptionsAllowed": allowed,
                });

                if !disrupted.is_empty() {
                    status["disruptedPods"] = disrupted.into();
                }

                let (value, reason) = if allowed > 0 {
                    ("True", "SufficientPods")
                } else {
                    ("False", "InsufficientPods")
                };

                set_condition(budget, &mut status, (value, reason, ""), context);
                status
            }
            Err(message) => {
                let mut status = budget["status"].clone();
                status["disruptionsAllowed"] = 0.into();
                set_condition(
                    budget,
                    &mut status,
                    ("False", "SyncFailed", &message),
                    context,
                );
                status
            }
        };

        if status != budget["status"] {
            let mut changed = (**budget).clone();
            changed["status"] = status;
            if_found(context.client.update(
                &*resource(GROUP, RESOURCE, context)?,
                &changed,
                "status",
            ))?;
        }

        Ok(next)
    }
}

fn set_condition(
    budget: &Value,
    status: &mut Value,
    (value, reason, message): (&str, &str, &str),
    context: &Context<'_>,
) {
    let generation = &budget["metadata"]["generation"];
    status["observedGeneration"] = generation.clone();

    let old = condition(&budget["status"], "DisruptionAllowed");
    let since = old
        .filter(|old| old["status"] == value)
        .map(|old| old["lastTransitionTime"].clone());

    status["conditions"] = json!([{
        "type": "DisruptionAllowed", "status": value, "reason": reason, "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since.unwrap_or_else(|| format_time(context.now).into()),
    }]);
}

/// The evicted Pods that are not deleted yet, and when the next one counts again.
fn disrupted(
    budget: &Value,
    pods: &[&Arc<Value>],
    context: &Context<'_>,
) -> (Map<String, Value>, Option<Duration>) {
    let all = budget["status"]["disruptedPods"]
        .as_object()
        .into_iter()
        .flatten();

    let mut kept = Map::new();
    let mut next = None;
    for (pod, since) in all.filter(|(pod, _)| {
        pods.iter()
            .any(|found| name(found) == *pod && !is_terminating(found))
    }) {
        let left = time(since).map_or(0, |since| {
            since.as_second() + DELETION_TIMEOUT - context.now.as_second()
        });

        let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) else {
            continue;
        };

        kept.insert(pod.clone(), since.clone());
        let left = Duration::from_secs(left);
        next = Some(next.map_or(left, |next: Duration| next.min(left)));
    }

    (kept, next)
}

/// How many Pods there should be, and how many of them healthy.
fn wanted(
    budget: &Value,
    pods: &[&Arc<Value>],
    context: &Context<'_>,
) -> Result<(i64, i64), String> {
    let spec = &budget["spec"];
    if let Some(maximum) = spec.get("maxUnavailable") {
        let expected = expected_scale(pods, context)?;
        return Ok((
            expected,
            (expected - resolve(maximum, expected, true)).max(0),
        ));
    }

    if let Some(minimum) = spec["minAvailable"].as_i64() {
        return Ok((count(pods.len()), minimum));
    }

    let expected = expected_scale(pods, context)?;
    Ok((expected, resolve(&spec["minAvailable"], expected, true)))
}

/// The total size of the Pods' controllers. Pods without a controller do not count.
fn expected_scale(pods: &[&Arc<Value>], context: &Context<'_>) -> Result<i64, String> {
    let mut scales = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller_of(pod) else {
            continue;
        };
        let sets = [
            ("apps", "replicasets", "ReplicaSet"),
            ("apps", "statefulsets", "StatefulSet"),
            ("", "replicationcontrollers", "ReplicationController"),
        ];

        let key = sets
            .into_iter()
            .find_map(|kind| Key::of_controller(pod, kind));
        let Some(key) = key else {
            let kind = owner["kind"].as_str().unwrap_or_default();
            return Err(format!(
                "found no scale of {kind} {}/{}",
                namespace(pod),
                owner["name"].as_str().unwrap_or_default()
            ));
        };

        let Some(found) = context.world.get(&key) else {
            continue;
        };

        let deployment = Key::of_controller(found, ("apps", "deployments", "Deployment"))
            .and_then(|key| Some((key.clone(), context.world.get(&key)?)));
        let (key, found) = deployment.unwrap_or((key, found));
        scales.insert(key, number(found, "/spec/replicas", 1));
    }

    Ok(scales.values().sum())
}
