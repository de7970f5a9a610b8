//! The subjects of all RoleBindings and ClusterRoleBindings. A changed binding or role concerns
//! only its subjects. And where a namespace has no binding for a subject, RBAC grants it only its
//! cluster-wide permissions, so no review is needed.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Deserialize;

use crate::{authz::access::ServiceAccount, object::ObjectKey};

/// Who is concerned by a change of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concerned {
    /// Where permissions have changed; None for all namespaces.
    pub namespace: Option<String>,
    /// Users and groups whose permissions have changed.
    pub subjects: BTreeSet<String>,
}

/// The fields of a binding, as JSON.
#[derive(Clone, Copy, Debug)]
pub struct BindingText<'a> {
    /// The subjects.
    pub subjects: &'a str,
    /// The roleRef.
    pub role: &'a str,
}

/// Subjects and roles of all RoleBindings and ClusterRoleBindings. Keys of the latter have no
/// namespace.
#[derive(Debug, Default)]
pub struct RoleBindings {
    bindings: HashMap<ObjectKey, Binding>,
    /// The number of bindings by subject and namespace.
    namespaces: HashMap<String, HashMap<String, usize>>,
    /// The bindings by role. A ClusterRole's key has no namespace.
    by_role: HashMap<ObjectKey, HashSet<ObjectKey>>,
}

#[derive(Debug)]
struct Binding {
    role: ObjectKey,
    subjects: BTreeSet<String>,
}

/// A subject of a binding (rbac/v1 Subject).
#[derive(Deserialize)]
struct Subject {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
}

/// The role of a binding (rbac/v1 RoleRef).
#[derive(Default, Deserialize)]
#[serde(default)]
struct RoleRef {
    kind: String,
    name: String,
}

impl RoleBindings {
    /// Replaces a binding; None removes it. Returns the subjects with changed permissions: none if
    /// the subjects and the role are the same. If the subjects cannot be decoded, all users are
    /// concerned, so that access reviews decide about them.
    pub fn set(&mut self, binding: &ObjectKey, text: Option<BindingText<'_>>) -> Concerned {
        let namespace = binding.namespace.clone();
        let before = self.remove(binding);
        let Some(text) = text else {
            return Concerned {
                namespace,
                subjects: before.map(|before| before.subjects).unwrap_or_default(),
            };
        };

        let home = namespace.as_deref().unwrap_or_default();
        let subjects: BTreeSet<String> = match serde_json::from_str::<Vec<Subject>>(text.subjects) {
            Ok(subjects) => subjects
                .into_iter()
                .map(|subject| user_or_group(subject, home))
                .collect(),
            Err(_) => BTreeSet::from(["system:authenticated".to_owned()]),
        };

        // The API server accepts no other roleRef.
        let role = serde_json::from_str::<RoleRef>(text.role).unwrap_or_default();
        let role_home = namespace.clone().filter(|_| role.kind == "Role");
        let now = Binding {
            role: ObjectKey {
                namespace: role_home,
                name: role.name,
            },
            subjects,
        };

        let changed = match before {
            Some(before) if before.role == now.role => &before.subjects ^ &now.subjects,
            Some(before) => &before.subjects | &now.subjects,
            None => now.subjects.clone(),
        };
        self.insert(binding, now);

        Concerned {
            namespace,
            subjects: changed,
        }
    }

    /// The subjects of a role's bindings, concerned when the role changes.
    pub fn bound_to(&self, role: &ObjectKey) -> Vec<Concerned> {
        let keys = self.by_role.get(role).into_iter().flatten();
        let bindings = keys.filter_map(|key| Some((key, self.bindings.get(key)?)));
        bindings
            .map(|(key, binding)| Concerned {
                namespace: key.namespace.clone(),
                subjects: binding.subjects.clone(),
            })
            .collect()
    }

    fn insert(&mut self, key: &ObjectKey, binding: Binding) {
        if let Some(namespace) = &key.namespace {
            for subject in &binding.subjects {
                *self
                    .namespaces
                    .entry(subject.clone())
                    .or_default()
                    .entry(namespace.clone())
                    .or_default() += 1;
            }
        }

        self.by_role
            .entry(binding.role.clone())
            .or_default()
            .insert(key.clone());
        self.bindings.insert(key.clone(), binding);
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Binding> {
        let binding = self.bindings.remove(key)?;
        if let Some(keys) = self.by_role.get_mut(&binding.role) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_role.remove(&binding.role);
            }
        }

        let Some(namespace) = &key.namespace else {
            return Some(binding);
        };

        for subject in &binding.subjects {
            if let Some(counts) = self.namespaces.get_mut(subject)
                && let Some(count) = counts.get_mut(namespace)
            {
                *count -= 1;
                if *count == 0 {
                    counts.remove(namespace);
                }
                if counts.is_empty() {
                    self.namespaces.remove(subject);
                }
            }
        }

        Some(binding)
    }

    /// The namespaces with a binding for the ServiceAccount or one of its groups.
    pub fn namespaces_of(&self, account: &ServiceAccount) -> BTreeSet<String> {
        let names = account.groups().into_iter().chain([account.user()]);
        names
            .filter_map(|name| self.namespaces.get(&name))
            .flat_map(HashMap::keys)
            .cloned()
            .collect()
    }
}

