//! The page for people at /page/: Plugins, any kind of object, tenants and informers, live in a
//! browser.
//!
//! With a token in its header, a request for a page gets plain HTML that is complete without a
//! script. A browser signs in instead (`sessions`), at any replica (`elsewhere`), and gets the
//! script from `page/dist`, which reads `/page/api/`. That answers with JSON or server-sent events. Objects are read with the
//! user's token, so RBAC decides. What the host knows about Plugins comes from their status and
//! from the counts behind /metrics. docs/page.md describes the protocol.
//!
//! The page grants nobody anything: each request needs a token the API server accepts, even on
//! `adminAddress`.

mod assets;
mod collection;
mod elsewhere;
mod failing;
mod failure;
mod health;
mod html;
mod informers;
mod kinds;
mod object;
mod plugin;
mod plugins;
mod rates;
mod recorded;
mod related;
mod rights;
mod session;
mod sessions;
mod shell;
mod sign_in;
mod state;
mod stream;
mod summaries;
mod table;
mod table_stream;
mod tenants;
mod unused;
mod yaml;

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use operetta_api::reasons;
use operetta_kube::clock;
use serde_json::{Value, json};

pub use self::state::Page;
use self::{failure::Failure, session::Session, state::IsTls};
use crate::admin::{
    access::Required,
    forward::{Forwarder, forward},
    headers::is_same_origin,
};

/// What browsers may load: only the page's own files.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The largest body of a request, in bytes.
const MAX_BODY: usize = 64 << 10;

/// Returns the page's routes. With a forwarder, the replica that runs a Plugin answers requests
/// about it.
pub fn routes(page: &Arc<Page>, is_tls: bool, forwarder: Option<Arc<Forwarder>>) -> Router {
    let mut routes = Router::new()
        .route("/page/", get(|| async { Redirect::to("/page/plugins") }))
        .route("/page/plugins", get(plugins::show))
        .route("/page/api/me", get(me))
        .route("/page/api/plugins", get(plugins::api))
        .route("/page/kinds", get(kinds::show))
        .route(
            "/page/kinds/{group}/{version}/{plural}",
            get(kinds::show_rows),
        )
        .route("/page/api/kinds", get(kinds::api))
        .route(
            "/page/api/kinds/{group}/{version}/{plural}",
            get(kinds::rows),
        )
        .route(
            "/page/api/failing/{group}/{version}/{kind}",
            get(failing::api),
        )
        .route("/page/plugins/{namespace}/{name}", get(plugin::show))
        .route("/page/api/plugins/{namespace}/{name}", get(plugin::api))
        .route("/page/api/plugins/{namespace}/{name}/log", get(plugin::log))
        .route(
            "/page/api/plugins/{namespace}/{name}/reconciles",
            get(recorded::reconciles),
        )
        .route(
            "/page/api/plugins/{namespace}/{name}/unused",
            get(unused::api),
        )
        .route(
            "/page/api/why/{group}/{version}/{plural}/{namespace}/{name}",
            get(recorded::why),
        )
        .route(
            "/page/objects/{group}/{version}/{plural}/{namespace}/{name}",
            get(object::show),
        )
        .route(
            "/page/api/objects/{group}/{version}/{plural}/{namespace}/{name}",
            get(object::api),
        )
        .route("/page/tenants", get(tenants::show))
        .route("/page/api/tenants", get(tenants::api))
        .route("/page/informers", get(informers::show))
        .route("/page/api/informers", get(informers::api))
        .route("/page/{*path}", get(unknown))
        .with_state(page.clone());
    if let Some(forwarder) = forwarder {
        routes = routes.layer(middleware::from_fn_with_state(forwarder, forward));
    }

    let routes = routes
        .layer(middleware::from_fn_with_state(page.clone(), share))
        .layer(middleware::from_fn_with_state(
            page.clone(),
            session::authenticate,
        ));
    let open = Router::new()
        .route("/page", get(|| async { Redirect::to("/page/plugins") }))
        .route("/page/assets/{file}", get(assets::serve))
        .route("/page/sign-in", get(sign_in::show).post(sign_in::sign_in))
        .route("/page/sign-out", post(sign_in::sign_out))
        .with_state(page.clone());
    let all = routes.merge(open).layer(DefaultBodyLimit::max(MAX_BODY));
    all.layer(Extension(IsTls(is_tls)))
        .layer(middleware::from_fn(guard))
}

/// Answers a user's request once there is room in memory for the answer. One about a Plugin takes a
/// place, and maybe another replica's time, only if the user may see the Plugin.
async fn share(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    request: Request,
    next: Next,
) -> Response {
    let required = Required::of(request.uri().path());
    if required.plugin().is_some()
        && let Err(failure) = session.check(&page, Some(&required)).await
    {
        return failure.into_response();
    }

    page.readers.answer(&session.user, request, next).await
}

/// Refuses requests of other sites that change something, and adds the headers of each response.
async fn guard(request: Request, next: Next) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD)
        && !is_same_origin(request.headers())
    {
        let message = "the request does not come from this page: open the page, and use its form";
        let refused = Failure::new(StatusCode::FORBIDDEN, reasons::ENDPOINT_FORBIDDEN, message);
        return protected(failure::present(refused.into_response(), false, None).await);
    }

    protected(next.run(request).await)
}

fn protected(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );

    if !headers
        .get(header::CACHE_CONTROL)
        .is_some_and(|kept| kept.as_bytes().ends_with(b"immutable"))
    {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }

    response
}

async fn unknown() -> Failure {
    Failure {
        status: 404,
        reason: "NotFound".to_owned(),
        message: "there is no such page".to_owned(),
    }
}

async fn me(State(page): State<Arc<Page>>, Extension(session): Extension<Session>) -> Json<Value> {
    Json(json!({
        "user": session.user,
        "host": page.manager.replicas.identity(),
        "version": env!("CARGO_PKG_VERSION"),
        "time": clock::now().to_string(),
    }))
}
