//! Compares the permissions a plugin needs with those of its ServiceAccount, one line per
//! difference.
//!
//! Permissions granted to everybody by Kubernetes are not a difference. A rule with a wildcard
//! always is.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::authz::{
    granted_roles::GrantedRole,
    required_permissions::Needed,
    rules::{all, gives, ordered},
};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A permission the plugin needs and lacks.
    Lacks(String),
    /// A permission used not at all, or not in full.
    Unused(String),
}

/// Formats a difference as one line, such as `lacks: get pods in namespace "n"`.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacks(what) => write!(f, "lacks: {}", one_line(what)),
            Self::Unused(what) => write!(f, "unused: {}", one_line(what)),
        }
    }
}

/// Replaces characters that end a line in YAML. Names of Roles and texts of their rules may contain
/// any.
pub fn one_line(text: &str) -> String {
    let ends = |c: char| c.is_control() || ['\u{2028}', '\u{2029}'].contains(&c);
    text.chars()
        .map(|c| if ends(c) { '\u{fffd}' } else { c })
        .collect()
}

/// The permissions needed but missing.
pub fn lacks(needs: &[Needed]) -> Vec<Difference> {
    let mut verbs: BTreeMap<(Option<&str>, String), BTreeSet<String>> = BTreeMap::new();
    for Needed { need, name, .. } in needs.iter().filter(|needed| !needed.allowed) {
        let target = if need.path.is_empty() {
            about(&need.group, &need.resource, name.as_slice())
        } else {
            need.path.clone()
        };
        verbs
            .entry((need.namespace.as_deref(), target))
            .or_default()
            .insert(need.verb.clone());
    }

    let lines = verbs
        .iter()
        .map(|((namespace, target), verbs)| Difference::Lacks(right(verbs, target, *namespace)));
    lines.collect()
}

/// The permissions granted but unused.
pub fn unused(needs: &[Needed], granted: &[GrantedRole]) -> Vec<Difference> {
    let mut lines = Vec::new();
    for role in granted.iter().filter(|role| !role.is_default) {
        let own: Vec<&Needed> = needs
            .iter()
            .filter(|needed| role.namespace.is_none() || role.namespace == needed.need.namespace)
            .collect();

        // A binding in a namespace does not grant non-resource paths.
        let parts = role
            .rules
            .iter()
            .flat_map(parts)
            .filter(|part| role.namespace.is_none() || part.path.is_empty());

        for part in parts {
            for (used, verbs) in part.unused_verbs(&own, role) {
                let right = right(&verbs, &part.what(), role.namespace.as_deref());
                let line = format!("{right}{used} ({}, {})", role.role, role.binding);
                let line = Difference::Unused(line);
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
    }

    lines
}

/// A rule's part about one resource of one group, or about one path.
struct Part<'a> {
    rule: &'a PolicyRule,
    group: &'a str,
    resource: &'a str,
    path: &'a str,
}

fn parts(rule: &PolicyRule) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for group in all(rule.api_groups.as_ref()) {
        parts.extend(all(rule.resources.as_ref()).iter().map(|resource| Part {
            rule,
            group,
            resource,
            path: "",
        }));
    }

    parts.extend(
        all(rule.non_resource_urls.as_ref())
            .iter()
            .map(|path| Part {
                rule,
                group: "",
                resource: "",
                path,
            }),
    );

    parts
}

impl Part<'_> {
    fn what(&self) -> String {
        let names = all(self.rule.resource_names.as_ref());
        if self.path.is_empty() {
            about(self.group, self.resource, names)
        } else {
            self.path.to_owned()
        }
    }

    /// The verbs used not at all, or not in full, each with the part that was used.
    fn unused_verbs(
        &self,
        needs: &[&Needed],
        role: &GrantedRole,
    ) -> BTreeMap<String, BTreeSet<String>> {
        let mut unused: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for verb in &self.rule.verbs {
            let alone = PolicyRule {
                verbs: vec![verb.clone()],
                ..self.alone()
            };
            let used: Vec<&&Needed> = needs
                .iter()
                .filter(|needed| gives(&alone, needed))
                .collect();
            let wildcard = self.path.is_empty()
                && [self.group, self.resource, verb.as_str()]
                    .iter()
                    .any(|text| text.contains('*'));
            let namespaces_used: BTreeSet<&str> = used
                .iter()
                .filter_map(|needed| needed.need.namespace.as_deref())
                .collect();
            let everywhere = used.iter().any(|needed| needed.need.namespace.is_none());

            let how = if used.is_empty() {
                String::new()
            } else if wildcard {
                ", which is more than it used".to_owned()
            } else if role.namespace.is_none() && !everywhere {
                format!(
                    ", used in {} only",
                    namespaces_used.into_iter().collect::<Vec<_>>().join(", ")
                )
            } else {
                continue;
            };

            unused.entry(how).or_default().insert(verb.clone());
        }

        unused
    }

    fn alone(&self) -> PolicyRule {
        if !self.path.is_empty() {
            return PolicyRule {
                non_resource_urls: Some(vec![self.path.to_owned()]),
                ..PolicyRule::default()
            };
        }

        PolicyRule {
            api_groups: Some(vec![self.group.to_owned()]),
            resources: Some(vec![self.resource.to_owned()]),
            resource_names: self.rule.resource_names.clone(),
            ..PolicyRule::default()
        }
    }
}

