//! The path elements of list items.

use serde_json::Value;

use crate::apply::{
    fieldpath::PathElement,
    schema::{ListType, Relationship, Schema},
    value::quote,
};

/// The element of an item in an associative list, or why it has none.
pub(super) fn item_element(
    schema: &Schema,
    list: &ListType,
    item: &Value,
) -> Result<PathElement, String> {
    if list.relationship != Relationship::Associative {
        return Err("invalid indexing of non-associative list".into());
    }

    if list.keys.is_empty() {
        set_element(item)
    } else {
        keyed_element(schema, list, item)
    }
}

fn set_element(item: &Value) -> Result<PathElement, String> {
    match item {
        Value::Object(_) => {
            Err("associative list without keys has an element that's a map type".into())
        }
        Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
        Value::Null => {
            Err("associative list without keys has an element that's an explicit null".into())
        }
        scalar => Ok(PathElement::Value(scalar.clone())),
    }
}

fn keyed_element(schema: &Schema, list: &ListType, item: &Value) -> Result<PathElement, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".into()),
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };

    let mut keys = Vec::with_capacity(list.keys.len());
    for name in &list.keys {
        let value = match fields.get(name) {
            Some(value) => Some(value.clone()),
            None => key_default(schema, list, name)
                .map_err(|error| format!("couldn't find default value for {name}: {error}"))?,
        };
        keys.extend(value.map(|value| (name.clone(), value)));
    }

    if keys.is_empty() {
        let names: Vec<_> = list.keys.iter().map(|name| quote(name)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values \
             for any key fields)",
            names.join(" ")
        ));
    }

    Ok(PathElement::key(keys))
}

fn key_default(
    schema: &Schema,
    list: &ListType,
    name: &str,
) -> Result<Option<Value>, &'static str> {
    let item_type = schema
        .resolve(&list.element)
        .ok_or("invalid elementType for list")?;

    let map = item_type
        .map
        .ok_or("associative list may not have non-map types")?;

    Ok(map.fields.get(name).and_then(|field| field.default.clone()))
}
