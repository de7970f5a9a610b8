//! Which headers pass.
//!
//! A request's headers pass by name: what is not in the table is dropped. So no credential reaches
//! the API server or a proxy in front of it, whatever its header is called, and headers about the
//! connection stay on their side. A response's headers pass, except for those about its connection,
//! and cookies, which are meant for the host.

use http::{
    HeaderMap, HeaderName,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, ALT_SVC, CACHE_CONTROL, CONNECTION,
        CONTENT_ENCODING, CONTENT_TYPE, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
        IF_UNMODIFIED_SINCE, PRAGMA, PROXY_AUTHENTICATE, RANGE, SET_COOKIE, TE, TRAILER,
        TRANSFER_ENCODING, UPGRADE, USER_AGENT,
    },
};
use operetta_core::status::{ApiError, ErrorKind};

/// The headers of a request that pass.
const PASSED: [HeaderName; 19] = [
    ACCEPT,
    ACCEPT_ENCODING,
    ACCEPT_LANGUAGE,
    CACHE_CONTROL,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE,
    PRAGMA,
    RANGE,
    USER_AGENT,
    HeaderName::from_static("audit-id"),
    HeaderName::from_static("kubectl-command"),
    HeaderName::from_static("kubectl-session"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
];

/// The headers of a response that do not pass: those of the connection (RFC 9110, section 7.6.1), and
/// cookies.
const KEPT: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    ALT_SVC,
    SET_COOKIE,
];

/// The headers of a request that are passed on.
///
/// # Errors
/// `Forbidden` for a request that impersonates somebody. Without the header, it would do something
/// that its sender didn't ask for.
pub(super) fn passed_on(headers: &HeaderMap) -> Result<HeaderMap, ApiError> {
    if let Some(name) = headers
        .keys()
        .find(|name| name.as_str().starts_with("impersonate-"))
    {
        let message = format!(
            "the header {name} is not passed on: a process acts as its ServiceAccount and nobody else"
        );
        return Err(ApiError::new(ErrorKind::Forbidden, message));
    }

    let connection = named_by_connection(headers);
    let mut passed = HeaderMap::new();
    for name in PASSED.iter().filter(|name| !connection.contains(name)) {
        for value in headers.get_all(name) {
            passed.append(name, value.clone());
        }
    }
    Ok(passed)
}

/// Removes the headers of a response that are not passed on.
pub(super) fn pass_back(headers: &mut HeaderMap) {
    let connection = named_by_connection(headers);
    for name in connection.iter().chain(&KEPT) {
        headers.remove(name);
    }
}

/// The headers that `Connection` names.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        pairs.collect()
    }

    #[test]
    fn credentials_and_headers_of_the_connection_do_not_pass() {
        let given = headers(&[
            ("accept", "application/json"),
            ("accept-encoding", "gzip"),
            ("audit-id", "1"),
            ("authorization", "Bearer secret"),
            ("connection", "keep-alive, traceparent"),
            ("content-length", "2"),
            ("cookie", "a=b"),
            ("forwarded", "for=1.2.3.4"),
            ("host", "kubernetes"),
            ("proxy-authorization", "Basic secret"),
            (
                "sec-websocket-protocol",
                "base64url.bearer.authorization.k8s.io.secret",
            ),
            ("traceparent", "00-1-1-00"),
            ("transfer-encoding", "chunked"),
            ("user-agent", "manager/v1"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-operetta-authorization", "Bearer secret"),
            ("x-remote-group", "system:masters"),
            ("x-remote-user", "admin"),
        ]);
        let expected = headers(&[
            ("accept", "application/json"),
            ("accept-encoding", "gzip"),
            ("audit-id", "1"),
            ("user-agent", "manager/v1"),
        ]);
        assert_eq!(passed_on(&given).expect("passed"), expected);
    }

    #[test]
    fn impersonation_is_refused() {
        for name in ["impersonate-user", "impersonate-extra-operetta.dev%2fepoch"] {
            let error = passed_on(&headers(&[(name, "admin")])).expect_err(name);
            assert!(
                error.kind == ErrorKind::Forbidden && error.status.message.contains(name),
                "{error}"
            );
        }
    }

    #[test]
    fn headers_of_the_response_s_connection_do_not_pass_back() {
        let mut given = headers(&[
            ("audit-id", "1"),
            ("connection", "close, x-hop"),
            ("content-length", "2"),
            ("content-type", "application/json"),
            ("keep-alive", "timeout=5"),
            ("retry-after", "1"),
            ("set-cookie", "a=b"),
            ("transfer-encoding", "chunked"),
            ("warning", "299 - \"deprecated\""),
            ("x-hop", "1"),
        ]);
        given.append("warning", HeaderValue::from_static("299 - \"again\""));
        pass_back(&mut given);
        let mut expected = headers(&[
            ("audit-id", "1"),
            ("content-length", "2"),
            ("content-type", "application/json"),
            ("retry-after", "1"),
            ("warning", "299 - \"deprecated\""),
        ]);
        expected.append("warning", HeaderValue::from_static("299 - \"again\""));
        assert_eq!(given, expected);
    }
}
