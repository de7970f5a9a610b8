//! The error for a text that is not a Kubernetes object.

use crate::object::scanner::ScanError;

/// A text is not a Kubernetes object. Reading it again cannot help.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The text is not JSON.
    #[error("not a Kubernetes object: {0}")]
    Json(#[from] ScanError),
    /// The text is not UTF-8.
    #[error("not a Kubernetes object: it is not UTF-8 from byte {0} on")]
    Utf8(usize),
    /// The text is longer than 4 GiB.
    #[error("not a Kubernetes object: it is longer than 4 GiB")]
    TooLong,
    /// There is no metadata.name.
    #[error("not a Kubernetes object: it has no metadata.name")]
    Unnamed,
    /// A field has the wrong type.
    #[error("not a Kubernetes object: in {field}, expected {expected}")]
    Type {
        /// The field.
        field: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// A field occurs twice. Accepting the text would lose one of the values.
    #[error("not a Kubernetes object: duplicate field {0}")]
    Twice(&'static str),
    /// A name, uid or label contains characters that Kubernetes does not allow.
    #[error(
        "not a Kubernetes object: in {field}, {value:?} holds a quote, a backslash or a control character"
    )]
    Unreadable {
        /// The field.
        field: &'static str,
        /// The value found.
        value: String,
    },
    /// metadata.ownerReferences are malformed.
    #[error("not a Kubernetes object: in metadata.ownerReferences, {0}")]
    Owners(String),
}

impl ObjectError {
    pub(crate) fn wrong(field: &'static str, expected: &'static str) -> Self {
        Self::Type { field, expected }
    }
}
