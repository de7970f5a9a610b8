//! Why a call at the API server failed, as reconcilers branch on it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One entry of metav1.Status's `details.causes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// metav1.CauseType, e.g. `FieldValueInvalid`.
    #[serde(default)]
    pub reason: String,
    /// For people.
    #[serde(default)]
    pub message: String,
    /// The field's path; empty when the cause names none.
    #[serde(default)]
    pub field: String,
}

/// The parts of metav1.Status that a client acts on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// metav1.StatusReason; empty when the server named none.
    pub reason: String,
    /// For people.
    pub message: String,
    /// `details.causes`.
    pub causes: Vec<Cause>,
    /// `details.retryAfterSeconds`, or the Retry-After header.
    pub retry_after_seconds: Option<u32>,
}

/// What kind of failure it is; the names follow apimachinery's `errors.IsNotFound` and its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// 404.
    NotFound,
    /// 409 with reason AlreadyExists.
    AlreadyExists,
    /// 409 otherwise.
    Conflict,
    /// 422.
    Invalid,
    /// 400.
    BadRequest,
    /// 401 and 403.
    Forbidden,
    /// 410.
    Expired,
    /// 429.
    TooManyRequests,
    /// 500, 502, 503 and no connection.
    Unavailable,
    /// 504, reason Timeout or ServerTimeout, and the host's own deadline.
    TimedOut,
    /// Anything else.
    Other,
}

/// A failed call. Whoever made the call decides whether to retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// What a caller branches on.
    pub kind: ErrorKind,
    /// What the API server said.
    pub status: Status,
}

impl ApiError {
    /// Types a Status the API server sent, by its code and reason (apimachinery's `errors.ReasonForError`).
    pub fn from_status(status: Status) -> Self {
        let kind = match (status.code, status.reason.as_str()) {
            (_, "AlreadyExists") => ErrorKind::AlreadyExists,
            (_, "Timeout" | "ServerTimeout") | (504, _) => ErrorKind::TimedOut,
            (404, _) => ErrorKind::NotFound,
            (409, _) => ErrorKind::Conflict,
            (422, _) => ErrorKind::Invalid,
            (400, _) => ErrorKind::BadRequest,
            (401 | 403, _) => ErrorKind::Forbidden,
            (410, _) => ErrorKind::Expired,
            (429, _) => ErrorKind::TooManyRequests,
            (500 | 502 | 503, _) => ErrorKind::Unavailable,
            _ => ErrorKind::Other,
        };
        Self { kind, status }
    }

    /// An answer that is longer than may be: apimachinery's `errors.NewRequestEntityTooLargeError`, code 413.
    pub fn too_large(message: String) -> Self {
        let reason = "RequestEntityTooLarge".to_owned();
        Self::from_status(Status { code: 413, reason, message, ..Status::default() })
    }

    /// An error the host makes itself, in the form the API server would have used.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let (code, reason) = match kind {
            ErrorKind::NotFound => (404, "NotFound"),
            ErrorKind::AlreadyExists => (409, "AlreadyExists"),
            ErrorKind::Conflict => (409, "Conflict"),
            ErrorKind::Invalid => (422, "Invalid"),
            ErrorKind::BadRequest => (400, "BadRequest"),
            ErrorKind::Forbidden => (403, "Forbidden"),
            ErrorKind::Expired => (410, "Expired"),
            ErrorKind::TooManyRequests => (429, "TooManyRequests"),
            ErrorKind::Unavailable => (503, "ServiceUnavailable"),
            ErrorKind::TimedOut => (504, "Timeout"),
            ErrorKind::Other => (500, "InternalError"),
        };
        let status = Status { code, reason: reason.to_owned(), message: message.into(), ..Status::default() };
        Self { kind, status }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { code, reason, message, .. } = &self.status;
        if reason.is_empty() { write!(f, "{code}: {message}") } else { write!(f, "{reason} ({code}): {message}") }
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_s_code_and_reason_decide_the_kind() {
        for (code, reason, kind) in [
            (404, "NotFound", ErrorKind::NotFound),
            (409, "AlreadyExists", ErrorKind::AlreadyExists),
            (409, "Conflict", ErrorKind::Conflict),
            (422, "Invalid", ErrorKind::Invalid),
            (400, "BadRequest", ErrorKind::BadRequest),
            (401, "Unauthorized", ErrorKind::Forbidden),
            (403, "Forbidden", ErrorKind::Forbidden),
            (410, "Expired", ErrorKind::Expired),
            (429, "TooManyRequests", ErrorKind::TooManyRequests),
            (500, "ServerTimeout", ErrorKind::TimedOut),
            (503, "ServiceUnavailable", ErrorKind::Unavailable),
            (504, "Timeout", ErrorKind::TimedOut),
            (418, "", ErrorKind::Other),
        ] {
            let status = Status { code, reason: reason.into(), ..Status::default() };
            assert_eq!(ApiError::from_status(status).kind, kind, "{code} {reason}");
        }
    }
}
