//! Objects as JSON: reading the body of a request, and the fields that the store reads and writes.

use serde_json::{Map, Value, json};

use super::errors::unsupported;
use crate::{ApiError, ErrorKind, GroupVersionKind, ObjectKey};

/// The API groups of Kubernetes itself that accept updates without a resourceVersion.
const BUILT_IN: [&str; 8] =
    ["", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io"];

/// Reads the object that was sent, and checks that it has the kind, namespace and name of the request.
///
/// # Errors
/// Returns bad-request.
pub(super) fn read(kind: &GroupVersionKind, key: &ObjectKey, text: &str) -> Result<Value, ApiError> {
    let bad = |message: String| ApiError::new(ErrorKind::BadRequest, message);
    let mut object: Value = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
    if object["apiVersion"] != *kind.api_version || object["kind"] != *kind.kind {
        let api_version = &object["apiVersion"];
        let other = &object["kind"];
        return Err(bad(format!("the object is a {api_version} {other}, the request is about a {kind}")));
    }
    let metadata = metadata_mut(&mut object);
    metadata.retain(|_, value| !value.is_null());
    let namespace = metadata.get("namespace").and_then(Value::as_str).filter(|namespace| !namespace.is_empty());
    if namespace.is_some() && namespace != key.namespace.as_deref() {
        return Err(
            bad("the namespace of the provided object does not match the namespace sent on the request".into()),
        );
    }
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    if !key.name.is_empty() && name != key.name {
        let message = format!("the name of the object ({name}) does not match the name on the URL ({})", key.name);
        return Err(bad(message));
    }
    if let Some(namespace) = &key.namespace {
        metadata.insert("namespace".to_owned(), Value::from(namespace.clone()));
    }
    drop_nulls(&mut object, is_built_in(kind), "")?;
    string_data(kind, &mut object);
    Ok(object)
}

/// Removes nulls: built-in kinds read a null as an absent field. Its meaning in a custom resource depends on the
/// schema, which the kit does not have.
///
/// # Errors
/// Returns an error for a null in a custom resource.
fn drop_nulls(value: &mut Value, built_in: bool, path: &str) -> Result<(), ApiError> {
    match value {
        Value::Object(members) => {
            if let Some((name, _)) = members.iter().find(|(_, value)| value.is_null() && !built_in) {
                return Err(unsupported(&format!("null at {path}.{name} (skip the field when it is None)")));
            }
            members.retain(|_, value| !value.is_null());
            members.iter_mut().try_for_each(|(name, value)| drop_nulls(value, built_in, &format!("{path}.{name}")))
        }
        Value::Array(items) => items.iter_mut().try_for_each(|value| drop_nulls(value, built_in, &format!("{path}[]"))),
        _ => Ok(()),
    }
}

/// Moves a Secret's stringData into its data.
fn string_data(kind: &GroupVersionKind, object: &mut Value) {
    if *kind != GroupVersionKind::new("v1", "Secret") {
        return;
    }
    let members = members_mut(object);
    let Some(Value::Object(plain)) = members.remove("stringData") else { return };
    let data = members.entry("data").or_insert_with(|| json!({}));
    for (name, value) in plain {
        let bytes = k8s_openapi::ByteString(value.as_str().unwrap_or_default().into());
        data[name] = json!(bytes);
    }
}

pub(super) fn finalizers(object: &Value) -> &[Value] {
    object["metadata"]["finalizers"].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn bump_generation(object: &mut Value) {
    let generation = object["metadata"]["generation"].as_u64().unwrap_or(0) + 1;
    metadata_mut(object).insert("generation".to_owned(), Value::from(generation));
}

pub(super) fn with_member(object: &Value, name: &str, value: Option<&Value>) -> Value {
    let mut object = object.clone();
    match value {
        Some(value) => members_mut(&mut object).insert(name.to_owned(), value.clone()),
        None => members_mut(&mut object).remove(name),
    };
    object
}

/// Returns the members of an object; any other value becomes an empty object.
pub(super) fn members_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(members) => members,
        _ => unreachable!("replaced by an object above"),
    }
}

pub(super) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    members_mut(members_mut(object).entry("metadata").or_insert_with(|| json!({})))
}

pub(super) fn is_built_in(kind: &GroupVersionKind) -> bool {
    BUILT_IN.contains(&kind.group())
}
