//! The health of any object, from what most kinds have in common: deletion, generation, replicas,
//! phase and conditions. A status may look like anything; unexpected values are ignored.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Health {
    Ok,
    Progressing,
    Bad,
    Unknown,
}

impl Health {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Progressing => "progressing",
            Self::Bad => "bad",
            Self::Unknown => "unknown",
        }
    }
}

/// Conditions that are bad if true.
const BAD: [&str; 5] = [
    "Failed",
    "Degraded",
    "Stalled",
    "ReplicaFailure",
    "NamesConflict",
];
/// Conditions that are bad if false, and good if true.
const GOOD: [&str; 9] = [
    "Ready",
    "Available",
    "Healthy",
    "Complete",
    "Succeeded",
    "Established",
    "Synced",
    "Reconciled",
    "Bound",
];
/// How many conditions of an object are shown.
const MAX_CONDITIONS: usize = 50;

/// Returns the conditions' statuses by type.
pub(super) fn conditions(object: &Value) -> BTreeMap<String, String> {
    let all = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let pairs = all.filter_map(|condition| {
        Some((
            condition["type"].as_str()?.to_owned(),
            condition["status"].as_str()?.to_owned(),
        ))
    });
    pairs.take(MAX_CONDITIONS).collect()
}

pub(super) fn health(object: &Value) -> Health {
    let metadata = &object["metadata"];
    let status = &object["status"];
    if metadata["deletionTimestamp"].is_string() {
        return Health::Progressing;
    }

    let conditions = conditions(object);
    let is = |type_: &str, status: &str| conditions.get(type_).is_some_and(|found| found == status);

    // A Deployment sets Progressing to False when it exceeds its deadline. Others do so when they
    // are done.
    let is_stuck = is("Progressing", "False") && is("Available", "False");
    // Kubernetes' phases start with a capital letter, those of operators often don't.
    let phase = status["phase"].as_str().map(capitalized);
    let phase = phase.as_deref();

    if BAD.iter().any(|type_| is(type_, "True"))
        || is_stuck
        || matches!(phase, Some("Failed" | "Error" | "Lost"))
    {
        return Health::Bad;
    }

    let observed = status["observedGeneration"].as_i64();
    if observed.is_some_and(|observed| metadata["generation"].as_i64() > Some(observed)) {
        return Health::Progressing;
    }
    if matches!(phase, Some("Succeeded" | "Bound" | "Active" | "Ready")) {
        return Health::Ok;
    }

    if matches!(
        phase,
        Some("Pending" | "Terminating" | "Creating" | "Provisioning")
    ) {
        return Health::Progressing;
    }

    if let Some(health) = replicas(object) {
        return health;
    }
    match GOOD
        .iter()
        .filter_map(|type_| conditions.get(*type_))
        .map(String::as_str)
        .collect::<Vec<_>>()[..]
    {
        [] if phase == Some("Running") => Health::Ok,
        [] if status["active"].as_u64() > Some(0) => Health::Progressing,
        [] => Health::Unknown,
        // A starting Pod isn't Ready for a moment.
        ref found if found.contains(&"False") && phase == Some("Running") => Health::Progressing,
        ref found if found.contains(&"False") => Health::Bad,
        ref found if found.contains(&"Unknown") => Health::Progressing,
        _ => Health::Ok,
    }
}

/// Returns the health of an object with replicas, or None if it has none.
fn replicas(object: &Value) -> Option<Health> {
    let status = &object["status"];
    let number = |value: &Value| value.as_u64();
    let desired = number(&status["desiredNumberScheduled"]).or_else(|| {
        let has_replicas = ["replicas", "readyReplicas", "availableReplicas"]
            .iter()
            .any(|field| status.get(field).is_some());
        number(&object["spec"]["replicas"]).filter(|_| has_replicas)
    })?;
    let ready = ["numberReady", "readyReplicas", "availableReplicas"]
        .iter()
        .find_map(|field| number(&status[field]));
    let ready = ready.unwrap_or_default();

    Some(if ready >= desired {
        Health::Ok
    } else {
        Health::Progressing
    })
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn health_is_that_of_what_kinds_have_in_common() {
        let condition = |type_: &str, status: &str| json!({"status": {"conditions": [{"type": type_, "status": status}]}});
        let with = |mut object: Value, path: &str, value: Value| {
            object[path] = value;
            object
        };

        for (object, wanted) in [
            (json!({}), Health::Unknown),
            (json!({"status": "a text", "metadata": 7}), Health::Unknown),
            (
                json!({"status": {"conditions": [1, {"type": 2}]}}),
                Health::Unknown,
            ),
            (condition("Ready", "True"), Health::Ok),
            (condition("Ready", "False"), Health::Bad),
            (condition("Ready", "Unknown"), Health::Progressing),
            (condition("Degraded", "True"), Health::Bad),
            (condition("Degraded", "False"), Health::Unknown),
            (
                with(
                    condition("Ready", "True"),
                    "metadata",
                    json!({"deletionTimestamp": "t"}),
                ),
                Health::Progressing,
            ),
            (
                json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}),
                Health::Progressing,
            ),
            (
                json!({"spec": {"replicas": 2}, "status": {"replicas": 2, "readyReplicas": 1}}),
                Health::Progressing,
            ),
            (
                json!({"spec": {"replicas": 2}, "status": {"replicas": 2, "readyReplicas": 2}}),
                Health::Ok,
            ),
            (
                json!({"spec": {"replicas": 0}, "status": {"replicas": 0}}),
                Health::Ok,
            ),
            (
                json!({"spec": {"replicas": 2}, "status": {"availableReplicas": 2}}),
                Health::Ok,
            ),
            (
                json!({"spec": {"replicas": 2}, "status": {"availableReplicas": 1}}),
                Health::Progressing,
            ),
            (json!({"spec": {"replicas": 2}}), Health::Unknown),
            (json!({"status": {"phase": "ready"}}), Health::Ok),
            (json!({"status": {"phase": "failed"}}), Health::Bad),
            (json!({"status": {"phase": ""}}), Health::Unknown),
            (
                json!({"status": {"desiredNumberScheduled": 3, "numberReady": 3}}),
                Health::Ok,
            ),
            (json!({"status": {"phase": "Pending"}}), Health::Progressing),
            (json!({"status": {"phase": "Failed"}}), Health::Bad),
            (
                json!({"status": {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}}),
                Health::Ok,
            ),
            (
                json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}}),
                Health::Progressing,
            ),
            (json!({"status": {"active": 1}}), Health::Progressing),
        ] {
            assert_eq!(health(&object), wanted, "{object}");
        }
    }
}
