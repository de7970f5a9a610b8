//! Metadata of resources that are embedded in an object, and of the object itself.

use serde_json::Value;

use super::{schema::Schema, typed, types::OBJECT_META};
use crate::apimachinery::{
    field::{FieldError, Path, Shown},
    metadata::{self, Metadata},
    names,
};

/// Decodes the metadata of an object: only the fields of the type stay. Returns the paths of the
/// others.
///
/// # Errors
/// Returns Go's message if a field has the wrong type.
pub fn decode_metadata(object: &mut Value, path: &Path) -> Result<Vec<String>, String> {
    let Some(metadata) = object.get("metadata") else {
        return Ok(Vec::new());
    };
    let decoded = typed::decode(metadata, &OBJECT_META)?;
    object["metadata"] = decoded.object;

    let prefix = path.child("metadata");
    Ok(decoded
        .unknown
        .into_iter()
        .map(|field| format!("{}.{field}", prefix.as_str()))
        .collect())
}

/// Decodes the metadata of embedded resources, and returns the paths of unknown fields, sorted.
///
/// # Errors
/// Returns the error of the first field with the wrong type.
pub fn coerce(
    value: &mut Value,
    schema: &Schema,
    is_root: bool,
) -> Result<Vec<String>, Box<FieldError>> {
    let mut unknown = Vec::new();
    coerce_at(&Path::root(), value, schema, is_root, &mut unknown)?;
    unknown.sort_unstable();
    Ok(unknown)
}

/// Decodes the metadata of embedded resources as [`coerce`] does, below a path.
///
/// # Errors
/// Returns the error of the first field with the wrong type.
pub fn coerce_below(
    path: &Path,
    value: &mut Value,
    schema: &Schema,
) -> Result<(), Box<FieldError>> {
    coerce_at(path, value, schema, false, &mut Vec::new())
}

fn coerce_at(
    path: &Path,
    value: &mut Value,
    schema: &Schema,
    is_root: bool,
    unknown: &mut Vec<String>,
) -> Result<(), Box<FieldError>> {
    match value {
        Value::Object(_) => {
            if schema.embedded_resource || is_root {
                coerce_resource(path, value, unknown)?;
            }

            let Value::Object(fields) = value else {
                return Ok(());
            };

            for (key, item) in fields {
                if let Some(property) = schema.properties.get(key) {
                    coerce_at(&path.child(key), item, property, false, unknown)?;
                } else if let Some(additional) = schema.additional() {
                    coerce_at(&path.key(key), item, additional, false, unknown)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = schema.item() {
                for (at, item) in items.iter_mut().enumerate() {
                    coerce_at(&path.index(at), item, item_schema, false, unknown)?;
                }
            }
        }
        _ => {}
    }

    Ok(())
}

fn coerce_resource(
    path: &Path,
    value: &mut Value,
    unknown: &mut Vec<String>,
) -> Result<(), Box<FieldError>> {
    for field in ["apiVersion", "kind"] {
        if let Some(text) = value.get(field).filter(|text| !text.is_string()) {
            return Err(Box::new(FieldError::invalid(
                path.child(field),
                Shown::value(text),
                "must be a string",
            )));
        }
    }

    let shown = Shown::value(value.get("metadata").unwrap_or(&Value::Null));
    let found = decode_metadata(value, path)
        .map_err(|detail| Box::new(FieldError::invalid(path.child("metadata"), shown, detail)))?;
    unknown.extend(found);

    Ok(())
}

/// Decodes the metadata of embedded resources, and drops the fields with wrong types.
pub fn coerce_dropping(value: &mut Value, schema: &Schema, is_root: bool) {
    if schema.embedded_resource || is_root {
        for field in ["apiVersion", "kind"] {
            if value.get(field).is_some_and(|text| !text.is_string())
                && let Value::Object(fields) = value
            {
                fields.remove(field);
            }
        }

        if decode_metadata(value, &Path::root()).is_err()
            && let Some(Value::Object(fields)) = value.get_mut("metadata")
        {
            fields.retain(|key, item| {
                let single = Value::Object([(key.clone(), item.clone())].into_iter().collect());
                typed::decode(&single, &OBJECT_META).is_ok()
            });
        }
    }

    match value {
        Value::Object(fields) => {
            for (key, item) in fields {
                if let Some(field) = schema.field(key) {
                    coerce_dropping(item, field, false);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = schema.item() {
                items
                    .iter_mut()
                    .for_each(|item| coerce_dropping(item, item_schema, false));
            }
        }
        _ => {}
    }
}

/// Validates the metadata of embedded resources and, with `is_root`, of the object itself.
pub fn validate(path: &Path, value: &Value, schema: &Schema, is_root: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_at(path, value, schema, is_root, &mut errors);
    errors
}

fn validate_at(
    path: &Path,
    value: &Value,
    schema: &Schema,
    is_root: bool,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource || is_root {
                validate_resource(path, value, errors);
            }

            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);

            for (key, item) in sorted {
                if let Some(property) = schema.properties.get(key) {
                    validate_at(&path.child(key), item, property, false, errors);
                } else if let Some(additional) = schema.additional() {
                    validate_at(&path.key(key), item, additional, false, errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = schema.item() {
                for (at, item) in items.iter().enumerate() {
                    validate_at(&path.index(at), item, item_schema, false, errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_resource(path: &Path, resource: &Value, errors: &mut Vec<FieldError>) {
    for field in ["apiVersion", "kind"] {
        if resource.get(field).is_none() {
            errors.push(FieldError::required(path.child(field), ""));
        }
    }

    if let Some(api_version) = resource.get("apiVersion") {
        let field = path.child("apiVersion");
        match api_version.as_str() {
            None => errors.push(FieldError::invalid(
                &field,
                Shown::value(api_version),
                "must be a string",
            )),
            Some("") => errors.push(FieldError::invalid_text(&field, "", "must not be empty")),
            Some(text) if text != "/" && text.matches('/').count() > 1 => {
                let detail = format!("unexpected GroupVersion string: {text}");
                errors.push(FieldError::invalid_text(&field, text, detail));
            }
            Some(_) => {}
        }
    }

    if let Some(kind) = resource.get("kind") {
        let field = path.child("kind");
        match kind.as_str() {
            None => errors.push(FieldError::invalid(
                &field,
                Shown::value(kind),
                "must be a string",
            )),
            Some("") => errors.push(FieldError::invalid_text(&field, "", "must not be empty")),
            Some(text) => {
                let details = names::dns1035_label(&text.to_lowercase());
                if !details.is_empty() {
                    let rule = "may have mixed case, but should otherwise match: ";
                    errors.push(FieldError::invalid_text(
                        &field,
                        text,
                        format!("{rule}{}", details.join(",")),
                    ));
                }
            }
        }
    }

    if let Some(metadata) = resource.get("metadata") {
        validate_metadata(&path.child("metadata"), metadata, errors);
    }
}

fn validate_metadata(path: &Path, metadata: &Value, errors: &mut Vec<FieldError>) {
    let mut metadata = match typed::decode(metadata, &OBJECT_META) {
        Ok(decoded) => decoded.object,
        Err(detail) => {
            errors.push(FieldError::invalid(path, Shown::value(metadata), detail));
            return;
        }
    };

    if metadata.get("name").is_none() {
        metadata["name"] = Value::from("fakename");
    }

    let namespaced = metadata["namespace"]
        .as_str()
        .is_some_and(|name| !name.is_empty());
    errors.extend(metadata::validate(
        Metadata::new(&metadata),
        namespaced,
        names::name_is_path_segment,
        path,
    ));
}
