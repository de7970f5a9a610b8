//! Roles and bindings as YAML, with as few rules as possible.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;
use operetta_core::object::bounded_name::{MAX_OBJECT_NAME, bounded};
use operetta_kube::authz::rules::{all, ordered};

/// What a verb applies to: a resource or a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct About {
    /// The API group.
    pub group: String,
    /// The resource, or `resource/subresource`; empty for a non-resource path.
    pub resource: String,
    /// The non-resource path; empty for a resource.
    pub path: String,
    /// The name of one object; None for all.
    pub name: Option<String>,
}

impl About {
    /// All objects of a resource.
    pub fn resource(group: &str, resource: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            ..Self::default()
        }
    }
}

/// The rules of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(BTreeMap<About, BTreeSet<String>>);

type Set = BTreeSet<String>;

impl Rules {
    /// Adds a permission.
    pub fn allow(&mut self, about: About, verb: &str) {
        self.0.entry(about).or_default().insert(verb.to_owned());
    }

    /// Adds a rule's permissions. Reports whether any was missing.
    pub fn allow_rule(&mut self, rule: &PolicyRule) -> bool {
        let mut is_new = false;
        let names = match all(rule.resource_names.as_ref()) {
            [] => vec![None],
            names => names.iter().cloned().map(Some).collect(),
        };

        let mut abouts = Vec::new();
        for group in all(rule.api_groups.as_ref()) {
            for resource in all(rule.resources.as_ref()) {
                abouts.extend(names.iter().map(|name| About {
                    name: name.clone(),
                    ..About::resource(group, resource)
                }));
            }
        }

        let paths = all(rule.non_resource_urls.as_ref()).iter();
        abouts.extend(paths.map(|path| About {
            path: path.clone(),
            ..About::default()
        }));

        for about in abouts {
            for verb in &rule.verbs {
                is_new |= !self.allows(&about, verb);
                self.allow(about.clone(), verb);
            }
        }

        is_new
    }

    /// Reports whether the rules grant nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether the rules grant a permission, on all objects or on the named one.
    pub fn allows(&self, about: &About, verb: &str) -> bool {
        let gives = |about: &About| self.0.get(about).is_some_and(|verbs| verbs.contains(verb));

        gives(about)
            || gives(&About {
                name: None,
                ..about.clone()
            })
    }

    /// Formats the list of rules as YAML. Rules that differ in one field only are merged.
    pub fn yaml(&self) -> String {
        // A permission on all objects makes one on named objects redundant.
        let mut named: BTreeMap<(&str, &str, &str, Set), Set> = BTreeMap::new();
        for (about, verbs) in &self.0 {
            let all = About {
                name: None,
                ..about.clone()
            };

            let own = |verb: &&String| about.name.is_none() || !self.allows(&all, verb);
            let verbs: Set = verbs.iter().filter(own).cloned().collect();
            if !verbs.is_empty() {
                let names = named
                    .entry((
                        about.group.as_str(),
                        about.resource.as_str(),
                        about.path.as_str(),
                        verbs,
                    ))
                    .or_default();
                names.extend(about.name.clone());
            }
        }

        let mut of_group: BTreeMap<(&str, bool, Set, Set), Set> = BTreeMap::new();
        for ((group, resource, path, verbs), names) in named {
            let (is_path, what) = if path.is_empty() {
                (false, resource)
            } else {
                (true, path)
            };
            of_group
                .entry((group, is_path, verbs, names))
                .or_default()
                .insert(what.to_owned());
        }

        let mut merged: BTreeMap<(bool, Set, Set, Set), Set> = BTreeMap::new();
        for ((group, is_path, verbs, names), whats) in of_group {
            merged
                .entry((is_path, whats, verbs, names))
                .or_default()
                .insert(group.to_owned());
        }

        let mut rules: Vec<_> = merged.into_iter().collect();
        rules.sort_by(|((_, whats, ..), groups), ((_, other, ..), others)| {
            (groups, whats).cmp(&(others, other))
        });

        let rule = |((is_path, whats, verbs, names), groups): &((bool, Set, Set, Set), Set)| {
            let whats = list(whats);
            let verbs = ordered(verbs).map(plain).collect::<Vec<_>>().join(", ");

            if *is_path {
                return format!("  - nonResourceURLs: [{whats}]\n    verbs: [{verbs}]\n");
            }

            let only = if names.is_empty() {
                String::new()
            } else {
                format!("    resourceNames: [{}]\n", list(names))
            };

            format!(
                "  - apiGroups: [{}]\n    resources: [{whats}]\n{only}    verbs: [{verbs}]\n",
                list(groups)
            )
        };
        rules.iter().map(rule).collect()
    }
}

