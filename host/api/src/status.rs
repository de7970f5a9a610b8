//! Errors of API calls.

use serde::{Deserialize, Serialize};

/// One entry of the `details.causes` of a `metav1.Status`: a field that the API server rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The `metav1.CauseType`, e.g. `FieldValueInvalid`.
    #[serde(default)]
    pub reason: String,
    /// The reason for people.
    #[serde(default)]
    pub message: String,
    /// The field's path, e.g. `spec.replicas`; empty when the cause names none.
    #[serde(default)]
    pub field: String,
}

/// The parts of a `metav1.Status` that a client acts on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The HTTP status code, e.g. 409.
    pub code: u16,
    /// The `metav1.StatusReason`, e.g. `Conflict`; empty when the server named none.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// The rejected fields, from `details.causes`.
    pub causes: Vec<Cause>,
    /// The seconds to wait before the next attempt, from `details.retryAfterSeconds` or the
    /// Retry-After header.
    pub retry_after_seconds: Option<u32>,
}

impl Status {
    /// Returns the status that an API server returns for a kind of error.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            code: kind.code(),
            reason: kind.reason().to_owned(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// Classifies the status by its code and reason (apimachinery's `errors.ReasonForError`).
    ///
    /// ```
    /// use operetta_api::{ErrorKind, Status};
    ///
    /// let status = Status { code: 409, reason: "AlreadyExists".to_owned(), ..Status::default() };
    /// assert_eq!(status.kind(), ErrorKind::AlreadyExists);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match (self.code, self.reason.as_str()) {
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
        }
    }
}

/// The kinds of errors that a reconciler branches on. The names follow apimachinery's
/// `errors.IsNotFound` and siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// 404: the object does not exist, or its namespace or kind.
    NotFound,
    /// 409 with reason `AlreadyExists`: an object of that name exists.
    AlreadyExists,
    /// 409 otherwise: the resourceVersion is stale, or another field manager owns a field. Read
    /// again, then retry.
    Conflict,
    /// 422: the object was rejected; the status's causes name the fields.
    Invalid,
    /// 400: the request is malformed.
    BadRequest,
    /// 401 or 403: the ServiceAccount lacks a permission, or a limit of the host forbids the call.
    Forbidden,
    /// 410: a continue token or resourceVersion is too old. Restart the list.
    Expired,
    /// 429: too many requests.
    TooManyRequests,
    /// 500, 502, 503, or no connection: the API server is unavailable.
    Unavailable,
    /// 504, reason `Timeout` or `ServerTimeout`, or the host's deadline of one call.
    TimedOut,
    /// Any other failure; see the status's code and reason.
    Other,
}

impl ErrorKind {
    /// Returns the HTTP status code of this kind.
    pub fn code(self) -> u16 {
        match self {
            Self::NotFound => 404,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Invalid => 422,
            Self::BadRequest => 400,
            Self::Forbidden => 403,
            Self::Expired => 410,
            Self::TooManyRequests => 429,
            Self::Unavailable => 503,
            Self::TimedOut => 504,
            Self::Other => 500,
        }
    }

    /// Returns the `metav1.StatusReason` of this kind.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Invalid => "Invalid",
            Self::BadRequest => "BadRequest",
            Self::Forbidden => "Forbidden",
            Self::Expired => "Expired",
            Self::TooManyRequests => "TooManyRequests",
            Self::Unavailable => "ServiceUnavailable",
            Self::TimedOut => "Timeout",
            Self::Other => "InternalError",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_reason_decide_error_kind() {
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
            let status = Status {
                code,
                reason: reason.into(),
                ..Status::default()
            };
            assert_eq!(status.kind(), kind, "{code} {reason}");
        }
    }
}
