//! Rules for `x-kubernetes-list-type` and `x-kubernetes-list-map-keys` in schemas.

use serde_json::Value;

use super::schema::{Items, Schema};
use crate::apimachinery::field::{FieldError, Path, Shown};

/// The rules that an update of an old definition may be spared.
#[derive(Clone, Copy, Debug)]
pub struct Strictness {
    /// Items of a set must be atomic.
    pub atomic_sets: bool,
    /// Keys of a list of type map must be required or have a default.
    pub map_keys: bool,
}

/// Checks the type of a list.
pub fn check(schema: &Schema, strictness: Strictness, path: &Path, errors: &mut Vec<FieldError>) {
    check_type(schema, strictness.atomic_sets, path, errors);
    check_keys_are_for_maps(schema, path, errors);
    if schema.list_type.as_deref() == Some("map") {
        check_map(schema, path, errors);
    }
    if strictness.map_keys {
        check_map_keys(schema, path, errors);
    }
}

fn check_type(schema: &Schema, atomic_sets: bool, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(list_type) = &schema.list_type else {
        return;
    };
    let detail = "must be array if x-kubernetes-list-type is specified";

    if schema.kind.is_empty() {
        errors.push(FieldError::required(path.child("type"), detail));
    } else if schema.kind != "array" {
        errors.push(FieldError::invalid_text(
            path.child("type"),
            &schema.kind,
            detail,
        ));
    } else if atomic_sets && has_non_atomic_set(schema) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let item = schema.item();
        let shown = item
            .and_then(|item| item.list_type.clone())
            .map_or(Value::Null, Value::String);
        let is_object = item.is_some_and(|item| item.kind == "object");
        let field = if is_object {
            "x-kubernetes-map-type"
        } else {
            "x-kubernetes-list-type"
        };

        // The real server shows a pointer here, which JSON writes as its value.
        let shown = Shown::raw(crate::apimachinery::json::to_string(&shown));
        errors.push(FieldError::invalid(
            path.child("items").child(field),
            shown,
            detail,
        ));
    }

    let allowed = ["atomic", "set", "map"];
    if !allowed.contains(&list_type.as_str()) {
        let path = path.child("x-kubernetes-list-type");
        errors.push(FieldError::not_supported(
            &path,
            Shown::text(list_type),
            &allowed,
        ));
    }
}

/// Reports whether a schema is a set whose items are not atomic.
pub fn has_non_atomic_set(schema: &Schema) -> bool {
    let Some(item) = schema
        .item()
        .filter(|_| schema.list_type.as_deref() == Some("set"))
    else {
        return false;
    };

    match item.kind.as_str() {
        "array" => item
            .list_type
            .as_deref()
            .is_some_and(|list_type| list_type != "atomic"),
        "object" => item.map_type.as_deref() != Some("atomic"),
        _ => false,
    }
}

fn check_keys_are_for_maps(schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let path = path.child("x-kubernetes-list-type");
    let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
    match schema.list_type.as_deref() {
        _ if schema.list_map_keys.is_empty() => {}
        None => errors.push(FieldError::required(&path, detail)),
        Some("map") => {}
        Some(list_type) => errors.push(FieldError::invalid_text(&path, list_type, detail)),
    }
}

fn check_map(schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let keys_path = path.child("x-kubernetes-list-map-keys");
    if schema.list_map_keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&keys_path, detail));
    }

    let item = match &schema.items {
        Some(Items::One(item)) => item,
        Some(Items::Many(_)) => {
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(
                path.child("items"),
                Shown::omitted(),
                detail,
            ));
            return;
        }
        None => {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            errors.push(FieldError::required(path.child("items"), detail));
            return;
        }
    };

    if item.kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid_text(
            path.child("items").child("type"),
            &item.kind,
            detail,
        ));
        return;
    }

    let shown = Shown::value(&schema.list_map_keys.clone().into());
    for (at, key) in schema.list_map_keys.iter().enumerate() {
        match item.properties.get(key) {
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_path, shown.clone(), detail));
            }
            Some(property) if matches!(property.kind.as_str(), "array" | "object") => {
                let path = path
                    .child("items")
                    .child("properties")
                    .key(key)
                    .child("type");

                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid_text(&path, &item.kind, detail));
            }
            Some(_) => {}
        }

        if schema.list_map_keys[..at].contains(key) {
            errors.push(FieldError::invalid(
                &keys_path,
                shown.clone(),
                "must not contain duplicate entries",
            ));
        }
    }
}

/// Checks that items of sets and maps are never null, and that the keys of maps are always there.
pub fn check_map_keys(schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let (Some(item), Some(list_type)) = (schema.item(), schema.list_type.as_deref()) else {
        return;
    };
    if !matches!(list_type, "set" | "map") {
        return;
    }

    let path = path.child("items");
    if item.nullable {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(path.child("nullable"), detail));
    }

    if list_type == "set" {
        return;
    }

    for key in &schema.list_map_keys {
        let Some(property) = item.properties.get(key) else {
            continue;
        };
        let path = path.child("properties").key(key);

        if !item.required.contains(key) && property.default.is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            errors.push(FieldError::required(path.child("default"), detail));
        }

        if property.nullable {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(path.child("nullable"), detail));
        }
    }
}
