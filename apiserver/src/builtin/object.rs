//! Reading and changing objects by paths.

use serde_json::{Map, Value};

/// A value that is null, to refer to where there is none.
static NULL: Value = Value::Null;
/// An empty object.
static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);

/// Returns the value at a path of fields, as in `spec.template`; null if there is none.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.')
        .try_fold(value, |value, key| value.get(key))
        .unwrap_or(&NULL)
}

/// Returns the text at a path; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// Returns the integer at a path.
pub(crate) fn int(value: &Value, path: &str) -> Option<i64> {
    at(value, path).as_i64()
}

/// Reports whether the value at a path is true.
pub(crate) fn is_true(value: &Value, path: &str) -> bool {
    at(value, path) == true
}

/// Returns the items of the list at a path.
pub(crate) fn items<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path)
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Returns the fields of the object or map at a path.
pub(crate) fn fields<'a>(value: &'a Value, path: &str) -> &'a Map<String, Value> {
    at(value, path).as_object().unwrap_or(&EMPTY)
}

/// Reports whether there is a value at a path.
pub(crate) fn has(value: &Value, path: &str) -> bool {
    !at(value, path).is_null()
}

/// Returns the value at a path to be changed, if there is one.
pub(crate) fn at_mut<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.')
        .try_fold(value, |value, key| value.get_mut(key))
        .filter(|value| !value.is_null())
}

/// Returns the items of the list at a path, to be changed.
pub(crate) fn items_mut<'a>(
    value: &'a mut Value,
    path: &str,
) -> impl Iterator<Item = &'a mut Value> {
    at_mut(value, path)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// Sets a field of an object if it has none, or an empty text.
pub(crate) fn set_default(value: &mut Value, key: &str, default: impl Into<Value>) {
    let Value::Object(map) = value else { return };
    match map.get(key) {
        Some(Value::Null) | None => {}
        Some(Value::String(text)) if text.is_empty() => {}
        Some(_) => return,
    }
    map.insert(key.to_owned(), default.into());
}

/// Sets a field of an object.
pub(crate) fn set(value: &mut Value, key: &str, new: impl Into<Value>) {
    if let Value::Object(map) = value {
        map.insert(key.to_owned(), new.into());
    }
}

/// Removes a field of an object.
pub(crate) fn remove(value: &mut Value, key: &str) -> Option<Value> {
    value.as_object_mut().and_then(|map| map.remove(key))
}

/// Gives a field of one object the value that it has in another: also none.
pub(crate) fn copy(from: &Value, to: &mut Value, path: &str) {
    let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
    let target = if parent.is_empty() {
        Some(to)
    } else {
        at_mut(to, parent)
    };
    let Some(target) = target else { return };
    match at(from, path) {
        Value::Null => drop(remove(target, key)),
        value => set(target, key, value.clone()),
    }
}
