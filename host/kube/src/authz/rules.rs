//! Rules of roles, read like the API server's authorizer reads them.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use operetta_core::authz::recorded_permissions::Need;

use crate::authz::required_permissions::Needed;

/// The usual order of verbs; others follow.
const ORDER: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

/// The values of a rule's field.
pub fn all(field: Option<&Vec<String>>) -> &[String] {
    field.map(Vec::as_slice).unwrap_or_default()
}

/// Sorts verbs in their usual order.
pub fn ordered(verbs: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    let mut verbs: Vec<&str> = verbs.iter().map(String::as_str).collect();
    verbs.sort_by_key(|verb| {
        (
            ORDER
                .iter()
                .position(|one| one == verb)
                .unwrap_or(ORDER.len()),
            *verb,
        )
    });

    verbs.into_iter()
}

/// Whether a rule grants the permission, or some of its names.
pub fn gives(rule: &PolicyRule, Needed { need, name, .. }: &Needed) -> bool {
    let Need {
        group,
        resource,
        path,
        verb,
        ..
    } = need;

    if !matches(&rule.verbs, |one| one == verb) {
        return false;
    }

    if !path.is_empty() {
        let below = |one: &str| {
            one.strip_suffix('*')
                .is_some_and(|start| path.starts_with(start))
        };
        return matches(all(rule.non_resource_urls.as_ref()), |one| {
            one == path || below(one)
        });
    }

    let names = all(rule.resource_names.as_ref());
    let of_any = |one: &str| {
        resource
            .split_once('/')
            .is_some_and(|(_, sub)| one.strip_prefix("*/") == Some(sub))
    };

    matches(all(rule.api_groups.as_ref()), |one| one == group)
        && matches(all(rule.resources.as_ref()), |one| {
            one == resource || of_any(one)
        })
        && (names.is_empty() || name.as_ref().is_none_or(|name| names.contains(name)))
}

fn matches(texts: &[String], mut is_it: impl FnMut(&str) -> bool) -> bool {
    texts.iter().any(|text| text == "*" || is_it(text))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rule(value: Value) -> PolicyRule {
        let mut whole = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        whole
            .as_object_mut()
            .expect("a map")
            .extend(value.as_object().expect("a map").clone());
        serde_json::from_value(whole).expect("a rule")
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
        for (resource, wanted) in [
            ("pods/log", true),
            ("*/log", true),
            ("*", true),
            ("pods", false),
            ("*/status", false),
            ("pods/*", false),
        ] {
            assert_eq!(
                gives(&rule(json!({"resources": [resource]})), &log),
                wanted,
                "{resource}"
            );
        }
        let only_a = rule(json!({"resourceNames": ["a"]}));
        assert!(gives(&only_a, &needed("get", "", "pods", Some("a"))));
        assert!(!gives(&only_a, &needed("get", "", "pods", Some("b"))));
        for (url, wanted) in [
            ("/apis/*", true),
            ("/*", true),
            ("*", true),
            ("/apis", false),
            ("/api/*", false),
        ] {
            let rule = PolicyRule {
                non_resource_urls: Some(vec![url.to_owned()]),
                verbs: vec!["get".to_owned()],
                ..PolicyRule::default()
            };
            let needed = Needed {
                need: Need::path("/apis/apps/v1"),
                ..Needed::default()
            };
            assert_eq!(gives(&rule, &needed), wanted, "{url}");
        }
    }
}
