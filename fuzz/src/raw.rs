//! A raw request of a guest. The path of an accepted request has no dot segments or line ends, and
//! escapes only in the name of an object, where they hide no other path. So it is sent as it was
//! checked. The API server finds the same resource, namespace, name
//! and subresource in it as the gate does, by the rules of its RequestInfo (apiserver's
//! `endpoints/request/requestinfo.go`). A proxied request with the same head has the same target.
//!
//! The input: method, path, query, content type, accept and body, separated by `|`.

use http::{HeaderValue, Uri};
use operetta_core::gate::{
    proxied_request::ProxiedRequest,
    raw_request::{RawRequest, ResourcePath, Target},
};
use percent_encoding::percent_decode_str;

/// Checks the module's invariants on one input.
pub fn raw(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(6, '|').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    let optional = |text: String| Some(text).filter(|text| !text.is_empty());
    let request = RawRequest {
        method: next(),
        path: next(),
        query: next(),
        content_type: optional(next()),
        accept: optional(next()),
        body: optional(next()),
        cached: data.len().is_multiple_of(2),
    };
    let target = match request.target() {
        Ok(target) => target,
        Err(error) => {
            assert!(
                (400..500).contains(&error.status.code) && !error.status.message.is_empty(),
                "{error:?}"
            );
            assert!(
                error.status.message.len() < 4096,
                "the message quotes too much of the request"
            );
            return;
        }
    };
    let RawRequest {
        method,
        path,
        query,
        ..
    } = &request;
    let proxied = ProxiedRequest {
        method: method.clone(),
        path: path.clone(),
        query: query.clone(),
        ..ProxiedRequest::default()
    };
    assert_eq!(
        proxied.parse().map(|info| info.target).as_ref(),
        Ok(&target),
        "an operator's process addresses the same"
    );
    assert!(
        path.starts_with('/') && !path.contains("//") && !path.ends_with('/'),
        "{path:?}"
    );
    assert!(
        path.split('/')
            .all(|segment| segment != "." && segment != ".."),
        "{path:?}"
    );
    assert!(
        path.bytes()
            .chain(query.bytes())
            .all(|byte| byte.is_ascii_graphic()),
        "{path:?} {query:?}"
    );
    let decoded = percent_decode_str(path)
        .decode_utf8()
        .expect("an accepted path decodes to UTF-8");
    assert_eq!(
        decoded.split('/').count(),
        path.split('/').count(),
        "{path:?} has an escaped slash"
    );
    assert!(
        !decoded.contains('%')
            && decoded
                .split('/')
                .all(|segment| !matches!(segment, "." | "..")),
        "{path:?} hides another path"
    );
    let whole = if query.is_empty() {
        path.clone()
    } else {
        format!("{path}?{query}")
    };
    let uri: Uri = whole.parse().expect("an accepted path and query are a URI");
    assert_eq!(
        (uri.path(), uri.query().unwrap_or_default()),
        (path.as_str(), query.as_str())
    );
    assert!(uri.host().is_none(), "{uri}");
    for header in [&request.content_type, &request.accept]
        .into_iter()
        .flatten()
    {
        HeaderValue::from_str(header).expect("an accepted header is valid");
    }
    let parameters = request.parameters().expect("accepted parameters");
    let _dry = request.is_dry_run(&parameters);
    assert!(
        !parameters
            .get("watch")
            .is_some_and(|value| value != "0" && value != "false"),
        "{query:?}"
    );
    let found = match target {
        Target::Discovery => None,
        Target::Resource(path) => Some(path),
    };
    assert_eq!(found, request_info(&decoded), "{path:?}");
}

/// Returns the resource that the API server finds in a path, or None for another path. The API
/// server also sets the namespace of a Namespace to its name; that is left out here.
fn request_info(path: &str) -> Option<ResourcePath> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (api_version, mut rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ((*version).to_owned(), rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => {
            (format!("{group}/{version}"), rest)
        }
        _ => return None,
    };
    assert!(
        !["proxy", "watch"].contains(&rest[0]),
        "{path:?} has a proxy or watch prefix, which returns a stream"
    );
    let mut namespace = None;
    if rest[0] == "namespaces" && rest.len() > 2 && !["status", "finalize"].contains(&rest[2]) {
        namespace = Some(rest[1].to_owned());
        rest = &rest[2..];
    }
    let subresource = rest
        .get(2..)
        .map(|rest| rest.join("/"))
        .filter(|rest| !rest.is_empty());
    let plural = rest[0].to_owned();
    let name = rest.get(1).map(|name| (*name).to_owned());
    Some(ResourcePath {
        api_version,
        plural,
        namespace,
        name,
        subresource,
    })
}
