//! The flight recorder on the page: a plugin's last reconciles, and an object's changes with their
//! causes.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use operetta_api::reasons;
use operetta_core::{object::ObjectKey, recorder::explain::Question};

use super::{
    failure::{Failure, no_plugin},
    session::Session,
    state::Page,
};
use crate::{
    admin::access::Required,
    plugin::history::History,
    recorder::visible::{ObjectPath, Visible},
};

/// How many reconciles a response has.
const RECONCILES: usize = 200;
/// How many changes a response has.
const CHANGES: usize = 20;

/// For a user who may not read the object.
const NOT_ALLOWED: &str = "its changes are for those who may get it: you need the verb get on it";

fn visible<'a>(page: &'a Page, session: &Session) -> Visible<'a> {
    Visible::new(
        &page.manager,
        page.forwarder.as_deref(),
        Some(session.asker(page)),
    )
}

/// Serves `/page/api/plugins/NAMESPACE/NAME/reconciles`.
pub(super) async fn reconciles(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<History>, Failure> {
    session
        .check(
            &page,
            Some(&Required::plugin_resource(
                "get", "plugins", &namespace, &name,
            )),
        )
        .await?;

    let plugin = ObjectKey::namespaced(namespace, name);
    let history = visible(&page, &session)
        .history(&plugin, None, RECONCILES)
        .await;
    history.map(Json).ok_or_else(|| no_plugin(&plugin))
}

/// Serves `/page/api/why/GROUP/VERSION/PLURAL/NAMESPACE/NAME`.
pub(super) async fn why(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    path: ObjectPath,
) -> Response {
    let visible = visible(&page, &session);
    let object = match visible.object(path).await {
        Ok(object) => object,
        Err(refused) => return refused.into_response(),
    };
    let question = Question {
        object,
        field: None,
        limit: CHANGES,
    };
    match visible.explain(&question).await {
        Some(explanation) => Json(explanation).into_response(),
        None => Failure::new(
            StatusCode::FORBIDDEN,
            reasons::ENDPOINT_FORBIDDEN,
            NOT_ALLOWED,
        )
        .into_response(),
    }
}
