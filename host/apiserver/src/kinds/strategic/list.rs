//! The merge of lists: of scalars as sets, of objects by their merge key.

use std::mem::{Discriminant, discriminant};

use serde_json::Value;

use super::{PATCH, PatchError, Schema, go_print, merge, order, schema::FieldSchema};

/// Merges a list by the strategy of its field.
pub(super) fn merge(original: Vec<Value>, patch: Vec<Value>, field: &FieldSchema) -> Result<Vec<Value>, PatchError> {
    if field.strategy != "merge" {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let maps = element_kind(&[&original, &patch])? == Some(discriminant(&Value::Object(serde_json::Map::new())));
    let key = field.merge_key;
    if !maps {
        let both: Vec<Value> = original.iter().chain(&patch).cloned().collect();
        let merged = deduplicated(both);
        return order::normalize(merged, &patch, &original, "");
    }
    if key.is_empty() {
        return Err(PatchError::Other("cannot merge lists without merge key for ".to_owned()));
    }
    let (original, patch) = special_elements(original, patch, key)?;
    let merged = elements(original.clone(), &patch, key, &field.of)?;
    order::normalize(merged, &patch, &original, key)
}

/// Returns the type of all elements of lists; `None` if they are empty.
pub(super) fn element_kind(lists: &[&Vec<Value>]) -> Result<Option<Discriminant<Value>>, PatchError> {
    let mut kind = None;
    for item in lists.iter().flat_map(|list| list.iter()) {
        if item.is_array() && kind.is_none() {
            return Err(PatchError::ListOfLists);
        }
        if *kind.get_or_insert(discriminant(item)) != discriminant(item) {
            let shown: Vec<String> = lists.iter().map(|list| go_print(&Value::Array((*list).clone()))).collect();
            return Err(PatchError::Other(format!("list element types are not identical: [{}]", shown.join(" "))));
        }
    }
    if kind.is_none() {
        return Err(PatchError::Other("no elements in any of the given slices".to_owned()));
    }
    Ok(kind)
}

/// Removes duplicates as Go's function does, which moves the last element to the place of a duplicate.
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

/// Returns the error for an object without the merge key.
pub(super) fn no_merge_key(map: &Value, key: &str) -> PatchError {
    PatchError::Other(format!("map: {} does not contain declared merge key: {key}", go_print(map)))
}

/// Applies the elements with a directive: they delete elements, or replace the list.
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
            Some(directive) => return Err(merge::unknown_directive(directive, &item)),
        }
    }
    if replace { Ok((plain, Vec::new())) } else { Ok((original, plain)) }
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
        let found = original.iter().position(|element| element.get(key) == Some(value));
        match (found, item) {
            (Some(index), Value::Object(patch)) => {
                let old = original[index].as_object().cloned().unwrap_or_default();
                original[index] = Value::Object(merge::map(old, patch.clone(), schema)?);
            }
            _ => original.push(item.clone()),
        }
    }
    Ok(original)
}
