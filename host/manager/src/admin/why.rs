//! The endpoints over the flight recorder: the changes of an object with their causes, and the reconciles of a plugin.
//!
//! Whoever may read an object gets the changes of it. Of other objects and of Plugins in the chain, only those that the user may
//! read are named; the others are counted.

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    Extension, Json,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use operetta_core::{
    object::{ObjectKey, kind::GroupVersionKind},
    recorder::{
        Facts,
        explain::{FactSource, Question, explain},
        record::{Call, ObjectRef, Reconcile},
    },
};
use serde::Deserialize;

use super::{
    Admin,
    access::{Asker, Required},
};
use crate::{
    context::Context,
    plugin::history::{self, History, Past},
};

/// The number of changes or reconciles without a limit in the query.
const DEFAULT_LIMIT: usize = 10;
/// The maximum number of changes or reconciles in a response.
const MAX_LIMIT: usize = 1_000;

/// The facts of this host that a user may see.
struct Visible<'a> {
    context: &'a Context,
    /// The user; None on the endpoint without authentication.
    asker: Option<Asker>,
}

impl Visible<'_> {
    async fn may_get(&self, object: &ObjectRef) -> bool {
        let Some(asker) = &self.asker else { return true };
        let ObjectRef { kind, key } = object;
        // A kind that is gone cannot be asked about.
        let Ok(resource) = self.context.cluster.discovery.resolve(kind).await else { return false };
        let required = Required::get(Some(kind.group()), &resource.plural, key.namespace.as_deref(), &key.name);
        asker.may(&required).await
    }
}

impl Visible<'_> {
    /// Reports whether the user may read what a call is about.
    async fn may_read(&self, call: &Call) -> bool {
        let Some(asker) = &self.asker else { return true };
        let kind = GroupVersionKind::new(&*call.api_version, &*call.resource);
        let name = call.name.as_deref().unwrap_or_default();
        let group = kind.group();
        let required = |plural: &str| Required::get(Some(group), plural, call.namespace.as_deref(), name);
        match call.is_raw {
            true => asker.may(&required(&call.resource)).await,
            false => match self.context.cluster.discovery.resolve(&kind).await {
                Ok(resource) => asker.may(&required(&resource.plural)).await,
                Err(_) => false,
            },
        }
    }

    /// Removes the triggers and calls about objects that the user may not read. Returns their number.
    async fn hide(&self, record: &mut Reconcile) -> usize {
        let before = record.triggers.len() + record.calls.len();
        let mut triggers = Vec::new();
        for trigger in std::mem::take(&mut record.triggers) {
            let is_visible = match &trigger.object {
                Some(object) => self.may_get(object).await,
                None => true,
            };
            triggers.extend(is_visible.then_some(trigger));
        }
        let mut calls = Vec::new();
        for call in std::mem::take(&mut record.calls) {
            calls.extend(self.may_read(&call).await.then_some(call));
        }
        record.triggers = triggers;
        record.calls = calls;
        before - record.triggers.len() - record.calls.len()
    }
}

#[async_trait]
impl FactSource for Visible<'_> {
    async fn facts(&self, object: &ObjectRef) -> Option<Facts> {
        self.may_get(object).await.then(|| self.context.recorder.facts(object))
    }

    async fn may_see_plugin(&self, plugin: &ObjectKey) -> bool {
        let Some(asker) = &self.asker else { return true };
        let required = Required::get(Some(operetta_api::GROUP), "plugins", plugin.namespace.as_deref(), &plugin.name);
        asker.may(&required).await
    }
}

/// The query of [`why`].
#[derive(Deserialize)]
pub(super) struct WhyQuery {
    /// The field, such as `.spec.replicas`.
    field: Option<String>,
    limit: Option<usize>,
}

/// Explains the changes of an object.
pub(super) async fn why(
    State(admin): State<Arc<Admin>>,
    asker: Option<Extension<Asker>>,
    Path((group, version, plural, namespace, name)): Path<(String, String, String, String, String)>,
    Query(query): Query<WhyQuery>,
) -> Response {
    let context = &admin.manager.context;
    let api_version = if group == "core" { version } else { format!("{group}/{version}") };
    let resource = match context.cluster.discovery.resolve_plural(&api_version, &plural).await {
        Ok(Some(resource)) => resource,
        Ok(None) => {
            let message = format!("the API server has no resource {plural:?} in {api_version}");
            return (StatusCode::NOT_FOUND, message).into_response();
        }
        Err(error) => return (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    };
    let key = ObjectKey { namespace: Some(namespace).filter(|namespace| namespace != "_"), name };
    let question = Question {
        object: ObjectRef::new(&resource.kind, &key),
        field: query.field.filter(|field| !field.is_empty()),
        limit: query.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT),
    };
    let visible = Visible { context, asker: asker.map(|Extension(asker)| asker) };
    match explain(&visible, &question).await {
        Some(explanation) => Json(explanation).into_response(),
        None => (StatusCode::FORBIDDEN, "the permission was lost meanwhile".to_owned()).into_response(),
    }
}

/// The query of [`reconciles`].
#[derive(Deserialize)]
pub(super) struct ReconcilesQuery {
    /// NAMESPACE/NAME, or NAME in the Plugin's namespace or of a cluster-scoped kind.
    key: Option<String>,
    limit: Option<usize>,
}

/// Lists the last reconciles of a plugin, or of one of its keys with the key's state.
pub(super) async fn reconciles(
    State(admin): State<Arc<Admin>>,
    asker: Option<Extension<Asker>>,
    Path((namespace, plugin)): Path<(String, String)>,
    Query(query): Query<ReconcilesQuery>,
) -> Response {
    let plugin = ObjectKey::namespaced(namespace, plugin);
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let Some(hosted) = admin.manager.hosted_plugins.get(&plugin) else { return super::unknown(&plugin) };
    let context = &admin.manager.context;
    let visible = Visible { context, asker: asker.map(|Extension(asker)| asker) };
    let keys = query.key.as_deref().map(|text| history::keys(&plugin, text));
    let (records, older) = history::reconciles(&context.recorder, &plugin, keys.as_deref(), limit);
    let states = history::states(&hosted, keys.as_deref().unwrap_or_default()).await;
    let mut answer = History { states, older, ..History::default() };
    for mut record in records {
        answer.hidden += visible.hide(&mut record).await;
        answer.reconciles.push(Past::from(record));
    }
    Json(answer).into_response()
}
