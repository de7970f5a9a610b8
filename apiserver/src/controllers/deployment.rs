//! A Deployment with its ReplicaSets, and the margins of its strategy.

use serde_json::Value;

use super::object::{name, number, text, time};

pub(super) const GROUP: &str = "apps";
pub(super) const RESOURCE: &str = "deployments";
pub(super) const SETS: &str = "replicasets";

/// The label with the hash of a template.
pub(super) const HASH: &str = "pod-template-hash";
/// The annotation with the Deployment's replicas at the time its ReplicaSet was scaled.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";

/// A Deployment and its ReplicaSets, updated with every write.
pub(super) struct Rollout {
    pub deployment: Value,
    /// All ReplicaSets, the oldest first.
    pub sets: Vec<Value>,
    /// The index of the one with the Deployment's template.
    pub newest: Option<usize>,
}

impl Rollout {
    pub fn new(deployment: Value, mut sets: Vec<Value>) -> Self {
        sets.sort_by_cached_key(|set| {
            (
                time(&set["metadata"]["creationTimestamp"]),
                name(set).to_owned(),
            )
        });

        let mut rollout = Self {
            deployment,
            sets,
            newest: None,
        };

        rollout.newest = rollout
            .sets
            .iter()
            .position(|set| has_template(set, &rollout.deployment));

        rollout
    }

    pub fn wanted(&self) -> i64 {
        number(&self.deployment, "/spec/replicas", 1)
    }

    /// The ReplicaSet with the Deployment's template.
    pub fn new_set(&self) -> Option<&Value> {
        self.newest.map(|index| &self.sets[index])
    }

    /// The indexes of all others, the oldest first.
    pub fn old_sets(&self) -> Vec<usize> {
        (0..self.sets.len())
            .filter(|index| Some(*index) != self.newest)
            .collect()
    }

    /// Reports whether the Deployment's replicas changed since its ReplicaSets were scaled.
    pub fn is_scaled(&self) -> bool {
        let wanted = self.wanted().to_string();
        self.sets.iter().filter(|set| replicas(set) > 0).any(|set| {
            let desired = text(set, &["metadata", "annotations", DESIRED]);
            !desired.is_empty() && desired != wanted
        })
    }

    /// How many replicas may exist beyond the wanted ones, and how many may be unavailable.
    pub fn margins(&self) -> (i64, i64) {
        let strategy = &self.deployment["spec"]["strategy"];
        if strategy["type"] == "Recreate" {
            return (0, 0);
        }

        let wanted = self.wanted();
        let surge = resolve(&strategy["rollingUpdate"]["maxSurge"], wanted, true);
        let unavailable = resolve(&strategy["rollingUpdate"]["maxUnavailable"], wanted, false);

        // If both were 0, no Pod could ever be replaced.
        let unavailable = if surge == 0 && unavailable == 0 {
            1
        } else {
            unavailable
        };

        (surge, unavailable.min(wanted))
    }
}

pub(super) fn replicas(set: &Value) -> i64 {
    number(set, "/spec/replicas", 1)
}

/// Reports whether a ReplicaSet has a Deployment's template, apart from the hash.
pub(super) fn has_template(set: &Value, deployment: &Value) -> bool {
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove(HASH);
    }
    template == deployment["spec"]["template"]
}

/// Resolves a number, or a percentage of a total that is rounded up or down.
pub(super) fn resolve(value: &Value, total: i64, up: bool) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let percent = value
        .as_str()
        .and_then(|text| text.strip_suffix('%'))
        .and_then(|text| text.parse::<i64>().ok());

    let scaled = percent.unwrap_or_default().saturating_mul(total);
    if up {
        scaled.saturating_add(99) / 100
    } else {
        scaled / 100
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentages_are_rounded_in_favour_of_the_service() {
        for (value, total, up, expected) in [
            (json!("25%"), 3, true, 1),
            (json!("25%"), 3, false, 0),
            (json!("25%"), 4, true, 1),
            (json!("100%"), 3, false, 3),
            (json!("0%"), 3, true, 0),
            (json!(2), 3, true, 2),
        ] {
            assert_eq!(resolve(&value, total, up), expected, "{value} of {total}");
        }
    }
}
