//! Refused requests, and the `Status` that reports them.

use serde_json::{Value, json};
use thiserror::Error;

pub use crate::field::{ErrorKind, FieldError, Path, Shown, aggregate};
use crate::field::{invalid_details, invalid_message};

/// A refused request. The caller turns it into an HTTP response with [`Refusal::status`].
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refusal {
    /// The object violates rules: 422, reason `Invalid`.
    #[error("{}", invalid_message(group, kind, name, causes))]
    Invalid {
        /// The API group of the object.
        group: String,
        /// The kind of the object.
        kind: String,
        /// The name of the object.
        name: String,
        /// The errors, field by field.
        causes: Vec<FieldError>,
    },
    /// The object cannot be decoded: 400, reason `BadRequest`.
    #[error("{0}")]
    BadRequest(String),
    /// The object uses a feature that this server does not have: 501, reason `NotImplemented`.
    #[error("{0}")]
    NotImplemented(String),
}

impl Refusal {
    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::Invalid { .. } => 422,
            Self::BadRequest(_) => 400,
            Self::NotImplemented(_) => 501,
        }
    }

    /// Returns the `Status` object that reports the refusal.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.to_string(), "code": self.code(),
        });
        match self {
            Self::Invalid { group, kind, name, causes } => {
                status["reason"] = json!("Invalid");
                status["details"] = invalid_details(group, kind, name, causes);
            }
            Self::BadRequest(_) => status["reason"] = json!("BadRequest"),
            Self::NotImplemented(_) => status["reason"] = json!("NotImplemented"),
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_invalid_objects_as_status() {
        let causes = vec![FieldError::not_supported(&Path::new("a"), Shown::text("x"), &["y", "z"])];
        let refusal = Refusal::Invalid { group: "example.com".into(), kind: "Foo".into(), name: "one".into(), causes };
        let status = refusal.status();
        let message = r#"Foo.example.com "one" is invalid: a: Unsupported value: "x": supported values: "y", "z""#;
        assert_eq!(status["message"], message);
        assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueNotSupported");
        assert_eq!(status["code"], 422);
    }
}
