//! Paths to fields and errors of fields, as apimachinery's `field` package has them.

use std::fmt::{self, Display, Write as _};

use serde_json::Value;
use thiserror::Error;

use super::{json, status::Cause};
use crate::golang;

/// The detail of an error about a field that must not change.
pub const IMMUTABLE: &str = "field is immutable";

/// A path to a field, as in `spec.items[0].labels[app]`. The empty path is shown as `<nil>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// Returns the empty path.
    pub fn root() -> Self {
        Self::default()
    }

    /// Returns a path of one field, or of several that are joined by dots.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Returns the path of a field of the object at this path.
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            Self::new(name)
        } else {
            Self(format!("{}.{name}", self.0))
        }
    }

    /// Returns the path of an item of the list at this path.
    pub fn index(&self, at: usize) -> Self {
        Self(format!("{}[{at}]", self.0))
    }

    /// Returns the path of an entry of the map at this path.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// Returns the first field of the path.
    pub fn first(&self) -> &str {
        self.0.split(['.', '[']).next().unwrap_or_default()
    }

    /// Returns the text of the path, empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// The kind of an error of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A value is missing.
    Required,
    /// A value occurs twice where it may occur once.
    Duplicate,
    /// A value is malformed.
    Invalid,
    /// A value is none of the allowed ones.
    NotSupported,
    /// A value is not permitted here.
    Forbidden,
    /// A value has too many characters.
    TooLong,
    /// A list or map has too many entries.
    TooMany,
    /// A value names something that does not exist.
    NotFound,
    /// A value has another type than its schema.
    TypeInvalid,
    /// The server failed.
    Internal,
}

impl ErrorKind {
    /// Returns the `reason` of a cause in a `Status`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }
}

/// The value that an error shows, in the form in which it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown(Option<String>);

impl Shown {
    /// Shows nothing.
    pub fn omitted() -> Self {
        Self(None)
    }

    /// Shows a string in quotes.
    pub fn text(text: &str) -> Self {
        Self(Some(golang::quote(text)))
    }

    /// Shows a text as it is.
    pub fn raw(text: impl Into<String>) -> Self {
        Self(Some(text.into()))
    }

    /// Shows a JSON value: scalars as Go prints them, lists and objects as JSON.
    pub fn value(value: &Value) -> Self {
        Self(Some(match value {
            Value::String(text) => golang::quote(text),
            Value::Number(_) | Value::Bool(_) => golang::plain(value),
            Value::Null | Value::Array(_) | Value::Object(_) => json::to_string(value),
        }))
    }
}

impl<T: Into<Value>> From<T> for Shown {
    fn from(value: T) -> Self {
        Self::value(&value.into())
    }
}

/// An error of a field: its path, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {}", self.body())]
pub struct FieldError {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The path of the field, `<nil>` for the object itself.
    pub field: String,
    /// The value that is wrong.
    pub shown: Shown,
    /// The explanation; may be empty.
    pub detail: String,
}

impl FieldError {
    fn new(kind: ErrorKind, field: impl Display, shown: Shown, detail: impl Into<String>) -> Self {
        Self {
            kind,
            field: field.to_string(),
            shown,
            detail: detail.into(),
        }
    }

    /// Reports a malformed value.
    pub fn invalid(
        field: impl Display,
        value: impl Into<Shown>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(ErrorKind::Invalid, field, value.into(), detail)
    }

    /// Reports a malformed string.
    pub fn invalid_text(field: impl Display, text: &str, detail: impl Into<String>) -> Self {
        Self::invalid(field, Shown::text(text), detail)
    }

    /// Reports a value that differs from the stored one, in a field that must not change.
    pub fn immutable(field: impl Display, value: impl Into<Shown>) -> Self {
        Self::invalid(field, value, IMMUTABLE)
    }

    /// Reports a value of the wrong type.
    pub fn type_invalid(field: impl Display, shown: Shown, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::TypeInvalid, field, shown, detail)
    }

    /// Reports a missing value.
    pub fn required(field: impl Display, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, field, Shown::omitted(), detail)
    }

    /// Reports a value that is not permitted.
    pub fn forbidden(field: impl Display, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, field, Shown::omitted(), detail)
    }

    /// Reports a value that occurs twice.
    pub fn duplicate(field: impl Display, value: impl Into<Shown>) -> Self {
        Self::new(ErrorKind::Duplicate, field, value.into(), "")
    }

    /// Reports a value that names something that does not exist.
    pub fn not_found(field: impl Display, value: impl Into<Shown>) -> Self {
        Self::new(ErrorKind::NotFound, field, value.into(), "")
    }

    /// Reports a failure of the server.
    pub fn internal(field: impl Display, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, field, Shown::omitted(), detail)
    }

    /// Reports a value that is none of the allowed ones.
    pub fn not_supported(field: impl Display, value: impl Into<Shown>, allowed: &[&str]) -> Self {
        let quoted: Vec<_> = allowed.iter().map(|value| golang::quote(value)).collect();
        let detail = if allowed.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(ErrorKind::NotSupported, field, value.into(), detail)
    }

    /// Reports a string of more than `max` bytes.
    pub fn too_long(field: impl Display, max: i64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = if max < 0 {
            "value is too long".to_owned()
        } else {
            format!("may not be more than {max} {unit}")
        };
        Self::new(ErrorKind::TooLong, field, Shown::omitted(), detail)
    }

    /// Reports a list or map of more than `max` entries.
    pub fn too_many(field: impl Display, actual: usize, max: i64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = if max < 0 {
            "has too many items".to_owned()
        } else {
            format!("must have at most {max} {unit}")
        };
        let shown = Shown::raw(actual.to_string());
        Self::new(ErrorKind::TooMany, field, shown, detail)
    }

    /// Returns the message without the path, as in `Invalid value: 11: should be less than 10`.
    pub fn body(&self) -> String {
        let mut out = self.kind.title().to_owned();
        if let Some(shown) = &self.shown.0 {
            let _ = write!(out, ": {shown}");
        }
        if !self.detail.is_empty() {
            let _ = write!(out, ": {}", self.detail);
        }
        out
    }

    /// Returns the cause that stands for this error in a `Status`.
    pub fn cause(&self) -> Cause {
        Cause {
            reason: self.kind.reason().to_owned(),
            message: self.body(),
            field: self.field.clone(),
        }
    }
}

