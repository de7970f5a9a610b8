//! Guards the loopback port, which serves whoever reaches it without authentication. A browser on
//! this machine reaches it too, on behalf of any site open in it. So we refuse requests that only a
//! browser sends for another site.

use std::net::IpAddr;

use axum::{
    extract::Request,
    http::{HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::Response,
};
use operetta_api::reasons;

use super::headers::{FETCH_SITE, error, is_same_origin};

/// Refuses requests to another host name, and changes requested by other sites.
pub async fn guard(request: Request, next: Next) -> Response {
    match refusal(request.method(), request.headers()) {
        Some(message) => error(StatusCode::FORBIDDEN, reasons::ENDPOINT_FORBIDDEN, message),
        None => next.run(request).await,
    }
}

fn refusal(method: &Method, headers: &HeaderMap) -> Option<&'static str> {
    // DNS rebinding: a site can point its own name at this address and is then of the same origin.
    let host = headers.get(header::HOST);
    let host = host.map(|host| host.to_str().unwrap_or_default());
    if host.is_some_and(|host| !is_this_machine(host)) {
        return Some("this port is reached as localhost or by an address, not by another name");
    }

    // Commands such as `operetta` and curl send neither header.
    let is_browser = [FETCH_SITE, header::ORIGIN.as_str()]
        .iter()
        .any(|name| headers.contains_key(*name));
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    (is_browser && !is_read && !is_same_origin(headers))
        .then_some("a request of another site may not change anything here")
}

/// Reports whether a `Host` is localhost or an IP address, which can't be a site's name.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn is_refused(method: &Method, headers: &[(&'static str, &'static str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_static(value));
        }
        refusal(method, &map).is_some()
    }

    #[test]
    fn other_names_and_other_sites_are_refused() {
        let post = &Method::POST;
        for (method, headers, refused) in [
            (&Method::GET, &[("host", "127.0.0.1:8080")][..], false),
            (&Method::GET, &[("host", "[::1]:8080")], false),
            (&Method::GET, &[("host", "LOCALHOST")], false),
            (&Method::GET, &[("host", "10.0.0.7:8080")], false),
            (&Method::GET, &[], false),
            (&Method::GET, &[("host", "rebound.example.com:8080")], true),
            (&Method::GET, &[("host", "localhost.example.com")], true),
            (&Method::GET, &[("host", "[evil")], true),
            (post, &[("host", "localhost:1")], false),
            (
                post,
                &[("host", "localhost:1"), ("origin", "http://localhost:1")],
                false,
            ),
            (
                post,
                &[("host", "localhost:1"), ("origin", "http://localhost:2")],
                true,
            ),
            (
                post,
                &[("host", "localhost:1"), ("origin", "https://example.com")],
                true,
            ),
            (post, &[("host", "localhost:1"), ("origin", "null")], true),
            (
                post,
                &[("host", "localhost:1"), ("sec-fetch-site", "cross-site")],
                true,
            ),
            (
                post,
                &[("host", "localhost:1"), ("sec-fetch-site", "same-site")],
                true,
            ),
            (
                post,
                &[("host", "localhost:1"), ("sec-fetch-site", "same-origin")],
                false,
            ),
            // It cannot read the answer.
            (
                &Method::GET,
                &[("host", "localhost:1"), ("sec-fetch-site", "cross-site")],
                false,
            ),
        ] {
            assert_eq!(is_refused(method, headers), refused, "{method} {headers:?}");
        }
    }
}
