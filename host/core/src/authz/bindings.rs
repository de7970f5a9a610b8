//! The namespaces in which RoleBindings name a subject.
//!
//! In any other namespace, RBAC grants the subject only its cluster-wide permissions, so no access review is needed.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use crate::{authz::access::ServiceAccount, object::ObjectKey};

/// The subjects of all RoleBindings.
#[derive(Debug, Default)]
pub struct RoleBindings {
    /// The subjects of each binding. They are removed from `namespaces` when the binding changes.
    subjects: HashMap<ObjectKey, Vec<String>>,
    /// The number of bindings by subject and namespace. No number is 0, and no map of a subject is empty.
    namespaces: HashMap<String, HashMap<String, usize>>,
}

/// A subject of a binding (rbac/v1 Subject).
#[derive(Deserialize)]
struct Subject {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
}

impl RoleBindings {
    /// Replaces the subjects of a binding. `subjects` is the binding's field of that name as JSON; None removes the
    /// binding. Subjects that cannot be decoded count as `system:authenticated`, so that access reviews decide.
    pub fn set(&mut self, binding: &ObjectKey, subjects: Option<&str>) {
        let Some(namespace) = &binding.namespace else { return };
        for subject in self.subjects.remove(binding).unwrap_or_default() {
            if let Some(numbers) = self.namespaces.get_mut(&subject)
                && let Some(number) = numbers.get_mut(namespace)
            {
                *number -= 1;
                if *number == 0 {
                    numbers.remove(namespace);
                }
                if numbers.is_empty() {
                    self.namespaces.remove(&subject);
                }
            }
        }
        let Some(text) = subjects else { return };
        let names: BTreeSet<String> = match serde_json::from_str::<Vec<Subject>>(text) {
            Ok(subjects) => subjects.into_iter().map(|subject| user_or_group(subject, namespace)).collect(),
            Err(_) => BTreeSet::from(["system:authenticated".to_owned()]),
        };
        for name in &names {
            *self.namespaces.entry(name.clone()).or_default().entry(namespace.clone()).or_default() += 1;
        }
        self.subjects.insert(binding.clone(), names.into_iter().collect());
    }

    /// Returns the namespaces in which a binding names the ServiceAccount or one of its groups.
    pub fn namespaces_of(&self, account: &ServiceAccount) -> BTreeSet<String> {
        let names = account.groups().into_iter().chain([account.user()]);
        names.filter_map(|name| self.namespaces.get(&name)).flat_map(HashMap::keys).cloned().collect()
    }
}

/// Returns the user or group name of a subject. A ServiceAccount without a namespace is in `binding_namespace`, as in
/// the API server's authorizer.
fn user_or_group(subject: Subject, binding_namespace: &str) -> String {
    let Subject { kind, name, mut namespace } = subject;
    if namespace.is_empty() {
        binding_namespace.clone_into(&mut namespace);
    }
    if kind == "ServiceAccount" { ServiceAccount { namespace, name }.user() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_namespaces_of_users_and_groups() {
        let account = ServiceAccount { namespace: "team".into(), name: "plugin".into() };
        let mut bindings = RoleBindings::default();
        let own = r#"[{"kind":"ServiceAccount","namespace":"team","name":"plugin"},{"kind":"User","name":"ann"}]"#;
        bindings.set(&ObjectKey::namespaced("a", "one"), Some(own));
        bindings.set(&ObjectKey::namespaced("a", "two"), Some(own));
        bindings.set(
            &ObjectKey::namespaced("b", "one"),
            Some(r#"[{"kind":"Group","name":"system:serviceaccounts:team"}]"#),
        );
        bindings.set(
            &ObjectKey::namespaced("c", "one"),
            Some(r#"[{"kind":"ServiceAccount","namespace":"c","name":"plugin"}]"#),
        );
        let of = |bindings: &RoleBindings| bindings.namespaces_of(&account).into_iter().collect::<Vec<_>>().join(",");
        assert_eq!(of(&bindings), "a,b");
        bindings.set(&ObjectKey::namespaced("a", "one"), None);
        assert_eq!(of(&bindings), "a,b");
        bindings.set(&ObjectKey::namespaced("a", "two"), Some("[]"));
        assert_eq!(of(&bindings), "b");
        bindings.set(&ObjectKey::namespaced("b", "one"), None);
        assert_eq!(of(&bindings), "");
        let here = ObjectKey::namespaced("team", "here");
        bindings.set(&here, Some(r#"[{"kind":"ServiceAccount","name":"plugin"}]"#));
        assert_eq!(of(&bindings), "team", "without a namespace it is the binding's");
        bindings.set(&here, None);
        assert_eq!(bindings.namespaces.len(), 1, "nothing is left of what is gone");
        bindings.set(&ObjectKey::namespaced("d", "odd"), Some(r#"[{"kind":1}]"#));
        assert_eq!(of(&bindings), "d");
    }
}
