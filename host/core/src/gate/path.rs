//! The one check of names that become part of a request's path: kinds, namespaces, names and subresources.
//!
//! The gate applies it to each call before anything else looks at the names, the client once more before it builds a
//! path. A name that passes reaches no other path, and needs no escape.

use crate::{
    object::{ObjectKey, kind::GroupVersionKind},
    status::{ApiError, ErrorKind},
};

/// The longest name, in bytes.
pub const MAX_NAME: usize = 512;

/// Checks that a kind can be served, and names no other path than that of its group and version.
///
/// # Errors
/// `BadRequest` that names the part.
pub fn check_kind(kind: &GroupVersionKind) -> Result<(), ApiError> {
    kind.check().map_err(|(field, message)| bad_request(format!("the {field} of a call is wrong: {message}")))
}

/// Checks that a key can stand in a path. Follows apimachinery's `path.ValidatePathSegmentName`, and takes nothing that
/// would need an escape.
///
/// # Errors
/// `BadRequest` that names the part.
pub fn check_key(key: &ObjectKey) -> Result<(), ApiError> {
    check_segment("name", &key.name)?;
    key.namespace.as_deref().map_or(Ok(()), |namespace| check_segment("namespace", namespace))
}

/// Checks a key as [`check_key`] does, where an empty namespace is none.
///
/// # Errors
/// As [`check_key`].
pub(super) fn check_given_key(key: &ObjectKey) -> Result<(), ApiError> {
    check_segment("name", &key.name)?;
    check_namespace(key.namespace.as_deref())
}

/// Checks a namespace as [`check_key`] does; None and an empty one are no namespace.
///
/// # Errors
/// `BadRequest` that quotes it.
pub(super) fn check_namespace(namespace: Option<&str>) -> Result<(), ApiError> {
    namespace.filter(|namespace| !namespace.is_empty()).map_or(Ok(()), |name| check_segment("namespace", name))
}

/// Checks one path segment as [`check_key`] does.
///
/// # Errors
/// `BadRequest` that names the part.
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
        return Err(bad_request(format!("{shown:?} cannot be a {what}")));
    }
    Ok(())
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
    fn a_name_that_would_reach_another_path_is_refused() {
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
    fn an_api_version_that_is_a_path_is_refused() {
        for api_version in ["apps/v1/namespaces/victim/deployments", "apps/v1/watch/deployments"] {
            let error = check_kind(&GroupVersionKind::new(api_version, "Deployment")).expect_err(api_version);
            assert_eq!(error.kind, ErrorKind::BadRequest);
            assert!(error.status.message.contains("apiVersion"), "{error}");
        }
    }
}
