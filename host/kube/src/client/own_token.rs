//! The user's token for a host behind a Service.
//!
//! The API server [removes `Authorization`] from requests before it forwards them to a Service. So
//! a request with the extension [`SendOwnToken`] carries its bearer token in [`FORWARDED`] as well.
//! Credentials without a token, such as a client certificate, add nothing.
//!
//! [removes `Authorization`]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/endpoints/filters/authentication.go#L89

use http::{Request, header::AUTHORIZATION};

/// The header with the token of a client coming through the API server.
pub const FORWARDED: &str = "x-operetta-authorization";

/// The audience of tokens meant only for hosts. The API server accepts them for nothing else.
pub const AUDIENCE: &str = "operetta.dev";

/// Marks a request that carries the user's token through the API server. Use it only for requests
/// to a host's Service.
#[derive(Clone, Copy, Debug)]
pub struct SendOwnToken;

/// Copies the token of a marked request. This layer comes after the one adding the credentials.
pub(crate) fn with_own_token<B>(mut request: Request<B>) -> Request<B> {
    if request.extensions_mut().remove::<SendOwnToken>().is_none() {
        return request;
    }

    let is_bearer = |value: &[u8]| {
        value
            .get(..7)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "))
    };
    let token = request
        .headers()
        .get(AUTHORIZATION)
        .filter(|value| is_bearer(value.as_bytes()))
        .cloned();

    if let Some(token) = token {
        request.headers_mut().insert(FORWARDED, token);
    }

    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(authorization: Option<&str>, marked: bool) -> Option<String> {
        let mut request = Request::get("/");
        if let Some(value) = authorization {
            request = request.header(AUTHORIZATION, value);
        }
        if marked {
            request = request.extension(SendOwnToken);
        }
        let request = with_own_token(request.body(()).expect("a request"));
        request
            .headers()
            .get(FORWARDED)
            .map(|value| value.to_str().expect("text").to_owned())
    }

    #[test]
    fn only_marked_request_carries_its_bearer_token_twice() {
        assert_eq!(sent(Some("Bearer a"), true).as_deref(), Some("Bearer a"));
        assert_eq!(sent(Some("Bearer a"), false), None);
        assert_eq!(sent(Some("Basic YTpi"), true), None);
        assert_eq!(sent(None, true), None);
    }
}
