//! The headers of the endpoints for users.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use operetta_api::reasons::Reason;

/// The header of a response: the identity of the replica that made it.
pub const REPLICA: &str = "x-operetta-replica";

/// The header of an error: its code.
pub const REASON: &str = "x-operetta-reason";

/// The header of a request: the identity of the replica that forwarded it. Such a request is not forwarded again.
pub const FORWARDED_BY: &str = "x-operetta-forwarded-by";

/// Returns an error with its code.
pub fn error(status: StatusCode, reason: Reason, message: impl Into<String>) -> Response {
    (status, [(REASON, reason.as_str())], message.into()).into_response()
}
