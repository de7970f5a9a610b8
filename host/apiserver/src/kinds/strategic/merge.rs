//! The merge of maps.

use serde_json::{Map, Value};

use super::{PATCH, PatchError, Schema, list, order};

const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
pub(super) const SET_ORDER: &str = "$setElementOrder";

/// Merges a patch into a map.
pub(super) fn map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: &Schema,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.remove(PATCH) {
        return directive_of_map(&directive, patch);
    }
    retain_keys(&mut original, &mut patch)?;
    order::apply(&mut original, &mut patch, schema)?;
    for (key, value) in patch {
        if key.starts_with(DELETE_FROM) {
            let field = key.strip_prefix(DELETE_FROM).and_then(|rest| rest.strip_prefix('/'));
            let field = field.ok_or(PatchError::Format("primitive list"))?;
            delete_from(&mut original, field, value)?;
        } else {
            field(&mut original, key, value, schema)?;
        }
    }
    Ok(original)
}

fn directive_of_map(directive: &Value, patch: Map<String, Value>) -> Result<Map<String, Value>, PatchError> {
    match directive.as_str() {
        Some("replace") => Ok(patch),
        Some("delete") => Ok(Map::new()),
        _ => {
            let mut whole = patch;
            whole.insert(PATCH.to_owned(), directive.clone());
            Err(unknown_directive(directive, &Value::Object(whole)))
        }
    }
}

/// Returns the error for an unknown value of `$patch`.
pub(super) fn unknown_directive(directive: &Value, map: &Value) -> PatchError {
    PatchError::Other(format!("unknown patch type: {} in map: {}", super::go_print(directive), super::go_print(map)))
}

/// Removes all keys but those that `$retainKeys` lists; the patch may not set others.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(list) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(list) = list else { return Err(PatchError::Format("retainKeys")) };
    let listed = |key: &str| list.iter().any(|item| item == key);
    let stray = patch.iter().any(|(key, value)| {
        !value.is_null() && !key.starts_with(DELETE_FROM) && !key.starts_with(SET_ORDER) && !listed(key)
    });
    if stray {
        return Err(PatchError::Format("retainKeys"));
    }
    original.retain(|key, _| listed(key));
    Ok(())
}

/// Deletes scalars from a list.
fn delete_from(original: &mut Map<String, Value>, field: &str, deleted: Value) -> Result<(), PatchError> {
    if deleted.is_null() {
        original.remove(field);
        return Ok(());
    }
    match (original.get_mut(field), deleted) {
        (Some(Value::Array(items)), Value::Array(deleted)) => {
            if !(items.is_empty() && deleted.is_empty()) {
                list::element_kind(&[items, &deleted])?;
            }
            items.retain(|item| !deleted.contains(item));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn field(original: &mut Map<String, Value>, key: String, value: Value, schema: &Schema) -> Result<(), PatchError> {
    if value.is_null() {
        original.remove(&key);
        return Ok(());
    }
    let merged = match (original.remove(&key), value) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let field = schema.field(&key);
            match field.strategy {
                "replace" => Some(Value::Object(new)),
                _ => Some(Value::Object(map(old, new, &field.of)?)),
            }
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            let field = schema.field(&key);
            Some(Value::Array(list::merge(old, new, &field)?))
        }
        (old, mut value) => {
            let same_type = old.as_ref().is_some_and(|old| std::mem::discriminant(old) == std::mem::discriminant(&value));
            if !same_type {
                discard_nulls(&mut value);
            }
            without_directives(value)
        }
    };
    if let Some(merged) = merged {
        original.insert(key, merged);
    }
    Ok(())
}

/// Removes the nulls of a value that meets nothing to delete.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Removes the objects with a directive from a value that meets nothing; `None` if it is one itself.
pub(super) fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => {
            let kept = map.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}
