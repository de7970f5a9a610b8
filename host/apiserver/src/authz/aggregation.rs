//! Aggregated ClusterRoles: roles whose rules are those of the roles that their selectors match.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::authz::{
    objects::{Objects, text},
    rbac::GROUP,
};

/// Returns the rules that an aggregated ClusterRole should have by its selectors, or None if it aggregates nothing or
/// has these rules already. A controller applies them as the field manager `clusterrole-aggregation-controller`.
///
/// Rules are in the order of the selectors, then of the names of the roles; each occurs once.
pub fn aggregated_rules(role: &Value, objects: &dyn Objects) -> Option<Value> {
    let rule = role.get("aggregationRule").filter(|rule| !rule.is_null())?;
    let own_name = text(role, &["metadata", "name"]);
    let mut rules: Vec<Value> = Vec::new();
    let roles: Vec<Arc<Value>> = objects.list(GROUP, "clusterroles", "");
    for selector in rule["clusterRoleSelectors"].as_array().into_iter().flatten() {
        let matching = roles.iter().filter(|other| {
            text(other, &["metadata", "name"]) != own_name && matches(selector, &other["metadata"]["labels"])
        });
        for rule in matching.flat_map(|other| other["rules"].as_array().into_iter().flatten()) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    let current = role["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    (rules != current).then(|| json!(rules))
}

/// Reports whether a `LabelSelector` matches labels. An empty selector matches everything, null nothing, and a selector
/// with an unknown operator nothing.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let by_labels = selector["matchLabels"].as_object().into_iter().flatten();
    let by_expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    by_labels.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && by_expressions.into_iter().all(|expression| matches_expression(expression, labels))
}

fn matches_expression(expression: &Value, labels: &Value) -> bool {
    let label = labels.get(text(expression, &["key"]));
    let is_in = |label: &Value| expression["values"].as_array().is_some_and(|values| values.contains(label));
    match text(expression, &["operator"]) {
        "In" => label.is_some_and(is_in),
        "NotIn" => !label.is_some_and(is_in),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_matches_as_kubernetes_does() {
        let labels = json!({"a": "1", "b": "2"});
        for (selector, expected) in [
            (json!({}), true),
            (Value::Null, false),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "3"]}]}), true),
            (json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), false),
            (json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]}), true),
            (json!({"matchExpressions": [{"key": "c", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}), true),
            (json!({"matchExpressions": [{"key": "a", "operator": "Foo"}]}), false),
        ] {
            assert_eq!(matches(&selector, &labels), expected, "{selector}");
        }
    }
}
