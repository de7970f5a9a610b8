//! The rules of roles: what they allow, and whether some cover others.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{apimachinery::attributes::Attributes, authn::user::quote_list};

/// A rule of a Role or ClusterRole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// The verbs; `*` stands for all.
    #[serde(deserialize_with = "null_as_empty")]
    pub verbs: Vec<String>,
    /// The API groups; `*` stands for all.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_empty"
    )]
    pub api_groups: Vec<String>,
    /// The resources and subresources: `*`, `pods`, `pods/log` or `*/scale`.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_empty"
    )]
    pub resources: Vec<String>,
    /// The names of the objects; empty for all.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_empty"
    )]
    pub resource_names: Vec<String>,
    /// Paths outside of the API; a `*` at the end stands for all that begin so.
    #[serde(
        rename = "nonResourceURLs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

fn null_as_empty<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl PolicyRule {
    /// Returns the rules of a role; the rules that are malformed are left out.
    pub fn all_of(role: &Value) -> Vec<Self> {
        let rules = role["rules"].as_array().into_iter().flatten();
        rules
            .filter_map(|rule| Self::deserialize(rule).ok())
            .collect()
    }

    /// Reports whether the rule allows a request.
    pub fn allows(&self, attributes: &Attributes) -> bool {
        if !has_or_all(&self.verbs, &attributes.verb) {
            return false;
        }

        if !attributes.is_resource {
            return self
                .non_resource_urls
                .iter()
                .any(|url| url_covers(url, &attributes.path));
        }

        has_or_all(&self.api_groups, &attributes.group)
            && self.allows_resource(attributes)
            && (self.resource_names.is_empty() || has(&self.resource_names, &attributes.name))
    }

    fn allows_resource(&self, attributes: &Attributes) -> bool {
        let combined = attributes.combined_resource();
        self.resources.iter().any(|resource| {
            resource == "*"
                || *resource == combined
                || !attributes.subresource.is_empty()
                    && resource.strip_prefix("*/") == Some(attributes.subresource.as_str())
        })
    }

    /// Splits the rule into rules of one verb, one resource or path, and at most one name.
    fn break_down(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        let names: Vec<Vec<String>> = match self.resource_names.as_slice() {
            [] => vec![Vec::new()],
            names => names.iter().map(|name| vec![name.clone()]).collect(),
        };

        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    parts.extend(names.iter().map(|name| Self {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        resource_names: name.clone(),
                        non_resource_urls: Vec::new(),
                    }));
                }
            }
        }

        for url in &self.non_resource_urls {
            parts.extend(self.verbs.iter().map(|verb| Self {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![url.clone()],
                ..Self::default()
            }));
        }

        parts
    }

    /// Reports whether the rule covers a part that [`Self::break_down`] returned.
    fn covers(&self, part: &Self) -> bool {
        let covers_names = self.resource_names.is_empty()
            || !part.resource_names.is_empty()
                && has_each(&self.resource_names, &part.resource_names);
        (has(&self.verbs, "*") || has_each(&self.verbs, &part.verbs))
            && (has(&self.api_groups, "*") || has_each(&self.api_groups, &part.api_groups))
            && covers_resources(&self.resources, &part.resources)
            && covers_names
            && part.non_resource_urls.iter().all(|path| {
                self.non_resource_urls
                    .iter()
                    .any(|url| url_covers(url, path))
            })
    }

    /// Returns the group, resource and name of a rule for one resource and at most one name.
    fn simple_resource(&self) -> Option<(String, String, Option<String>)> {
        match (
            self.api_groups.as_slice(),
            self.resources.as_slice(),
            self.resource_names.as_slice(),
        ) {
            ([group], [resource], names)
                if names.len() <= 1 && self.non_resource_urls.is_empty() =>
            {
                Some((group.clone(), resource.clone(), names.first().cloned()))
            }
            _ => None,
        }
    }

    fn describe(&self) -> String {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let fields = fields.iter().filter(|(_, values)| !values.is_empty());
        let fields: Vec<String> = fields
            .map(|(name, values)| format!("{name}:{}", quote_list(values)))
            .collect();

        format!("{{{}}}", fields.join(", "))
    }
}

