//! The permissions of a ServiceAccount: every Role and ClusterRole that is bound to it or to one of its groups.
//!
//! The rules of an aggregated ClusterRole are those that Kubernetes has aggregated.

use anyhow::{Error, Result, anyhow};
use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, api::ListParams};
use operetta_core::authz::{access_review::ServiceAccount, recorded_permissions::Need};
use operetta_kube::authz::required_permissions::Needed;
use serde::de::DeserializeOwned;

use crate::commands::roles::all;

/// A role that one binding grants to a ServiceAccount.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The role, by kind and name.
    pub role: String,
    /// The binding, by kind and name.
    pub binding: String,
    /// The namespace in which it holds; None for all.
    pub namespace: Option<String>,
    /// The rules.
    pub rules: Vec<PolicyRule>,
    /// True if Kubernetes itself grants it to everybody.
    pub is_default: bool,
}

/// The roles and bindings of a cluster.
struct Cluster {
    roles: Vec<Role>,
    cluster_roles: Vec<ClusterRole>,
    bindings: Vec<RoleBinding>,
    cluster_bindings: Vec<ClusterRoleBinding>,
}

/// Lists the roles of a ServiceAccount.
///
/// # Errors
/// Returns an error if roles or bindings cannot be listed; one of RBAC has the command that grants the permission.
pub async fn held(client: &Client, account: &ServiceAccount) -> Result<Vec<Held>> {
    let cluster = Cluster {
        roles: list(client, "roles").await?,
        cluster_roles: list(client, "clusterroles").await?,
        bindings: list(client, "rolebindings").await?,
        cluster_bindings: list(client, "clusterrolebindings").await?,
    };
    Ok(cluster.held(account))
}

async fn list<K>(client: &Client, resource: &str) -> Result<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let listed = Api::<K>::all(client.clone()).list(&ListParams::default()).await;
    listed.map(|list| list.items).map_err(|error| unlisted(resource, error))
}

fn unlisted(resource: &str, error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            let user = status.message.split("User \"").nth(1).and_then(|rest| rest.split('"').next());
            let user = user.unwrap_or("YOUR-USER");
            anyhow!(
                "failed to read the permissions of its ServiceAccount: you may not list {resource} in all namespaces: \
                 kubectl create clusterrole rbac-reader --verb=list \
                 --resource=roles,rolebindings,clusterroles,clusterrolebindings && \
                 kubectl create clusterrolebinding rbac-reader --clusterrole=rbac-reader --user={user}"
            )
        }
        error => anyhow!("failed to read the permissions of its ServiceAccount: list of {resource}: {error}"),
    }
}

impl Cluster {
    fn held(&self, account: &ServiceAccount) -> Vec<Held> {
        let mut held = Vec::new();
        for binding in &self.bindings {
            let RoleBinding { metadata, role_ref, subjects } = binding;
            let location = metadata.namespace.as_deref();
            if is_for(subjects.as_deref(), account, location) {
                held.extend(self.bound("RoleBinding", metadata, role_ref, location));
            }
        }
        for binding in &self.cluster_bindings {
            let ClusterRoleBinding { metadata, role_ref, subjects } = binding;
            if is_for(subjects.as_deref(), account, None) {
                held.extend(self.bound("ClusterRoleBinding", metadata, role_ref, None));
            }
        }
        held
    }

