//! The input and output of the admission of custom resources.

use serde_json::Value;

/// An object that was decoded from a request.
#[derive(Debug)]
pub struct DecodedObject {
    /// The object with defaults and without unknown fields.
    pub object: Value,
    /// The paths of unknown fields, for `fieldValidation`.
    pub unknown_fields: Vec<String>,
}

/// The part of an object that an update writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// All but the status, if there is a status subresource.
    Object,
    /// The status only.
    Status,
}

/// Reports whether objects differ in more than their metadata.
pub fn differs_without_metadata(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let fields = object.as_object().cloned().unwrap_or_default();
        fields
            .into_iter()
            .filter(|(key, _)| key != "metadata")
            .collect::<serde_json::Map<_, _>>()
    };

    rest(new) != rest(old)
}

/// Returns the old object with the new status, and the managed fields of the request.
pub fn prepare_status_update(mut object: Value, old: &Value) -> Value {
    let mut updated = old.clone();
    let status = object.get_mut("status").map(Value::take);
    let managed = object
        .pointer_mut("/metadata/managedFields")
        .map(Value::take);

    if let Value::Object(fields) = &mut updated {
        match status {
            Some(status) => drop(fields.insert("status".to_owned(), status)),
            None => drop(fields.remove("status")),
        }

        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            match managed {
                Some(managed) => drop(metadata.insert("managedFields".to_owned(), managed)),
                None => drop(metadata.remove("managedFields")),
            }
        }
    }

    updated
}
