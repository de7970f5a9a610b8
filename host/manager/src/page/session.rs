//! The user of a request: the token in its cookie or header, and whom the API server says it
//! belongs to.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use operetta_kube::client::user_api::UserApi;

use super::{
    failure::{Failure, present},
    state::Page,
};
use crate::admin::access::{self, Asker, Required};

/// The cookie with the token.
pub(super) const COOKIE: &str = "operetta-token";

/// The user of a request.
#[derive(Clone)]
pub(super) struct Session {
    /// The user's name at the API server.
    pub user: String,
    /// The API server as the user sees it.
    pub api: UserApi,
    /// Only the headers with the token.
    headers: HeaderMap,
}

impl Session {
    /// Returns the user, for checking further permissions.
    pub(super) fn asker(&self, page: &Page) -> Asker {
        Asker::new(page.access.clone(), &self.headers)
    }

    /// Checks that the token is still valid and the user still has the permission.
    pub(super) async fn check(
        &self,
        page: &Page,
        required: Option<&Required>,
    ) -> Result<(), Failure> {
        match required {
            Some(required) => page.access.check(&self.headers, required).await?,
            None => drop(page.access.user(&self.headers).await?),
        }
        Ok(())
    }
}

/// Copies the token from the cookie to the header Authorization, where the other endpoints expect
/// it. A header sent by the client takes precedence.
pub(super) fn authorize_by_cookie(headers: &mut HeaderMap) {
    if access::credentials(headers).is_some() {
        return;
    }
    if let Some(token) = cookie(headers)
        && let Ok(value) = HeaderValue::from_str(&format!("Bearer {token}"))
    {
        headers.insert(header::AUTHORIZATION, value);
    }
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let lines = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|line| line.to_str().ok());
    let mut cookies = lines
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    cookies
        .find(|(name, value)| *name == COOKIE && !value.is_empty())
        .map(|(_, value)| value.to_owned())
}

/// Finds the user of a request, and renders errors. Without a valid token a page redirects to the
/// sign-in, and the API responds with 401.
pub(super) async fn authenticate(
    State(page): State<Arc<Page>>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_api = request.uri().path().starts_with("/page/api/");
    match session(&page, request.headers()).await {
        Ok(session) => {
            let user = session.user.clone();
            request.extensions_mut().insert(session);
            present(next.run(request).await, is_api, Some(&user)).await
        }
        Err(failure) if failure.status == 401 && !is_api => {
            let next = request
                .uri()
                .path_and_query()
                .map_or("/page/", |path| path.as_str());
            let query = form_urlencoded::Serializer::new(String::new())
                .append_pair("next", next)
                .finish();
            Redirect::to(&format!("/page/sign-in?{query}")).into_response()
        }
        Err(failure) => present(failure.into_response(), is_api, None).await,
    }
}

/// Returns the session for a request's token.
pub(super) async fn session(page: &Page, from: &HeaderMap) -> Result<Session, Failure> {
    let user = page.access.user(from).await?.username.unwrap_or_default();
    let token = access::token(from)?;
    let api = UserApi::new(page.users.clone(), &token)?;
    let mut headers = HeaderMap::new();
    if let Some(credentials) = access::credentials(from) {
        headers.insert(header::AUTHORIZATION, credentials.clone());
    }
    Ok(Session { user, api, headers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authorization(lines: &[(header::HeaderName, &str)]) -> Option<String> {
        let mut headers: HeaderMap = lines
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().expect("a value")))
            .collect();
        authorize_by_cookie(&mut headers);
        Some(
            headers
                .get(header::AUTHORIZATION)?
                .to_str()
                .expect("text")
                .to_owned(),
        )
    }

    #[test]
    fn token_comes_from_the_cookie_unless_a_header_has_one() {
        let cookie = (
            header::COOKIE,
            "theme=dark; operetta-token=abc.d-e_f; other=operetta-token",
        );
        assert_eq!(
            authorization(std::slice::from_ref(&cookie)).as_deref(),
            Some("Bearer abc.d-e_f")
        );

        let header = (header::AUTHORIZATION, "Bearer other");
        assert_eq!(
            authorization(&[cookie, header]).as_deref(),
            Some("Bearer other")
        );

        for line in ["", "operetta-token=", "xoperetta-token=a", "operetta-token"] {
            assert_eq!(authorization(&[(header::COOKIE, line)]), None, "{line}");
        }
    }
}