fn has(set: &[String], element: &str) -> bool {
    set.iter().any(|member| member == element)
}

fn has_or_all(set: &[String], element: &str) -> bool {
    set.iter().any(|member| member == "*" || member == element)
}

fn has_each(set: &[String], elements: &[String]) -> bool {
    elements.iter().all(|element| has(set, element))
}

fn covers_resources(owned: &[String], wanted: &[String]) -> bool {
    has(owned, "*")
        || wanted.iter().all(|resource| {
            let any_with_subresource = resource
                .split_once('/')
                .map(|(_, subresource)| format!("*/{subresource}"));
            has(owned, resource) || any_with_subresource.is_some_and(|pattern| has(owned, &pattern))
        })
}

fn url_covers(owned: &str, path: &str) -> bool {
    owned == path || owned.ends_with('*') && path.starts_with(owned.trim_end_matches('*'))
}

/// Returns descriptions of what `wanted` allows and `owned` does not, sorted; empty if `owned`
/// covers `wanted`.
pub fn missing(owned: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<String> {
    let parts = wanted.iter().flat_map(PolicyRule::break_down);
    let uncovered: Vec<PolicyRule> = parts
        .filter(|part| !owned.iter().any(|rule| rule.covers(part)))
        .collect();
    let descriptions: BTreeSet<String> = compact(uncovered)
        .iter()
        .map(PolicyRule::describe)
        .collect();

    descriptions.into_iter().collect()
}

/// Joins the rules that differ only in their verbs.
fn compact(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut compacted = Vec::new();
    let mut simple: BTreeMap<(String, String, Option<String>), PolicyRule> = BTreeMap::new();
    for rule in rules {
        match rule.simple_resource() {
            None => compacted.push(rule),
            Some(resource) => match simple.get_mut(&resource) {
                Some(known) => known.verbs.extend(rule.verbs),
                None => {
                    simple.insert(resource, rule);
                }
            },
        }
    }

    compacted.extend(simple.into_values());
    compacted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[&str], resources: &[&str], verbs: &[&str], names: &[&str]) -> PolicyRule {
        let owned = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        PolicyRule {
            verbs: owned(verbs),
            api_groups: owned(groups),
            resources: owned(resources),
            resource_names: owned(names),
            non_resource_urls: Vec::new(),
        }
    }

    #[test]
    fn missing_rights_are_compacted_and_sorted() {
        let owned = [rule(&[""], &["pods"], &["get"], &[])];
        let wanted = [rule(&[""], &["pods", "services"], &["get", "list"], &[])];
        assert_eq!(
            missing(&owned, &wanted),
            [
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["list"]}"#,
                r#"{APIGroups:[""], Resources:["services"], Verbs:["get" "list"]}"#
            ]
        );
    }

    #[test]
    fn rule_for_one_name_does_not_cover_all_names() {
        let owned = [rule(&[""], &["pods"], &["get"], &["a"])];
        assert!(missing(&owned, &[rule(&[""], &["pods"], &["get"], &["a"])]).is_empty());
        assert_eq!(
            missing(&owned, &[rule(&[""], &["pods"], &["get"], &[])]).len(),
            1
        );
    }

    #[test]
    fn wildcard_with_subresource_covers_only_that_subresource() {
        let owned = [rule(&["*"], &["*/scale"], &["*"], &[])];
        assert!(
            missing(
                &owned,
                &[rule(&["apps"], &["deployments/scale"], &["patch"], &[])]
            )
            .is_empty()
        );
        assert_eq!(
            missing(
                &owned,
                &[rule(&["apps"], &["deployments"], &["patch"], &[])]
            )
            .len(),
            1
        );
    }

    #[test]
    fn null_fields_of_a_rule_are_empty() {
        let role = serde_json::json!({"rules": [{"verbs": ["get"], "apiGroups": null, "nonResourceURLs": ["/x*"]}]});
        let rules = PolicyRule::all_of(&role);
        let attributes = Attributes {
            verb: "get".to_owned(),
            path: "/xyz".to_owned(),
            ..Attributes::default()
        };
        assert!(rules[0].allows(&attributes));
    }
}
