//! What a published schema says beyond the given one: properties of all objects, and what
//! extensions of Kubernetes imply.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// The parts that the documents of all resources have.
pub(super) static COMMON: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("openapi_common.json")).unwrap_or(Value::Null)
});

/// Adds the properties that all objects have.
pub(super) fn add_object_properties(schema: &mut Value) {
    for (name, property) in COMMON["resource"].as_object().into_iter().flatten() {
        schema["properties"][name] = property.clone();
    }
}

/// Calls a function for each schema in a schema, and for itself.
pub(super) fn for_each(schema: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    let Value::Object(fields) = schema else {
        return;
    };

    for (name, inner) in fields.iter_mut() {
        match name.as_str() {
            "properties" => {
                inner
                    .as_object_mut()
                    .into_iter()
                    .flatten()
                    .for_each(|(_, property)| for_each(property, change));
            }
            "items" | "additionalProperties" => for_each(inner, change),
            _ => {}
        }
    }

    change(fields);
}

/// Spells out in a schema what `x-kubernetes-int-or-string` implies.
pub(super) fn add_int_or_string(fields: &mut Map<String, Value>) {
    if fields.get("x-kubernetes-int-or-string") != Some(&Value::Bool(true)) {
        return;
    }

    let int_or_string = json!([{"type": "integer"}, {"type": "string"}]);
    let in_all_of = fields
        .get("allOf")
        .and_then(|all| all.get(0))
        .and_then(|first| first.get("anyOf"));
    let given = fields.get("anyOf");
    if given == Some(&int_or_string) || in_all_of == Some(&int_or_string) {
        return;
    }

    if given.is_none() {
        fields.insert("anyOf".to_owned(), int_or_string);
    } else if let Value::Array(parts) = fields.entry("allOf").or_insert_with(|| json!([])) {
        parts.insert(0, json!({"anyOf": int_or_string}));
    }
}

/// Spells out in a schema what `x-kubernetes-embedded-resource` implies.
pub(super) fn add_embedded_properties(fields: &mut Map<String, Value>) {
    if fields.get("x-kubernetes-embedded-resource") != Some(&Value::Bool(true)) {
        return;
    }

    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    for (name, property) in COMMON["embedded"].as_object().into_iter().flatten() {
        properties[name] = property.clone();
    }

    let required = fields.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(names) = required {
        for name in ["kind", "apiVersion"] {
            if !names.iter().any(|existing| existing == name) {
                names.push(json!(name));
            }
        }
    }
}
