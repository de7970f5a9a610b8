//! Aggregated ClusterRoles: roles whose rules are those of the roles that their selectors match.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    apimachinery::selector::objects::matches,
    authz::{
        objects::{Objects, text},
        rbac::GROUP,
    },
};

/// Returns the rules that an aggregated ClusterRole should have by its selectors, or None if it
/// aggregates nothing or has these rules already. A controller applies them as the field manager
/// `clusterrole-aggregation-controller`.
///
/// Rules are in the order of the selectors, then of the names of the roles; each occurs once.
pub fn aggregated_rules(role: &Value, objects: &dyn Objects) -> Option<Value> {
    let rule = role.get("aggregationRule").filter(|rule| !rule.is_null())?;
    let own_name = text(role, &["metadata", "name"]);
    let mut rules: Vec<Value> = Vec::new();
    let roles: Vec<Arc<Value>> = objects.list(GROUP, "clusterroles", "");

    for selector in rule["clusterRoleSelectors"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let matching = roles.iter().filter(|other| {
            text(other, &["metadata", "name"]) != own_name
                && matches(selector, &other["metadata"]["labels"])
        });
        for rule in matching.flat_map(|other| other["rules"].as_array().into_iter().flatten()) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }

    let current = role["rules"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    (rules != current).then(|| json!(rules))
}
