//! What a request is about: its path and its query, parsed as the API server's [RequestInfo] does.
//!
//! [RequestInfo]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/endpoints/request/requestinfo.go#L129

use std::collections::HashMap;

use crate::{
    gate::path::{decoded, is_path_text},
    object::ObjectKey,
    status::{ApiError, ErrorKind},
};

/// The maximum length of a path, in bytes. The audit log records paths. A namespace and names of
/// maximum length fit.
const MAX_PATH: usize = 1024;

/// The maximum length of a query, in bytes.
const MAX_QUERY: usize = 16 * 1024;

/// Why a path is refused if no object can exist at it.
pub(super) const IMPOSSIBLE_NAME: &str = "no object can have the name in it";

/// The parsed target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A path outside of resources: discovery, OpenAPI, the version, a health check.
    Discovery,
    /// A collection, an object or one of its subresources.
    Resource(ResourcePath),
}

/// The parts of a resource's path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// `group/version`, or the version of the core group.
    pub api_version: String,
    /// The resource's plural name.
    pub plural: String,
    /// The namespace; None for cluster-scoped resources and for lists of all namespaces.
    pub namespace: Option<String>,
    /// The object's name; None for a collection.
    pub name: Option<String>,
    /// The subresource, following the name.
    pub subresource: Option<String>,
}

impl ResourcePath {
    /// The object's key; None for a collection.
    pub fn key(&self) -> Option<ObjectKey> {
        Some(ObjectKey {
            namespace: self.namespace.clone(),
            name: self.name.clone()?,
        })
    }
}

/// Why a path has no [`Target`].
#[derive(Debug)]
pub(super) enum NoTarget {
    /// It is no path of the API.
    Invalid(ApiError),
    /// It begins with a verb, as in `/api/v1/watch/pods`: `watch` or `proxy`.
    Verb(&'static str),
}

impl From<ApiError> for NoTarget {
    fn from(error: ApiError) -> Self {
        Self::Invalid(error)
    }
}

/// Splits a path at its slashes, after checking that no segment leads elsewhere.
///
/// # Errors
/// `BadRequest`, quoting the path.
pub(super) fn segments(path: &str) -> Result<Vec<&str>, ApiError> {
    let Some(rest) = path.strip_prefix('/') else {
        return Err(no_path(path, "it does not begin with /"));
    };

    let segments: Vec<&str> = rest.split('/').collect();
    for segment in &segments {
        if segment.is_empty() || *segment == "." || *segment == ".." {
            return Err(no_path(path, "a segment is empty or a dot"));
        }
        if !is_path_text(&segment.replace('%', "")) {
            let why = "a segment has a character that would need an escape";
            return Err(no_path(path, why));
        }
    }
    Ok(segments)
}

/// Parses a path.
pub(super) fn parse(path: &str) -> Result<Target, NoTarget> {
    let wrong = |why: &str| no_path(path, why);
    let segments = segments(path)?;

    // Only an object's name may need escapes; nothing else does.
    let plain = |segments: &[&str]| {
        let escaped = segments.iter().any(|segment| segment.contains('%'));
        (!escaped)
            .then_some(())
            .ok_or_else(|| wrong("a segment that is not the name of an object has an escape"))
    };

    let (api_version, rest) = match segments.as_slice() {
        ["version" | "openapi", ..] | ["api" | "apis"] | ["apis", _] => {
            plain(&segments)?;
            return Ok(Target::Discovery);
        }
        ["api", version, rest @ ..] => ((*version).to_owned(), rest),
        ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
        _ => {
            let why = "it begins with none of /api, /apis, /openapi and /version";
            return Err(wrong(why).into());
        }
    };

    let named = |plural: &str, namespace: Option<&str>, rest: &[&str]| {
        let name = rest
            .first()
            .map(|name| decoded(name).ok_or_else(|| wrong(IMPOSSIBLE_NAME)));
        let subresource = rest.get(1..).unwrap_or_default();

        plain(&[&api_version, plural, namespace.unwrap_or_default()])?;
        plain(subresource)?;

        Ok(Target::Resource(ResourcePath {
            api_version: api_version.clone(),
            plural: plural.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.transpose()?,
            subresource: Some(subresource.join("/")).filter(|rest| !rest.is_empty()),
        }))
    };

    match rest {
        [] => {
            plain(&segments)?;
            Ok(Target::Discovery)
        }
        // RequestInfo treats these as verbs:
        // https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/endpoints/request/requestinfo.go#L80
        ["watch", ..] => Err(NoTarget::Verb("watch")),
        ["proxy", ..] => Err(NoTarget::Verb("proxy")),
        // A Namespace itself or its subresources, whatever follows them:
        // https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/endpoints/request/requestinfo.go#L87
        ["namespaces"] | ["namespaces", _] | ["namespaces", _, "status" | "finalize", ..] => {
            named("namespaces", None, &rest[1..])
        }
        ["namespaces", namespace, plural, rest @ ..] => named(plural, Some(namespace), rest),
        [plural, rest @ ..] => named(plural, None, rest),
    }
}

/// Checks the lengths of a path and of a query.
///
/// # Errors
/// `BadRequest`, naming the longer one's limit.
pub(super) fn check_lengths(path: &str, query: &str) -> Result<(), ApiError> {
    check_length("path", path.len(), MAX_PATH)?;
    check_length("query", query.len(), MAX_QUERY)
}

/// Checks the length of a part of a request.
///
/// # Errors
/// `BadRequest`, naming the part and the limit.
pub(super) fn check_length(part: &str, bytes: usize, limit: usize) -> Result<(), ApiError> {
    if bytes > limit {
        return Err(bad(format!(
            "the {part} has {bytes} bytes, over the limit of {limit} bytes"
        )));
    }
    Ok(())
}

/// Decodes a query, percent-encoded and without `?`.
///
/// # Errors
/// `BadRequest` if it contains unencoded characters.
pub(super) fn pairs(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    // Go drops parameters with a `;` or a malformed escape
    // (https://github.com/golang/go/issues/25192), so the API server would ignore what the gate
    // has checked.
    let allowed = |byte: u8| byte.is_ascii_graphic() && !b"#\";<>\\^`{|}".contains(&byte);
    if let Some(wrong) = query.chars().find(|c| !c.is_ascii() || !allowed(*c as u8)) {
        return Err(bad(format!("the query has an unencoded {wrong:?}")));
    }

    let is_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !query.split('%').skip(1).all(is_escape) {
        return Err(bad(
            "the query has a '%' without two hexadecimal digits behind it".to_owned(),
        ));
    }

    Ok(form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect())
}

/// The decoded parameters of a query. As in the API server, only the first value of a repeated
/// parameter counts.
///
/// # Errors
/// Same as [`pairs`].
pub(super) fn parameters(query: &str) -> Result<HashMap<String, String>, ApiError> {
    let mut first = HashMap::new();
    for (name, value) in pairs(query)? {
        first.entry(name).or_insert(value);
    }
    Ok(first)
}

/// Whether the text of a boolean parameter means true, as in apimachinery's
/// [`Convert_Slice_string_To_bool`].
///
/// [`Convert_Slice_string_To_bool`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/runtime/conversion.go#L59
pub(super) fn is_true(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

/// The error of a path that is no path of the API.
pub(super) fn no_path(path: &str, why: &str) -> ApiError {
    bad(format!("{:?} is not an API path: {why}", shown(path)))
}

/// Shortens a guest's text for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(128).collect()
}

pub(super) fn bad(message: String) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}
