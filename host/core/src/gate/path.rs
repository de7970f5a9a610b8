//! The check of names that become part of a request's path: kinds, namespaces, names and subresources.
//!
//! The gate applies it to each call before the names are used, and the client applies it again before it builds a path.
//! A name that passes cannot lead to another path, and needs no escaping.

use crate::{
    object::{ObjectKey, kind::GroupVersionKind},
    status::{ApiError, ErrorKind, Status},
};

/// The longest name, in bytes.
pub const MAX_NAME: usize = 512;

/// Subresources that take over the connection, or whose response is not the API server's own.
const STREAMS: &[&str] = &["attach", "exec", "portforward", "proxy"];

/// Checks that a kind can be served, and names no other path than that of its group and version.
///
/// # Errors
/// `BadRequest`, naming the invalid part.
pub fn check_kind(kind: &GroupVersionKind) -> Result<(), ApiError> {
    kind.check().map_err(|(field, message)| bad_request(format!("invalid {field}: {message}")))
}

/// Checks that a key can be part of a path. Follows apimachinery's `path.ValidatePathSegmentName`, and rejects
/// everything that would need escaping.
///
/// # Errors
/// `BadRequest`, naming the invalid part.
pub fn check_key(key: &ObjectKey) -> Result<(), ApiError> {
    check_segment("name", &key.name)?;
    key.namespace.as_deref().map_or(Ok(()), |namespace| check_segment("namespace", namespace))
}

/// Checks a key as [`check_key`] does. An empty namespace counts as none.
///
/// # Errors
/// Fails as [`check_key`] does.
pub(super) fn check_given_key(key: &ObjectKey) -> Result<(), ApiError> {
    check_segment("name", &key.name)?;
    check_namespace(key.namespace.as_deref())
}

/// Checks a namespace as [`check_key`] does. None and the empty text count as no namespace.
///
/// # Errors
/// `BadRequest`, quoting the namespace.
pub(super) fn check_namespace(namespace: Option<&str>) -> Result<(), ApiError> {
    namespace.filter(|namespace| !namespace.is_empty()).map_or(Ok(()), |name| check_segment("namespace", name))
}

/// Checks one path segment as [`check_key`] does.
///
/// # Errors
/// `BadRequest`, naming the invalid part.
pub fn check_segment(what: &str, text: &str) -> Result<(), ApiError> {
    if text.is_empty() {
        return Err(bad_request(format!("the {what} is empty")));
    }
    if text.len() > MAX_NAME {
        let bytes = text.len();
        return Err(bad_request(format!("the {what} has {bytes} bytes, over the limit of {MAX_NAME} bytes")));
    }
    if text == "." || text == ".." || !is_path_text(text) {
        let shown: String = text.chars().take(64).collect();
        return Err(bad_request(format!("{shown:?} is not a valid {what}")));
    }
    Ok(())
}

/// Checks that a subresource needs no stream, and that its response is the API server's own. A Pod behind a proxy may return
/// any object.
///
/// # Errors
/// Code 405.
pub(super) fn check_subresource(subresource: &str) -> Result<(), ApiError> {
    let first = subresource.split('/').next().unwrap_or_default();
    if STREAMS.contains(&first) { Err(needs_stream(first)) } else { Ok(()) }
}

/// Returns the error for a request whose response is not a single text from the API server.
pub(super) fn needs_stream(what: &str) -> ApiError {
    let message = format!("{what} needs a stream, which plugins do not have: declare what to watch in the manifest");
    ApiError::from_status(Status { code: 405, reason: "MethodNotAllowed".to_owned(), message, ..Status::default() })
}

/// Reports whether a text can stand in a path without an escape. The text may still be `.` or `..`, or empty.
pub fn is_path_text(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~@$&+,;=!*'()".contains(&byte))
}

fn bad_request(message: String) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_name_that_leads_to_another_path() {
        for name in ["", ".", "..", "a/b", "../secrets/x", "a?watch=1", "a#b", "a%2fb", "a b", "é", "a\nb"] {
            let error = check_key(&ObjectKey::namespaced("n", name)).expect_err(name);
            assert_eq!(error.kind, ErrorKind::BadRequest);
            check_key(&ObjectKey::namespaced(name, "n")).expect_err(name);
        }
        check_given_key(&ObjectKey::namespaced("", "n")).expect("no namespace");
        for name in ["a", "system:node", "a.b-c", "0"] {
            check_key(&ObjectKey::cluster_scoped(name)).expect(name);
        }
    }

    #[test]
    fn rejects_api_version_with_extra_path_segments() {
        for api_version in ["apps/v1/namespaces/victim/deployments", "apps/v1/watch/deployments"] {
            let error = check_kind(&GroupVersionKind::new(api_version, "Deployment")).expect_err(api_version);
            assert_eq!(error.kind, ErrorKind::BadRequest);
            assert!(error.status.message.contains("apiVersion"), "{error}");
        }
    }
}
