//! The permissions of a ServiceAccount: every Role and ClusterRole bound to it or to one of its
//! groups.
//!
//! An aggregated ClusterRole counts with the rules Kubernetes has aggregated into it.

use k8s_openapi::{
    api::rbac::v1::{
        ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use operetta_core::authz::access_review::ServiceAccount;

use crate::authz::{required_permissions::Needed, rules::gives};

/// A role granted to a ServiceAccount by one binding.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantedRole {
    /// The role, by kind and name.
    pub role: String,
    /// The binding, by kind and name.
    pub binding: String,
    /// Where it is granted; None for all namespaces.
    pub namespace: Option<String>,
    /// The rules.
    pub rules: Vec<PolicyRule>,
    /// Whether Kubernetes itself grants it to everybody.
    pub is_default: bool,
}

/// A cluster's roles and bindings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bindings {
    /// The Roles of all namespaces.
    pub roles: Vec<Role>,
    /// The ClusterRoles.
    pub cluster_roles: Vec<ClusterRole>,
    /// The RoleBindings of all namespaces.
    pub bindings: Vec<RoleBinding>,
    /// The ClusterRoleBindings.
    pub cluster_bindings: Vec<ClusterRoleBinding>,
}

impl Bindings {
    /// The roles of a ServiceAccount.
    pub fn granted_to(&self, account: &ServiceAccount) -> Vec<GrantedRole> {
        let mut granted = Vec::new();
        for binding in &self.bindings {
            let RoleBinding {
                metadata,
                role_ref,
                subjects,
            } = binding;
            let location = metadata.namespace.as_deref();
            if is_for(subjects.as_deref(), account, location) {
                granted.extend(self.bound("RoleBinding", metadata, role_ref, location));
            }
        }

        for binding in &self.cluster_bindings {
            let ClusterRoleBinding {
                metadata,
                role_ref,
                subjects,
            } = binding;
            if is_for(subjects.as_deref(), account, None) {
                granted.extend(self.bound("ClusterRoleBinding", metadata, role_ref, None));
            }
        }

        granted
    }

    /// The permissions of a binding; None if the role does not exist.
    fn bound(
        &self,
        kind: &str,
        binding: &ObjectMeta,
        role: &RoleRef,
        location: Option<&str>,
    ) -> Option<GrantedRole> {
        let named = |metadata: &ObjectMeta| metadata.name.as_deref() == Some(&role.name);
        let (rules, role_place) = if role.kind == "Role" {
            let found =
                |one: &&Role| named(&one.metadata) && one.metadata.namespace.as_deref() == location;
            (&self.roles.iter().find(found)?.rules, location)
        } else {
            (
                &self
                    .cluster_roles
                    .iter()
                    .find(|one| named(&one.metadata))?
                    .rules,
                None,
            )
        };

        let full = |location: Option<&str>, name: &str| {
            location.map_or_else(
                || name.to_owned(),
                |namespace| format!("{namespace}/{name}"),
            )
        };

        let name = binding.name.as_deref().unwrap_or_default();
        Some(GrantedRole {
            role: format!("{} {}", role.kind, full(role_place, &role.name)),
            binding: format!("{kind} {}", full(location, name)),
            namespace: location.map(str::to_owned),
            rules: rules.clone().unwrap_or_default(),
            is_default: location.is_none() && DEFAULT_BINDINGS.contains(&name),
        })
    }
}

/// The API server's own bindings that give every ServiceAccount something ([bootstrappolicy]).
/// Recognized by name, because anybody may copy their label.
///
/// [bootstrappolicy]: https://github.com/kubernetes/kubernetes/blob/v1.36.2/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go
const DEFAULT_BINDINGS: &[&str] = &[
    "system:basic-user",
    "system:discovery",
    "system:public-info-viewer",
    "system:service-account-issuer-discovery",
];

/// Whether a binding with these subjects, in this namespace, is for a ServiceAccount, in the view of
/// the API server's authorizer.
pub fn is_for(
    subjects: Option<&[Subject]>,
    account: &ServiceAccount,
    location: Option<&str>,
) -> bool {
    subjects
        .unwrap_or_default()
        .iter()
        .any(|subject| match subject.kind.as_str() {
            "ServiceAccount" => {
                let namespace = subject
                    .namespace
                    .as_deref()
                    .filter(|namespace| !namespace.is_empty())
                    .or(location);
                subject.name == account.name && namespace == Some(account.namespace.as_str())
            }
            "User" => subject.name == account.user(),
            "Group" => account.groups().contains(&subject.name),
            _ => false,
        })
}

