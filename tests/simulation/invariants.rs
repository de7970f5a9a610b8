//! What holds after each run, whatever has happened.
//!
//! - Each Foo has the Deployment of its name, controlled by it, of its size, and the status that
//!   the Deployment has.
//! - Nothing else is there: the Deployments of deleted Foos are deleted.
//! - The plugin writes no more once everything is right, and on the way no more than the user's
//!   actions and the faults explain. A late watch explains Deployments of a deleted Foo: the
//!   garbage collector deletes each, and the plugin, which still sees the Foo, creates it again.
//!   Each takes a request of the plugin's budget.
//! - Only a lost response or a crash explains that the plugin creates a Deployment that exists:
//!   reads see own writes.

use serde_json::Value;

use crate::{
    cluster::{Cluster, DEPLOYMENTS, FOOS},
    history::Write,
};

/// The writes by which a plugin answers one change of a Foo or a Deployment: its Deployment, and
/// the status after it.
const WRITES_PER_ACTION: usize = 4;

/// Returns each difference between the objects and what they have to be.
pub async fn differences(cluster: &Cluster) -> Vec<String> {
    let mut deployments = cluster.list(DEPLOYMENTS).await;
    let mut found = Vec::new();

    for parent in cluster.list(FOOS).await {
        let name = name(&parent);
        let at = deployments
            .iter()
            .position(|deployment| self::name(deployment) == name);
        let Some(deployment) = at.map(|at| deployments.remove(at)) else {
            found.push(format!("Foo {name} has no Deployment"));
            continue;
        };

        let owner = &deployment["metadata"]["ownerReferences"][0]["uid"];
        if *owner != parent["metadata"]["uid"] {
            found.push(format!(
                "Deployment {name} belongs to {owner} and not to its Foo"
            ));
        }

        let [wanted, has] = [&parent, &deployment].map(|object| object["spec"]["replicas"].clone());
        if wanted != has {
            found.push(format!(
                "Deployment {name} has {has} replicas instead of {wanted}"
            ));
        }

        let available = deployment["status"]["availableReplicas"]
            .as_i64()
            .unwrap_or_default();
        let shown = &parent["status"]["availableReplicas"];
        if *shown != available {
            found.push(format!(
                "Foo {name} shows {shown} available replicas instead of {available}"
            ));
        }
    }

    found.extend(
        deployments
            .iter()
            .map(|left| format!("Deployment {} is left over", name(left))),
    );
    found
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Reports whether a write is one of the plugin's, to a Foo or a Deployment.
pub fn is_of_plugin(write: &Write) -> bool {
    write.user == "sample-controller" && !write.request.contains("/events")
}

/// Returns each breach by what the plugin has written. `starts` is the number of times that a host
/// has started.
pub fn breaches(writes: &[Write], actions: usize, starts: usize) -> Vec<String> {
    let mut found = Vec::new();

    let accepted = writes
        .iter()
        .filter(|write| is_of_plugin(write) && write.status < 300 && !write.is_late)
        .count();
    let disturbed = writes
        .iter()
        .filter(|write| is_of_plugin(write) && write.is_disturbed)
        .count();

    let explained = actions * WRITES_PER_ACTION + disturbed;
    if accepted > explained {
        found.push(format!(
            "the plugin has written {accepted} times; {actions} actions and {disturbed} faults explain {explained}"
        ));
    }

    let creates = |write: &&Write| is_of_plugin(write) && write.request.starts_with("POST ");
    let is_disturbed = writes
        .iter()
        .filter(creates)
        .any(|write| write.is_disturbed)
        || starts > 1;
    let again = writes
        .iter()
        .filter(creates)
        .find(|write| write.status == 409);

    if let Some(again) = again.filter(|_| !is_disturbed) {
        found.push(format!(
            "{} created what existed: a read missed an own write",
            again.request
        ));
    }
    found
}
