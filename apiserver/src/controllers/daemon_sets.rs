//! DaemonSets: one Pod on each Node that accepts it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    claims,
    client::{Refused, if_found},
    control_loop::{Context, Controller},
    deployment::resolve,
    hash,
    object::{count, is_terminating, name, namespace, number, set_count, text, time},
    pod_control::{self, has_ended, is_available, is_ready, resource},
    revisions::{Revisions, revision_of},
    scheduler,
    world::{Change, Key, World},
};

const GROUP: &str = "apps";
const RESOURCE: &str = "daemonsets";
const HASH: &str = "controller-revision-hash";
const GENERATION: &str = "deprecated.daemonset.template.generation";

/// Keeps the Pods of DaemonSets.
pub(super) struct DaemonSets;

impl Controller for DaemonSets {
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        if change.key.is_of(GROUP, RESOURCE) {
            keys.push(change.key.clone());
        } else if change.key.is_of("", "pods") {
            claims::owners(change, (GROUP, RESOURCE, "DaemonSet"), world, keys);
        } else if change.key.is_of("", "nodes") {
            let sets = world.all(GROUP, RESOURCE);
            keys.extend(sets.map(|set| Key::new(GROUP, RESOURCE, Some(namespace(set)), name(set))));
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let Some(set) = context.world.get(key) else {
            return Ok(None);
        };
        let pods = claims::claim(set, "", "pods", context)?;

        if is_terminating(set) {
            return Ok(None);
        }

        let hash = hash::of_template(
            &set["spec"]["template"],
            number(set, "/status/collisionCount", 0),
        );
        let revisions = Revisions::sync(set, HASH, &hash, context)?;

        // The template may have come back, with the name of its old revision.
        let update = revisions
            .all
            .iter()
            .find(|one| name(one) == revisions.update)
            .map_or(hash.as_str(), |one| {
                text(one, &["metadata", "labels", HASH])
            })
            .to_owned();

        let daemons = Daemons::new(set, &update, &pods, context);
        daemons.place(context)?;

        if text(set, &["spec", "updateStrategy", "type"]) != "OnDelete" {
            daemons.update(context)?;
        }

        daemons.update_status(context)?;

        let live: Vec<String> = pods
            .iter()
            .map(|pod| format!("{}-{}", name(set), revision_of(pod)))
            .collect();
        revisions.truncate(set, &live, context)?;

        Ok(pod_control::next_available(
            pods.iter(),
            daemons.min_ready,
            context.now,
        ))
    }
}

/// A DaemonSet with its Pods.
struct Daemons<'a> {
    set: &'a Value,
    /// The hash of the set's template.
    update: &'a str,
    /// The Pods by Node.
    pods: BTreeMap<String, Vec<Arc<Value>>>,
    /// The Nodes that accept a Pod.
    nodes: Vec<String>,
    min_ready: i64,
}

