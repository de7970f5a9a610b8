//! Converts published schemas of OpenAPI version 3 to definitions of version 2.

use serde_json::{Map, Value};

/// Returns the definition of a schema. Version 2 has no defaults, no alternatives, and no texts
/// beside a reference but its description.
pub fn definition(mut schema: Value) -> Value {
    convert(&mut schema);
    schema
}

fn convert(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        return;
    };
    fields.remove("default");
    if fields.remove("oneOf").is_some() {
        // Quantities and numbers with units, which are texts in version 2.
        fields.insert("type".to_owned(), "string".into());
    }
    inline_reference(fields);
    if let Some(Value::String(reference)) = fields.get_mut("$ref") {
        *reference = reference.replace("#/components/schemas/", "#/definitions/");
    }
    for (name, inner) in fields {
        match name.as_str() {
            "properties" => inner
                .as_object_mut()
                .into_iter()
                .flatten()
                .for_each(|(_, property)| convert(property)),
            "items" | "additionalProperties" => convert(inner),
            _ => {}
        }
    }
}

/// Replaces `allOf` with a single reference by the reference.
fn inline_reference(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(parts)) = fields.get_mut("allOf")
        && let [part] = parts.as_mut_slice()
        && let Some(reference) = part.get_mut("$ref").map(Value::take)
    {
        fields.remove("allOf");
        fields.insert("$ref".to_owned(), reference);
    }
}
