//! Validation of `metadata.managedFields` and of names of managers.

use serde_json::Value;

use super::user_agent::MAX_NAME_LENGTH;
use crate::apply::value::{is_printable, quote};

/// The length of a subresource's name in bytes.
const MAX_SUBRESOURCE_LENGTH: usize = 256;

/// A field with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidManagedField {
    /// The path of the field.
    pub field: String,
    /// The reason of the cause: `FieldValueInvalid` or `FieldValueTooLong`.
    pub reason: &'static str,
    /// The message without the path.
    pub message: String,
}

/// Returns the fields of `managedFields` entries that are invalid.
pub fn validate_managed_fields(entries: &[Value], path: &str) -> Vec<InvalidManagedField> {
    let mut errors = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        if !matches!(text("operation"), "Apply" | "Update") {
            let value = text("operation");
            errors.push(invalid(format!("{path}.operation"), value, "must be `Apply` or `Update`"));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            errors.push(invalid(format!("{path}.fieldsType"), text("fieldsType"), "must be `FieldsV1`"));
        }
        errors.extend(validate_field_manager(text("manager"), &format!("{path}.manager")));
        if text("subresource").len() > MAX_SUBRESOURCE_LENGTH {
            errors.push(too_long(format!("{path}.subresource"), MAX_SUBRESOURCE_LENGTH));
        }
    }
    errors
}

/// Returns what is invalid in the name of a manager: its length, or unprintable characters.
pub fn validate_field_manager(name: &str, path: &str) -> Vec<InvalidManagedField> {
    let mut errors = Vec::new();
    if name.len() > MAX_NAME_LENGTH {
        errors.push(too_long(path.into(), MAX_NAME_LENGTH));
    }
    for (position, character) in name.char_indices().filter(|(_, character)| !is_printable(*character)) {
        let code = format!("U+{:04X}", u32::from(character));
        let detail = format!("invalid character {code} (at position {position})");
        errors.push(invalid(path.into(), name, &detail));
    }
    errors
}

fn invalid(field: String, value: &str, detail: &str) -> InvalidManagedField {
    let message = format!("Invalid value: {}: {detail}", quote(value));
    InvalidManagedField { field, reason: "FieldValueInvalid", message }
}

fn too_long(field: String, max: usize) -> InvalidManagedField {
    let message = format!("Too long: may not be more than {max} bytes");
    InvalidManagedField { field, reason: "FieldValueTooLong", message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reports_each_invalid_field() {
        let entries = [
            json!({"operation": "Update", "fieldsType": "FieldsV1", "manager": "a", "subresource": "status"}),
            json!({"operation": "", "fieldsType": "V2", "manager": "a\nb", "subresource": "s".repeat(257)}),
            json!({"operation": "Apply", "manager": "m".repeat(129)}),
        ];
        let errors = validate_managed_fields(&entries, "metadata.managedFields");
        let texts: Vec<_> = errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
        assert_eq!(
            texts,
            [
                "metadata.managedFields[1].operation: Invalid value: \"\": must be `Apply` or `Update`",
                "metadata.managedFields[1].fieldsType: Invalid value: \"V2\": must be `FieldsV1`",
                "metadata.managedFields[1].manager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)",
                "metadata.managedFields[1].subresource: Too long: may not be more than 256 bytes",
                "metadata.managedFields[2].manager: Too long: may not be more than 128 bytes",
            ]
        );
    }
}
