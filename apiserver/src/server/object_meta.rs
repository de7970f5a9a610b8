//! The fields of `ObjectMeta`: their types, and what the API server makes of them when it reads an
//! object.

use serde_json::{Map, Value};

use crate::apimachinery::json::type_name;

/// The type of a field.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Integer,
    /// An integer that may be 0.
    OptionalInteger,
    OptionalBool,
    Time,
    Texts,
    TextMap,
    Owners,
    Any,
}

const OBJECT_META: [(&str, Type); 15] = [
    ("name", Type::Text),
    ("generateName", Type::Text),
    ("namespace", Type::Text),
    ("selfLink", Type::Text),
    ("uid", Type::Text),
    ("resourceVersion", Type::Text),
    ("generation", Type::Integer),
    ("creationTimestamp", Type::Time),
    ("deletionTimestamp", Type::Time),
    ("deletionGracePeriodSeconds", Type::OptionalInteger),
    ("labels", Type::TextMap),
    ("annotations", Type::TextMap),
    ("ownerReferences", Type::Owners),
    ("finalizers", Type::Texts),
    ("managedFields", Type::Any),
];

const OWNER_REFERENCE: [(&str, Type); 6] = [
    ("apiVersion", Type::Text),
    ("kind", Type::Text),
    ("name", Type::Text),
    ("uid", Type::Text),
    ("controller", Type::OptionalBool),
    ("blockOwnerDeletion", Type::OptionalBool),
];

/// Checks the metadata of an object and removes unknown and empty fields. Returns the paths of the
/// unknown ones.
///
/// # Errors
///
/// The message of Go's decoder, when a field has another type.
pub fn decode(kind: &str, metadata: &mut Value) -> Result<Vec<String>, String> {
    match metadata {
        Value::Null => {
            *metadata = Value::Object(Map::new());
            Ok(Vec::new())
        }
        Value::Object(fields) => {
            let mut unknown = Vec::new();
            let place = Place {
                owner: "ObjectMeta",
                path: "metadata".into(),
                type_path: "metadata",
            };

            decode_fields(fields, &OBJECT_META, &place, &mut unknown)?;

            Ok(unknown)
        }
        other => {
            let found = type_name(other);
            Err(format!(
                "json: cannot unmarshal {found} into Go struct field {kind}.metadata of type v1.ObjectMeta"
            ))
        }
    }
}

/// The place of fields: the name of their Go type, and their path.
struct Place {
    owner: &'static str,
    /// The path with the indexes of lists, as messages about unknown fields have it.
    path: String,
    /// The path without them, as messages about types have it.
    type_path: &'static str,
}

impl Place {
    fn mismatch(&self, field: &str, value: &Value, wanted: &str) -> String {
        let (found, owner, path) = (type_name(value), self.owner, self.type_path);
        format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{path}.{field} of type {wanted}"
        )
    }
}

fn decode_fields(
    fields: &mut Map<String, Value>,
    types: &[(&str, Type)],
    place: &Place,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let names: Vec<String> = fields.keys().cloned().collect();
    for name in names {
        let Some((_, kind)) = types.iter().find(|(known, _)| *known == name) else {
            unknown.push(format!("{}.{name}", place.path));
            fields.remove(&name);
            continue;
        };
        let Some(value) = fields.get_mut(&name) else {
            continue;
        };

        if !value.is_null() {
            check(value, *kind, &name, place, unknown)?;
        }
        if is_empty(value, *kind) {
            fields.remove(&name);
        }
    }

    Ok(())
}

fn is_empty(value: &Value, kind: Type) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(number) => matches!(kind, Type::Integer) && number.as_i64() == Some(0),
        Value::Bool(_) => false,
    }
}

fn check(
    value: &mut Value,
    kind: Type,
    name: &str,
    place: &Place,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match kind {
        Type::Any => Ok(()),
        Type::Text if value.is_string() => Ok(()),
        Type::Text => Err(place.mismatch(name, value, "string")),
        Type::Integer | Type::OptionalInteger if value.is_i64() => Ok(()),
        Type::Integer | Type::OptionalInteger => Err(place.mismatch(name, value, "int64")),
        Type::OptionalBool if value.is_boolean() => Ok(()),
        Type::OptionalBool => Err(place.mismatch(name, value, "bool")),
        Type::Time => check_time(value, name, place),
        Type::Texts => check_texts(value, name, place),
        Type::TextMap => check_text_map(value, name, place),
        Type::Owners => check_owners(value, name, place, unknown),
    }
}

fn check_time(value: &mut Value, name: &str, place: &Place) -> Result<(), String> {
    let Some(text) = value.as_str() else {
        return Err(place.mismatch(name, value, "string"));
    };

    match text.parse::<jiff::Timestamp>() {
        Ok(time) => {
            *value = Value::String(super::environment::format_time(time));
            Ok(())
        }
        Err(_) => {
            let quoted = crate::golang::quote(text);
            Err(format!(
                "parsing time {quoted} as \"2006-01-02T15:04:05Z07:00\": cannot parse {quoted} as \"2006\""
            ))
        }
    }
}

fn check_texts(value: &Value, name: &str, place: &Place) -> Result<(), String> {
    let Some(items) = value.as_array() else {
        return Err(place.mismatch(name, value, "[]string"));
    };
    let wrong = items
        .iter()
        .find(|item| !item.is_string() && !item.is_null());

    wrong.map_or(Ok(()), |item| Err(place.mismatch(name, item, "string")))
}

fn check_text_map(value: &mut Value, name: &str, place: &Place) -> Result<(), String> {
    let Some(members) = value.as_object_mut() else {
        return Err(place.mismatch(name, value, "map[string]string"));
    };

    for (_, member) in members.iter_mut() {
        match member {
            Value::String(_) => {}
            Value::Null => *member = Value::String(String::new()),
            other => return Err(place.mismatch(name, other, "string")),
        }
    }

    Ok(())
}

fn check_owners(
    value: &mut Value,
    name: &str,
    place: &Place,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let Some(owners) = value.as_array_mut() else {
        return Err(place.mismatch(name, value, "[]v1.OwnerReference"));
    };

    for (index, owner) in owners.iter_mut().enumerate() {
        let Some(fields) = owner.as_object_mut() else {
            return Err(place.mismatch(name, owner, "v1.OwnerReference"));
        };
        let path = format!("{}.{name}[{index}]", place.path);
        let inner = Place {
            owner: "OwnerReference",
            path,
            type_path: "metadata.ownerReferences",
        };

        decode_fields(fields, &OWNER_REFERENCE, &inner, unknown)?;
        for required in ["apiVersion", "kind", "name", "uid"] {
            fields
                .entry(required)
                .or_insert_with(|| Value::String(String::new()));
        }
    }

    Ok(())
}
