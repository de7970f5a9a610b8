//! Errors of a write, with what a `Status` needs: reason, message and causes.

use serde_json::{Value, json};
use thiserror::Error;

use super::codec::{decode::quote, typed_json};

/// The kinds of field errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorType {
    /// A value that the field cannot have.
    Invalid,
    /// A value is missing.
    Required,
    /// A value that may not be set here.
    Forbidden,
    /// A value that is none of the allowed ones.
    NotSupported,
    /// A value that is there already.
    Duplicate,
    /// A value that names something that does not exist.
    NotFound,
    /// A text or list that is too long.
    TooLong,
    /// A list with too many items.
    TooMany,
}

impl FieldErrorType {
    /// Returns the reason of a cause, as in `FieldValueInvalid`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid value",
            Self::Required => "Required value",
            Self::Forbidden => "Forbidden",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

/// The value in the message of a field error.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// A value that is printed as JSON, texts in quotes.
    Json(Value),
    /// The text of an object, as the real server prints it.
    Text(String),
}

impl<T: Into<Value>> From<T> for BadValue {
    fn from(value: T) -> Self {
        Self::Json(value.into())
    }
}

/// Returns an object as the internal Go type prints it: names in upper case, and null where there is none.
pub(super) fn internal_object(object: &Value, keys: &[&str]) -> BadValue {
    let names = [("ipBlock", "IPBlock"), ("apiGroup", "APIGroup"), ("seLinuxOptions", "SELinuxOptions")];
    let mut text = String::from("{");
    for (index, key) in keys.iter().enumerate() {
        let fixed = names.iter().find(|(own, _)| own == key).map(|(_, name)| (*name).to_owned());
        let name = fixed.unwrap_or_else(|| key[..1].to_uppercase() + &key[1..]);
        let comma = if index > 0 { "," } else { "" };
        text.push_str(&format!("{comma}\"{name}\":{}", object.get(key).unwrap_or(&Value::Null)));
    }
    BadValue::Text(text + "}")
}

/// Returns an object as its Go type prints it, as in `meta/v1.LabelSelector`.
pub(super) fn typed_object(name: &str, object: &Value) -> BadValue {
    BadValue::Text(typed_json(name, object))
}

/// An error of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The kind of error.
    pub kind: FieldErrorType,
    /// The path, as in `spec.ports[0].name`.
    pub field: String,
    /// The value; it is part of the message, except for those that are missing, forbidden or too long.
    pub value: BadValue,
    /// The fault of the value.
    pub detail: String,
}

impl FieldError {
    /// Returns the message without the path.
    pub fn body(&self) -> String {
        let words = self.kind.words();
        let mut body = match self.kind {
            FieldErrorType::Required | FieldErrorType::Forbidden | FieldErrorType::TooLong => words.to_owned(),
            _ => match &self.value {
                BadValue::Json(Value::String(text)) => format!("{words}: {}", quote(text)),
                BadValue::Json(other) => format!("{words}: {other}"),
                BadValue::Text(text) => format!("{words}: {text}"),
            },
        };
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }

    /// Returns the cause of a `Status`.
    pub fn cause(&self) -> Value {
        json!({ "reason": self.kind.reason(), "message": self.body(), "field": self.field })
    }
}

/// An error of a write.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum KindError {
    /// The body is no object of the kind: code 400.
    #[error("{0}")]
    BadRequest(String),
    /// The object is invalid: code 422.
    #[error("{}", invalid_message(group, kind, name, errors))]
    Invalid {
        /// The group of the kind; empty for core.
        group: String,
        /// The kind.
        kind: String,
        /// The name of the object.
        name: String,
        /// The errors in the real server's order.
        errors: Vec<FieldError>,
    },
    /// A patch that the real server fails on: code 500.
    #[error("{0}")]
    Internal(String),
    /// The kind or the request is not implemented: code 501.
    #[error("{0}")]
    NotImplemented(String),
}

fn invalid_message(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> String {
    let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    let mut messages: Vec<String> = Vec::new();
    for error in errors {
        let message = format!("{}: {}", error.field, error.body());
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    let text = match messages.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    format!("{qualified} {} is invalid: {text}", quote(name))
}

impl KindError {
    /// Returns the HTTP code.
    pub fn code(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::Invalid { .. } => 422,
            Self::Internal(_) => 500,
            Self::NotImplemented(_) => 501,
        }
    }

    /// Returns the `Status` that the real server answers with.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.to_string(), "code": self.code(),
        });
        match self {
            Self::BadRequest(_) => status["reason"] = "BadRequest".into(),
            Self::NotImplemented(_) => status["reason"] = "NotImplemented".into(),
            Self::Internal(_) => {}
            Self::Invalid { group, kind, name, errors } => {
                status["reason"] = "Invalid".into();
                let causes: Vec<Value> = errors.iter().map(FieldError::cause).collect();
                let mut details = json!({ "causes": causes });
                for (key, text) in [("name", name), ("group", group), ("kind", kind)] {
                    if !text.is_empty() {
                        details[key] = text.as_str().into();
                    }
                }
                status["details"] = details;
            }
        }
        status
    }
}
