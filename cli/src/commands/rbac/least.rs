//! The minimal roles for what a plugin needs: one for each namespace, and one for all namespaces.

use std::collections::{BTreeMap, BTreeSet};

use operetta_core::authz::{access_review::ServiceAccount, recorded_permissions::Need};
use operetta_kube::authz::{granted_roles::GrantedRole, required_permissions::Needed};

use crate::commands::roles::{About, Role, Rules, name_elsewhere};

/// The rules by namespace; None for all namespaces.
pub type Least = BTreeMap<Option<String>, Rules>;

/// Adds the namespaces that have no objects yet to permissions that are granted in some namespaces
/// only.
pub fn with_all_parts(mut needs: Vec<Needed>, held: &[GrantedRole]) -> Vec<Needed> {
    let parts: BTreeSet<Need> = needs
        .iter()
        .filter(|needed| needed.partial)
        .map(|needed| needed.need.within(None))
        .collect();

    let namespaces_used: BTreeSet<&str> = held
        .iter()
        .filter_map(|held| held.namespace.as_deref())
        .collect();

    for part in parts {
        for location in &namespaces_used {
            let need = part.within(Some(location));
            let needed = Needed {
                need,
                name: None,
                allowed: true,
                partial: true,
            };

            if held.iter().any(|held| held.gives(&needed)) && !needs.contains(&needed) {
                needs.push(needed);
            }
        }
    }

    needs
}

/// Computes the minimal rules. They leave out what Kubernetes grants to everybody, and what a
/// namespace needs if it is needed everywhere. With `all_namespaces`, permissions that are needed
/// in some namespaces are granted in all.
pub fn least(needs: &[Needed], held: &[GrantedRole], all_namespaces: bool) -> Least {
    let is_default = |needed: &Needed| {
        held.iter()
            .any(|held| held.is_default && held.gives(needed))
    };

    let mut rules = Least::new();
    let mut everywhere = Rules::default();

    let own = || needs.iter().filter(|needed| !is_default(needed));

    for needed in own().filter(|needed| all_namespaces || needed.need.namespace.is_none()) {
        everywhere.allow(about(needed), &needed.need.verb);
    }

    for needed in own() {
        let about = about(needed);
        let verb = &needed.need.verb;

        if needed.need.namespace.is_some() && !everywhere.allows(&about, verb) {
            rules
                .entry(needed.need.namespace.clone())
                .or_default()
                .allow(about, verb);
        }
    }

    if !everywhere.is_empty() {
        rules.insert(None, everywhere);
    }

    rules
}

/// Adds the allowed names to the missing ones, so that the role grants both.
fn about(Needed { need, name, .. }: &Needed) -> About {
    About {
        group: need.group.clone(),
        resource: need.resource.clone(),
        path: need.path.clone(),
        name: name.clone(),
    }
}

/// Adds the rules of the current roles that the printed ones replace. Reports whether that added a
/// permission.
pub fn keep_current(
    least: &mut Least,
    held: &[GrantedRole],
    account: &ServiceAccount,
    name: &str,
) -> bool {
    let mut is_new = false;
    for (location, rules) in least {
        let replaced = match location {
            None => format!("ClusterRole {}", name_elsewhere(&account.namespace, name)),
            Some(namespace) if *namespace == account.namespace => {
                format!("Role {namespace}/{name}")
            }
            Some(namespace) => format!(
                "Role {namespace}/{}",
                name_elsewhere(&account.namespace, name)
            ),
        };

        for rule in held
            .iter()
            .filter(|held| held.role == replaced)
            .flat_map(|held| &held.rules)
        {
            is_new |= rules.allow_rule(rule);
        }
    }

    is_new
}

