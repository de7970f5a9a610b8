//! The order of merged lists: the patch's or that of `$setElementOrder`, with the server's own
//! elements in between.

use serde_json::Value;

use super::{PATCH, PatchError, directive::no_merge_key, schema::FieldSchema};

/// The identity of an element: the value of its merge key, or the element itself.
pub(super) fn value_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, PatchError> {
    if key.is_empty() {
        return Ok(item);
    }
    item.get(key).ok_or_else(|| no_merge_key(item, key))
}

fn index(items: &[Value], item: &Value, key: &str) -> Option<usize> {
    let identity = |item: &Value| {
        if key.is_empty() {
            item.clone()
        } else {
            item.get(key).cloned().unwrap_or_default()
        }
    };

    let wanted = identity(item);
    items.iter().position(|other| identity(other) == wanted)
}

/// The server's list as Kubernetes sees it after the merge, which happens in place: a deletion shifts
/// the elements behind it and leaves the last one twice, until a new element takes its place.
pub(super) fn after_merge(list: &[Value], patch: &[Value], field: &FieldSchema) -> Vec<Value> {
    let key = field.merge_key;
    let mut seen = list.to_vec();
    if key.is_empty() || field.strategy != "merge" {
        return seen;
    }

    let directive = |item: &Value| item.get(PATCH).and_then(Value::as_str).map(str::to_owned);
    let mut length = seen.len();

    for item in patch
        .iter()
        .filter(|item| directive(item).as_deref() == Some("delete"))
    {
        while let Some(index) = seen[..length]
            .iter()
            .position(|element| element.get(key) == item.get(key))
        {
            for at in index..length - 1 {
                seen[at] = seen[at + 1].clone();
            }
            length -= 1;
        }
    }

    if patch
        .iter()
        .any(|item| directive(item).as_deref() == Some("replace"))
    {
        return seen;
    }

    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        let found = seen[..length]
            .iter()
            .any(|element| element.get(key) == item.get(key));

        if !found && length < seen.len() {
            seen[length] = item.clone();
            length += 1;
        } else if !found {
            break;
        }
    }

    seen
}

/// Sorts the elements in the patch by its order and the others by the server's, and merges the two.
pub(super) fn normalize(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: &str,
) -> Result<Vec<Value>, PatchError> {
    for item in &merged {
        value_of(item, key)?;
    }

    let (mut patch, mut server): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|item| index(patch_order, item, key).is_some());
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
                let positions =
                    index(server_order, ours, key).zip(index(server_order, theirs, key));
                positions.is_some_and(|(ours, theirs)| ours < theirs)
            }
        };

        all.extend(if takes_left {
            left.next()
        } else {
            right.next()
        });
    }
}

/// Sorts by the positions in an order. Elements not in it are less than any other, which is no
/// consistent order: the result depends on the algorithm, and Go's stable sort is an insertion sort.
fn sort(items: &mut [Value], order: &[Value], key: &str) {
    let less =
        |left: &Value, right: &Value| match index(order, left, key).zip(index(order, right, key)) {
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
