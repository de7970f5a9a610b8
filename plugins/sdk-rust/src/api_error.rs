//! Errors of calls to the API server.

use std::fmt;

use operetta_api::{ErrorKind, Status};

/// The reason of an error that the SDK found, not the API server.
const MALFORMED: &str = "Malformed";

/// A call to the API server that failed.
///
/// ```
/// use operetta_sdk::{ApiError, ErrorKind};
///
/// let error = ApiError::new(ErrorKind::NotFound, "configmaps \"a\" not found");
/// assert!(error.is_not_found());
/// assert_eq!(error.status().code, 404);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    kind: ErrorKind,
    // Boxed, so that a `Result` with this error stays small.
    status: Box<Status>,
}

impl ApiError {
    /// Returns an error with the default code and reason of its kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::with_status(kind, Status::new(kind, message))
    }

    /// Returns an error with the API server's status.
    pub fn with_status(kind: ErrorKind, status: Status) -> Self {
        Self {
            kind,
            status: Box::new(status),
        }
    }

    /// Returns an error whose kind follows from the status's code and reason, as in the host.
    pub fn from_status(status: Status) -> Self {
        Self::with_status(status.kind(), status)
    }

    /// Returns an error that no API server sent: the object does not fit its Rust type, or lacks
    /// what the call needs.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        let status = Status {
            reason: MALFORMED.to_owned(),
            message: message.into(),
            ..Status::default()
        };
        Self::with_status(ErrorKind::Other, status)
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the API server's status.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Reports whether an object, received or to be sent, does not fit its Rust type. The SDK
    /// detects this error, not the API server.
    pub fn is_malformed(&self) -> bool {
        self.status.code == 0 && self.status.reason == MALFORMED
    }

    /// Reports whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }

    /// Reports whether an object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.kind == ErrorKind::AlreadyExists
    }

    /// Reports whether the object has changed since it was read, or a precondition does not hold.
    pub fn is_conflict(&self) -> bool {
        self.kind == ErrorKind::Conflict
    }

    /// Reports whether the API server rejected the object.
    pub fn is_invalid(&self) -> bool {
        self.kind == ErrorKind::Invalid
    }

    /// Reports whether the plugin's ServiceAccount lacks a permission.
    pub fn is_forbidden(&self) -> bool {
        self.kind == ErrorKind::Forbidden
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status {
            code,
            reason,
            message,
            causes,
            ..
        } = &*self.status;
        if message.is_empty() {
            write!(f, "the API server responded with {code} {reason}")?;
        } else {
            f.write_str(message)?;
        }

        // The API server's own message names its causes; a message of the host may not.
        for cause in causes
            .iter()
            .filter(|cause| !names(message, &cause.message))
        {
            write!(f, "; {}: {}", cause.field, cause.message)?;
        }

        Ok(())
    }
}

/// Reports whether a text contains another. The standard library's search is fast, but large.
fn names(text: &str, part: &str) -> bool {
    part.is_empty()
        || text
            .as_bytes()
            .windows(part.len())
            .any(|window| window == part.as_bytes())
}

impl std::error::Error for ApiError {}
