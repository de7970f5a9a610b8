//! Encodes the OpenAPI document of version 2 in the messages of gnostic's
//! `openapiv2/OpenAPIv2.proto`.

use serde_json::{Map, Value};

use super::wire::Writer;

/// The type of a member of a schema.
#[derive(Clone, Copy)]
enum Member {
    Text,
    Texts,
    Number,
    Integer,
    Flag,
    /// A value of any type, as YAML.
    Any,
    Anys,
    /// A schema, or a flag.
    Additional,
    Type,
    Items,
    Properties,
    ExternalDocs,
}

/// The members of a schema and their numbers, in the order of the numbers.
const MEMBERS: [(&str, u64, Member); 26] = [
    ("$ref", 1, Member::Text),
    ("format", 2, Member::Text),
    ("title", 3, Member::Text),
    ("description", 4, Member::Text),
    ("default", 5, Member::Any),
    ("multipleOf", 6, Member::Number),
    ("maximum", 7, Member::Number),
    ("exclusiveMaximum", 8, Member::Flag),
    ("minimum", 9, Member::Number),
    ("exclusiveMinimum", 10, Member::Flag),
    ("maxLength", 11, Member::Integer),
    ("minLength", 12, Member::Integer),
    ("pattern", 13, Member::Text),
    ("maxItems", 14, Member::Integer),
    ("minItems", 15, Member::Integer),
    ("uniqueItems", 16, Member::Flag),
    ("maxProperties", 17, Member::Integer),
    ("minProperties", 18, Member::Integer),
    ("required", 19, Member::Texts),
    ("enum", 20, Member::Anys),
    ("additionalProperties", 21, Member::Additional),
    ("type", 22, Member::Type),
    ("items", 23, Member::Items),
    ("properties", 25, Member::Properties),
    ("externalDocs", 29, Member::ExternalDocs),
    ("example", 30, Member::Any),
];
const EXTENSION: u64 = 31;

/// Encodes a document that has definitions and no paths.
pub(in crate::server) fn openapi(document: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    out.text(1, text(&document["swagger"]));
    out.message(2, |out| {
        out.text(1, text(&document["info"]["title"]));
        out.text(2, text(&document["info"]["version"]));
    });
    out.message(8, |_| ());
    out.message(9, |out| named_schemas(&document["definitions"], out));

    out.into_bytes()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn named_schemas(schemas: &Value, out: &mut Writer) {
    for (name, inner) in schemas.as_object().into_iter().flatten() {
        out.message(1, |out| {
            out.text(1, name);
            out.message(2, |out| schema(inner, out));
        });
    }
}

fn schema(schema: &Value, out: &mut Writer) {
    let empty = Map::new();
    let members = schema.as_object().unwrap_or(&empty);
    for (name, number, kind) in MEMBERS {
        if let Some(value) = members.get(name) {
            member(kind, number, value, out);
        }
    }

    for (name, value) in members.iter().filter(|(name, _)| name.starts_with("x-")) {
        out.message(EXTENSION, |out| {
            out.text(1, name);
            out.message(2, |out| any(value, out));
        });
    }
}

fn member(kind: Member, number: u64, value: &Value, out: &mut Writer) {
    let values = || value.as_array().into_iter().flatten();
    match kind {
        Member::Text => out.text(number, text(value)),
        Member::Texts => values().for_each(|value| out.bytes(number, text(value).as_bytes())),
        Member::Number => out.double(number, value.as_f64().unwrap_or_default()),
        Member::Integer => out.varint(number, value.as_i64().unwrap_or_default().cast_unsigned()),
        Member::Flag => out.varint(number, u64::from(value == true)),
        Member::Any => out.message(number, |out| any(value, out)),
        Member::Anys => values().for_each(|value| out.message(number, |out| any(value, out))),
        Member::Additional => out.message(number, |out| match value {
            Value::Bool(flag) => out.present_varint(2, u64::from(*flag)),
            inner => out.message(1, |out| schema(inner, out)),
        }),
        Member::Type => out.message(number, |out| out.bytes(1, text(value).as_bytes())),
        Member::Items => out.message(number, |out| out.message(1, |out| schema(value, out))),
        Member::Properties => out.message(number, |out| named_schemas(value, out)),
        Member::ExternalDocs => out.message(number, |out| {
            out.text(1, text(&value["description"]));
            out.text(2, text(&value["url"]));
        }),
    }
}

fn any(value: &Value, out: &mut Writer) {
    out.text(2, &serde_yaml_ng::to_string(value).unwrap_or_default());
}
