//! API errors, as the `Status` objects of Kubernetes.

use serde_json::{Map, Value, json};

pub use crate::golang::quote;
use thiserror::Error;

/// A cause in the details of a `Status`: one invalid field, or one message of an admission policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable kind of the cause, such as `FieldValueInvalid`; may be empty.
    pub reason: &'static str,
    /// The message without the field.
    pub message: String,
    /// The path of the field; may be empty.
    pub field: String,
}

/// The object that an error is about, for the details of the `Status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, or for [`ApiError::Invalid`] the kind.
    pub kind: String,
    /// The name of the object; may be empty.
    pub name: String,
}

impl Subject {
    /// Returns a subject, on the heap so that errors stay small.
    pub fn boxed(group: &str, kind: &str, name: &str) -> Box<Self> {
        Box::new(Self { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() })
    }
}

/// An error that the API server answers with a `Status`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApiError {
    /// 403: the user may not do this, or admission refuses it.
    #[error("{message}")]
    Forbidden {
        /// The whole message.
        message: String,
        /// The subject of the request.
        subject: Box<Subject>,
    },
    /// 422: fields of the object are invalid.
    #[error("{message}")]
    Invalid {
        /// The whole message.
        message: String,
        /// The kind and name of the object.
        subject: Box<Subject>,
        /// One cause per field.
        causes: Vec<Cause>,
    },
    /// An admission policy denied the request, with the code and reason that it states.
    #[error("{message}")]
    Denied {
        /// The HTTP status code.
        code: u16,
        /// The reason of the `Status`.
        reason: String,
        /// The whole message.
        message: String,
        /// The subject of the request.
        subject: Box<Subject>,
        /// The messages of the policies.
        causes: Vec<Cause>,
    },
    /// 400: the request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// 401: the credentials are unknown or invalid.
    #[error("Unauthorized")]
    Unauthorized,
    /// 404: the object does not exist.
    #[error("{} {:?} not found", qualified(.0), .0.name)]
    NotFound(Box<Subject>),
    /// 409: the object is not the one that the request means.
    #[error("{message}")]
    Conflict {
        /// The whole message.
        message: String,
        /// The subject of the request.
        subject: Box<Subject>,
    },
    /// 500: this server failed.
    #[error("Internal error occurred: {0}")]
    Internal(String),
    /// 500 without a reason: kube-apiserver answers so with errors that it did not expect.
    #[error("{0}")]
    Untyped(String),
    /// 501: this server does not support the request, although kube-apiserver does.
    #[error("{0}")]
    Unsupported(String),
}

/// Returns a resource or kind with its group, as messages name it.
fn qualified(subject: &Subject) -> String {
    if subject.group.is_empty() { subject.kind.clone() } else { format!("{}.{}", subject.kind, subject.group) }
}

impl ApiError {
    /// Returns a 403 about an object of a resource; `name` may be empty.
    pub fn forbidden(group: &str, resource: &str, name: &str, cause: &str) -> Self {
        let subject = Subject::boxed(group, resource, name);
        let message = match (resource.is_empty() && group.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {cause}"),
            (false, true) => format!("{} is forbidden: {cause}", qualified(&subject)),
            (false, false) => format!("{} {} is forbidden: {cause}", qualified(&subject), quote(name)),
        };
        Self::Forbidden { message, subject }
    }