/// A Pod's Node, or the one that it is meant for.
fn node_of(pod: &Value) -> &str {
    let node = text(pod, &["spec", "nodeName"]);
    if !node.is_empty() {
        return node;
    }

    let affinity =
        &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    affinity
        .pointer("/nodeSelectorTerms/0/matchFields/0/values/0")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl<'a> Daemons<'a> {
    fn new(set: &'a Value, update: &'a str, pods: &[Arc<Value>], context: &Context<'_>) -> Self {
        let mut by_node: BTreeMap<String, Vec<Arc<Value>>> = BTreeMap::new();
        for pod in pods {
            by_node
                .entry(node_of(pod).to_owned())
                .or_default()
                .push(Arc::clone(pod));
        }

        let template = tolerant(&set["spec"]["template"]);
        let nodes = context.world.all("", "nodes").filter(|node| {
            scheduler::is_selected(&template, node)
                && scheduler::tolerates_taints(&template, node, &["NoSchedule", "NoExecute"])
        });

        Self {
            nodes: nodes.map(|node| name(node).to_owned()).collect(),
            pods: by_node,
            min_ready: number(set, "/spec/minReadySeconds", 0),
            set,
            update,
        }
    }

    fn pods_of(&self, node: &str) -> &[Arc<Value>] {
        self.pods.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// The Pod of a Node that counts: the oldest one not being deleted.
    fn daemon(&self, node: &str) -> Option<&Arc<Value>> {
        let live = self
            .pods_of(node)
            .iter()
            .filter(|pod| !is_terminating(pod) && !has_ended(pod));

        live.min_by_key(|pod| {
            (
                time(&pod["metadata"]["creationTimestamp"]),
                name(pod).to_owned(),
            )
        })
    }

    /// Creates missing Pods. Deletes failed and surplus ones, and those on other Nodes.
    fn place(&self, context: &Context<'_>) -> Result<(), Refused> {
        for node in &self.nodes {
            let daemon = self.daemon(node);

            let others = self
                .pods_of(node)
                .iter()
                .filter(|pod| daemon.is_none_or(|daemon| !Arc::ptr_eq(daemon, pod)));
            for pod in others.filter(|pod| !is_terminating(pod)) {
                if has_ended(pod) {
                    let message = format!(
                        "Found failed daemon pod {} on node {node}, will try to kill it",
                        title(pod)
                    );
                    context
                        .client
                        .event(self.set, "Warning", "FailedDaemonPod", &message);
                }
                pod_control::delete(pod, self.set, context)?;
            }

            if self.pods_of(node).is_empty() {
                pod_control::create(&self.new_pod(node), self.set, context)?;
            }
        }

        for (node, pods) in self
            .pods
            .iter()
            .filter(|(node, _)| !self.nodes.contains(node))
        {
            for pod in pods.iter().filter(|pod| !is_terminating(pod)) {
                tracing::debug!(
                    "deleting Pod {} of a Node that does not take it: {node}",
                    title(pod)
                );
                pod_control::delete(pod, self.set, context)?;
            }
        }
        Ok(())
    }

    /// Deletes outdated Pods, as many as may be unavailable.
    fn update(&self, context: &Context<'_>) -> Result<(), Refused> {
        let maximum = &self.set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
        let allowed = resolve(maximum, count(self.nodes.len()), true);

        let is_serving = |node: &&String| {
            self.daemon(node)
                .is_some_and(|pod| is_available(pod, self.min_ready, context.now))
        };
        let unavailable = self.nodes.iter().filter(|node| !is_serving(node)).count();
        let mut left = allowed - count(unavailable);

        for node in &self.nodes {
            let Some(pod) = self
                .daemon(node)
                .filter(|pod| revision_of(pod) != self.update)
            else {
                continue;
            };

            // An outdated Pod that is not available can go at once.
            let serves = is_available(pod, self.min_ready, context.now);
            if serves && left <= 0 {
                continue;
            }

            left -= i64::from(serves);
            pod_control::delete(pod, self.set, context)?;
        }

        Ok(())
    }

    fn new_pod(&self, node: &str) -> Value {
        let mut pod =
            pod_control::from_template(&tolerant(&self.set["spec"]["template"]), self.set);
        pod["metadata"]["labels"][HASH] = self.update.into();

        let generation = text(self.set, &["metadata", "annotations", GENERATION]);
        if !generation.is_empty() {
            pod["metadata"]["labels"]["pod-template-generation"] = generation.into();
        }

        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": [{"matchFields": [field]}]});

        pod
    }

    fn update_status(&self, context: &Context<'_>) -> Result<(), Refused> {
        let daemons: Vec<_> = self
            .nodes
            .iter()
            .filter_map(|node| self.daemon(node))
            .collect();

        let number_of =
            |is: &dyn Fn(&Value) -> bool| count(daemons.iter().filter(|pod| is(pod)).count());
        let desired = count(self.nodes.len());
        let available = number_of(&|pod| is_available(pod, self.min_ready, context.now));
        let misplaced = self
            .pods
            .keys()
            .filter(|node| !self.nodes.contains(node))
            .count();

        let mut status = self.set["status"].clone();
        for (member, number) in [
            ("currentNumberScheduled", count(daemons.len())),
            ("desiredNumberScheduled", desired),
            ("numberMisscheduled", count(misplaced)),
            ("numberReady", number_of(&is_ready)),
        ] {
            status[member] = number.into();
        }

        status["observedGeneration"] = self.set["metadata"]["generation"].clone();
        set_count(&mut status, "numberAvailable", available);
        set_count(&mut status, "numberUnavailable", desired - available);
        set_count(
            &mut status,
            "updatedNumberScheduled",
            number_of(&|pod| revision_of(pod) == self.update),
        );

        if status == self.set["status"] {
            return Ok(());
        }

        let mut changed = self.set.clone();
        changed["status"] = status;
        if_found(
            context
                .client
                .update(&*resource(GROUP, RESOURCE, context)?, &changed, "status"),
        )
    }
}

fn title(pod: &Value) -> String {
    format!("{}/{}", namespace(pod), name(pod))
}

/// Adds the tolerations of all DaemonSet Pods to a template. Upstream is
/// `AddOrUpdateDaemonPodTolerations` in
/// <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/daemon/util/daemonset_util.go>.
fn tolerant(template: &Value) -> Value {
    let mut template = template.clone();
    let mut taints = vec![("not-ready", "NoExecute"), ("unreachable", "NoExecute")];
    taints.extend(
        [
            "disk-pressure",
            "memory-pressure",
            "pid-pressure",
            "unschedulable",
        ]
        .map(|key| (key, "NoSchedule")),
    );

    if template["spec"]["hostNetwork"] == true {
        taints.push(("network-unavailable", "NoSchedule"));
    }

    let added = taints.into_iter().map(
        |(key, effect)| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect}),
    );

    let own = template["spec"]["tolerations"]
        .as_array()
        .into_iter()
        .flatten()
        .cloned();

    template["spec"]["tolerations"] = own.chain(added).collect();
    template
}
