//! The definitions of custom resources in the OpenAPI document of version 2, as the real server
//! publishes them.
//!
//! Version 2 can say less, and kubectl takes some of what it can say for more than it is. So a
//! definition lacks what would make kubectl refuse good objects.

use serde_json::{Map, Value, json};

use super::{
    model::{Definition, Version},
    openapi::Builder,
    published::{add_embedded_properties, add_object_properties, for_each},
    structural,
};
use crate::apimachinery::openapi::definition;

/// Returns the definitions of an object and of a list by their names; `schema` is the version's
/// schema as it was given.
pub fn definitions(crd: &Definition, version: &Version, schema: &Value) -> [(String, Value); 2] {
    let builder = Builder::new(crd, version);
    let is_structural = version.schema().is_some_and(structural::is_structural);
    let is_open =
        crd.spec.preserve_unknown_fields || schema.as_object().is_some_and(keeps_unknown_fields);
    let object = if is_structural && !is_open {
        object(schema)
    } else {
        json!({"type": "object"})
    };

    builder
        .kinds(object)
        .map(|(name, schema)| (name, definition(schema)))
}

fn object(schema: &Value) -> Value {
    let mut schema = schema.clone();
    // A schema's nullable properties decide what it requires, so it comes before them.
    simplify(&mut schema);

    for_each(&mut schema, &mut |fields| {
        if !keeps_unknown_fields(fields) {
            add_embedded_properties(fields);
        }
    });

    add_object_properties(&mut schema);
    schema
}

fn keeps_unknown_fields(schema: &Map<String, Value>) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

fn is_nullable(schema: &Value) -> bool {
    schema["nullable"] == true
}

fn simplify(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        return;
    };

    for name in ["allOf", "oneOf", "anyOf", "not", "default"] {
        fields.remove(name);
    }

    let was_nullable = fields.remove("nullable") == Some(Value::Bool(true));
    let is_open = keeps_unknown_fields(fields);
    if was_nullable || is_open {
        fields.remove("items");
        fields.remove("properties");
    }

    let is_untyped = match fields.get("type").and_then(Value::as_str) {
        Some("array") => !fields.contains_key("items"),
        Some("object") => is_open,
        _ => false,
    };
    if was_nullable || is_untyped {
        fields.remove("type");
    }

    relax_required(fields);
    for (name, inner) in fields {
        match name.as_str() {
            "properties" => inner
                .as_object_mut()
                .into_iter()
                .flatten()
                .for_each(|(_, property)| simplify(property)),
            "items" | "additionalProperties" => simplify(inner),
            _ => {}
        }
    }
}

/// Removes nullable properties from those that a schema requires.
fn relax_required(fields: &mut Map<String, Value>) {
    let properties = fields
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let nullable: Vec<&str> = properties
        .filter(|(_, schema)| is_nullable(schema))
        .map(|(name, _)| name.as_str())
        .collect();

    let all_are = fields.get("additionalProperties").is_some_and(is_nullable);
    let Some(Value::Array(required)) = fields.get("required") else {
        return;
    };

    let left: Vec<Value> = required
        .iter()
        .filter(|name| !all_are && !name.as_str().is_some_and(|name| nullable.contains(&name)))
        .cloned()
        .collect();
    if left.is_empty() {
        fields.remove("required");
    } else {
        fields.insert("required".to_owned(), Value::Array(left));
    }
}
