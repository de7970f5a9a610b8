//! The user of a request: the token in its header or of its session, and whom the API server says
//! it belongs to.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{Html as HtmlResponse, IntoResponse, Redirect, Response},
};
use operetta_api::reasons;
use operetta_kube::client::user_api::UserApi;

use super::{
    elsewhere::{self, Place},
    failure::{Failure, present},
    sessions::{Key, SECRET},
    shell,
    state::Page,
};
use crate::admin::{
    access::{self, Asker, Required},
    connections::{self, OfConnection},
    headers::FORWARDED_BY,
};

/// The user of a request.
#[derive(Clone)]
pub(super) struct Session {
    /// The user's name at the API server.
    pub user: String,
    /// The API server as the user sees it.
    pub api: UserApi,
    /// Only the headers with the token, and where the request came from.
    headers: HeaderMap,
    /// The session of the browser; None for a request that brought the token itself.
    kept: Option<Key>,
}

impl Session {
    /// Returns the user, for checking further permissions.
    pub(super) fn asker(&self, page: &Page) -> Asker {
        Asker::new(page.access.clone(), &self.headers)
    }

    /// Checks that the session is still open, the token still valid, and that the user still has the
    /// permission.
    pub(super) async fn check(
        &self,
        page: &Page,
        required: Option<&Required>,
    ) -> Result<(), Failure> {
        if self.kept.is_some_and(|id| !page.sessions.still_used(id)) {
            return Err(ended());
        }
        match required {
            Some(required) => page.access.check(&self.headers, required).await?,
            None => drop(page.access.user(&self.headers).await?),
        }
        Ok(())
    }
}

/// The failure of a request whose cookie names no open session.
fn ended() -> Failure {
    Failure::new(
        StatusCode::UNAUTHORIZED,
        reasons::TOKEN_MISSING,
        "the session has ended: sign in again",
    )
}

/// Finds the user of a request, and renders errors. Without a valid token a page redirects to the
/// sign-in, and the API responds with 401. A browser that only opens an address sends no secret, and
/// gets the page without any data.
pub(super) async fn authenticate(
    State(page): State<Arc<Page>>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_api = request.uri().path().starts_with("/page/api/");
    let mut kept = None;
    if access::credentials(request.headers()).is_none() {
        let without_data = || HtmlResponse(shell::without_data()).into_response();
        match page.place_of_session(request.headers()) {
            Place::Here => {
                if let Some(used) = page.sessions.of(request.headers()) {
                    kept = Some(used.id);
                    bring(request.headers_mut(), &used.token);
                    // Another replica may have sent the cookie here. The token begins its way
                    // only now, so it may still go to the replica that runs a Plugin.
                    request.headers_mut().remove(FORWARDED_BY);
                } else if page.sessions.knows_cookie(request.headers()) && !is_api {
                    return without_data();
                }
            }
            Place::Elsewhere(_) | Place::NotYetKnown if !is_api => return without_data(),
            Place::Elsewhere(identity) if request.headers().contains_key(SECRET) => {
                return match elsewhere::forward(&page, &identity, request).await {
                    Ok(response) => response,
                    Err(failure) => present(failure.into_response(), is_api, None).await,
                };
            }
            Place::NotYetKnown => {
                return present(elsewhere::not_yet_known().into_response(), is_api, None).await;
            }
            Place::Gone if is_api => {
                return present(elsewhere::gone().into_response(), is_api, None).await;
            }
            Place::Elsewhere(_) | Place::Gone => {}
        }
    }

    match session(&page, request.headers()).await {
        Ok(mut session) => {
            session.kept = kept;
            if let Some(connection) = request.extensions().get::<OfConnection>() {
                connection.authenticated(&session.user);
            }
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
        Err(failure) => {
            let headers = request.headers();
            let is_over = headers.contains_key(SECRET) && access::credentials(headers).is_none();
            let failure = if is_over { ended() } else { failure };
            present(failure.into_response(), is_api, None).await
        }
    }
}

/// Puts a token into the header Authorization, where everything else expects it.
fn bring(headers: &mut HeaderMap, token: &str) {
    if let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {token}")) {
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
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
    connections::copy_network(from, &mut headers);
    Ok(Session {
        user,
        api,
        headers,
        kept: None,
    })
}
