//! Merges maps, and lists: of scalars as sets, of objects by their merge key.

use std::mem::discriminant;

use serde_json::{Map, Value};

use super::{
    PATCH, PatchError, Schema,
    directive::{discard_nulls, element_kind, no_merge_key, unknown_directive, without_directives},
    order,
    print::{go_kind, go_print},
    schema::FieldSchema,
};

const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

pub(super) fn map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: &Schema,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.remove(PATCH) {
        return directive_of_map(&directive, patch);
    }

    retain_keys(&mut original, &mut patch)?;
    ordered_lists(&mut original, &mut patch, schema)?;

    for (key, value) in patch {
        if key.starts_with(DELETE_FROM) {
            let field = key
                .strip_prefix(DELETE_FROM)
                .and_then(|rest| rest.strip_prefix('/'))
                .ok_or(PatchError::Format("primitive list"))?;
            delete_from(&mut original, field, value)?;
        } else {
            field(&mut original, key, value, schema)?;
        }
    }

    Ok(original)
}

fn directive_of_map(
    directive: &Value,
    patch: Map<String, Value>,
) -> Result<Map<String, Value>, PatchError> {
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

/// Removes all keys that `$retainKeys` does not list. The patch may not set others.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let Some(list) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(list) = list else {
        return Err(PatchError::Format("retainKeys"));
    };

    let listed = |key: &str| list.iter().any(|item| item == key);
    let stray = patch.iter().any(|(key, value)| {
        !value.is_null()
            && !key.starts_with(DELETE_FROM)
            && !key.starts_with(SET_ORDER)
            && !listed(key)
    });

    if stray {
        return Err(PatchError::Format("retainKeys"));
    }

    original.retain(|key, _| listed(key));
    Ok(())
}

fn delete_from(
    original: &mut Map<String, Value>,
    field: &str,
    deleted: Value,
) -> Result<(), PatchError> {
    if deleted.is_null() {
        original.remove(field);
        return Ok(());
    }

    match (original.get_mut(field), deleted) {
        (Some(Value::Array(items)), Value::Array(deleted)) => {
            if !(items.is_empty() && deleted.is_empty()) {
                element_kind(&[items, &deleted])?;
            }
            items.retain(|item| !deleted.contains(item));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn field(
    original: &mut Map<String, Value>,
    key: String,
    value: Value,
    schema: &Schema,
) -> Result<(), PatchError> {
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
            Some(Value::Array(merge_list(old, new, &field)?))
        }
        (old, mut value) => {
            let same_type = old
                .as_ref()
                .is_some_and(|old| discriminant(old) == discriminant(&value));
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

/// Merges lists that have a `$setElementOrder`, in its order.
fn ordered_lists(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: &Schema,
) -> Result<(), PatchError> {
    const WHAT: &str = "setElementOrder list";
    let keys: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ORDER))
        .cloned()
        .collect();

    for key in keys {
        let order = match patch.remove(&key) {
            Some(Value::Array(order)) => order,
            other => return Err(bad_list(&other.unwrap_or_default())),
        };

        let name = key
            .strip_prefix(SET_ORDER)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or(PatchError::Format(WHAT))?;

        let field = schema.field(name);
        let old = as_list(original.get(name))?;
        let new = as_list(patch.get(name))?;

        validate(new.as_deref().unwrap_or_default(), &order, field.merge_key)?;

        let merged = match (old.clone(), new.clone()) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => match without_directives(Value::Array(new)) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(old), Some(new)) => merge_list(old, new, &field)?,
        };

        let empty = Vec::new();
        element_kind(&[
            old.as_ref().unwrap_or(&empty),
            new.as_ref().unwrap_or(&empty),
        ])?;

        let earlier = old.as_deref().unwrap_or_default();
        let server = order::after_merge(earlier, new.as_deref().unwrap_or_default(), &field);
        let both = order::normalize(merged, &order, &server, field.merge_key)?;

        original.insert(name.to_owned(), Value::Array(both));
        patch.remove(name);
    }

    Ok(())
}

