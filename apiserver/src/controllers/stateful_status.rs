//! The status of a StatefulSet.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    object::{count, is_terminating, number, set_count, text},
    pod_control::{is_available, is_ready, phase},
    revisions::revision_of,
    stateful_rollout::Rollout,
};

/// The status that follows from the Pods.
pub(super) fn calculate(rollout: &Rollout<'_>, now: Timestamp) -> Value {
    let number_of =
        |is: &dyn Fn(&Value) -> bool| count(rollout.pods.values().filter(|pod| is(pod)).count());
    let is_of = |pod: &Value, revision: &str| !is_terminating(pod) && revision_of(pod) == revision;
    let is_serving = |pod: &Value| phase(pod) == "Running" && is_ready(pod);

    let update = rollout.revisions.update.as_str();
    let replicas = count(rollout.pods.len());
    let ready = number_of(&is_serving);
    let updated = number_of(&|pod| is_of(pod, update));
    let mut current = number_of(&|pod| is_of(pod, &rollout.current));
    let mut current_revision = rollout.current.as_str();

    let is_rolling = text(rollout.set, &["spec", "updateStrategy", "type"]) != "OnDelete";
    if is_rolling
        && updated == replicas
        && ready == replicas
        && replicas == number(rollout.set, "/spec/replicas", 1)
    {
        // The rollout is over.
        current = updated;
        current_revision = update;
    }

    let mut status = json!({
        "replicas": replicas, "currentRevision": current_revision, "updateRevision": update,
        "availableReplicas": number_of(&|pod| is_serving(pod) && is_available(pod, rollout.min_ready, now)),
        "observedGeneration": rollout.set["metadata"]["generation"],
        "collisionCount": number(rollout.set, "/status/collisionCount", 0),
    });

    set_count(&mut status, "readyReplicas", ready);
    set_count(&mut status, "updatedReplicas", updated);
    set_count(&mut status, "currentReplicas", current);
    status
}
