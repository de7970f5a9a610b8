//! What the API server (or the host in its place) answered instead of what was asked for.

use std::fmt;

/// Why a call failed, as a reconciler branches on it. The names follow apimachinery's `errors.IsNotFound` and siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ApiErrorKind {
    /// 404: the object does not exist, or its namespace or kind.
    NotFound,
    /// 409: an object of that name exists.
    AlreadyExists,
    /// 409: the resourceVersion is stale, or another field manager owns a field. Read again, then retry.
    Conflict,
    /// 422: the object was rejected; the status's causes say by which fields.
    Invalid,
    /// 400: the request is malformed.
    BadRequest,
    /// 401 or 403: the plugin's ServiceAccount may not do this, or the host's limits forbid it.
    Forbidden,
    /// 410: a continue token or resourceVersion is too old. Begin the list again.
    Expired,
    /// 429: too many requests.
    TooManyRequests,
    /// 500, 502, 503, or no connection: the API server cannot answer now.
    Unavailable,
    /// 504, or the host's deadline on one call.
    TimedOut,
    /// The object that came, or was to be sent, does not fit its Rust type. Found by the SDK, not by the API server.
    Malformed,
    /// Any other failure; the status's code and reason tell which.
    Other,
}

impl ApiErrorKind {
    /// The HTTP status code and `metav1.StatusReason` that stand for this kind.
    fn code_and_reason(self) -> (u16, &'static str) {
        match self {
            Self::NotFound => (404, "NotFound"),
            Self::AlreadyExists => (409, "AlreadyExists"),
            Self::Conflict => (409, "Conflict"),
            Self::Invalid => (422, "Invalid"),
            Self::BadRequest => (400, "BadRequest"),
            Self::Forbidden => (403, "Forbidden"),
            Self::Expired => (410, "Expired"),
            Self::TooManyRequests => (429, "TooManyRequests"),
            Self::Unavailable => (503, "ServiceUnavailable"),
            Self::TimedOut => (504, "Timeout"),
            Self::Malformed => (0, "Malformed"),
            Self::Other => (0, ""),
        }
    }
}

/// The API server's `metav1.Status` of a failed call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The HTTP status code, e.g. 409.
    pub code: u16,
    /// `metav1.StatusReason`, e.g. `Conflict`; empty when the server named none.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// Which fields were rejected, and why.
    pub causes: Vec<Cause>,
    /// When to come back, if the server said so.
    pub retry_after_seconds: Option<u32>,
}

/// One field that the API server rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// `metav1.CauseType`, e.g. `FieldValueInvalid`.
    pub reason: String,
    /// The reason for people.
    pub message: String,
    /// The field's path, e.g. `spec.replicas`; empty when the cause names none.
    pub field: String,
}

/// A call to the API server that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    kind: ApiErrorKind,
    // Boxed: results that carry an error stay as small as their good value.
    status: Box<Status>,
}

impl ApiError {
    /// An error of a kind, with the code and reason that belong to it.
    pub fn new(kind: ApiErrorKind, message: impl Into<String>) -> Self {
        let (code, reason) = kind.code_and_reason();
        let status = Status { code, reason: reason.to_owned(), message: message.into(), ..Status::default() };
        Self::with_status(kind, status)
    }

    /// An error with the API server's status.
    pub fn with_status(kind: ApiErrorKind, status: Status) -> Self {
        Self { kind, status: Box::new(status) }
    }

    /// Types a status as the host does, by its code and reason (apimachinery's `errors.ReasonForError`).
    pub fn from_status(status: Status) -> Self {
        let kind = match (status.code, status.reason.as_str()) {
            (_, "AlreadyExists") => ApiErrorKind::AlreadyExists,
            (_, "Timeout" | "ServerTimeout") | (504, _) => ApiErrorKind::TimedOut,
            (404, _) => ApiErrorKind::NotFound,
            (409, _) => ApiErrorKind::Conflict,
            (422, _) => ApiErrorKind::Invalid,
            (400, _) => ApiErrorKind::BadRequest,
            (401 | 403, _) => ApiErrorKind::Forbidden,
            (410, _) => ApiErrorKind::Expired,
            (429, _) => ApiErrorKind::TooManyRequests,
            (500 | 502 | 503, _) => ApiErrorKind::Unavailable,
            _ => ApiErrorKind::Other,
        };
        Self::with_status(kind, status)
    }

    /// The object does not fit its Rust type, or lacks what the call needs.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(ApiErrorKind::Malformed, message)
    }

    /// Why the call failed.
    pub fn kind(&self) -> ApiErrorKind {
        self.kind
    }

    /// The API server's status.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// The object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind == ApiErrorKind::NotFound
    }

    /// An object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.kind == ApiErrorKind::AlreadyExists
    }

    /// The object has changed since it was read, or a precondition does not hold.
    pub fn is_conflict(&self) -> bool {
        self.kind == ApiErrorKind::Conflict
    }

    /// The API server rejected the object.
    pub fn is_invalid(&self) -> bool {
        self.kind == ApiErrorKind::Invalid
    }

    /// The plugin's ServiceAccount may not do this.
    pub fn is_forbidden(&self) -> bool {
        self.kind == ApiErrorKind::Forbidden
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { code, reason, message, causes, .. } = &*self.status;
        if message.is_empty() {
            write!(f, "the API server answered {code} {reason}")?;
        } else {
            f.write_str(message)?;
        }
        // The API server's own message names its causes; one that the host wrote may not.
        for cause in causes.iter().filter(|cause| !message.contains(&cause.message)) {
            write!(f, "; {}: {}", cause.field, cause.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ApiError {}
