//! Checks names that become part of a request's path: kinds, namespaces, names and subresources.
//!
//! The gate checks the names of each call before using them, and the client checks them again
//! before building a path. Once [`encoded`], a name that passed cannot lead to another path. Only
//! names of objects may need encoding: RBAC's kinds, CSRs and others accept anything a path can
//! express, such as `hello world`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::{
    object::{ObjectKey, kind::GroupVersionKind},
    status::{ApiError, ErrorKind, Status},
};

/// The longest name, in bytes.
pub const MAX_NAME: usize = 512;

/// Characters a path segment keeps as they are; all others are percent-encoded.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// Subresources that take over the connection, or whose response is not the API server's own.
const STREAMS: &[&str] = &["attach", "exec", "portforward", "proxy"];

/// Checks that a kind can be served, and that its names stay within the path of its group and
/// version.
///
/// # Errors
/// `BadRequest`, naming the invalid part.
pub fn check_kind(kind: &GroupVersionKind) -> Result<(), ApiError> {
    kind.check()
        .map_err(|(field, message)| bad_request(format!("invalid {field}: {message}")))
}

/// Checks that a key can be part of a path: its name with [`check_name`], its namespace with
/// [`check_segment`].
///
/// # Errors
/// `BadRequest`, naming the invalid part.
pub fn check_key(key: &ObjectKey) -> Result<(), ApiError> {
    check_name(&key.name)?;
    key.namespace
        .as_deref()
        .map_or(Ok(()), |namespace| check_segment("namespace", namespace))
}

/// Like [`check_key`], but an empty namespace counts as none.
///
/// # Errors
/// Same as [`check_key`].
pub(super) fn check_given_key(key: &ObjectKey) -> Result<(), ApiError> {
    check_name(&key.name)?;
    check_namespace(key.namespace.as_deref())
}

/// Checks a namespace like [`check_key`]. None and the empty string count as no namespace.
///
/// # Errors
/// `BadRequest`, quoting the namespace.
pub(super) fn check_namespace(namespace: Option<&str>) -> Result<(), ApiError> {
    namespace
        .filter(|namespace| !namespace.is_empty())
        .map_or(Ok(()), |name| check_segment("namespace", name))
}

/// Checks an object's name with apimachinery's [`IsPathSegmentName`], which Kubernetes applies to
/// all kinds. No object can have any other name, so a retry cannot help. We also refuse control
/// characters: they would forge lines wherever a name is printed.
///
/// # Errors
/// `BadRequest`, quoting the name and the rule it breaks.
///
/// [`IsPathSegmentName`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/api/validate/content/path.go#L37
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

/// Checks a namespace or a subresource: a single path segment without escapes.
///
/// # Errors
/// `BadRequest`, quoting it.
pub fn check_segment(part: &str, text: &str) -> Result<(), ApiError> {
    check_length(part, text)?;
    if matches!(text, "." | "..") || !is_path_text(text) {
        return Err(bad_request(format!(
            "{:?} is not a valid {part}",
            shown(text)
        )));
    }

    Ok(())
}

fn check_length(part: &str, text: &str) -> Result<(), ApiError> {
    if text.is_empty() {
        return Err(bad_request(format!("the {part} is empty")));
    }

    if text.len() > MAX_NAME {
        let bytes = text.len();
        return Err(bad_request(format!(
            "the {part} has {bytes} bytes, over the limit of {MAX_NAME} bytes"
        )));
    }

    Ok(())
}

/// Encodes a name as a path segment. It must have passed [`check_name`].
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

/// Decodes a path segment to an object's name; None if no object can have that name, or the segment
/// contains an unescaped character that needs escaping.
pub(super) fn decoded(segment: &str) -> Option<String> {
    if !is_path_text(&segment.replace('%', "")) {
        return None;
    }
    // Only an escape without its two digits leaves a '%' behind, and no name contains one.
    let name = percent_decode_str(segment).decode_utf8().ok()?;
    check_name(&name).ok().map(|()| name.into_owned())
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Checks that a subresource needs no stream and that its response is the API server's own. A Pod
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

/// The error for requests whose response is not a single text from the API server.
pub(super) fn needs_stream(request: &str) -> ApiError {
    let message = format!(
        "{request} needs a stream, which plugins do not have: declare what to watch in the manifest"
    );
    ApiError::from_status(Status {
        code: 405,
        reason: "MethodNotAllowed".to_owned(),
        message,
        ..Status::default()
    })
}

/// Whether text needs no escaping in a path. It may still be empty, `.` or `..`.
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
