//! Metadata of objects as trees: reading and setting single fields.

use serde_json::{Map, Value};

/// Returns a text field of the metadata, or `""`.
#[must_use]
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// Returns an integer field of the metadata.
#[must_use]
pub fn integer(object: &Value, field: &str) -> Option<i64> {
    object.get("metadata")?.get(field)?.as_i64()
}

/// Returns the finalizers.
#[must_use]
pub fn finalizers(object: &Value) -> Vec<&str> {
    let list = object.get("metadata").and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    list.map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Reports whether the object is being deleted.
#[must_use]
pub fn is_terminating(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// Sets a field of the metadata, or removes it when the value is `null`.
pub fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    let value = value.into();
    let Some(members) = object.as_object_mut() else { return };
    let metadata = members.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    let Some(fields) = metadata.as_object_mut() else { return };
    if value.is_null() {
        fields.remove(field);
    } else {
        fields.insert(field.into(), value);
    }
}

/// Copies a field of the metadata, or removes it when `from` has none.
pub fn copy(from: &Value, to: &mut Value, field: &str) {
    set(to, field, from.get("metadata").and_then(|metadata| metadata.get(field)).cloned().unwrap_or_default());
}

/// Copies a field of the metadata when `to` has none.
pub fn copy_missing(from: &Value, to: &mut Value, field: &str) {
    if to.get("metadata").and_then(|metadata| metadata.get(field)).is_none_or(Value::is_null) {
        copy(from, to, field);
    }
}

/// Copies a member of the object itself, or removes it when `from` has none.
pub fn copy_member(from: &Value, to: &mut Value, name: &str) {
    let Some(members) = to.as_object_mut() else { return };
    match from.get(name) {
        Some(value) => drop(members.insert(name.into(), value.clone())),
        None => drop(members.remove(name)),
    }
}
