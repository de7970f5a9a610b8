//! Validation of what policies and bindings match, and of what bindings do.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    apimachinery::{
        field::{ErrorList, FieldError, Shown},
        names,
        selector::objects as label_selector,
    },
    authz::objects::{text, texts},
};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

/// Sets the defaults of `MatchResources`.
pub(super) fn default(resources: &mut Value) {
    let Some(fields) = resources.as_object_mut() else {
        return;
    };

    fields
        .entry("matchPolicy")
        .or_insert_with(|| json!("Equivalent"));
    fields
        .entry("namespaceSelector")
        .or_insert_with(|| json!({}));
    fields.entry("objectSelector").or_insert_with(|| json!({}));

    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in fields
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(rule) = rule.as_object_mut() {
                rule.entry("scope").or_insert_with(|| json!("*"));
            }
        }
    }
}

/// Checks `MatchResources`.
pub(super) fn match_resources(at: &str, resources: &Value, causes: &mut Vec<FieldError>) {
    match text(resources, &["matchPolicy"]) {
        "Exact" | "Equivalent" => {}
        other => {
            let field = format!("{at}.matchPolicy");
            causes.push(FieldError::not_supported(
                field,
                json!(other),
                &["Equivalent", "Exact"],
            ));
        }
    }

    for selector in ["namespaceSelector", "objectSelector"] {
        let path = format!("{at}.{selector}");
        let mut errors = ErrorList::default();
        label_selector::validate(&resources[selector], &path, &mut errors);
        causes.extend(errors.into_list());
    }

    for list in ["resourceRules", "excludeResourceRules"] {
        let rules = resources[list]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        for (index, rule) in rules.iter().enumerate() {
            named_rule(&format!("{at}.{list}[{index}]"), rule, causes);
        }
    }
}

fn named_rule(at: &str, rule: &Value, causes: &mut Vec<FieldError>) {
    let mut known = BTreeSet::new();
    for (index, name) in texts(&rule["resourceNames"]).enumerate() {
        let field = format!("{at}.resourceNames[{index}]");
        for error in names::path_segment_name(name) {
            causes.push(FieldError::invalid(field.clone(), json!(name), &error));
        }
        if !known.insert(name) {
            causes.push(FieldError::duplicate(field, json!(name)));
        }
    }

    operations(&format!("{at}.operations"), &rule["operations"], causes);
    wildcard(
        &format!("{at}.apiGroups"),
        &rule["apiGroups"],
        "API groups",
        causes,
    );

    wildcard(
        &format!("{at}.apiVersions"),
        &rule["apiVersions"],
        "API versions",
        causes,
    );

    for (index, version) in texts(&rule["apiVersions"]).enumerate() {
        if version.is_empty() {
            causes.push(FieldError::required(
                format!("{at}.apiVersions[{index}]"),
                "",
            ));
        }
    }

    rule_resources(&format!("{at}.resources"), &rule["resources"], causes);
    if let Some(scope) = rule["scope"]
        .as_str()
        .filter(|scope| !SCOPES.contains(scope))
    {
        causes.push(FieldError::not_supported(
            format!("{at}.scope"),
            json!(scope),
            &SCOPES,
        ));
    }
}

/// Checks a list that must not be empty, nor contain anything beside `*`.
fn wildcard(at: &str, list: &Value, what: &str, causes: &mut Vec<FieldError>) {
    let items: Vec<&str> = texts(list).collect();
    if items.is_empty() {
        causes.push(FieldError::required(at, ""));
    }

    if items.len() > 1 && items.contains(&"*") {
        causes.push(FieldError::invalid(
            at,
            Shown::value(list),
            format!("if '*' is present, must not specify other {what}"),
        ));
    }
}

fn operations(at: &str, list: &Value, causes: &mut Vec<FieldError>) {
    wildcard(at, list, "operations", causes);
    for (index, operation) in texts(list).enumerate() {
        if !OPERATIONS.contains(&operation) {
            causes.push(FieldError::not_supported(
                format!("{at}[{index}]"),
                json!(operation),
                &OPERATIONS,
            ));
        }
    }
}

