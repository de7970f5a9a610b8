//! Merge keys and strategies of fields, from an OpenAPI schema.

use serde_json::Value;

use super::super::openapi::schema_of_reference;

/// The schema of a value. Without one, maps are merged and lists replaced.
#[derive(Clone, Copy)]
pub(crate) struct Schema {
    schema: Option<&'static Value>,
}

/// The patch metadata of a field.
pub(crate) struct FieldSchema {
    /// The schema of the field's value, or of a list's items.
    pub(crate) of: Schema,
    /// The strategy: `merge`, `replace` or empty, without `retainKeys`.
    pub(crate) strategy: &'static str,
    /// The merge key of a list of objects; empty for lists of scalars.
    pub(crate) merge_key: &'static str,
}

impl Schema {
    pub(crate) fn new(schema: Option<&'static Value>) -> Self {
        Self {
            schema: schema.map(resolved),
        }
    }

    /// The schema of a field, or of the values of a map.
    pub(crate) fn field(self, name: &str) -> FieldSchema {
        let property = self.schema.and_then(|schema| {
            schema
                .get("properties")
                .and_then(|properties| properties.get(name))
                .or_else(|| schema.get("additionalProperties"))
        });

        let text = |key: &str| {
            property
                .and_then(|property| property[key].as_str())
                .unwrap_or_default()
        };

        let strategies = text("x-kubernetes-patch-strategy");
        let strategy = strategies
            .split(',')
            .find(|strategy| *strategy != "retainKeys")
            .unwrap_or_default();

        let value = property.map(resolved);
        let of = value.map(|value| value.get("items").unwrap_or(value));

        FieldSchema {
            of: Self::new(of),
            strategy,
            merge_key: text("x-kubernetes-patch-merge-key"),
        }
    }
}

/// Follows references. A property with a default has its reference in `allOf`.
fn resolved(mut schema: &'static Value) -> &'static Value {
    // Chains of references are short; the limit stops one that refers to itself.
    for _ in 0..8 {
        let reference = schema["$ref"]
            .as_str()
            .or_else(|| schema["allOf"][0]["$ref"].as_str());

        match reference.and_then(schema_of_reference) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}
