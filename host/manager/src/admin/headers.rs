//! The headers of the endpoints for users.

use axum::{
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use operetta_api::reasons::Reason;

/// The header of a response: the identity of the replica that made it.
pub const REPLICA: &str = "x-operetta-replica";

/// The header of an error: its code.
pub const REASON: &str = "x-operetta-reason";

/// The header of a request: the identity of the replica that forwarded it. Such a request is not
/// forwarded again.
pub const FORWARDED_BY: &str = "x-operetta-forwarded-by";

/// Returns an error with its code.
pub fn error(status: StatusCode, reason: Reason, message: impl Into<String>) -> Response {
    (status, [(REASON, reason.as_str())], message.into()).into_response()
}

/// The header with which a browser says whether a request comes from the same site.
pub const FETCH_SITE: &str = "sec-fetch-site";

/// Reports whether a request that changes something comes from a page of this host, as browsers say.
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
