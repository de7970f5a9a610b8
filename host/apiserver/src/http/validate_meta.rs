//! The validation of metadata, in the API server's words.

use serde_json::{Map, Value};

use super::{
    field_error::{FieldError, quote},
    metadata, names,
    resource::{Flavor, Resource},
};

/// The limit of all annotations of an object, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 << 10;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Returns what is wrong with the metadata of an object.
#[must_use]
pub fn validate(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_names(resource, object, &mut errors);
    if metadata::integer(object, "generation").is_some_and(|generation| generation < 0) {
        let value = object["metadata"]["generation"].clone();
        errors.push(FieldError::invalid("metadata.generation", value, "must be greater than or equal to 0"));
    }
    check_keys(object, "labels", &mut errors);
    check_keys(object, "annotations", &mut errors);
    check_owners(object, &mut errors);
    check_finalizers(resource, object, &mut errors);
    errors
}

fn check_names(resource: &Resource, object: &Value, errors: &mut Vec<FieldError>) {
    let (prefix, name) = (metadata::text(object, "generateName"), metadata::text(object, "name"));
    if !prefix.is_empty() {
        let found = resource.strategy.validate_name(prefix, true);
        errors.extend(found.iter().map(|text| FieldError::invalid("metadata.generateName", prefix, text)));
    }
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let found = resource.strategy.validate_name(name, false);
        errors.extend(found.iter().map(|text| FieldError::invalid("metadata.name", name, text)));
    }
    let namespace = metadata::text(object, "namespace");
    if resource.namespaced {
        if namespace.is_empty() {
            errors.push(FieldError::required("metadata.namespace", ""));
        } else {
            let found = names::label_errors(namespace, false);
            errors.extend(found.iter().map(|text| FieldError::invalid("metadata.namespace", namespace, text)));
        }
    } else if !namespace.is_empty() {
        errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
    }
}

/// Checks labels or annotations.
fn check_keys(object: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let empty = Map::new();
    let members = object["metadata"][field].as_object().unwrap_or(&empty);
    let path = format!("metadata.{field}");
    for (key, value) in members {
        let lower = key.to_lowercase();
        let checked = if field == "annotations" { &lower } else { key };
        let found = names::qualified_name_errors(checked, "a valid label key");
        errors.extend(found.iter().map(|text| FieldError::invalid(&path, key.as_str(), text)));
        if field == "labels" {
            let value = value.as_str().unwrap_or_default();
            let found = names::label_value_errors(value);
            errors.extend(found.iter().map(|text| FieldError::invalid(&path, value, text)));
        }
    }
    let size: usize = members.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if field == "annotations" && size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(path, ANNOTATIONS_LIMIT));
    }
}

fn check_owners(object: &Value, errors: &mut Vec<FieldError>) {
    let path = "metadata.ownerReferences";
    let empty = Vec::new();
    let owners = object["metadata"]["ownerReferences"].as_array().unwrap_or(&empty);
    let mut controller: Option<&Value> = None;
    for owner in owners {
        check_owner(owner, path, errors);
        if owner["controller"] != Value::Bool(true) {
            continue;
        }
        if let Some(first) = controller {
            let name = |owner: &Value| {
                format!("{}/{}", owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default())
            };
            let detail = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                name(first),
                name(owner)
            );
            let shown: Vec<String> = owners.iter().map(show_owner).collect();
            errors.push(FieldError::invalid_shown(path, &format!("[{}]", shown.join(",")), &detail));
        }
        controller = controller.or(Some(owner));
    }
}

/// Returns an owner as Go shows it: in the order of its fields.
fn show_owner(owner: &Value) -> String {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let members = fields.iter().filter_map(|field| owner.get(field).map(|value| format!("\"{field}\":{value}")));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn check_owner(owner: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let api_version = text("apiVersion");
    let has_version = match api_version.split('/').count() {
        1 => !api_version.is_empty(),
        2 => !api_version.ends_with('/'),
        _ => false,
    };
    if !has_version {
        let field = format!("{path}.apiVersion");
        errors.push(FieldError::invalid(field, api_version, "version must not be empty"));
    }
    for field in ["kind", "name", "uid"] {
        if text(field).is_empty() {
            errors.push(FieldError::invalid(format!("{path}.{field}"), "", "must not be empty"));
        }
    }
    if api_version == "v1" && text("kind") == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(FieldError::invalid_shown(path, &show_owner(owner), detail));
    }
}

fn check_finalizers(resource: &Resource, object: &Value, errors: &mut Vec<FieldError>) {
    let path = "metadata.finalizers";
    let finalizers = metadata::finalizers(object);
    for finalizer in &finalizers {
        let found = names::qualified_name_errors(finalizer, "a valid label key");
        errors.extend(found.iter().map(|text| FieldError::invalid(path, *finalizer, text)));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let shown = Value::from(finalizers.clone());
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, shown, detail));
    }
    if resource.flavor == Flavor::Custom {
        return;
    }
    for (index, finalizer) in finalizers.iter().enumerate() {
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("{path}[{index}]"), *finalizer, detail));
        }
    }
}

/// Returns what is wrong with the metadata of an object that replaces `old`.
#[must_use]
pub fn validate_update(resource: &Resource, old: &Value, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let fields = ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
    let added = added_finalizers(old, object);
    if metadata::is_terminating(old) && !added.is_empty() {
        let shown: Vec<String> = added.iter().map(|finalizer| quote(finalizer)).collect();
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            shown.join(", ")
        );
        errors.push(FieldError::forbidden("metadata.finalizers", &detail));
    }
    for field in fields {
        let value = object["metadata"].get(field).cloned().unwrap_or_default();
        if value != old["metadata"].get(field).cloned().unwrap_or_default() {
            errors.push(FieldError::immutable(format!("metadata.{field}"), value));
        }
    }
    // Generic code and the kind's strategy both check this part, and both errors are reported.
    let twice = errors.clone();
    errors.extend(twice);
    errors.extend(validate(resource, object).into_iter().filter(|error| error.field != "metadata.name"));
    errors
}

fn added_finalizers<'a>(old: &Value, object: &'a Value) -> Vec<&'a str> {
    let present = metadata::finalizers(old);
    metadata::finalizers(object).into_iter().filter(|finalizer| !present.contains(finalizer)).collect()
}

/// Returns warnings about finalizers that a write adds, which custom resources may have without a domain.
#[must_use]
pub fn finalizer_warnings(resource: &Resource, old: Option<&Value>, object: &Value) -> Vec<String> {
    if resource.flavor != Flavor::Custom {
        return Vec::new();
    }
    let mut added = old.map_or_else(|| metadata::finalizers(object), |old| added_finalizers(old, object));
    added.sort_unstable();
    let is_plain = |finalizer: &&str| !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer);
    let hint = "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers";
    added.into_iter().filter(is_plain).map(|name| format!("metadata.finalizers: {}: {hint}", quote(name))).collect()
}
