//! Objects made from a schema: a valid one, and invalid ones that each break one rule.

use serde_json::{Value, json};

use crate::sources::random::Random;

/// The most objects per kind of damage.
const EACH: usize = 2;

/// The kinds of damage.
const DAMAGES: [Damage; 9] = [
    Damage::Missing,
    Damage::WrongType,
    Damage::OtherType,
    Damage::OutsideEnum,
    Damage::Mismatch,
    Damage::OutOfBounds,
    Damage::Unknown,
    Damage::Null,
    Damage::Repeated,
];

#[derive(Clone, Copy, PartialEq)]
enum Damage {
    /// A missing field, which the schema or a CEL rule may require.
    Missing,
    /// A number in place of an object, list or text.
    WrongType,
    /// A text in place of another type.
    OtherType,
    OutsideEnum,
    /// A text that matches neither pattern nor format.
    Mismatch,
    OutOfBounds,
    /// A field that is not in the schema.
    Unknown,
    Null,
    /// A list item that occurs twice.
    Repeated,
}

/// Derives invalid objects from a valid one.
pub fn spoilt(random: &mut Random, schema: &Value, object: &Value) -> Vec<Value> {
    let mut places = Vec::new();
    for (key, value) in object.as_object().into_iter().flatten() {
        if !["apiVersion", "kind", "metadata"].contains(&key.as_str()) {
            walk(
                &schema["properties"][key],
                value,
                format!("/{key}"),
                &mut places,
            );
        }
    }

    let mut found = Vec::new();
    for damage in DAMAGES {
        let mut fitting: Vec<&(String, &Value)> = places
            .iter()
            .filter(|(_, schema)| damage.fits(schema))
            .collect();

        for _ in 0..EACH.min(fitting.len()) {
            let (pointer, schema) = fitting.swap_remove(random.below(fitting.len()));
            let mut bad = object.clone();
            if damage.apply(&mut bad, pointer, schema) && bad != *object {
                found.push(bad);
            }
        }
    }

    found
}

/// Collects the places in an object, with their schemas.
fn walk<'a>(
    schema: &'a Value,
    value: &Value,
    pointer: String,
    places: &mut Vec<(String, &'a Value)>,
) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let known = schema["properties"]
                    .get(key)
                    .unwrap_or(&schema["additionalProperties"]);

                let key = key.replace('~', "~0").replace('/', "~1");
                walk(known, member, format!("{pointer}/{key}"), places);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(&schema["items"], item, format!("{pointer}/{index}"), places);
            }
        }
        _ => {}
    }

    places.push((pointer, schema));
}

impl Damage {
    fn fits(self, schema: &Value) -> bool {
        let has = |names: &[&str]| names.iter().any(|name| !schema[*name].is_null());

        match self {
            Self::Missing | Self::Null | Self::WrongType => true,
            Self::OtherType => schema["type"] != "string",
            Self::OutsideEnum => has(&["enum"]),
            Self::Mismatch => has(&["pattern", "format"]),
            Self::OutOfBounds => has(&[
                "minimum",
                "maximum",
                "minLength",
                "maxLength",
                "minItems",
                "maxItems",
            ]),
            Self::Unknown => has(&["properties"]),
            Self::Repeated => schema["type"] == "array",
        }
    }

    fn apply(self, object: &mut Value, pointer: &str, schema: &Value) -> bool {
        if self == Self::Missing {
            let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
            let Some(Value::Object(members)) = object.pointer_mut(parent) else {
                return false;
            };

            return members
                .remove(&key.replace("~1", "/").replace("~0", "~"))
                .is_some();
        }

        let value = object.pointer_mut(pointer).expect("the place");
        match (self, &mut *value) {
            (Self::Unknown, Value::Object(members)) => {
                drop(members.insert("unknownField".into(), json!(1)));
            }
            (Self::Repeated, Value::Array(items)) if !items.is_empty() => {
                items.push(items[0].clone());
            }
            (Self::Unknown | Self::Repeated, _) => return false,
            (Self::WrongType, _) => *value = json!(-7),
            (Self::Null, _) => *value = Value::Null,
            (Self::OutOfBounds, _) => *value = out_of_bounds(schema),
            _ => *value = json!("No such: value!"),
        }

        true
    }
}

fn out_of_bounds(schema: &Value) -> Value {
    let number = |name: &str| schema[name].as_i64();
    let length = |name: &str| number(name).and_then(|length| usize::try_from(length).ok());

    if let Some(length) = length("maxLength").filter(|length| *length < 2000) {
        return json!("x".repeat(length + 1));
    }

    match (number("maximum"), number("minimum")) {
        (Some(most), _) => json!(most + 1),
        (None, Some(least)) => json!(least - 1),
        _ if schema["type"] == "string" => json!(""),
        _ => json!([]),
    }
}

/// An object with a schema's required fields.
pub fn minimal(schema: &Value) -> Value {
    let name = |name: &str| schema[name].as_i64();

    if let Some(first) = schema.get("default").or_else(|| schema["enum"].get(0)) {
        return first.clone();
    }

    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);

            let member = |key: &str| (key.to_owned(), minimal(&schema["properties"][key]));
            Value::Object(required.map(member).collect())
        }
        Some("array") => json!(vec![
            minimal(&schema["items"]);
            usize::from(name("minItems").unwrap_or(0) > 0)
        ]),
        Some("integer" | "number") => json!(name("minimum").unwrap_or(1)),
        Some("boolean") => json!(true),
        Some("string") if schema["format"] == "date-time" => json!("2026-01-02T03:04:05Z"),
        _ => json!("example"),
    }
}