    /// Returns the permissions of a binding; None when the role does not exist.
    fn bound(&self, kind: &str, binding: &ObjectMeta, role: &RoleRef, location: Option<&str>) -> Option<Held> {
        let named = |metadata: &ObjectMeta| metadata.name.as_deref() == Some(&role.name);
        let (rules, role_place) = if role.kind == "Role" {
            let found = |one: &&Role| named(&one.metadata) && one.metadata.namespace.as_deref() == location;
            (&self.roles.iter().find(found)?.rules, location)
        } else {
            (&self.cluster_roles.iter().find(|one| named(&one.metadata))?.rules, None)
        };
        let full = |location: Option<&str>, name: &str| {
            location.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
        };
        let mut labels = binding.labels.iter().flatten();
        Some(Held {
            role: format!("{} {}", role.kind, full(role_place, &role.name)),
            binding: format!("{kind} {}", full(location, binding.name.as_deref().unwrap_or_default())),
            namespace: location.map(str::to_owned),
            rules: rules.clone().unwrap_or_default(),
            is_default: labels.any(|(key, value)| key == "kubernetes.io/bootstrapping" && value == "rbac-defaults"),
        })
    }
}

/// Reports whether a binding is for a ServiceAccount, as the API server's authorizer sees it.
fn is_for(subjects: Option<&[Subject]>, account: &ServiceAccount, location: Option<&str>) -> bool {
    subjects.unwrap_or_default().iter().any(|subject| match subject.kind.as_str() {
        "ServiceAccount" => {
            let namespace = subject.namespace.as_deref().filter(|namespace| !namespace.is_empty()).or(location);
            subject.name == account.name && namespace == Some(account.namespace.as_str())
        }
        "User" => subject.name == account.user(),
        "Group" => account.groups().contains(&subject.name),
        _ => false,
    })
}

impl Held {
    /// Reports whether it grants the permission, or a part of it.
    pub fn gives(&self, needed: &Needed) -> bool {
        let here = self.namespace.is_none() || self.namespace == needed.need.namespace;
        here && self.rules.iter().any(|rule| gives(rule, needed))
    }
}

/// Reports whether a rule grants the permission, or some of its names.
pub fn gives(rule: &PolicyRule, Needed { need, name, .. }: &Needed) -> bool {
    let Need { group, resource, path, verb, .. } = need;
    if !matches(&rule.verbs, |one| one == verb) {
        return false;
    }
    if !path.is_empty() {
        let below = |one: &str| one.strip_suffix('*').is_some_and(|start| path.starts_with(start));
        return matches(all(rule.non_resource_urls.as_ref()), |one| one == path || below(one));
    }
    let names = all(rule.resource_names.as_ref());
    let of_any = |one: &str| resource.split_once('/').is_some_and(|(_, sub)| one.strip_prefix("*/") == Some(sub));
    matches(all(rule.api_groups.as_ref()), |one| one == group)
        && matches(all(rule.resources.as_ref()), |one| one == resource || of_any(one))
        && (names.is_empty() || name.as_ref().is_none_or(|name| names.contains(name)))
}

