//! Errors of a write, with what a `Status` needs: reason, message and causes.

use serde_json::{Value, json};
use thiserror::Error;

use super::codec::typed_json;
use crate::field::{FieldError, Shown, invalid_details, invalid_message};

/// Returns an object as the internal Go type prints it: names in upper case, and null where there is none.
pub(super) fn internal_object(object: &Value, keys: &[&str]) -> Shown {
    let names = [("ipBlock", "IPBlock"), ("apiGroup", "APIGroup"), ("seLinuxOptions", "SELinuxOptions")];
    let mut text = String::from("{");
    for (index, key) in keys.iter().enumerate() {
        let fixed = names.iter().find(|(own, _)| own == key).map(|(_, name)| (*name).to_owned());
        let name = fixed.unwrap_or_else(|| key[..1].to_uppercase() + &key[1..]);
        let comma = if index > 0 { "," } else { "" };
        text.push_str(&format!("{comma}\"{name}\":{}", object.get(key).unwrap_or(&Value::Null)));
    }
    Shown::raw(text + "}")
}

/// Returns an object as its Go type prints it, as in `meta/v1.LabelSelector`.
pub(super) fn typed_object(name: &str, object: &Value) -> Shown {
    Shown::raw(typed_json(name, object))
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
                status["details"] = invalid_details(group, kind, name, errors);
            }
        }
        status
    }
}
