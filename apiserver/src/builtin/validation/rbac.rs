//! Validation of roles and their bindings.

use serde_json::Value;

use super::{
    super::{
        object::{at, has, items, text},
        shown::internal_object,
    },
    ErrorList, format, selector,
};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(kind: &str, object: &Value, errors: &mut ErrorList) {
    for (index, rule) in items(object, "rules").iter().enumerate() {
        rule_of(rule, kind == "Role", &format!("rules[{index}]"), errors);
    }
    if kind == "Role" || !has(object, "aggregationRule") {
        return;
    }

    let path = "aggregationRule.clusterRoleSelectors";
    let selectors = items(object, path);
    if selectors.is_empty() {
        errors.required(
            path,
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        );
    }

    for (index, value) in selectors.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let before = errors.len();
        selector::validate(value, &path, errors);
        if errors.len() > before {
            errors.invalid(&path, Value::Null, "invalid label selector.");
        }
    }
}

fn rule_of(rule: &Value, namespaced: bool, path: &str, errors: &mut ErrorList) {
    if items(rule, "verbs").is_empty() {
        errors.required(
            &format!("{path}.verbs"),
            "verbs must contain at least one value",
        );
    }

    let urls = items(rule, "nonResourceURLs");
    if !urls.is_empty() {
        let field = format!("{path}.nonResourceURLs");
        if namespaced {
            errors.invalid(
                &field,
                urls.to_vec(),
                "namespaced rules cannot apply to non-resource URLs",
            );
        }

        let others = ["apiGroups", "resources", "resourceNames"];
        if others.iter().any(|key| !items(rule, key).is_empty()) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&field, urls.to_vec(), detail);
        }

        return;
    }

    if items(rule, "apiGroups").is_empty() {
        errors.required(
            &format!("{path}.apiGroups"),
            "resource rules must supply at least one api group",
        );
    }

    if items(rule, "resources").is_empty() {
        errors.required(
            &format!("{path}.resources"),
            "resource rules must supply at least one resource",
        );
    }
}

pub(super) fn binding(kind: &str, object: &Value, errors: &mut ErrorList) {
    let role = at(object, "roleRef");
    if text(role, "apiGroup") != GROUP {
        errors.not_supported("roleRef.apiGroup", text(role, "apiGroup"), &[GROUP]);
    }

    let kinds: &[&str] = if kind == "RoleBinding" {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&text(role, "kind")) {
        errors.not_supported("roleRef.kind", text(role, "kind"), kinds);
    }

    let name = text(role, "name");
    if name.is_empty() {
        errors.required("roleRef.name", "");
    } else {
        errors.invalid_each("roleRef.name", name, &format::path_segment(name));
    }

    for (index, entry) in items(object, "subjects").iter().enumerate() {
        subject(
            entry,
            kind == "RoleBinding",
            &format!("subjects[{index}]"),
            errors,
        );
    }
}

fn subject(subject: &Value, namespaced: bool, path: &str, errors: &mut ErrorList) {
    let name = text(subject, "name");
    if name.is_empty() {
        errors.required(&format!("{path}.name"), "");
    }

    let group = text(subject, "apiGroup");
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.invalid_each(&format!("{path}.name"), name, &format::subdomain(name));
            }
            if !group.is_empty() {
                errors.not_supported(&format!("{path}.apiGroup"), group, &[""]);
            }
            if text(subject, "namespace").is_empty() && !namespaced {
                errors.required(&format!("{path}.namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(&format!("{path}.apiGroup"), group, &[GROUP]);
            }
        }
        kind => errors.not_supported(
            &format!("{path}.kind"),
            kind,
            &["ServiceAccount", "User", "Group"],
        ),
    }
}

/// Validates an update of a binding: its role is fixed.
pub(super) fn binding_update(kind: &str, old: &Value, new: &Value, errors: &mut ErrorList) {
    binding(kind, new, errors);
    if old["roleRef"] != new["roleRef"] {
        let value = internal_object(&new["roleRef"], &["apiGroup", "kind", "name"]);
        errors.invalid("roleRef", value, "cannot change roleRef");
    }
}