fn rule_resources(at: &str, list: &Value, causes: &mut Vec<FieldError>) {
    let resources: Vec<&str> = texts(list).collect();
    if resources.is_empty() {
        causes.push(FieldError::required(at, ""));
    }

    let mut with_all_subresources = BTreeSet::new();
    let mut of_all_resources = BTreeSet::new();
    let mut has_plain = false;

    for (index, pattern) in resources.iter().enumerate() {
        let field = format!("{at}[{index}]");
        if pattern.is_empty() {
            causes.push(FieldError::required(field, ""));
            continue;
        }
        let Some((resource, subresource)) = pattern.split_once('/') else {
            has_plain = *pattern != "*";
            continue;
        };

        if with_all_subresources.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {pattern}");
            causes.push(FieldError::invalid(field.clone(), json!(pattern), &detail));
        }

        if of_all_resources.contains(subresource) {
            let detail = format!("if '*/{subresource}' is present, must not specify {pattern}");
            causes.push(FieldError::invalid(field, json!(pattern), &detail));
        }

        if subresource == "*" {
            with_all_subresources.insert(resource);
        }
        if resource == "*" {
            of_all_resources.insert(subresource);
        }
    }

    if resources.len() > 1 && resources.contains(&"*/*") {
        causes.push(FieldError::invalid(
            at,
            Shown::value(list),
            "if '*/*' is present, must not specify other resources",
        ));
    }

    if resources.contains(&"*") && has_plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        causes.push(FieldError::invalid(at, Shown::value(list), detail));
    }
}

/// Checks the kind of parameters.
pub(super) fn param_kind(at: &str, kind: &Value, causes: &mut Vec<FieldError>) {
    let version_at = format!("{at}.apiVersion");
    let api_version = text(kind, &["apiVersion"]);
    match api_version.matches('/').count() {
        _ if api_version.is_empty() => causes.push(FieldError::required(version_at, "")),
        0 | 1 => {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let errors = if group.is_empty() {
                Vec::new()
            } else {
                names::dns1123_subdomain(group)
            };
            if !errors.is_empty() {
                causes.push(FieldError::invalid(
                    version_at.clone(),
                    json!(group),
                    errors.join(","),
                ));
            }

            let errors = names::dns1035_label(version);
            if version.is_empty() {
                causes.push(FieldError::invalid(
                    version_at,
                    json!(api_version),
                    "version must be specified",
                ));
            } else if !errors.is_empty() {
                causes.push(FieldError::invalid(
                    version_at,
                    json!(version),
                    errors.join(","),
                ));
            }
        }
        _ => {
            let detail = format!("unexpected GroupVersion string: {api_version}");
            causes.push(FieldError::invalid(version_at, json!(api_version), &detail));
        }
    }

    let name = text(kind, &["kind"]);
    let errors = names::dns1035_label(&name.to_lowercase());
    if name.is_empty() {
        causes.push(FieldError::required(format!("{at}.kind"), ""));
    } else if !errors.is_empty() {
        let detail = format!(
            "may have mixed case, but should otherwise match: {}",
            errors.join(",")
        );

        causes.push(FieldError::invalid(
            format!("{at}.kind"),
            json!(name),
            &detail,
        ));
    }
}

/// Checks what a binding does when a validation fails.
pub(super) fn actions(at: &str, list: &Value, causes: &mut Vec<FieldError>) {
    let mut known = BTreeSet::new();
    for (index, action) in texts(list).enumerate() {
        let field = format!("{at}[{index}]");
        if !ACTIONS.contains(&action) {
            causes.push(FieldError::not_supported(
                field.clone(),
                json!(action),
                &ACTIONS,
            ));
        }

        if !known.insert(action) {
            causes.push(FieldError::duplicate(field, json!(action)));
        }
    }

    if known.contains("Deny") && known.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the \
                      API response and headers serves no purpose)";
        causes.push(FieldError::invalid(at, Shown::value(list), detail));
    }

    if known.is_empty() {
        causes.push(FieldError::required(
            at,
            "at least one validation action is required",
        ));
    }
}