    /// Returns a 422 about an object of a kind; `name` may be empty.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let subject = Subject::boxed(group, kind, name);
        let errors: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let message = format!("{} {} is invalid: {}", qualified(&subject), quote(name), aggregate(&errors));
        Self::Invalid { message, subject, causes }
    }

    /// Returns a 404 about an object of a resource.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::NotFound(Subject::boxed(group, resource, name))
    }

    /// Returns the 400 for an object in another namespace than that of the URL.
    pub fn other_namespace() -> Self {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        Self::BadRequest(message.to_owned())
    }

    /// Returns a 409 about an object of a resource.
    pub fn conflict(group: &str, resource: &str, name: &str, cause: &str) -> Self {
        let subject = Subject::boxed(group, resource, name);
        let message = format!("Operation cannot be fulfilled on {} {}: {cause}", qualified(&subject), quote(name));
        Self::Conflict { message, subject }
    }

    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::Unauthorized => 401,
            Self::Forbidden { .. } => 403,
            Self::NotFound(_) => 404,
            Self::Conflict { .. } => 409,
            Self::Invalid { .. } => 422,
            Self::Denied { code, .. } => *code,
            Self::Internal(_) | Self::Untyped(_) => 500,
            Self::Unsupported(_) => 501,
        }
    }

    /// Returns the reason of the `Status`.
    pub fn reason(&self) -> &str {
        match self {
            Self::BadRequest(_) => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden { .. } => "Forbidden",
            Self::NotFound(_) => "NotFound",
            Self::Conflict { .. } => "Conflict",
            Self::Invalid { .. } => "Invalid",
            Self::Denied { reason, .. } => reason,
            Self::Internal(_) => "InternalError",
            Self::Untyped(_) => "",
            Self::Unsupported(_) => "NotImplemented",
        }
    }

    /// Returns the `Status` object.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.to_string(), "code": self.code(),
        });
        if !self.reason().is_empty() {
            status["reason"] = json!(self.reason());
        }
        if let Some(details) = self.details() {
            status["details"] = details;
        }
        status
    }

    fn details(&self) -> Option<Value> {
        let (subject, causes): (&Subject, &[Cause]) = match self {
            Self::Forbidden { subject, .. } | Self::NotFound(subject) | Self::Conflict { subject, .. } => {
                (subject, &[])
            }
            Self::Invalid { subject, causes, .. } | Self::Denied { subject, causes, .. } => (subject, causes),
            Self::Internal(message) => return Some(json!({"causes": [{"message": message}]})),
            Self::BadRequest(_) | Self::Unauthorized | Self::Untyped(_) | Self::Unsupported(_) => return None,
        };
        let mut details = Map::new();
        for (key, value) in [("group", &subject.group), ("kind", &subject.kind), ("name", &subject.name)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), json!(value));
            }
        }
        if !causes.is_empty() {
            details.insert("causes".to_owned(), causes.iter().map(cause_json).collect());
        }
        Some(Value::Object(details))
    }
}

fn cause_json(cause: &Cause) -> Value {
    let mut json = Map::new();
    for (key, value) in [("reason", cause.reason), ("message", &cause.message), ("field", &cause.field)] {
        if !value.is_empty() {
            json.insert(key.to_owned(), json!(value));
        }
    }
    Value::Object(json)
}

/// Builds the causes of invalid fields, in the words of `k8s.io/apimachinery/pkg/util/validation/field`.
impl Cause {
    /// Returns a cause for a value that is not allowed. Strings are quoted, other values are JSON.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::with_value("FieldValueInvalid", "Invalid value", field.into(), value, detail)
    }

    /// Returns a cause for a value that is not allowed, which is shown as this JSON text.
    pub fn invalid_json(field: impl Into<String>, json: &str, detail: &str) -> Self {
        Self::without_value("FieldValueInvalid", &format!("Invalid value: {json}"), field.into(), detail)
    }

    /// Returns a cause for a value that occurs twice.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::with_value("FieldValueDuplicate", "Duplicate value", field.into(), value, "")
    }

    /// Returns a cause for a value that is none of the `supported` ones.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| quote(value)).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        Self::with_value("FieldValueNotSupported", "Unsupported value", field.into(), value, &detail)
    }

    /// Returns a cause for a missing value.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::without_value("FieldValueRequired", "Required value", field.into(), detail)
    }

    /// Returns a cause for a value that must be absent.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::without_value("FieldValueForbidden", "Forbidden", field.into(), detail)
    }

    fn with_value(reason: &'static str, kind: &str, field: String, value: &Value, detail: &str) -> Self {
        let value = match value {
            Value::String(text) => quote(text),
            other => other.to_string(),
        };
        Self::without_value(reason, &format!("{kind}: {value}"), field, detail)
    }

    fn without_value(reason: &'static str, body: &str, field: String, detail: &str) -> Self {
        let message = if detail.is_empty() { body.to_owned() } else { format!("{body}: {detail}") };
        Self { reason, message, field }
    }
}

/// Quotes a list of strings as Go's `%q` does.
pub fn quote_list(items: &[String]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| quote(item)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Joins error messages as `utilerrors.NewAggregate` does: one stands alone, several are a list without duplicates.
pub fn aggregate(errors: &[String]) -> String {
    let mut unique: Vec<&str> = Vec::new();
    for error in errors {
        if !unique.contains(&error.as_str()) {
            unique.push(error);
        }
    }
    match unique.as_slice() {
        [one] => (*one).to_owned(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quote_escapes_as_go_does() {
        for (text, quoted) in [
            ("plain", r#""plain""#),
            ("a\"b\\", r#""a\"b\\""#),
            ("a\nb\tc", r#""a\nb\tc""#),
            ("\u{1}\u{7f}", r#""\x01\x7f""#),
            ("ü日", "\"ü日\""),
            ("\u{a0}\u{200b}", r#""\u00a0\u200b""#),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }

    #[test]
    fn aggregate_drops_duplicates() {
        assert_eq!(aggregate(&["a".to_owned()]), "a");
        assert_eq!(aggregate(&["a".to_owned(), "a".to_owned()]), "a");
        assert_eq!(aggregate(&["a".to_owned(), "b".to_owned()]), "[a, b]");
    }
}