impl GrantedRole {
    /// Whether it grants the permission, or a part of it.
    pub fn gives(&self, needed: &Needed) -> bool {
        let here = self.namespace.is_none() || self.namespace == needed.need.namespace;
        here && self.rules.iter().any(|rule| gives(rule, needed))
    }
}

#[cfg(test)]
mod tests {
    use operetta_core::authz::recorded_permissions::Need;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("an object")
    }

    fn account() -> ServiceAccount {
        ServiceAccount {
            namespace: "team".to_owned(),
            name: "p".to_owned(),
        }
    }

    fn needed(verb: &str, group: &str, resource: &str, name: Option<&str>) -> Needed {
        let need = Need::resource(verb, group, resource, Some("team"));
        Needed {
            need,
            name: name.map(str::to_owned),
            ..Needed::default()
        }
    }

    #[test]
    fn binding_counts_for_account_user_and_groups() {
        for (subject, location, wanted) in [
            (
                json!({"kind": "ServiceAccount", "name": "p", "namespace": "team"}),
                Some("other"),
                true,
            ),
            (
                json!({"kind": "ServiceAccount", "name": "p"}),
                Some("team"),
                true,
            ),
            (
                json!({"kind": "ServiceAccount", "name": "p"}),
                Some("other"),
                false,
            ),
            (json!({"kind": "ServiceAccount", "name": "p"}), None, false),
            (
                json!({"kind": "ServiceAccount", "name": "q", "namespace": "team"}),
                None,
                false,
            ),
            (
                json!({"kind": "User", "name": "system:serviceaccount:team:p"}),
                None,
                true,
            ),
            (json!({"kind": "User", "name": "p"}), None, false),
            (
                json!({"kind": "Group", "name": "system:serviceaccounts:team"}),
                None,
                true,
            ),
            (
                json!({"kind": "Group", "name": "system:serviceaccounts:other"}),
                None,
                false,
            ),
            (
                json!({"kind": "Group", "name": "system:serviceaccounts"}),
                None,
                true,
            ),
            (
                json!({"kind": "Group", "name": "system:authenticated"}),
                None,
                true,
            ),
            (
                json!({"kind": "Group", "name": "system:masters"}),
                None,
                false,
            ),
        ] {
            let subjects = [read::<Subject>(subject.clone())];
            assert_eq!(
                is_for(Some(&subjects), &account(), location),
                wanted,
                "{subject} in {location:?}"
            );
        }
    }

    #[test]
    fn a_role_is_named_with_the_binding_that_gives_it() {
        let subjects = json!([{"kind": "ServiceAccount", "name": "p", "namespace": "team"}]);
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        let binding = |name: &str, kind: &str, role: &str| {
            json!({"metadata": {"name": name, "namespace": "team"}, "subjects": subjects,
                   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}})
        };
        let labelled = |name: &str| {
            let mut binding = binding(name, "ClusterRole", "view");
            binding["metadata"]["labels"] = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
            binding
        };
        let cluster = Bindings {
            roles: vec![
                read(json!({"metadata": {"name": "r", "namespace": "elsewhere"}, "rules": []})),
                read(json!({"metadata": {"name": "r", "namespace": "team"}, "rules": rules})),
            ],
            cluster_roles: vec![read(json!({"metadata": {"name": "view"}, "rules": rules}))],
            bindings: vec![
                read(binding("a", "Role", "r")),
                // Anybody can set a label.
                read(labelled("b")),
                read(labelled("system:discovery")),
                read(binding("dangling", "Role", "gone")),
            ],
            cluster_bindings: vec![
                read(labelled("c")),
                read(binding("system:basic-user", "ClusterRole", "view")),
            ],
        };
        let held = cluster.granted_to(&account());
        let shown: Vec<_> = held
            .iter()
            .map(|held| {
                (
                    held.role.as_str(),
                    held.binding.as_str(),
                    held.namespace.as_deref(),
                    held.is_default,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("Role team/r", "RoleBinding team/a", Some("team"), false),
                (
                    "ClusterRole view",
                    "RoleBinding team/b",
                    Some("team"),
                    false
                ),
                (
                    "ClusterRole view",
                    "RoleBinding team/system:discovery",
                    Some("team"),
                    false
                ),
                ("ClusterRole view", "ClusterRoleBinding c", None, false),
                (
                    "ClusterRole view",
                    "ClusterRoleBinding system:basic-user",
                    None,
                    true
                ),
            ]
        );
        assert!(held[0].gives(&needed("get", "", "pods", None)));
        let elsewhere = Need::resource("get", "", "pods", Some("other"));
        let elsewhere = Needed {
            need: elsewhere,
            ..Needed::default()
        };
        assert!(!held[1].gives(&elsewhere) && held[3].gives(&elsewhere));
    }
}
