//! Validation of reviews of access.

use serde_json::{Value, json};

use crate::{
    apimachinery::{
        field::{FieldError, Shown},
        names,
    },
    authz::objects::{text, texts},
};

/// The kinds of reviews of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewKind {
    /// A review of any user's access.
    Subject,
    /// A review of any user's access in one namespace.
    Local,
    /// A review of the access of the user that asks.
    SelfSubject,
}

pub(super) fn validate(kind: ReviewKind, review: &Value) -> Vec<FieldError> {
    let spec = &review["spec"];
    let resource = &spec["resourceAttributes"];
    let path = &spec["nonResourceAttributes"];
    let mut causes = Vec::new();

    if !resource.is_null() && !path.is_null() {
        let detail = "cannot be specified in combination with resourceAttributes";
        causes.push(FieldError::invalid(
            "spec.nonResourceAttributes",
            internal_path(path),
            detail,
        ));
    }

    if resource.is_null() && path.is_null() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        causes.push(FieldError::invalid(
            "spec.resourceAttributes",
            Value::Null,
            detail,
        ));
    }

    let has_subject = !text(spec, &["user"]).is_empty() || texts(&spec["groups"]).next().is_some();
    if kind != ReviewKind::SelfSubject && !has_subject {
        causes.push(FieldError::invalid(
            "spec.user",
            json!(""),
            "at least one of user or group must be specified",
        ));
    }

    if !resource.is_null() {
        selector("fieldSelector", &resource["fieldSelector"], &mut causes);
        selector("labelSelector", &resource["labelSelector"], &mut causes);
    }

    metadata(kind, &review["metadata"], &mut causes);
    if kind == ReviewKind::Local {
        let namespace = text(resource, &["namespace"]);
        if !resource.is_null() && namespace != text(review, &["metadata", "namespace"]) {
            let field = "spec.resourceAttributes.namespace";
            causes.push(FieldError::invalid(
                field,
                json!(namespace),
                "must match metadata.namespace",
            ));
        }

        if !path.is_null() {
            let detail = "disallowed on this kind of request";
            causes.push(FieldError::invalid(
                "spec.nonResourceAttributes",
                internal_path(path),
                detail,
            ));
        }
    }

    causes
}

/// Returns non-resource attributes as the internal type of kube-apiserver shows them.
fn internal_path(path: &Value) -> Value {
    json!({"Path": text(path, &["path"]), "Verb": text(path, &["verb"])})
}

fn metadata(kind: ReviewKind, metadata: &Value, causes: &mut Vec<FieldError>) {
    let Some(fields) = metadata.as_object() else {
        return;
    };
    let is_local = kind == ReviewKind::Local;
    let counts = |(field, value): (&String, &Value)| {
        let is_allowed = field == "managedFields" || is_local && field == "namespace";
        !is_allowed
            && !matches!(value, Value::Null)
            && *value != json!("")
            && *value != json!({})
            && *value != json!([])
    };

    if fields.iter().any(counts) {
        let detail = if is_local {
            "must be empty except for namespace"
        } else {
            "must be empty"
        };

        let shown = METADATA
            .iter()
            .filter_map(|name| fields.get_key_value(*name))
            .filter(is_encoded);
        let shown: Vec<String> = shown
            .map(|(name, value)| format!("{}:{value}", json!(name)))
            .collect();

        causes.push(FieldError::invalid(
            "metadata",
            Shown::raw(format!("{{{}}}", shown.join(","))),
            detail,
        ));
    }
}

/// The fields of metadata in the order in which kube-apiserver encodes them.
const METADATA: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Reports whether a field of metadata is not empty.
fn is_encoded((_, value): &(&String, &Value)) -> bool {
    !value.is_null() && **value != json!("") && **value != json!({}) && **value != json!([])
}

fn selector(field: &str, selector: &Value, causes: &mut Vec<FieldError>) {
    if selector.is_null() {
        return;
    }

    let at = format!("spec.resourceAttributes.{field}");
    let raw = text(selector, &["rawSelector"]);
    let requirements = selector["requirements"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if !raw.is_empty() && !requirements.is_empty() {
        let detail = "may not specified at the same time as requirements";
        causes.push(FieldError::invalid(
            format!("{at}.rawSelector"),
            json!(raw),
            detail,
        ));
    }

    if raw.is_empty() && requirements.is_empty() {
        let detail = format!("when {at} is specified, requirements or rawSelector is required");
        causes.push(FieldError::required(format!("{at}.requirements"), &detail));
    }

    for (index, requirement) in requirements.iter().enumerate() {
        let at = format!("{at}.requirements[{index}]");
        if field == "labelSelector" {
            label_requirement(&at, requirement, causes);
        } else {
            if text(requirement, &["key"]).is_empty() {
                causes.push(FieldError::required(
                    format!("{at}.key"),
                    "must be specified",
                ));
            }
            values(&at, requirement, causes);
        }
    }
}

fn label_requirement(at: &str, requirement: &Value, causes: &mut Vec<FieldError>) {
    values(at, requirement, causes);
    let key = text(requirement, &["key"]);
    for error in names::qualified_name(key) {
        causes.push(FieldError::invalid(format!("{at}.key"), json!(key), &error));
    }

    for (index, value) in texts(&requirement["values"]).enumerate() {
        for error in names::label_value(value) {
            causes.push(FieldError::invalid(
                format!("{at}.values[{index}]"),
                json!(value),
                &error,
            ));
        }
    }
}

/// Checks the number of values. An unknown operator passes: the authorizer ignores the requirement.
fn values(at: &str, requirement: &Value, causes: &mut Vec<FieldError>) {
    let has_values = texts(&requirement["values"]).next().is_some();
    let at = format!("{at}.values");
    match text(requirement, &["operator"]) {
        "In" | "NotIn" if !has_values => {
            causes.push(FieldError::required(
                at,
                "must be specified when `operator` is 'In' or 'NotIn'",
            ));
        }
        "Exists" | "DoesNotExist" if has_values => {
            causes.push(FieldError::forbidden(
                at,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ));
        }
        _ => {}
    }
}
