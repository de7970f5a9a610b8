//! The headers of the endpoints for users.

use axum::{
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use operetta_api::reasons::Reason;

/// Response header: the replica that answered.
pub const REPLICA: &str = "x-operetta-replica";

/// Header of an error: its code.
pub const REASON: &str = "x-operetta-reason";

/// Response header: whether proxies may hold back a stream
/// ([nginx](https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_buffering)).
pub const BUFFERING: &str = "x-accel-buffering";

/// Request header: the replica that forwarded the request. It isn't forwarded again.
pub const FORWARDED_BY: &str = "x-operetta-forwarded-by";

/// Returns an error response with its code.
pub fn error(status: StatusCode, reason: Reason, message: impl Into<String>) -> Response {
    (status, [(REASON, reason.as_str())], message.into()).into_response()
}

/// The request header in which a browser tells whether the request comes from the same site ([Fetch
/// Metadata](https://www.w3.org/TR/fetch-metadata/)).
pub const FETCH_SITE: &str = "sec-fetch-site";

/// Reports whether, according to the browser, a request comes from a page of this host. Check this
/// before a request changes anything.
pub fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text(FETCH_SITE) {
        return site == "same-origin";
    }

    let origin = text("origin").and_then(|origin| origin.split_once("://"));
    origin.is_some_and(|(_, origin)| {
        text("host").is_some_and(|host| host.eq_ignore_ascii_case(origin))
    })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header};

    use super::*;

    #[test]
    fn post_of_another_site_is_not_of_the_same_origin() {
        let is_same = |lines: &[(&'static str, &str)]| {
            let lines = lines.iter().map(|(name, value)| {
                (
                    header::HeaderName::from_static(name),
                    HeaderValue::from_str(value).expect("a value"),
                )
            });
            is_same_origin(&lines.collect())
        };
        assert!(is_same(&[("sec-fetch-site", "same-origin")]));
        assert!(is_same(&[
            ("origin", "http://127.0.0.1:8080"),
            ("host", "127.0.0.1:8080")
        ]));

        for site in ["cross-site", "same-site", "none"] {
            assert!(
                !is_same(&[
                    ("sec-fetch-site", site),
                    ("origin", "http://a"),
                    ("host", "a")
                ]),
                "{site}"
            );
        }

        for origin in ["null", "http://evil.example", "http://127.0.0.1:8081"] {
            assert!(
                !is_same(&[("origin", origin), ("host", "127.0.0.1:8080")]),
                "{origin}"
            );
        }

        assert!(!is_same(&[("host", "127.0.0.1:8080")]), "neither header");
    }
}