/// Formats the roles with their bindings as YAML documents.
pub fn documents(least: &Least, account: &ServiceAccount, name: &str) -> Vec<String> {
    let elsewhere = name_elsewhere(&account.namespace, name);

    let role = |(location, rules): (&Option<String>, &Rules)| {
        let at_home = location.as_ref() == Some(&account.namespace);
        let role = Role {
            name: if at_home { name } else { &elsewhere },
            managed_by: None,
            cluster: location.is_none(),
            namespace: location.as_deref(),
            account: &account.name,
            account_namespace: Some(&account.namespace),
            rules,
        };

        role.documents()
    };

    least.iter().flat_map(role).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn needed(verb: &str, resource: &str, namespace: Option<&str>) -> Needed {
        Needed {
            need: Need::resource(verb, "", resource, namespace),
            allowed: true,
            ..Needed::default()
        }
    }

    fn held(namespace: Option<&str>, verbs: &[&str], is_default: bool) -> GrantedRole {
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]);
        GrantedRole {
            role: String::new(),
            binding: String::new(),
            namespace: namespace.map(str::to_owned),
            rules: serde_json::from_value(rules).expect("rules"),
            is_default,
        }
    }

    fn kinds(least: &Least) -> Vec<String> {
        let account = ServiceAccount {
            namespace: "home".to_owned(),
            name: "sa".to_owned(),
        };

        let object =
            |text: &String| serde_yaml_ng::from_str::<serde_json::Value>(text).expect("YAML");

        let documents = documents(least, &account, "p");
        let objects = documents.iter().map(object);

        let shown = |object: serde_json::Value| {
            let at = object["metadata"]["namespace"].as_str().unwrap_or("*");
            format!(
                "{} {at} {}",
                object["kind"].as_str().unwrap_or_default(),
                object["metadata"]["name"]
            )
        };

        objects.map(shown).collect()
    }

    #[test]
    fn namespaced_needs_are_roles_others_a_cluster_role() {
        let needs = [
            needed("list", "pods", None),
            needed("list", "pods", Some("home")),
            needed("get", "pods", Some("home")),
            needed("get", "pods", Some("other")),
        ];

        let found = least(&needs, &[], false);
        assert_eq!(
            kinds(&found),
            [
                "ClusterRole * \"operetta:home:p\"",
                "ClusterRoleBinding * \"operetta:home:p\"",
                "Role home \"p\"",
                "RoleBinding home \"p\"",
                "Role other \"operetta:home:p\"",
                "RoleBinding other \"operetta:home:p\"",
            ]
        );

        assert!(
            !found[&Some("home".to_owned())].yaml().contains("list"),
            "it is had everywhere"
        );

        let all = least(&needs, &[], true);
        assert_eq!(kinds(&all).len(), 2);
        assert!(
            all[&None].yaml().contains("verbs: [get, list]"),
            "{}",
            all[&None].yaml()
        );
    }

    #[test]
    fn rules_of_replaced_roles_are_kept() {
        let account = ServiceAccount {
            namespace: "home".to_owned(),
            name: "sa".to_owned(),
        };
        let current = |role: &str, namespace: Option<&str>, verbs: &[&str]| {
            let role = role.to_owned();
            GrantedRole {
                role,
                ..held(namespace, verbs, false)
            }
        };

        let used = [
            needed("get", "pods", Some("home")),
            needed("get", "pods", Some("other")),
        ];

        let kept = |has: &[GrantedRole]| {
            let mut rules = least(&used, has, false);
            let is_new = keep_current(&mut rules, has, &account, "p");
            let home = rules[&Some("home".to_owned())].yaml();
            (
                is_new,
                home.contains("delete"),
                rules[&Some("other".to_owned())].yaml().contains("delete"),
            )
        };

        assert_eq!(
            kept(&[current("Role home/p", Some("home"), &["get", "delete"])]),
            (true, true, false)
        );
        assert_eq!(
            kept(&[current(
                "Role other/operetta:home:p",
                Some("other"),
                &["delete"]
            )]),
            (true, false, true)
        );
        assert_eq!(
            kept(&[current("Role home/p", Some("home"), &["get"])]),
            (false, false, false)
        );

        let unreplaced = current("Role home/mine", Some("home"), &["delete"]);
        assert_eq!(kept(&[unreplaced]), (false, false, false), "it stays bound");
    }

    #[test]
    fn what_everybody_has_is_in_no_role() {
        let needs = [needed("get", "pods", Some("home"))];
        assert!(least(&needs, &[held(None, &["get"], true)], false).is_empty());
        assert!(!least(&needs, &[held(None, &["get"], false)], false).is_empty());
        assert!(!least(&needs, &[held(None, &["list"], true)], false).is_empty());
    }

    #[test]
    fn partial_watch_needs_listed_namespaces() {
        let part = |verb: &str, namespace: &str| Needed {
            partial: true,
            ..needed(verb, "pods", Some(namespace))
        };

        let needs = vec![
            part("list", "a"),
            part("watch", "a"),
            needed("get", "pods", Some("a")),
        ];

        let has = [
            held(Some("a"), &["get", "list", "watch"], false),
            held(Some("empty"), &["get", "list", "watch"], false),
            held(Some("get-only"), &["get"], false),
        ];

        let found = least(&with_all_parts(needs, &has), &has, false);
        let namespaces_used: Vec<_> = found.keys().flatten().map(String::as_str).collect();
        assert_eq!(namespaces_used, ["a", "empty"]);
        assert!(
            found[&Some("empty".to_owned())]
                .yaml()
                .contains("verbs: [list, watch]")
        );
    }
}