/// The errors of an object, in the order in which they were found.
#[derive(Debug, Default)]
pub struct ErrorList(Vec<FieldError>);

impl ErrorList {
    /// Returns the errors.
    pub fn into_list(self) -> Vec<FieldError> {
        self.0
    }

    /// Returns the number of errors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds errors.
    pub fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        self.0.extend(errors);
    }

    /// Adds the error for a value that a field cannot have.
    pub fn invalid(&mut self, field: &str, value: impl Into<Shown>, detail: &str) {
        self.0.push(FieldError::invalid(field, value, detail));
    }

    /// Adds an error for each message about a value.
    pub fn invalid_each(&mut self, field: &str, value: &str, messages: &[String]) {
        for message in messages {
            self.invalid(field, value, message);
        }
    }

    /// Adds the error for a missing value.
    pub fn required(&mut self, field: &str, detail: &str) {
        self.0.push(FieldError::required(field, detail));
    }

    /// Adds the error for a value that may not be set.
    pub fn forbidden(&mut self, field: &str, detail: &str) {
        self.0.push(FieldError::forbidden(field, detail));
    }

    /// Adds the error for a value that occurs twice.
    pub fn duplicate(&mut self, field: &str, value: impl Into<Shown>) {
        self.0.push(FieldError::duplicate(field, value));
    }

    /// Adds the error for a name of something that does not exist.
    pub fn not_found(&mut self, field: &str, value: impl Into<Shown>) {
        self.0.push(FieldError::not_found(field, value));
    }

    /// Adds the error for a text or list of too many bytes.
    pub fn too_long(&mut self, field: &str, limit: usize) {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.0.push(FieldError::too_long(field, limit));
    }

    /// Adds the error for a value that is none of the allowed ones.
    pub fn not_supported(&mut self, field: &str, value: impl Into<Shown>, allowed: &[&str]) {
        self.0
            .push(FieldError::not_supported(field, value, allowed));
    }

    /// Adds the error for a text that is none of the allowed ones. Empty texts pass.
    pub fn one_of(&mut self, field: &str, value: &Value, allowed: &[&str]) {
        match value.as_str() {
            Some(text) if !text.is_empty() && !allowed.contains(&text) => {
                self.not_supported(field, text, allowed);
            }
            _ => {}
        }
    }

    /// Adds the error for a text that is none of the allowed ones, also for an empty one.
    pub fn required_one_of(&mut self, field: &str, value: &Value, allowed: &[&str]) {
        let text = value.as_str().unwrap_or_default();
        if !allowed.contains(&text) {
            self.not_supported(field, text, allowed);
        }
    }

    /// Adds the error for a number below zero.
    pub fn non_negative(&mut self, field: &str, value: &Value) {
        if let Some(number) = value.as_i64().filter(|number| *number < 0) {
            self.invalid(field, number, "must be greater than or equal to 0");
        }
    }

    /// Adds the error for a value that differs from an earlier one.
    pub fn immutable(&mut self, field: &str, old: &Value, new: &Value) {
        if old != new {
            self.0.push(FieldError::immutable(field, new.clone()));
        }
    }
}

/// Joins the messages of errors as `utilerrors.NewAggregate` does: each once, in brackets where there
/// are several.
pub fn aggregate<T: ToString>(errors: &[T]) -> String {
    let mut messages: Vec<String> = Vec::new();
    for message in errors.iter().map(ToString::to_string) {
        if !messages.contains(&message) {
            messages.push(message);
        }
    }

    if messages.len() == 1 {
        messages.remove(0)
    } else {
        format!("[{}]", messages.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_paths_as_apimachinery_does() {
        let path = Path::root().child("spec").index(0).key("a/b").child("x");
        assert_eq!(path.to_string(), "spec[0][a/b].x");
        assert_eq!(Path::root().to_string(), "<nil>");
        assert_eq!(path.first(), "spec");
    }

    #[test]
    fn joins_equal_messages_once() {
        let error = FieldError::required(Path::new("a"), "");
        assert_eq!(
            aggregate(&[error.clone(), error.clone()]),
            "a: Required value"
        );
        let other = FieldError::invalid(Path::new("b"), Shown::value(&json!(1.5)), "no");
        assert_eq!(
            aggregate(&[error, other]),
            "[a: Required value, b: Invalid value: 1.5: no]"
        );
    }
}
