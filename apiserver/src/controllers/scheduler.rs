//! The scheduler: binds each Pod to the Node with the fewest Pods among those that fit.
//!
//! A Node fits if it is ready and schedulable, the Pod tolerates its taints, and the Pod's node
//! selector and required node affinity select it. Everything else that kube-scheduler considers is
//! ignored: resources, ports, affinity between Pods, topology, priorities and preemption.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::Method;
use serde_json::{Value, json};

use super::{
    client::{Refused, if_found, path_of},
    control_loop::{Context, Controller},
    object::{condition, is_terminating, is_true, name, namespace, text},
    world::{Change, Key, World},
};
use crate::server::format_time;

/// Binds Pods to Nodes.
#[derive(Default)]
pub(super) struct Scheduler {
    /// The number of Pods per Node.
    pods: BTreeMap<String, usize>,
}

impl Controller for Scheduler {
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        if change.key.is_of("", "pods") {
            self.count(change);
            if change.new.as_ref().is_some_and(|pod| is_waiting(pod)) {
                keys.push(change.key.clone());
            }
        } else if change.key.is_of("", "nodes") || change.key.is_of("", "persistentvolumeclaims") {
            let waiting = world.all("", "pods").filter(|pod| is_waiting(pod));
            let in_reach = waiting.filter(|pod| {
                change.key.object.is_in(None) || namespace(pod) == change.key.namespace()
            });
            keys.extend(in_reach.map(|pod| Key::new("", "pods", Some(namespace(pod)), name(pod))));
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let Some(pod) = context.world.get(key).filter(|pod| is_waiting(pod)) else {
            return Ok(None);
        };

        let nodes: Vec<&Arc<Value>> = context.world.all("", "nodes").collect();
        if let Some(reason) = missing_claim(pod, context.world) {
            return refuse(
                pod,
                &format!("0/{} nodes are available: {reason}", nodes.len()),
                context,
            );
        }

        let fitting = nodes.iter().filter(|node| fits(pod, node));
        let Some(node) =
            fitting.min_by_key(|node| self.pods.get(name(node)).copied().unwrap_or_default())
        else {
            let message = match nodes.len() {
                0 => "no nodes available to schedule pods".to_owned(),
                count => format!(
                    "0/{count} nodes are available: no node fits the taints, the node selector and the node affinity of the pod."
                ),
            };
            return refuse(pod, &message, context);
        };

        let Some(resource) = context.world.resource(&key.resource) else {
            return Ok(None);
        };

        let target = json!({"apiVersion": "v1", "kind": "Node", "name": name(node)});
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "target": target,
            "metadata": {"name": name(pod), "namespace": namespace(pod), "uid": pod["metadata"]["uid"]},
        });

        let path = path_of(&resource, pod, "binding");
        context
            .client
            .send(Method::POST, &path, "application/json", &binding)?;

        let message = format!(
            "Successfully assigned {}/{} to {}",
            namespace(pod),
            name(pod),
            name(node)
        );
        context.client.event(pod, "Normal", "Scheduled", &message);

        Ok(None)
    }
}

impl Scheduler {
    fn count(&mut self, change: &Change) {
        let node = |pod: &Option<Arc<Value>>| {
            pod.as_ref()
                .map(|pod| text(pod, &["spec", "nodeName"]).to_owned())
                .filter(|node| !node.is_empty())
        };
        let (old, new) = (node(&change.old), node(&change.new));

        if old == new {
            return;
        }

        if let Some(count) = old.and_then(|node| self.pods.get_mut(&node)) {
            *count = count.saturating_sub(1);
        }
        if let Some(node) = new {
            *self.pods.entry(node).or_default() += 1;
        }
    }
}

/// Reports whether a Pod waits to be bound by this scheduler.
fn is_waiting(pod: &Value) -> bool {
    let is_gated = pod["spec"]["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty());

    text(pod, &["spec", "nodeName"]).is_empty()
        && matches!(
            text(pod, &["spec", "schedulerName"]),
            "" | "default-scheduler"
        )
        && !is_gated
        && !is_terminating(pod)
}

/// Why a Pod has to wait for one of its claims.
fn missing_claim(pod: &Value, world: &World) -> Option<String> {
    for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
        let claim = text(volume, &["persistentVolumeClaim", "claimName"]);
        if claim.is_empty() {
            continue;
        }

        match world.get(&Key::new(
            "",
            "persistentvolumeclaims",
            Some(namespace(pod)),
            claim,
        )) {
            None => return Some(format!("persistentvolumeclaim \"{claim}\" not found.")),
            Some(found) if is_terminating(found) => {
                return Some(format!(
                    "persistentvolumeclaim \"{claim}\" is being deleted."
                ));
            }
            Some(found) if text(found, &["status", "phase"]) != "Bound" => {
                return Some("pod has unbound immediate PersistentVolumeClaims.".to_owned());
            }
            Some(_) => {}
        }
    }

    None
}