/// A subject's user or group name. A ServiceAccount without a namespace is in `binding_namespace`,
/// as in the API server's [authorizer].
///
/// [authorizer]: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/registry/rbac/validation/rule.go
fn user_or_group(subject: Subject, binding_namespace: &str) -> String {
    let Subject {
        kind,
        name,
        mut namespace,
    } = subject;

    if namespace.is_empty() {
        binding_namespace.clone_into(&mut namespace);
    }

    if kind == "ServiceAccount" {
        ServiceAccount { namespace, name }.user()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_namespaces_of_users_and_groups() {
        let account = ServiceAccount {
            namespace: "team".into(),
            name: "plugin".into(),
        };
        let mut bindings = RoleBindings::default();
        let text = |subjects| {
            Some(BindingText {
                subjects,
                role: "{}",
            })
        };
        let own = r#"[{"kind":"ServiceAccount","namespace":"team","name":"plugin"},{"kind":"User","name":"ann"}]"#;
        bindings.set(&ObjectKey::namespaced("a", "one"), text(own));
        bindings.set(&ObjectKey::namespaced("a", "two"), text(own));
        bindings.set(
            &ObjectKey::namespaced("b", "one"),
            text(r#"[{"kind":"Group","name":"system:serviceaccounts:team"}]"#),
        );
        bindings.set(
            &ObjectKey::namespaced("c", "one"),
            text(r#"[{"kind":"ServiceAccount","namespace":"c","name":"plugin"}]"#),
        );
        let namespaces = |bindings: &RoleBindings| {
            bindings
                .namespaces_of(&account)
                .into_iter()
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(namespaces(&bindings), "a,b");
        bindings.set(&ObjectKey::namespaced("a", "one"), None);
        assert_eq!(namespaces(&bindings), "a,b");
        bindings.set(&ObjectKey::namespaced("a", "two"), text("[]"));
        assert_eq!(namespaces(&bindings), "b");
        bindings.set(&ObjectKey::namespaced("b", "one"), None);
        assert_eq!(namespaces(&bindings), "");
        let here = ObjectKey::namespaced("team", "here");
        bindings.set(
            &here,
            text(r#"[{"kind":"ServiceAccount","name":"plugin"}]"#),
        );
        assert_eq!(
            namespaces(&bindings),
            "team",
            "the namespace defaults to that of the binding"
        );
        bindings.set(&here, None);
        assert_eq!(
            bindings.namespaces.len(),
            1,
            "entries of removed bindings are removed"
        );
        bindings.set(&ObjectKey::namespaced("d", "odd"), text(r#"[{"kind":1}]"#));
        assert_eq!(namespaces(&bindings), "d");
    }

    #[test]
    fn change_concerns_only_subjects_of_binding() {
        let mut bindings = RoleBindings::default();
        let user = |name: &str| format!(r#"{{"kind":"User","name":"{name}"}}"#);
        let mut set = |key: &ObjectKey, users: &[&str], role: &str| {
            let subjects = format!(
                "[{}]",
                users
                    .iter()
                    .map(|name| user(name))
                    .collect::<Vec<_>>()
                    .join(",")
            );
            let concerned = bindings.set(
                key,
                Some(BindingText {
                    subjects: &subjects,
                    role,
                }),
            );
            assert_eq!(concerned.namespace, key.namespace);
            concerned.subjects.into_iter().collect::<Vec<_>>().join(",")
        };
        let role = r#"{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}"#;
        let cluster_role = r#"{"kind":"ClusterRole","name":"r"}"#;
        let one = ObjectKey::namespaced("a", "one");
        let wide = ObjectKey::cluster_scoped("one");
        assert_eq!(set(&one, &["ann", "bob"], role), "ann,bob");
        assert_eq!(
            set(&one, &["ann", "bob"], role),
            "",
            "only an annotation has changed"
        );
        assert_eq!(set(&one, &["bob", "eve"], role), "ann,eve");
        assert_eq!(set(&one, &["bob"], cluster_role), "bob,eve");
        assert_eq!(set(&one, &["bob"], role), "bob");
        assert_eq!(set(&wide, &["zoe"], cluster_role), "zoe");
        let bound = |bindings: &RoleBindings, role: &ObjectKey| bindings.bound_to(role);
        let concerned = |namespace: Option<&str>, name: &str| {
            let namespace = namespace.map(str::to_owned);
            vec![Concerned {
                namespace,
                subjects: BTreeSet::from([name.to_owned()]),
            }]
        };
        assert_eq!(
            bound(&bindings, &ObjectKey::namespaced("a", "r")),
            concerned(Some("a"), "bob")
        );
        assert_eq!(
            bound(&bindings, &ObjectKey::cluster_scoped("r")),
            concerned(None, "zoe")
        );
        assert_eq!(bound(&bindings, &ObjectKey::namespaced("b", "r")), []);
        assert_eq!(
            bindings.set(&one, None),
            concerned(Some("a"), "bob").remove(0)
        );
        bindings.set(&wide, None);
        assert!(
            bindings.bindings.is_empty()
                && bindings.by_role.is_empty()
                && bindings.namespaces.is_empty()
        );
    }
}