fn list(texts: &Set) -> String {
    texts
        .iter()
        .map(|text| plain(text))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Formats a text as a YAML scalar, quoted if it could be read as something else.
pub fn plain(text: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let fits = |c: char| c.is_ascii_alphanumeric() || "-./:*_".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');

    if begins
        && text.chars().all(fits)
        && !text.ends_with(':')
        && !WORDS.contains(&text.to_lowercase().as_str())
    {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

/// A Role or a ClusterRole, and its binding.
pub struct Role<'a> {
    /// The name of the role and of its binding.
    pub name: &'a str,
    /// The value of the label `app.kubernetes.io/managed-by`.
    pub managed_by: Option<&'a str>,
    /// True if the role holds in all namespaces.
    pub cluster: bool,
    /// The namespace; None for kubectl's.
    pub namespace: Option<&'a str>,
    /// The ServiceAccount that the role is bound to.
    pub account: &'a str,
    /// The ServiceAccount's namespace; None for the role's.
    pub account_namespace: Option<&'a str>,
    /// The rules.
    pub rules: &'a Rules,
}

impl Role<'_> {
    /// Returns the role and its binding as YAML documents.
    pub fn documents(&self) -> [String; 2] {
        let kind = if self.cluster { "ClusterRole" } else { "Role" };
        [
            format!("{}rules:\n{}", self.head(kind), self.rules.yaml()),
            self.binding_to(kind, self.name),
        ]
    }

    /// Returns a binding to this role or, with the same name and subject, to another one.
    pub fn binding_to(&self, kind: &str, role: &str) -> String {
        let binding = if self.cluster {
            "ClusterRoleBinding"
        } else {
            "RoleBinding"
        };
        format!(
            "{}roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {}\nsubjects:\n  \
             - kind: ServiceAccount\n    name: {}\n{}",
            self.head(binding),
            plain(role),
            plain(self.account),
            in_namespace("    ", self.account_namespace)
        )
    }

    /// The beginning of a document, with the metadata.
    fn head(&self, kind: &str) -> String {
        let label = |manager| {
            format!(
                "  labels:\n    app.kubernetes.io/managed-by: {}\n",
                plain(manager)
            )
        };
        let labels = self.managed_by.map(label).unwrap_or_default();
        let place = in_namespace("  ", self.namespace.filter(|_| !self.cluster));

        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {}\n{labels}{place}",
            plain(self.name)
        )
    }
}

fn in_namespace(indent: &str, namespace: Option<&str>) -> String {
    namespace
        .map(|namespace| format!("{indent}namespace: {}\n", plain(namespace)))
        .unwrap_or_default()
}

/// The name of a role outside its ServiceAccount's namespace. It contains that namespace, because
/// plugins of several namespaces may share a name.
pub fn name_elsewhere(home: &str, name: &str) -> String {
    bounded(format!("operetta:{home}:{name}"), MAX_OBJECT_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(rights: &[(&str, &str, Option<&str>, &str)]) -> String {
        let mut rules = Rules::default();
        for (group, resource, name, verbs) in rights {
            for verb in verbs.split(',') {
                rules.allow(
                    About {
                        name: name.map(str::to_owned),
                        ..About::resource(group, resource)
                    },
                    verb,
                );
            }
        }

        rules.yaml()
    }

    #[test]
    fn merges_rules_with_the_same_verbs() {
        let yaml = rules(&[
            ("", "events", None, "create,patch"),
            ("events.k8s.io", "events", None, "patch,create"),
            ("apps", "statefulsets", None, "list,watch,get"),
            ("apps", "deployments", None, "get,list,watch"),
            ("", "secrets", None, "get"),
        ]);

        assert_eq!(
            yaml,
            "  - apiGroups: [\"\"]\n    resources: [secrets]\n    verbs: [get]\n  \
             - apiGroups: [\"\", events.k8s.io]\n    resources: [events]\n    verbs: [create, patch]\n  \
             - apiGroups: [apps]\n    resources: [deployments, statefulsets]\n    verbs: [get, list, watch]\n"
        );
    }

    #[test]
    fn names_are_kept_where_nothing_gives_the_verb_for_all() {
        let yaml = rules(&[
            ("", "secrets", Some("b"), "get,update"),
            ("", "secrets", Some("a"), "get,update"),
            ("", "secrets", None, "get"),
        ]);

        assert_eq!(
            yaml,
            "  - apiGroups: [\"\"]\n    resources: [secrets]\n    verbs: [get]\n  \
             - apiGroups: [\"\"]\n    resources: [secrets]\n    resourceNames: [a, b]\n    verbs: [update]\n"
        );

        let both = rules(&[
            ("", "secrets", Some("a"), "get"),
            ("", "secrets", None, "list"),
        ]);
        assert_eq!(both.matches("resourceNames").count(), 1, "{both}");
    }

    #[test]
    fn non_resource_path_is_its_own_rule() {
        let mut rules = Rules::default();
        for path in ["/apis/*", "/apis"] {
            rules.allow(
                About {
                    path: path.to_owned(),
                    ..About::default()
                },
                "get",
            );
        }

        assert_eq!(
            rules.yaml(),
            "  - nonResourceURLs: [/apis, /apis/*]\n    verbs: [get]\n"
        );
    }

    #[test]
    fn texts_that_yaml_takes_for_something_else_are_quoted() {
        for text in [
            "", "123", "1e3", "true", "No", "null", "a: b", "a,b", "[a]", "*", "~", "-a", "a:",
            "0x1",
        ] {
            let quoted = plain(text);
            assert!(quoted.starts_with('"'), "{quoted}");
            assert_eq!(
                serde_yaml_ng::from_str::<Vec<String>>(&format!("[{quoted}]")).expect("YAML"),
                [text]
            );
        }
        for text in [
            "pods/status",
            "operetta:a:b",
            "/apis/*",
            "events.k8s.io",
            "a-b",
        ] {
            assert_eq!(plain(text), text);
            assert_eq!(
                serde_yaml_ng::from_str::<Vec<String>>(&format!("[{text}]")).expect("YAML"),
                [text]
            );
        }
    }
}
