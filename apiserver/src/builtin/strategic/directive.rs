//! Directives in values, and the errors of malformed patches.

use std::mem::{Discriminant, discriminant};

use serde_json::Value;

use super::{PATCH, PatchError, print::go_print};

/// The error about an unknown value of `$patch`.
pub(super) fn unknown_directive(directive: &Value, map: &Value) -> PatchError {
    PatchError::Other(format!(
        "unknown patch type: {} in map: {}",
        go_print(directive),
        go_print(map)
    ))
}

/// The error about an object without the merge key.
pub(super) fn no_merge_key(map: &Value, key: &str) -> PatchError {
    PatchError::Other(format!(
        "map: {} does not contain declared merge key: {key}",
        go_print(map)
    ))
}

/// The common type of the elements of lists, which may not all be empty.
pub(super) fn element_kind(
    lists: &[&Vec<Value>],
) -> Result<Option<Discriminant<Value>>, PatchError> {
    let mut kind = None;

    for item in lists.iter().flat_map(|list| list.iter()) {
        if item.is_array() && kind.is_none() {
            return Err(PatchError::ListOfLists);
        }

        if *kind.get_or_insert(discriminant(item)) != discriminant(item) {
            let shown: Vec<String> = lists
                .iter()
                .map(|list| go_print(&Value::Array((*list).clone())))
                .collect();
            return Err(PatchError::Other(format!(
                "list element types are not identical: [{}]",
                shown.join(" ")
            )));
        }
    }

    if kind.is_none() {
        return Err(PatchError::Other(
            "no elements in any of the given slices".to_owned(),
        ));
    }

    Ok(kind)
}

/// Removes nulls from a value that has nothing to delete.
pub(super) fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Removes objects with a directive from a value that has no counterpart; `None` if it is one itself.
pub(super) fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(
            items.into_iter().filter_map(without_directives).collect(),
        )),
        other => Some(other),
    }
}
