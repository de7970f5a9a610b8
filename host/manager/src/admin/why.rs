//! The endpoints of the flight recorder: an object's changes with their causes, and a plugin's
//! reconciles.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use operetta_core::{object::ObjectKey, recorder::explain::Question};
use serde::Deserialize;

use super::{Admin, access::Asker};
use crate::recorder::visible::{ObjectPath, Visible};

/// How many changes or reconciles to return if the query sets no limit.
const DEFAULT_LIMIT: usize = 10;
/// The maximum number of changes or reconciles in a response.
const MAX_LIMIT: usize = 1_000;

fn visible(admin: &Admin, asker: Option<Extension<Asker>>) -> Visible<'_> {
    Visible::new(
        &admin.manager,
        admin.forwarder.as_deref(),
        asker.map(|Extension(asker)| asker),
    )
}

#[derive(Deserialize)]
pub(super) struct WhyQuery {
    /// A path such as `.spec.replicas`.
    field: Option<String>,
    limit: Option<usize>,
}

/// Explains an object's changes.
pub(super) async fn why(
    State(admin): State<Arc<Admin>>,
    asker: Option<Extension<Asker>>,
    path: ObjectPath,
    Query(query): Query<WhyQuery>,
) -> Response {
    let visible = visible(&admin, asker);
    let object = match visible.object(path).await {
        Ok(object) => object,
        Err(refused) => return refused.into_response(),
    };
    let question = Question {
        object,
        field: query.field.filter(|field| !field.is_empty()),
        limit: query.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT),
    };
    visible
        .explain(&question)
        .await
        .map_or_else(permission_lost, |explanation| {
            Json(explanation).into_response()
        })
}

/// Serves this replica's records of an object to the replica that explains it to a user.
pub(super) async fn facts(
    State(admin): State<Arc<Admin>>,
    asker: Option<Extension<Asker>>,
    path: ObjectPath,
) -> Response {
    let visible = visible(&admin, asker);
    match visible.object(path).await {
        // Ask again: the names in the path are decoded only now, after the first permission check.
        Ok(object) => visible
            .own_facts(&object)
            .await
            .map_or_else(permission_lost, |facts| Json(facts).into_response()),
        Err(refused) => refused.into_response(),
    }
}

fn permission_lost() -> Response {
    (StatusCode::FORBIDDEN, "the permission was lost meanwhile").into_response()
}

#[derive(Deserialize)]
pub(super) struct ReconcilesQuery {
    /// NAMESPACE/NAME, or NAME in the Plugin's namespace or of a cluster-scoped kind.
    key: Option<String>,
    limit: Option<usize>,
}

/// Lists a plugin's last reconciles, or those of one key together with the key's state.
pub(super) async fn reconciles(
    State(admin): State<Arc<Admin>>,
    asker: Option<Extension<Asker>>,
    Path((namespace, plugin)): Path<(String, String)>,
    Query(query): Query<ReconcilesQuery>,
) -> Response {
    let plugin = ObjectKey::namespaced(namespace, plugin);
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let history = visible(&admin, asker)
        .history(&plugin, query.key.as_deref(), limit)
        .await;
    history.map_or_else(
        || super::unknown(&plugin),
        |history| Json(history).into_response(),
    )
}
