//! The check of names that become part of a request's path: kinds, namespaces, names and
//! subresources.
//!
//! The gate applies it to each call before the names are used, and the client applies it again
//! before it builds a path. A name that passes cannot lead to another path once it is
//! [`encoded`]. The names of objects are the only ones that may need that: RBAC's kinds, CSRs and
//! others accept whatever a path can say, such as `hello world`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::{
    object::{ObjectKey, kind::GroupVersionKind},
    status::{ApiError, ErrorKind, Status},
};

/// The longest name, in bytes.
pub const MAX_NAME: usize = 512;

/// The characters that a segment keeps as they are; all others are percent-encoded.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// Subresources that take over the connection, or whose response is not the API server's own.
const STREAMS: &[&str] = &["attach", "exec", "portforward", "proxy"];

/// Checks that a kind can be served, and names no other path than that of its group and version.
///
/// # Errors
/// `BadRequest`, naming the invalid part.
pub fn check_kind(kind: &GroupVersionKind) -> Result<(), ApiError> {
    kind.check()
        .map_err(|(field, message)| bad_request(format!("invalid {field}: {message}")))
}

/// Checks that a key can be part of a path: its name as [`check_name`] does, its namespace as
/// [`check_segment`] does.
///
/// # Errors
/// `BadRequest`, naming the invalid part.
pub fn check_key(key: &ObjectKey) -> Result<(), ApiError> {
    check_name(&key.name)?;
    key.namespace
        .as_deref()
        .map_or(Ok(()), |namespace| check_segment("namespace", namespace))
}

/// Checks a key as [`check_key`] does. An empty namespace counts as none.
///
/// # Errors
/// Fails as [`check_key`] does.
pub(super) fn check_given_key(key: &ObjectKey) -> Result<(), ApiError> {
    check_name(&key.name)?;
    check_namespace(key.namespace.as_deref())
}

/// Checks a namespace as [`check_key`] does. None and the empty text count as no namespace.
///
/// # Errors
/// `BadRequest`, quoting the namespace.
pub(super) fn check_namespace(namespace: Option<&str>) -> Result<(), ApiError> {
    namespace
        .filter(|namespace| !namespace.is_empty())
        .map_or(Ok(()), |name| check_segment("namespace", name))
}

/// Checks the name of an object: apimachinery's [`path.IsValidPathSegmentName`], which Kubernetes
/// applies to the names of all kinds. No object has another name, so a retry cannot help. Names with
/// control characters are refused as well: they would forge lines wherever a name is printed.
///
/// # Errors
/// `BadRequest`, quoting the name, with the rule that it breaks.
///
/// [`path.IsValidPathSegmentName`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/api/validation/path/name.go
pub fn check_name(name: &str) -> Result<(), ApiError> {
    check_length("name", name)?;
    if matches!(name, "." | "..") || name.contains(['/', '%']) {
        return Err(bad_request(format!(
            "no object can have the name {:?}: Kubernetes allows neither '.' nor '..', and no '/' or '%'",
            shown(name)
        )));
    }

    if name.contains(char::is_control) {
        return Err(bad_request(format!(
            "{:?} is not a valid name: it has a control character",
            shown(name)
        )));
    }

    Ok(())
}

/// Checks a namespace or a subresource, which are one segment of a path without escapes.
///
/// # Errors
/// `BadRequest`, quoting it.
pub fn check_segment(what: &str, text: &str) -> Result<(), ApiError> {
    check_length(what, text)?;
    if matches!(text, "." | "..") || !is_path_text(text) {
        return Err(bad_request(format!(
            "{:?} is not a valid {what}",
            shown(text)
        )));
    }

    Ok(())
}

fn check_length(what: &str, text: &str) -> Result<(), ApiError> {
    if text.is_empty() {
        return Err(bad_request(format!("the {what} is empty")));
    }

    if text.len() > MAX_NAME {
        let bytes = text.len();
        return Err(bad_request(format!(
            "the {what} has {bytes} bytes, over the limit of {MAX_NAME} bytes"
        )));
    }

    Ok(())
}

/// Encodes a name as a segment of a path. It must have passed [`check_name`].
///
/// ```
/// use operetta_core::gate::path::encoded;
///
/// assert_eq!(encoded("system:node"), "system:node");
/// assert_eq!(encoded("hello world?"), "hello%20world%3F");
/// ```
pub fn encoded(name: &str) -> String {
    utf8_percent_encode(name, KEPT).to_string()
}

