//! Errors of calls to the API server.

use std::fmt;

pub use operetta_api::{Cause, ErrorKind, Status};

/// A failed call. The caller decides whether to retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The kind of error, for callers to match on.
    pub kind: ErrorKind,
    /// The API server's status.
    pub status: Status,
}

impl ApiError {
    /// Classifies a status sent by the API server, by its code and reason.
    pub fn from_status(status: Status) -> Self {
        Self {
            kind: status.kind(),
            status,
        }
    }

    /// The error for a response beyond its size limit (apimachinery's
    /// [`errors.NewRequestEntityTooLargeError`], code 413).
    ///
    /// [`errors.NewRequestEntityTooLargeError`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/api/errors/errors.go#L427
    pub fn too_large(message: String) -> Self {
        let reason = "RequestEntityTooLarge".to_owned();
        Self::from_status(Status {
            code: 413,
            reason,
            message,
            ..Status::default()
        })
    }

    /// An error of the host's own, in the form of the API server's.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: Status::new(kind, message),
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status {
            code,
            reason,
            message,
            ..
        } = &self.status;

        if reason.is_empty() {
            write!(f, "{code}: {message}")
        } else {
            write!(f, "{reason} ({code}): {message}")
        }
    }
}

impl std::error::Error for ApiError {}
