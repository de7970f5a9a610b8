//! The order of merged lists: that of the patch or of `$setElementOrder`, with the server's own elements between.

use serde_json::{Map, Value};

use super::{PATCH, PatchError, Schema, list, merge, merge::SET_ORDER};

/// Merges the lists that have a `$setElementOrder` and puts them in its order.
pub(super) fn apply(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: &Schema,
) -> Result<(), PatchError> {
    const WHAT: &str = "setElementOrder list";
    let keys: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for key in keys {
        let order = match patch.remove(&key) {
            Some(Value::Array(order)) => order,
            other => return Err(bad_list(&other.unwrap_or_default())),
        };
        let name = key.strip_prefix(SET_ORDER).and_then(|rest| rest.strip_prefix('/'));
        let name = name.ok_or(PatchError::Format(WHAT))?;
        let field = schema.field(name);
        let old = as_list(original.get(name))?;
        let new = as_list(patch.get(name))?;
        validate(new.as_deref().unwrap_or_default(), &order, field.merge_key)?;
        let merged = match (old.clone(), new.clone()) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => match merge::without_directives(Value::Array(new)) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(old), Some(new)) => list::merge(old, new, &field)?,
        };
        let empty = Vec::new();
        list::element_kind(&[old.as_ref().unwrap_or(&empty), new.as_ref().unwrap_or(&empty)])?;
        let both = normalize(merged, &order, old.as_deref().unwrap_or_default(), field.merge_key)?;
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
    PatchError::Other(format!("expected a slice, but received a {}", super::go_kind(value)))
}

/// Validates that the elements of a patch are in the order of the list.
fn validate(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let kept: Vec<&Value> = patch.iter().filter(|item| key.is_empty() || item.get(PATCH).is_none()).collect();
    let mut rest = order.iter();
    for item in &kept {
        let wanted = value_of(item, key)?;
        loop {
            let Some(next) = rest.next() else {
                let show = |items: &[Value]| super::go_print(&Value::Array(items.to_vec()));
                return Err(PatchError::Other(format!(
                    "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                    show(patch),
                    show(order)
                )));
            };
            if value_of(next, key)? == wanted {
                break;
            }
        }
    }
    Ok(())
}

/// Returns what identifies an element: the value of the merge key, or the element itself.
fn value_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, PatchError> {
    if key.is_empty() {
        return Ok(item);
    }
    item.get(key).ok_or_else(|| list::no_merge_key(item, key))
}

/// Returns the position of an element in a list.
fn index(items: &[Value], item: &Value, key: &str) -> Option<usize> {
    let identity = |item: &Value| if key.is_empty() { item.clone() } else { item.get(key).cloned().unwrap_or_default() };
    let wanted = identity(item);
    items.iter().position(|other| identity(other) == wanted)
}

/// Sorts the elements that the patch knows by its order, those that only the server knows by the server's, and merges
/// both.
pub(super) fn normalize(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: &str,
) -> Result<Vec<Value>, PatchError> {
    for item in &merged {
        value_of(item, key)?;
    }
    let (mut patch, mut server): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| index(patch_order, item, key).is_some());
    sort(&mut patch, patch_order, key);
    sort(&mut server, server_order, key);
    let mut all = Vec::with_capacity(patch.len() + server.len());
    let mut left = server.into_iter().peekable();
    let mut right = patch.into_iter().peekable();
    loop {
        let takes_left = match (left.peek(), right.peek()) {
            (None, None) => return Ok(all),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(ours), Some(theirs)) => {
                let positions = index(server_order, ours, key).zip(index(server_order, theirs, key));
                positions.is_some_and(|(ours, theirs)| ours < theirs)
            }
        };
        all.extend(if takes_left { left.next() } else { right.next() });
    }
}

/// Sorts by the positions in an order, as Go's stable sort does with an order in which unknown elements are less than
/// any other: an insertion sort.
fn sort(items: &mut [Value], order: &[Value], key: &str) {
    let less = |left: &Value, right: &Value| match index(order, left, key).zip(index(order, right, key)) {
        Some((left, right)) => left < right,
        None => true,
    };
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && less(&items[at], &items[at - 1]) {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}