fn as_list(value: Option<&Value>) -> Result<Option<Vec<Value>>, PatchError> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(bad_list(other)),
    }
}

fn bad_list(value: &Value) -> PatchError {
    PatchError::Other(format!(
        "expected a slice, but received a {}",
        go_kind(value)
    ))
}

/// Checks that a patch's elements are in the order of `$setElementOrder`.
fn validate(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }

    let deleted = |item: &Value| {
        !key.is_empty()
            && item
                .get(PATCH)
                .is_some_and(|directive| directive == "delete")
    };

    let kept: Vec<&Value> = patch.iter().filter(|item| !deleted(item)).collect();
    let mut at = 0;
    let mut place = 0;
    while at < kept.len() && place < order.len() {
        if kept[at].get(PATCH).is_some() {
            at += 1;
            continue;
        }

        if order::value_of(kept[at], key)? == order::value_of(&order[place], key)? {
            at += 1;
        }
        place += 1;
    }

    if at < kept.len() && place >= order.len() {
        let show = |items: &[Value]| go_print(&Value::Array(items.to_vec()));
        return Err(PatchError::Other(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            show(patch),
            show(order)
        )));
    }

    Ok(())
}

fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    field: &FieldSchema,
) -> Result<Vec<Value>, PatchError> {
    if field.strategy != "merge" {
        return Ok(patch);
    }

    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }

    let maps =
        element_kind(&[&original, &patch])? == Some(discriminant(&Value::Object(Map::new())));
    let key = field.merge_key;

    if !maps {
        let both: Vec<Value> = original.iter().chain(&patch).cloned().collect();
        let merged = deduplicated(both);
        return order::normalize(merged, &patch, &original, "");
    }

    if key.is_empty() {
        return Err(PatchError::Other(
            "cannot merge lists without merge key for ".to_owned(),
        ));
    }

    let (original, patch) = special_elements(original, patch, key)?;
    let merged = elements(original.clone(), &patch, key, &field.of)?;
    order::normalize(merged, &patch, &original, key)
}

/// Removes duplicates like `deduplicateScalars`, which moves the last element into the place of a
/// duplicate.
fn deduplicated(mut items: Vec<Value>) -> Vec<Value> {
    let mut first = 0;

    while first + 1 < items.len() {
        let mut second = first + 1;
        while second < items.len() {
            if items[first] == items[second] {
                items.swap_remove(second);
            } else {
                second += 1;
            }
        }
        first += 1;
    }

    items
}

/// Applies elements that are directives: they delete elements, or replace the list.
fn special_elements(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replace = false;

    for item in patch {
        match item.get(PATCH) {
            None => plain.push(item),
            Some(directive) if directive == "delete" => {
                let value = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                original.retain(|element| element.get(key) != Some(value));
            }
            Some(directive) if directive == "replace" => replace = true,
            Some(directive) if directive == "merge" => {
                let message = "merging lists cannot yet be specified in the patch";
                return Err(PatchError::Other(message.to_owned()));
            }
            Some(directive) => return Err(unknown_directive(directive, &item)),
        }
    }

    if replace {
        Ok((plain, Vec::new()))
    } else {
        Ok((original, plain))
    }
}

/// Merges each element of a patch into the one with the same key, or appends it.
fn elements(
    mut original: Vec<Value>,
    patch: &[Value],
    key: &str,
    schema: &Schema,
) -> Result<Vec<Value>, PatchError> {
    for item in patch {
        let value = item.get(key).ok_or_else(|| no_merge_key(item, key))?;

        let found = original
            .iter()
            .position(|element| element.get(key) == Some(value));

        match (found, item) {
            (Some(index), Value::Object(patch)) => {
                let old = original[index].as_object().cloned().unwrap_or_default();
                original[index] = Value::Object(map(old, patch.clone(), schema)?);
            }
            _ => original.push(item.clone()),
        }
    }

    Ok(original)
}
