//! An untrusted JSONPath in a predicate. It is evaluated in time, with the result of
//! serde_json_path on the whole object.
//!
//! The input: the expression, the old object and the new object, one on each line.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use operetta_core::{
    handler::event::Event,
    object::{ManagedFields, Object, kind::GroupVersionKind},
    predicate::{Expression, Predicate, parse, passes},
};
use serde_json::{Value, json};
use serde_json_path::JsonPath;

use crate::cut;

/// The time limit of one input, generous for a busy machine.
const IN_TIME: Duration = Duration::from_secs(10);

/// Checks the module's invariants on one input.
pub fn jsonpath(data: &[u8]) {
    let (text, objects) = cut(data, b'\n');
    let (old, now) = cut(objects, b'\n');
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let started = Instant::now();
    let expression = Expression::parse(text);
    let in_manifest = parse(&[json!({"matches": text}), json!({"changed": text})]);
    assert_eq!(
        expression.is_ok(),
        in_manifest.is_ok(),
        "{text:?} is treated differently in a manifest"
    );
    let Ok(expression) = expression else { return };
    let whole = JsonPath::parse(text).expect("an RFC 9535 expression");
    let kind = GroupVersionKind::new("v1", "Pod");
    let read = |bytes: &[u8]| Object::from_slice(bytes, &kind, ManagedFields::Keep).map(Arc::new);
    let (Ok(old), Ok(now)) = (read(old), read(now)) else {
        return;
    };
    let matches = [Predicate::Matches(expression.clone())];
    let changed = [Predicate::Changed(expression)];
    let added = Event::Added {
        object: now.clone(),
        initial: false,
    };
    let deleted = Event::deleted(now.clone());
    let modified = Event::Modified {
        old: old.clone(),
        object: now.clone(),
    };
    let selected = passes(&matches, &added);
    let differs = passes(&changed, &modified);
    assert_eq!(
        (passes(&matches, &deleted), passes(&matches, &modified)),
        (selected, selected),
        "`matches` does not depend on the new object alone"
    );
    assert!(
        passes(&changed, &added) && passes(&changed, &deleted),
        "`changed` drops an event other than an update"
    );
    assert!(
        started.elapsed() < IN_TIME,
        "{text:?} took {:?}",
        started.elapsed()
    );
    let (Some(old), Some(now)) = (tree(&old), tree(&now)) else {
        return;
    };
    assert_eq!(selected, !whole.query(&now).is_empty(), "{text:?} of {now}");
    assert_eq!(
        differs,
        whole.query(&old).all() != whole.query(&now).all(),
        "{text:?} of {old} and {now}"
    );
}

/// Parses the object as a tree. Returns None if a tree cannot represent it, for example because it
/// has duplicate fields.
fn tree(object: &Object) -> Option<Value> {
    let tree = serde_json::from_str(object.json()).ok()?;
    (members(&tree) == colons(object.json())).then_some(tree)
}

/// Counts the members of all JSON objects in a tree.
fn members(tree: &Value) -> usize {
    match tree {
        Value::Object(fields) => fields.len() + fields.values().map(members).sum::<usize>(),
        Value::Array(items) => items.iter().map(members).sum(),
        _ => 0,
    }
}

/// Counts the colons outside of strings, one for each member.
fn colons(json: &str) -> usize {
    let mut string = false;
    let mut escaped = false;
    let mut count = 0;
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => string = !string,
            b':' if !string => count += 1,
            _ => {}
        }
    }
    count
}