/// Records that no Node fits a Pod, once per reason.
fn refuse(pod: &Value, message: &str, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
    let old = condition(&pod["status"], "PodScheduled");
    if old.is_some_and(|old| old["status"] == "False" && old["message"] == message) {
        return Ok(None);
    }

    let pods = Key::new("", "pods", None, "").resource;
    let Some(resource) = context.world.resource(&pods) else {
        return Ok(None);
    };

    let refusal = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastProbeTime": null, "lastTransitionTime": format_time(context.now),
        "observedGeneration": pod["metadata"]["generation"],
    });

    let mut changed = pod.clone();
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let others = conditions.filter(|condition| condition["type"] != "PodScheduled");
    changed["status"]["conditions"] = others.chain([&refusal]).cloned().collect();

    if_found(context.client.update(&resource, &changed, "status"))?;
    context
        .client
        .event(pod, "Warning", "FailedScheduling", message);
    Ok(None)
}

/// Reports whether a Pod may run on a Node.
pub(super) fn fits(pod: &Value, node: &Value) -> bool {
    is_true(&node["status"], "Ready")
        && (node["spec"]["unschedulable"] != true || tolerates_unschedulable(pod))
        && tolerates_taints(pod, node, &["NoSchedule", "NoExecute"])
        && is_selected(pod, node)
}

fn tolerates_unschedulable(pod: &Value) -> bool {
    tolerates(
        pod,
        &json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}),
    )
}

/// Reports whether a Pod tolerates a Node's taints with some effects.
pub(super) fn tolerates_taints(pod: &Value, node: &Value, effects: &[&str]) -> bool {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let mut hard = taints.filter(|taint| effects.contains(&text(taint, &["effect"])));
    hard.all(|taint| tolerates(pod, taint))
}

fn tolerates(pod: &Value, taint: &Value) -> bool {
    let same = |toleration: &Value, name: &str| text(toleration, &[name]) == text(taint, &[name]);
    pod["spec"]["tolerations"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|toleration| {
            let effect = text(toleration, &["effect"]);
            let key = text(toleration, &["key"]);
            let by_value = match text(toleration, &["operator"]) {
                "Exists" => true,
                _ => same(toleration, "value"),
            };

            (effect.is_empty() || same(toleration, "effect"))
                && (key.is_empty() || same(toleration, "key"))
                && by_value
        })
}

/// Reports whether a Pod's node selector and required node affinity select a Node.
pub(super) fn is_selected(pod: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let mut selector = pod["spec"]["nodeSelector"]
        .as_object()
        .into_iter()
        .flatten();
    if !selector.all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }

    let required =
        &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let Some(terms) = required["nodeSelectorTerms"].as_array() else {
        return true;
    };

    let fields = json!({"metadata.name": name(node)});
    terms.iter().any(|term| {
        let by = |list: &str, values: &Value| {
            let requirements = term[list].as_array().into_iter().flatten();
            requirements
                .into_iter()
                .all(|requirement| meets(requirement, values))
        };

        let is_empty = |list: &str| term[list].as_array().is_none_or(Vec::is_empty);
        let selects_nothing = is_empty("matchExpressions") && is_empty("matchFields");

        !selects_nothing && by("matchExpressions", labels) && by("matchFields", &fields)
    })
}

/// Reports whether labels meet a requirement of a node selector.
fn meets(requirement: &Value, labels: &Value) -> bool {
    let value = labels
        .get(text(requirement, &["key"]))
        .and_then(Value::as_str);
    let wanted = || {
        requirement["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    };

    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let compared = || Some((number(value)?, number(wanted().next())?));

    match text(requirement, &["operator"]) {
        "In" => value.is_some_and(|value| wanted().any(|wanted| wanted == value)),
        "NotIn" => value.is_none_or(|value| wanted().all(|wanted| wanted != value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(|(value, limit)| value > limit),
        "Lt" => compared().is_some_and(|(value, limit)| value < limit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Value {
        json!({
            "metadata": {"name": "n", "labels": {"zone": "a", "cores": "8"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    fn with_affinity(requirement: &Value) -> Value {
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]});
        json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}})
    }

    #[test]
    fn node_affinity_selects_by_each_operator() {
        for (operator, key, values, expected) in [
            ("In", "zone", vec!["a", "b"], true),
            ("In", "zone", vec!["b"], false),
            ("NotIn", "zone", vec!["a"], false),
            ("NotIn", "other", vec!["a"], true),
            ("Exists", "zone", vec![], true),
            ("DoesNotExist", "zone", vec![], false),
            ("Gt", "cores", vec!["4"], true),
            ("Lt", "cores", vec!["4"], false),
        ] {
            let pod = with_affinity(&json!({"key": key, "operator": operator, "values": values}));
            assert_eq!(fits(&pod, &node()), expected, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn taints_repel_pods_that_do_not_tolerate_them() {
        let mut tainted = node();
        tainted["spec"]["taints"] = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);

        for (toleration, expected) in [
            (json!({"key": "gpu", "operator": "Exists"}), true),
            (
                json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"}),
                true,
            ),
            (json!({"key": "gpu", "value": "no"}), false),
            (
                json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}),
                false,
            ),
            (json!({"operator": "Exists"}), true),
        ] {
            let pod = json!({"spec": {"tolerations": [toleration]}});
            assert_eq!(fits(&pod, &tainted), expected, "{toleration}");
        }

        assert!(!fits(&json!({}), &tainted));
        assert!(fits(&json!({}), &node()));
    }
}