fn right(verbs: &BTreeSet<String>, target: &str, namespace: Option<&str>) -> String {
    let verbs = ordered(verbs).collect::<Vec<_>>().join(",");
    let location = namespace.map_or_else(
        || "everywhere".to_owned(),
        |namespace| format!("in namespace {namespace:?}"),
    );
    format!("{verbs} {target} {location}")
}

/// Formats a resource like kubectl: `deployments.apps/scale`.
fn about(group: &str, resource: &str, names: &[String]) -> String {
    let (plural, rest) = resource
        .split_once('/')
        .map_or((resource, String::new()), |(plural, sub)| {
            (plural, format!("/{sub}"))
        });
    let dot = if group.is_empty() { "" } else { "." };
    let names = if names.is_empty() {
        String::new()
    } else {
        format!(" named {}", names.join(", "))
    };

    format!("{plural}{dot}{group}{rest}{names}")
}

#[cfg(test)]
mod tests {
    use operetta_core::authz::recorded_permissions::Need;
    use serde_json::{Value, json};

    use super::*;

    fn needed(
        verb: &str,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
        allowed: bool,
    ) -> Needed {
        Needed {
            need: Need::resource(verb, group, resource, namespace),
            allowed,
            ..Needed::default()
        }
    }

    fn held(namespace: Option<&str>, rules: Value) -> GrantedRole {
        GrantedRole {
            role: "Role r".to_owned(),
            binding: "RoleBinding b".to_owned(),
            namespace: namespace.map(str::to_owned),
            rules: serde_json::from_value(rules).expect("rules"),
            is_default: false,
        }
    }

    fn shown(differences: Vec<Difference>) -> Vec<String> {
        differences
            .iter()
            .map(|difference| {
                difference
                    .to_string()
                    .replace(" (Role r, RoleBinding b)", "")
            })
            .collect()
    }

    #[test]
    fn what_is_missing_is_named_by_resource_and_place() {
        let needs = [
            needed("patch", "", "events", Some("n"), false),
            needed("create", "", "events", Some("n"), false),
            needed("get", "", "events", Some("n"), true),
            needed("update", "apps", "deployments/scale", None, false),
            Needed {
                name: Some("a".to_owned()),
                ..needed("get", "", "secrets", Some("n"), false)
            },
            Needed {
                need: Need::path("/apis/x"),
                ..Needed::default()
            },
        ];
        assert_eq!(
            shown(lacks(&needs)),
            [
                "lacks: get /apis/* everywhere",
                "lacks: update deployments.apps/scale everywhere",
                "lacks: create,patch events in namespace \"n\"",
                "lacks: get secrets named a in namespace \"n\"",
            ]
        );
    }

    #[test]
    fn what_was_not_used_is_named_with_who_gives_it() {
        let needs = [
            needed("get", "", "pods", Some("n"), true),
            needed("list", "", "pods", Some("n"), true),
        ];
        let rules = json!([{"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["get", "list", "delete", "create"]}]);
        let lines = unused(&needs, &[held(Some("n"), rules.clone())]);
        assert_eq!(
            lines[0].to_string(),
            "unused: create,delete pods in namespace \"n\" (Role r, RoleBinding b)"
        );
        assert_eq!(
            shown(lines)[1..],
            ["unused: get,list,create,delete pods.apps in namespace \"n\""]
        );
        let is_default = GrantedRole {
            is_default: true,
            ..held(Some("n"), rules)
        };
        assert_eq!(unused(&needs, &[is_default]), []);
    }

    #[test]
    fn a_wildcard_is_more_than_anything_used() {
        let needs = [needed("get", "", "pods", Some("n"), true)];
        let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
        assert_eq!(
            shown(unused(&needs, &[held(None, all)])),
            [
                "unused: * *.* everywhere, which is more than it used",
                "unused: * * everywhere"
            ]
        );
        let verbs = json!([{"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["*"]},
                           {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
        assert_eq!(
            shown(unused(&needs, &[held(Some("n"), verbs)])),
            [
                "unused: * pods in namespace \"n\", which is more than it used",
                "unused: * secrets in namespace \"n\""
            ]
        );
    }

    #[test]
    fn unused_namespaces_of_a_permission_are_named() {
        let needs = [
            needed("get", "", "pods", Some("b"), true),
            needed("get", "", "pods", Some("a"), true),
            needed("list", "", "pods", None, true),
        ];
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]);
        assert_eq!(
            shown(unused(&needs, &[held(None, rules)])),
            ["unused: get pods everywhere, used in a, b only"]
        );
    }

    #[test]
    fn a_rule_for_names_is_used_by_calls_about_them() {
        let get = |name: &str| Needed {
            name: Some(name.to_owned()),
            ..needed("get", "", "secrets", Some("n"), true)
        };
        let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get", "update"]}]);
        assert_eq!(
            shown(unused(&[get("a")], &[held(Some("n"), rules.clone())])),
            ["unused: update secrets named a, b in namespace \"n\""]
        );
        assert_eq!(
            shown(unused(&[get("c")], &[held(Some("n"), rules)])),
            ["unused: get,update secrets named a, b in namespace \"n\""]
        );
    }

    #[test]
    fn no_name_ends_the_comment_that_it_stands_in() {
        let rules = json!([{"apiGroups": [""], "resources": ["pods\nkind: ClusterRole\u{2028}x"], "verbs": ["get"]}]);
        let lines = unused(&[], &[held(None, rules)]);
        assert_eq!(lines.len(), 1);
        assert!(
            !lines[0].to_string().contains(['\n', '\u{2028}']),
            "{}",
            lines[0]
        );
    }
}
