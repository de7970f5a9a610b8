//! The values of fields in rules.

use std::sync::Arc;

use base64::Engine as _;
use serde_json::Value;

use super::schema_types::{escape, with_metadata};
use crate::{
    apiextensions::schema::Schema,
    cel::value::{Key, List, ListKind, Val},
    golang::{self, Decoded},
};

/// Makes the value of a JSON value, by its schema.
pub fn from_json(value: &Value, schema: Option<&Schema>, is_resource: bool) -> Val {
    let Some(schema) = schema else {
        return Val::from_json(value);
    };

    match value {
        Value::Null => Val::Null,
        Value::Bool(flag) => Val::Bool(*flag),
        Value::Number(number) => number_value(golang::decode_number(number), &schema.kind),
        Value::String(text) => text_value(text, schema),
        Value::Array(items) => {
            let item = schema.item();
            let resource = item.is_some_and(|item| item.embedded_resource);
            let items = items
                .iter()
                .map(|value| from_json(value, item, resource))
                .collect();
            let kind = match schema.list_type.as_deref() {
                Some("set") => ListKind::Set,
                Some("map") => ListKind::Map(
                    schema
                        .list_map_keys
                        .iter()
                        .map(|key| escape(key).unwrap_or_default())
                        .collect(),
                ),
                _ => ListKind::Atomic,
            };

            Val::List(Arc::new(List { items, kind }))
        }
        Value::Object(fields) => {
            if schema.int_or_string {
                return Val::from_json(value);
            }

            if let Some(additional) = schema.additional() {
                let entries = fields.iter().map(|(key, value)| {
                    let value = from_json(value, Some(additional), additional.embedded_resource);
                    (Key::String(key.as_str().into()), value)
                });
                return Val::Map(Arc::new(entries.collect()));
            }

            let extended = is_resource.then(|| with_metadata(schema));
            let properties = &extended.as_ref().unwrap_or(schema).properties;
            let known = fields.iter().filter_map(|(name, value)| {
                let property = properties.get(name)?;
                let value = from_json(value, Some(property), property.embedded_resource);
                Some((Key::String(escape(name)?.into()), value))
            });

            Val::Map(Arc::new(known.collect()))
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a whole number of an integer field"
)]
fn number_value(number: Decoded, kind: &str) -> Val {
    match (number, kind) {
        (number, "number") => Val::Double(number.as_f64()),
        (Decoded::Int(int), _) => Val::Int(int),
        (Decoded::Float(float), "integer") => Val::Int(float as i64),
        (Decoded::Float(float), _) => Val::Double(float),
    }
}

/// Makes the value of a string. Texts that do not have their format stay strings; validation
/// reports them.
fn text_value(text: &str, schema: &Schema) -> Val {
    if schema.int_or_string || schema.kind != "string" {
        return Val::text(text);
    }

    let parsed = match schema.format.as_str() {
        "byte" => base64::engine::general_purpose::STANDARD
            .decode(text)
            .ok()
            .map(|bytes| Val::Bytes(bytes.into())),
        "duration" => golang::duration::parse(text).map(Val::Duration),
        "date" => format!("{text}T00:00:00Z").parse().ok().map(Val::Timestamp),
        "date-time" => text.parse().ok().map(Val::Timestamp),
        _ => None,
    };

    parsed.unwrap_or_else(|| Val::text(text))
}
