//! JSON as Go's encoder writes structs: fields in the order of the struct, maps sorted.

use serde_json::{Map, Value};

use super::types::{Shape, TYPES, TypeId};
use crate::apimachinery::json;

/// Appends an object's JSON, with the fields in the API server's order.
///
/// Objects of unknown kinds and fields without a type get sorted keys. The items of a list are
/// written by their own kind if it is known.
pub fn write(object: &Value, out: &mut Vec<u8>) {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let known = TYPES.of_kind(text("apiVersion"), text("kind"));
    let item = text("kind")
        .strip_suffix("List")
        .and_then(|kind| TYPES.of_kind(text("apiVersion"), kind));

    match (known, item, object) {
        (Some(id), _, _) => value(Some(id), object, out),
        (None, Some(id), Value::Object(map)) => list(id, map, out),
        _ => value(None, object, out),
    }
}

/// Encodes a value of a Go type, given by a name such as `meta/v1.LabelSelector`.
pub(crate) fn typed_json(name: &str, object: &Value) -> String {
    let mut out = Vec::new();
    value(TYPES.named(name), object, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends a list: kind and version, metadata, items.
fn list(item: TypeId, map: &Map<String, Value>, out: &mut Vec<u8>) {
    let metadata = TYPES.named("meta/v1.ListMeta");

    let mut fields = Fields::new(out);
    for key in ["kind", "apiVersion"] {
        if let Some(part) = map.get(key) {
            value(None, part, fields.next(key));
        }
    }

    if let Some(part) = map.get("metadata") {
        value(metadata, part, fields.next("metadata"));
    }

    if let Some(Value::Array(items)) = map.get("items") {
        let out = fields.next("items");
        array(Some(item), items, out);
    }

    fields.end();
}

struct Fields<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Fields<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    fn next(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;

        json::write_string(key, self.out);
        self.out.push(b':');
        self.out
    }

    fn end(self) {
        self.out.push(b'}');
    }
}

fn value(id: Option<TypeId>, value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => object(id, map, out),
        Value::Array(items) => {
            let element = id.and_then(|id| match TYPES.get(TYPES.target(id)).shape {
                Shape::Slice(element) => Some(element),
                _ => None,
            });
            array(element, items, out);
        }
        other => json::write(other, out),
    }
}

fn array(element: Option<TypeId>, items: &[Value], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        value(element, item, out);
    }
    out.push(b']');
}

fn object(id: Option<TypeId>, map: &Map<String, Value>, out: &mut Vec<u8>) {
    let shape = id.map(|id| &TYPES.get(TYPES.target(id)).shape);

    let mut fields = Fields::new(out);
    match shape {
        Some(Shape::Struct(order)) => {
            for field in order {
                if let Some(part) = map.get(&*field.name) {
                    value(Some(field.of), part, fields.next(&field.name));
                }
            }
        }
        other => {
            let element = match other {
                Some(Shape::Map(element)) => Some(*element),
                _ => None,
            };

            let mut keys: Vec<_> = map.keys().collect();
            keys.sort_unstable();

            for key in keys {
                value(element, &map[key], fields.next(key));
            }
        }
    }

    fields.end();
}
