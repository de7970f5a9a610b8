//! The page's errors: JSON for its script, a page for people.

use axum::{
    body::{Body, to_bytes},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use operetta_api::reasons::{self, Reason};
use operetta_core::{object::ObjectKey, status::ApiError};
use serde::{Deserialize, Serialize};

use super::{html::Html, shell};
use crate::admin::{access::Refusal, headers::REASON};

/// The maximum size of an error's text, in bytes.
const MAX_TEXT: usize = 64 << 10;

/// An error as the script gets it, and as another replica reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    /// The HTTP status.
    pub status: u16,
    /// One of the host's reasons, or of the API server's.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            status: status.as_u16(),
            reason: reason.into(),
            message: message.into(),
        }
    }

    pub(super) fn bad_name(name: &str) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            reasons::INVALID_NAME,
            format!("{name:?} is not a name of Kubernetes"),
        )
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let status = error.status;
        let reason = if status.reason.is_empty() {
            "Unavailable".to_owned()
        } else {
            status.reason
        };
        Self {
            status: status.code,
            reason,
            message: status.message,
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let (status, reason) = match &refusal {
            Refusal::NoToken => (401, reasons::TOKEN_MISSING.into()),
            Refusal::Unauthorized(_) => (401, reasons::TOKEN_REFUSED.into()),
            Refusal::Forbidden(_) => (403, reasons::ENDPOINT_FORBIDDEN.into()),
            Refusal::Unavailable(_) => (503, "Unavailable".to_owned()),
        };
        Self {
            status,
            reason,
            message: refusal.message().to_owned(),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_GATEWAY);
        let mut response = (status, self.message).into_response();
        if let Ok(reason) = HeaderValue::from_str(&self.reason) {
            response.headers_mut().insert(REASON, reason);
        }
        response
    }
}

/// Renders an error to suit its path: JSON below `/page/api/`, a page elsewhere.
pub(super) async fn present(response: Response, is_api: bool, user: Option<&str>) -> Response {
    let status = response.status();
    let is_text = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !(status.is_client_error() || status.is_server_error()) || !is_text {
        return response;
    }

    let (mut head, body) = response.into_parts();
    let text = to_bytes(body, MAX_TEXT).await.unwrap_or_default();
    let message = String::from_utf8_lossy(&text).into_owned();
    let reason = head
        .headers
        .get(REASON)
        .and_then(|value| value.to_str().ok());

    let reason = reason
        .or(status.canonical_reason())
        .unwrap_or_default()
        .to_owned();
    head.headers.remove(header::CONTENT_LENGTH);
    let (content_type, text) = if is_api {
        let failure = Failure {
            status: status.as_u16(),
            reason,
            message,
        };
        (
            "application/json",
            serde_json::to_string(&failure).unwrap_or_default(),
        )
    } else {
        let body = Html::default()
            .markup("<h1>")
            .text(&reason)
            .markup("</h1>")
            .paragraph(&message);
        let cure = reasons::find(&reason).map(Reason::cure).unwrap_or_default();
        (
            "text/html; charset=utf-8",
            shell::document(&reason, user, body.paragraph(cure)),
        )
    };
    head.headers
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));

    Response::from_parts(head, Body::from(text))
}

/// Returns the error for a Plugin that doesn't exist.
pub(super) fn no_plugin(plugin: &ObjectKey) -> Failure {
    let message = format!(
        "there is no Plugin {plugin}, or no host has seen it: check that it exists, and its conditions"
    );
    Failure::new(StatusCode::NOT_FOUND, reasons::PLUGIN_NOT_ASSIGNED, message)
}
