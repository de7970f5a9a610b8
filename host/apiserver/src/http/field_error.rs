//! Errors of single fields, in the API server's words.

use std::{borrow::Cow, collections::HashSet};

use serde_json::Value;

pub use crate::golang::quote;

/// A cause in the details of a `Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable reason, such as `FieldValueInvalid`.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

impl Cause {
    /// Returns the cause as JSON, without what is empty.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let members = [("reason", &self.reason), ("message", &self.message), ("field", &self.field)];
        let filled = members.into_iter().filter(|(_, text)| !text.is_empty());
        filled.map(|(name, text)| (name.to_owned(), Value::from(text.as_str()))).collect()
    }
}

/// An error of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The machine-readable reason, such as `FieldValueInvalid`.
    pub reason: Cow<'static, str>,
    /// The path of the field, such as `spec.containers[0].name`.
    pub field: String,
    /// The message without the field, such as `Invalid value: "x": must be y`.
    pub body: String,
}

impl FieldError {
    fn new(reason: &'static str, field: impl Into<String>, body: String) -> Self {
        Self { reason: Cow::Borrowed(reason), field: field.into(), body }
    }

    /// A value that is not allowed here.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {}: {detail}", show(&value.into())))
    }

    /// A value that is not allowed here, as Go shows it.
    pub fn invalid_shown(field: impl Into<String>, shown: &str, detail: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {shown}: {detail}"))
    }

    /// A value that is missing.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let separator = if detail.is_empty() { "" } else { ": " };
        Self::new("FieldValueRequired", field, format!("Required value{separator}{detail}"))
    }

    /// A field that must not be set.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }

    /// A text that is too long.
    pub fn too_long(field: impl Into<String>, limit: usize) -> Self {
        Self::new("FieldValueTooLong", field, format!("Too long: may not be more than {limit} bytes"))
    }

    /// A value that is none of `supported`.
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|text| quote(text)).collect();
        let value = show(&value.into());
        let body = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
        Self::new("FieldValueNotSupported", field, body)
    }

    /// A field that must not change.
    pub fn immutable(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::invalid(field, value, "field is immutable")
    }

    /// Returns the cause that stands for this error in a `Status`.
    #[must_use]
    pub fn to_cause(&self) -> Cause {
        Cause { reason: self.reason.to_string(), message: self.body.clone(), field: self.field.clone() }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.field, self.body)
    }
}

/// Returns the message of several errors, as the API server joins them: each text once, in brackets when there are several.
#[must_use]
pub fn message_of(errors: &[FieldError]) -> String {
    let mut seen = HashSet::new();
    let texts: Vec<String> = errors.iter().map(ToString::to_string).filter(|text| seen.insert(text.clone())).collect();
    match texts.as_slice() {
        [] => "<nil>".into(),
        [text] => text.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}

/// Returns a value as Go prints it in an error of a field.
fn show(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Null => "null".into(),
        other => other.to_string(),
    }
}
