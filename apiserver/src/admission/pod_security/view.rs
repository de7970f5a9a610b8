//! A Pod as the checks see it, and the wording that they share.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::authz::objects::text;

/// A violation: the reason, and details that may be empty.
pub(super) type Violation = (String, String);

/// A Pod, or a template of Pods.
pub(super) struct PodView<'a> {
    pub metadata: &'a Value,
    pub spec: &'a Value,
    /// The init containers, the containers and the ephemeral containers.
    pub containers: Vec<&'a Value>,
}

impl<'a> PodView<'a> {
    pub fn new(pod: &'a Value) -> Self {
        Self {
            metadata: &pod["metadata"],
            spec: &pod["spec"],
            containers: containers(pod),
        }
    }

    /// Returns the names of the containers for which a predicate holds.
    pub fn names(&self, is_bad: impl Fn(&Value) -> bool) -> Vec<String> {
        let bad = self.containers.iter().filter(|container| is_bad(container));
        bad.map(|container| text(container, &["name"]).to_owned())
            .collect()
    }

    /// Returns `pod` and the containers whose security context is bad, as the subject of a
    /// sentence; None if there are none.
    pub fn setters(&self, is_bad: impl Fn(&Value) -> bool) -> Option<String> {
        let mut setters = Vec::new();
        if is_bad(&self.spec["securityContext"]) {
            setters.push("pod".to_owned());
        }

        let bad = self.names(|container| is_bad(&container["securityContext"]));
        if !bad.is_empty() {
            setters.push(counted("container", &bad));
        }
        (!setters.is_empty()).then(|| setters.join(" and "))
    }

    /// Reports whether the Pod runs Windows, which some checks do not apply to.
    pub fn is_windows(&self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// Reports whether the Pod has a user namespace of its own, which some checks are relaxed for.
    pub fn has_own_users(&self) -> bool {
        self.spec["hostUsers"] == false
    }
}

fn containers(pod: &Value) -> Vec<&Value> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists
        .iter()
        .flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten())
        .collect()
}

/// Returns the images of all containers: an update that keeps them is not checked.
pub(super) fn images(pod: &Value) -> Vec<&str> {
    containers(pod)
        .into_iter()
        .map(|container| text(container, &["image"]))
        .collect()
}

/// Returns a noun in singular or plural.
pub(super) fn plural(noun: &str, count: usize) -> String {
    if count == 1 {
        noun.to_owned()
    } else {
        format!("{noun}s")
    }
}

/// Returns the verb for a subject in singular or plural.
pub(super) fn uses(count: usize) -> &'static str {
    if count == 1 { "uses" } else { "use" }
}

/// Returns names in quotes.
pub(super) fn quoted<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    let names: Vec<String> = names
        .into_iter()
        .map(|name| format!("\"{name}\""))
        .collect();
    names.join(", ")
}

/// Returns a noun with names, such as `containers "a", "b"`.
pub(super) fn counted(noun: &str, names: &[String]) -> String {
    format!("{} {}", plural(noun, names.len()), quoted(names))
}

/// Returns the values of a field in the security contexts of the Pod and of its containers that are
/// not allowed.
pub(super) fn bad_values(
    pod: &PodView<'_>,
    path: &[&str],
    is_allowed: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    let contexts = pod
        .containers
        .iter()
        .map(|container| &container["securityContext"]);
    let contexts = std::iter::once(&pod.spec["securityContext"]).chain(contexts);
    let values = contexts
        .filter(|context| !context[path[0]].is_null())
        .map(|context| text(context, path));

    values
        .filter(|value| !is_allowed(value))
        .map(str::to_owned)
        .collect()
}