fn matches(texts: &[String], mut is_it: impl FnMut(&str) -> bool) -> bool {
    texts.iter().any(|text| text == "*" || is_it(text))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("an object")
    }

    fn account() -> ServiceAccount {
        ServiceAccount { namespace: "team".to_owned(), name: "p".to_owned() }
    }

    fn rule(value: Value) -> PolicyRule {
        let mut whole = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        whole.as_object_mut().expect("a map").extend(value.as_object().expect("a map").clone());
        read(whole)
    }

    fn needed(verb: &str, group: &str, resource: &str, name: Option<&str>) -> Needed {
        let need = Need::resource(verb, group, resource, Some("team"));
        Needed { need, name: name.map(str::to_owned), ..Needed::default() }
    }

    #[test]
    fn binding_counts_for_account_user_and_groups() {
        for (subject, location, wanted) in [
            (json!({"kind": "ServiceAccount", "name": "p", "namespace": "team"}), Some("other"), true),
            (json!({"kind": "ServiceAccount", "name": "p"}), Some("team"), true),
            (json!({"kind": "ServiceAccount", "name": "p"}), Some("other"), false),
            (json!({"kind": "ServiceAccount", "name": "p"}), None, false),
            (json!({"kind": "ServiceAccount", "name": "q", "namespace": "team"}), None, false),
            (json!({"kind": "User", "name": "system:serviceaccount:team:p"}), None, true),
            (json!({"kind": "User", "name": "p"}), None, false),
            (json!({"kind": "Group", "name": "system:serviceaccounts:team"}), None, true),
            (json!({"kind": "Group", "name": "system:serviceaccounts:other"}), None, false),
            (json!({"kind": "Group", "name": "system:serviceaccounts"}), None, true),
            (json!({"kind": "Group", "name": "system:authenticated"}), None, true),
            (json!({"kind": "Group", "name": "system:masters"}), None, false),
        ] {
            let subjects = [read::<Subject>(subject.clone())];
            assert_eq!(is_for(Some(&subjects), &account(), location), wanted, "{subject} in {location:?}");
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
        let mut is_default = binding("c", "ClusterRole", "view");
        is_default["metadata"] = json!({"name": "c", "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}});
        let cluster = Cluster {
            roles: vec![
                read(json!({"metadata": {"name": "r", "namespace": "elsewhere"}, "rules": []})),
                read(json!({"metadata": {"name": "r", "namespace": "team"}, "rules": rules})),
            ],
            cluster_roles: vec![read(json!({"metadata": {"name": "view"}, "rules": rules}))],
            bindings: vec![
                read(binding("a", "Role", "r")),
                read(binding("b", "ClusterRole", "view")),
                read(binding("dangling", "Role", "gone")),
            ],
            cluster_bindings: vec![read(is_default)],
        };
        let held = cluster.held(&account());
        let shown: Vec<_> = held
            .iter()
            .map(|held| (held.role.as_str(), held.binding.as_str(), held.namespace.as_deref(), held.is_default))
            .collect();
        assert_eq!(
            shown,
            [
                ("Role team/r", "RoleBinding team/a", Some("team"), false),
                ("ClusterRole view", "RoleBinding team/b", Some("team"), false),
                ("ClusterRole view", "ClusterRoleBinding c", None, true),
            ]
        );
        assert!(held[0].gives(&needed("get", "", "pods", None)));
        let elsewhere = Need::resource("get", "", "pods", Some("other"));
        let elsewhere = Needed { need: elsewhere, ..Needed::default() };
        assert!(!held[1].gives(&elsewhere) && held[2].gives(&elsewhere));
    }

    #[test]
    fn rules_match_as_in_the_api_server() {
        let pods = needed("get", "", "pods", None);
        for (changed, wanted) in [
            (json!({}), true),
            (json!({"verbs": ["*"]}), true),
            (json!({"apiGroups": ["*"], "resources": ["*"]}), true),
            (json!({"verbs": ["list"]}), false),
            (json!({"apiGroups": ["apps"]}), false),
            (json!({"resources": ["pods/log"]}), false),
            (json!({"resources": ["*/log"]}), false),
        ] {
            assert_eq!(gives(&rule(changed.clone()), &pods), wanted, "{changed}");
        }
        let log = needed("get", "", "pods/log", None);
        for (resource, wanted) in
            [("pods/log", true), ("*/log", true), ("*", true), ("pods", false), ("*/status", false), ("pods/*", false)]
        {
            assert_eq!(gives(&rule(json!({"resources": [resource]})), &log), wanted, "{resource}");
        }
        let only_a = rule(json!({"resourceNames": ["a"]}));
        assert!(gives(&only_a, &needed("get", "", "pods", Some("a"))));
        assert!(!gives(&only_a, &needed("get", "", "pods", Some("b"))));
        for (url, wanted) in [("/apis/*", true), ("/*", true), ("*", true), ("/apis", false), ("/api/*", false)] {
            let rule = PolicyRule {
                non_resource_urls: Some(vec![url.to_owned()]),
                verbs: vec!["get".to_owned()],
                ..PolicyRule::default()
            };
            let needed = Needed { need: Need::path("/apis/apps/v1"), ..Needed::default() };
            assert_eq!(gives(&rule, &needed), wanted, "{url}");
        }
    }
}
