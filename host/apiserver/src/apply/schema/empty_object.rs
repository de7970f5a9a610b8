//! The object of a kind before its creation.
//!
//! The API server compares a new object with the zero value of its Go type. Fields that Go writes although they are
//! empty are in both, so nobody manages them. OpenAPI shows which these are: a struct that is no pointer has the default
//! `{}`, and a field without `omitempty` is required.

use serde_json::{Map, Value, json};

use super::openapi::{Definitions, reference};

/// The nesting at which schemas are not followed further. No built-in kind reaches it.
const MAX_DEPTH: usize = 32;

/// Returns the object that Go's zero value of a built-in kind would be encoded to, without apiVersion and kind.
pub fn empty_object(definitions: &Definitions, definition: &Value) -> Map<String, Value> {
    zero_struct(definitions, definition, 0)
}

fn zero_struct(definitions: &Definitions, definition: &Value, depth: usize) -> Map<String, Value> {
    let mut object = Map::new();
    if depth >= MAX_DEPTH {
        return object;
    }
    let required: Vec<&str> =
        definition["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in definition["properties"].as_object().into_iter().flatten() {
        let zero = match (property.get("default"), reference(property)) {
            (Some(default), Some(target)) if *default == json!({}) => {
                definitions.get(target).and_then(|target| zero_field(definitions, target, depth + 1))
            }
            (Some(default), None) if required.contains(&name.as_str()) && !default.is_object() => Some(default.clone()),
            _ if required.contains(&name.as_str()) => Some(Value::Null),
            _ => None,
        };
        object.extend(zero.map(|zero| (name.clone(), zero)));
    }
    object
}

/// Returns the zero value of a type that is no pointer, if it is a struct.
fn zero_field(definitions: &Definitions, definition: &Value, depth: usize) -> Option<Value> {
    let is_struct = definition["type"] == "object" && definition.get("properties").is_some();
    is_struct.then(|| Value::Object(zero_struct(definitions, definition, depth)))
}
