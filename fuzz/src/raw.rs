//! A raw request of a guest. What is accepted goes to the path that was looked at: no dots, no escapes, no line's end; and
//! the API server finds in it the verb, the kind and the key that the gate finds, by the rules of its RequestInfo
//! (apiserver's `endpoints/request/requestinfo.go`).
//!
//! The input: method, path, query, content type, accept and body, with `|` between them.

use http::{HeaderValue, Uri};
use operetta_core::gate::raw_request::{RawRequest, ResourcePath, Target};
use percent_encoding::percent_decode_str;

/// See the module.
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
            assert!((400..500).contains(&error.status.code) && !error.status.message.is_empty(), "{error:?}");
            assert!(error.status.message.len() < 4096, "a message holds only a little of what a guest wrote");
            return;
        }
    };
    let RawRequest { path, query, .. } = &request;
    assert!(path.starts_with('/') && !path.contains("//") && !path.ends_with('/'), "{path:?}");
    assert!(path.split('/').all(|segment| segment != "." && segment != ".."), "{path:?}");
    assert!(path.bytes().chain(query.bytes()).all(|byte| byte.is_ascii_graphic()), "{path:?} {query:?}");
    assert_eq!(percent_decode_str(path).decode_utf8_lossy(), path.as_str(), "no escape");
    let whole = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
    let uri: Uri = whole.parse().expect("what is accepted can be sent");
    assert_eq!((uri.path(), uri.query().unwrap_or_default()), (path.as_str(), query.as_str()));
    assert!(uri.host().is_none(), "{uri}");
    for header in [&request.content_type, &request.accept].into_iter().flatten() {
        HeaderValue::from_str(header).expect("what is accepted can be sent");
    }
    let parameters = request.parameters().expect("they were looked at");
    let _dry = request.is_dry_run(&parameters);
    assert!(!parameters.get("watch").is_some_and(|value| value != "0" && value != "false"), "{query:?}");
    let found = match target {
        Target::Discovery => None,
        Target::Resource(path) => Some(path),
    };
    assert_eq!(found, request_info(path), "{path:?}");
}

/// What the API server finds in a path; None for what is about no resource. To it, a Namespace is also in itself.
fn request_info(path: &str) -> Option<ResourcePath> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (api_version, mut rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ((*version).to_owned(), rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (format!("{group}/{version}"), rest),
        _ => return None,
    };
    assert!(!["proxy", "watch"].contains(&rest[0]), "{path:?} has a verb of its own, which takes a stream");
    let mut namespace = None;
    if rest[0] == "namespaces" && rest.len() > 2 && !["status", "finalize"].contains(&rest[2]) {
        namespace = Some(rest[1].to_owned());
        rest = &rest[2..];
    }
    let subresource = rest.get(2..).map(|rest| rest.join("/")).filter(|rest| !rest.is_empty());
    let plural = rest[0].to_owned();
    let name = rest.get(1).map(|name| (*name).to_owned());
    Some(ResourcePath { api_version, plural, namespace, name, subresource })
}
