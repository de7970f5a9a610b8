//! The API server's errors, in its wording.

use crate::{ApiError, Cause, ErrorKind, GroupVersionKind, ObjectKey, Status};

/// Returns a description like the API server's `foos.example.com "name"`, with the kind in place of the resource.
fn described(kind: &GroupVersionKind, key: &ObjectKey) -> String {
    match kind.group() {
        "" => format!("{} {:?}", kind.kind, key.name),
        group => format!("{}.{group} {:?}", kind.kind, key.name),
    }
}

pub(super) fn not_found(kind: &GroupVersionKind, key: &ObjectKey) -> ApiError {
    ApiError::new(ErrorKind::NotFound, format!("{} not found", described(kind, key)))
}

pub(super) fn already_exists(kind: &GroupVersionKind, key: &ObjectKey) -> ApiError {
    ApiError::new(ErrorKind::AlreadyExists, format!("{} already exists", described(kind, key)))
}

pub(super) fn conflict(kind: &GroupVersionKind, key: &ObjectKey, why: &str) -> ApiError {
    let message = format!("Operation cannot be fulfilled on {}: {why}", described(kind, key));
    ApiError::new(ErrorKind::Conflict, message)
}

pub(super) fn invalid(kind: &GroupVersionKind, key: &ObjectKey, field: &str, why: &str) -> ApiError {
    let message = format!("{} is invalid: {field}: {why}", described(kind, key));
    let cause = Cause { reason: "FieldValueInvalid".to_owned(), message: why.to_owned(), field: field.to_owned() };
    let status = ApiError::new(ErrorKind::Invalid, message).status().clone();
    ApiError::with_status(ErrorKind::Invalid, Status { causes: vec![cause], ..status })
}

/// Returns the error of a feature that the kit does not have.
pub(super) fn unsupported(what: &str) -> ApiError {
    let message = format!("{what}: not supported by the test kit; test it on an API server");
    ApiError::with_status(ErrorKind::Other, Status { code: 501, message, ..Status::default() })
}
