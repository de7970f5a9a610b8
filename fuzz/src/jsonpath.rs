//! A stranger's JSONPath in a predicate. It answers in time, and as the whole expression does over the whole object.
//!
//! The input: the expression, an object before and the object now, one on each line.

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

/// Far more than it takes, on a machine that is busy.
const IN_TIME: Duration = Duration::from_secs(10);

/// See the module.
pub fn jsonpath(data: &[u8]) {
    let (text, objects) = cut(data, b'\n');
    let (old, now) = cut(objects, b'\n');
    let Ok(text) = std::str::from_utf8(text) else { return };
    let started = Instant::now();
    let expression = Expression::parse(text);
    let in_manifest = parse(&[json!({"matches": text}), json!({"changed": text})]);
    assert_eq!(expression.is_ok(), in_manifest.is_ok(), "{text:?} is the same in a manifest");
    let Ok(expression) = expression else { return };
    let whole = JsonPath::parse(text).expect("an expression is RFC 9535");
    let kind = GroupVersionKind::new("v1", "Pod");
    let read = |bytes: &[u8]| Object::from_slice(bytes, &kind, ManagedFields::Keep).map(Arc::new);
    let (Ok(old), Ok(now)) = (read(old), read(now)) else { return };
    let matches = [Predicate::Matches(expression.clone())];
    let changed = [Predicate::Changed(expression)];
    let added = Event::Added { object: now.clone(), initial: false };
    let deleted = Event::Deleted { object: now.clone() };
    let modified = Event::Modified { old: old.clone(), object: now.clone() };
    let selected = passes(&matches, &added);
    let differs = passes(&changed, &modified);
    assert_eq!(
        (passes(&matches, &deleted), passes(&matches, &modified)),
        (selected, selected),
        "it is of the new object"
    );
    assert!(passes(&changed, &added) && passes(&changed, &deleted), "what is about change says nothing of these");
    assert!(started.elapsed() < IN_TIME, "{text:?} took {:?}", started.elapsed());
    let (Some(old), Some(now)) = (tree(&old), tree(&now)) else { return };
    assert_eq!(selected, !whole.query(&now).is_empty(), "{text:?} of {now}");
    assert_eq!(differs, whole.query(&old).all() != whole.query(&now).all(), "{text:?} of {old} and {now}");
}

/// None for what a tree cannot hold, or holds otherwise: of two fields of one name it has the last.
fn tree(object: &Object) -> Option<Value> {
    let tree = serde_json::from_str(object.json()).ok()?;
    (members(&tree) == colons(object.json())).then_some(tree)
}

fn members(tree: &Value) -> usize {
    match tree {
        Value::Object(fields) => fields.len() + fields.values().map(members).sum::<usize>(),
        Value::Array(items) => items.iter().map(members).sum(),
        _ => 0,
    }
}

/// Colons outside of strings: one for each member.
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
