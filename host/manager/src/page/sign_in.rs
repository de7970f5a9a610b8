//! Signing in and out. The token stays here ([`super::sessions`]): the browser gets a cookie that no
//! script can read and browsers don't send with other sites' requests, and the page a secret.

use std::sync::Arc;

use axum::{
    Extension,
    body::Bytes,
    extract::{Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{Html as HtmlResponse, IntoResponse, Redirect, Response},
};
use operetta_kube::client::user_api::Read;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{
    elsewhere::{self, Place},
    failure::Failure,
    html::Html,
    session,
    sessions::{COOKIE, Cookie},
    shell,
    state::{IsTls, Page},
};
use crate::admin::connections;

/// Where to go after signing in, if the request doesn't say.
const HOME: &str = "/page/plugins";

#[derive(Deserialize)]
pub(super) struct Form {
    #[serde(default)]
    next: String,
}

/// Shows the form. Somebody whose session was lost with its replica learns why it is back.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    Query(Form { next }): Query<Form>,
    headers: HeaderMap,
) -> Response {
    let problem = match page.place_of_session(&headers) {
        Place::Gone => elsewhere::gone().message,
        Place::Here | Place::Elsewhere(_) | Place::NotYetKnown => String::new(),
    };
    form(&next, &problem).into_response()
}

fn form(next: &str, problem: &str) -> HtmlResponse<String> {
    let html = Html::default().markup("<h1>Sign in to Operetta</h1>");
    let html = if problem.is_empty() {
        html
    } else {
        html.markup("<p role=\"alert\">")
            .text(problem)
            .markup("</p>")
    };
    let html = html
        .markup("<form method=\"post\" action=\"/page/sign-in\"><input type=\"hidden\" name=\"next\" value=\"")
        .text(path_of_page(next))
        .markup("\"><p><label for=\"token\">Token of the cluster</label> ")
        .markup("<input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"off\" required autofocus></p>")
        .markup("<p>Create one with <code>kubectl create token NAME -n NAMESPACE</code>. ")
        .markup("You see what its user may read.</p><p><button>Sign in</button></p></form>");
    HtmlResponse(shell::document("Sign in", None, html))
}

/// Checks a token and opens a session for it.
pub(super) async fn sign_in(
    State(page): State<Arc<Page>>,
    Extension(IsTls(is_tls)): Extension<IsTls>,
    from: HeaderMap,
    body: Bytes,
) -> Response {
    let field = |name: &str| {
        form_urlencoded::parse(&body)
            .find(|(key, _)| key.as_ref() == name)
            .map(|(_, value)| value)
    };
    let token = Zeroizing::new(field("token").unwrap_or_default().trim().to_owned());
    let next = field("next").unwrap_or_default().into_owned();
    let user = match check(&page, &from, &token).await {
        Ok(user) => user,
        Err(failure) => {
            let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::UNAUTHORIZED);
            return (status, form(&next, &failure.message)).into_response();
        }
    };

    let opened = page.sessions.open(&user, &token);
    let html = shell::signed_in(&opened.secret.digits(), path_of_page(&next));
    let response = HtmlResponse(html).into_response();
    let cookie = Cookie {
        id: opened.id,
        epoch: page.manager.replicas.epoch(),
    };
    with_cookie(response, &cookie.to_string(), is_tls)
}

/// Checks that the API server accepts a token, and returns its user.
async fn check(page: &Page, from: &HeaderMap, token: &str) -> Result<String, Failure> {
    let refused = |message: &str| {
        Failure::new(
            StatusCode::UNAUTHORIZED,
            operetta_api::reasons::TOKEN_REFUSED,
            message,
        )
    };

    if token.is_empty()
        || !token
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=:".contains(&byte))
    {
        return Err(refused(
            "this is not a token: it has letters, digits and - . _ ~ + / = only",
        ));
    }

    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    headers.insert(
        header::AUTHORIZATION,
        value.map_err(|_| refused("this is not a token"))?,
    );

    connections::copy_network(from, &mut headers);
    let session = session::session(page, &headers).await?;
    // A token whose audience is only the hosts can't read anything from the API server.
    let read = Read {
        path: "/version",
        parameters: &[],
        accept: "application/json",
    };

    match session.api.read(read, 64 << 10).await {
        Err(error) if error.status.code == 401 => Err(refused(
            "the API server does not accept the token: it must be for the audience of the API server",
        )),
        Err(error) if error.status.code >= 500 => Err(error.into()),
        _ => Ok(session.user),
    }
}

/// Ends the session, if the request has its secret, and removes the cookie.
pub(super) async fn sign_out(
    State(page): State<Arc<Page>>,
    Extension(IsTls(is_tls)): Extension<IsTls>,
    headers: HeaderMap,
) -> Response {
    match page.place_of_session(&headers) {
        Place::Elsewhere(identity) => elsewhere::end(&page, &identity, &headers).await,
        Place::Here | Place::Gone | Place::NotYetKnown => page.sessions.end(&headers),
    }
    let response = Redirect::to("/page/sign-in").into_response();
    with_cookie(response, "; Max-Age=0", is_tls)
}

fn with_cookie(mut response: Response, value: &str, is_tls: bool) -> Response {
    let secure = if is_tls { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/page{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Returns `next` if it is a path of this page, and the home page otherwise: the form must not lead
/// to another site.
fn path_of_page(next: &str) -> &str {
    let path = next.split(['?', '#']).next().unwrap_or_default();
    let is_plain = next
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_page = path.starts_with("/page/") && !path.contains("//") && !path.contains("..");
    if is_plain && is_page && !path.starts_with("/page/sign-") {
        next
    } else {
        HOME
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_leads_to_the_page_only() {
        for path in [
            "/page/kinds",
            "/page/kinds/apps/v1/deployments?namespace=a&q=b%2F..",
            "/page/objects/a/b/c/d/e#yaml",
        ] {
            assert_eq!(path_of_page(path), path);
        }

        for path in [
            "",
            "/",
            "/page",
            "//evil.example/page/",
            "https://evil.example/page/",
            "/page/..//evil.example",
            "/page//evil.example",
            "/page/\\evil.example",
            "/page/a\r\nSet-Cookie: a=b",
            "javascript:alert(1)",
            "/page/sign-in?next=/page/kinds",
        ] {
            assert_eq!(path_of_page(path), HOME, "{path}");
        }
    }
}
