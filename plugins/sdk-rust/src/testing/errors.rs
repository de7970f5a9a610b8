//! The refusals of the API server, worded as it words them.

use crate::kind::group;
use crate::{ApiError, ApiErrorKind, Cause, GroupVersionKind, ObjectKey, Status};

/// `foos.example.com "name"` as messages have it; the kit knows the kind only.
fn described(kind: &GroupVersionKind, key: &ObjectKey) -> String {
    match group(&kind.api_version) {
        "" => format!("{} {:?}", kind.kind, key.name),
        group => format!("{}.{group} {:?}", kind.kind, key.name),
    }
}

pub(super) fn not_found(kind: &GroupVersionKind, key: &ObjectKey) -> ApiError {
    ApiError::new(ApiErrorKind::NotFound, format!("{} not found", described(kind, key)))
}

pub(super) fn already_exists(kind: &GroupVersionKind, key: &ObjectKey) -> ApiError {
    ApiError::new(ApiErrorKind::AlreadyExists, format!("{} already exists", described(kind, key)))
}

pub(super) fn conflict(kind: &GroupVersionKind, key: &ObjectKey, why: &str) -> ApiError {
    let message = format!("Operation cannot be fulfilled on {}: {why}", described(kind, key));
    ApiError::new(ApiErrorKind::Conflict, message)
}

pub(super) fn invalid(kind: &GroupVersionKind, key: &ObjectKey, field: &str, why: &str) -> ApiError {
    let message = format!("{} is invalid: {field}: {why}", described(kind, key));
    let cause = Cause { reason: "FieldValueInvalid".to_owned(), message: why.to_owned(), field: field.to_owned() };
    let status = ApiError::new(ApiErrorKind::Invalid, message).status().clone();
    ApiError::with_status(ApiErrorKind::Invalid, Status { causes: vec![cause], ..status })
}

/// What the kit cannot do as the API server does it, it does not do.
pub(super) fn unsupported(what: &str) -> ApiError {
    let message = format!("{what}: not supported by the test kit; test it on an API server");
    ApiError::with_status(ApiErrorKind::Other, Status { code: 501, message, ..Status::default() })
}