/// Decodes a segment of a path to the name of an object; None if no object can have it, or the
/// segment has a character that would need an escape.
pub(super) fn decoded(segment: &str) -> Option<String> {
    if !is_path_text(&segment.replace('%', "")) {
        return None;
    }
    // Only an escape without its two digits leaves a '%' behind, which no name has.
    let name = percent_decode_str(segment).decode_utf8().ok()?;
    check_name(&name).ok().map(|()| name.into_owned())
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Checks that a subresource needs no stream, and that its response is the API server's own. A Pod
/// behind a proxy may return any object.
///
/// # Errors
/// Code 405.
pub(super) fn check_subresource(subresource: &str) -> Result<(), ApiError> {
    let first = subresource.split('/').next().unwrap_or_default();
    if STREAMS.contains(&first) {
        Err(needs_stream(first))
    } else {
        Ok(())
    }
}

/// Returns the error for a request whose response is not a single text from the API server.
pub(super) fn needs_stream(what: &str) -> ApiError {
    let message = format!(
        "{what} needs a stream, which plugins do not have: declare what to watch in the manifest"
    );
    ApiError::from_status(Status {
        code: 405,
        reason: "MethodNotAllowed".to_owned(),
        message,
        ..Status::default()
    })
}

/// Reports whether a text can stand in a path without an escape. The text may still be `.` or `..`,
/// or empty.
pub fn is_path_text(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._:~@$&+,;=!*'()".contains(&byte))
}

fn bad_request(message: String) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_name_that_no_object_can_have() {
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "../secrets/x",
            "a%2fb",
            "100%",
            "a\nb",
            "a\0b",
        ] {
            let error = check_key(&ObjectKey::namespaced("n", name)).expect_err(name);
            assert_eq!(error.kind, ErrorKind::BadRequest);
            check_key(&ObjectKey::namespaced(name, "n")).expect_err(name);
        }
        let error = check_name("a/b").expect_err("a slash");
        assert!(error.status.message.contains(r#""a/b""#), "{error}");
    }

    #[test]
    fn names_that_need_escapes_are_encoded_and_namespaces_are_not() {
        for (name, segment) in [
            ("a b", "a%20b"),
            ("hello world", "hello%20world"),
            ("a?watch=1", "a%3Fwatch%3D1"),
            ("a#b", "a%23b"),
            ("é", "%C3%A9"),
            ("a+b,c@d", "a%2Bb%2Cc%40d"),
            ("system:node.1-x_y~z", "system:node.1-x_y~z"),
        ] {
            check_key(&ObjectKey::namespaced("n", name)).expect(name);
            assert_eq!(encoded(name), segment);
            assert_eq!(decoded(segment).as_deref(), Some(name));
            assert!(is_path_text(&segment.replace('%', "")), "{segment}");
        }
        for name in ["a b", "a?watch=1", "a#b", "é", "a\nb"] {
            check_key(&ObjectKey::namespaced(name, "n")).expect_err(name);
        }
    }

    #[test]
    fn escapes_that_hide_another_path_are_not_decoded() {
        for segment in [
            "", "%2e", "%2E%2e", "a%2fb", "a%2Fb", "a%25b", "a%", "a%2", "a%zz", "%ff", "a%0Ab",
            "a%00b", "a b", "é",
        ] {
            assert_eq!(decoded(segment), None, "{segment}");
        }
    }

    #[test]
    fn accepts_names_of_all_kinds() {
        check_given_key(&ObjectKey::namespaced("", "n")).expect("no namespace");
        for name in ["a", "system:node", "a.b-c", "0"] {
            check_key(&ObjectKey::cluster_scoped(name)).expect(name);
        }
    }

    #[test]
    fn rejects_api_version_with_extra_path_segments() {
        for api_version in [
            "apps/v1/namespaces/victim/deployments",
            "apps/v1/watch/deployments",
        ] {
            let error = check_kind(&GroupVersionKind::new(api_version, "Deployment"))
                .expect_err(api_version);
            assert_eq!(error.kind, ErrorKind::BadRequest);
            assert!(error.status.message.contains("apiVersion"), "{error}");
        }
    }
}
