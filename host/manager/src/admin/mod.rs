//! The admin endpoints of the host: /healthz, /readyz, /metrics, the informers at /informers, a plugin's log at
//! /logs/NAMESPACE/PLUGIN, and the permissions that it needs at /rbac/NAMESPACE/PLUGIN.

pub mod informers;

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
};

use anyhow::{Context, Result};
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use futures::{StreamExt, stream};
use operetta_core::object::ObjectKey;
use serde::Deserialize;
use tokio::{
    net::TcpListener,
    sync::broadcast::{Receiver, error::RecvError},
};

use crate::{
    admin::informers::{Informers, ServerRevisions},
    authz::permissions::{self, PermissionsError},
    crash_journal::Entry,
    logs::store::LogLine,
    manager::Manager,
    metrics::{
        informers::InformerMetrics,
        plugins, quotas,
        samples::{Labels, Samples},
    },
    readiness::Check,
};

/// The media type of /metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The state of the admin endpoints.
struct Admin {
    manager: Arc<Manager>,
    informer_metrics: InformerMetrics,
    server_revisions: ServerRevisions,
}

/// Binds the address in the configuration. Returns it with the port that was chosen.
///
/// # Errors
/// When the address cannot be bound; the message names it.
pub async fn bind(manager: &Manager) -> Result<(TcpListener, String)> {
    let wanted = manager.context.config.admin_address;
    let listener =
        TcpListener::bind(wanted).await.with_context(|| format!("failed to listen on {wanted} (adminAddress)"))?;
    let address = listener.local_addr()?.to_string();
    Ok((listener, address))
}

/// Serves the endpoints until the process ends.
///
/// # Errors
/// When the listener fails.
pub async fn serve(manager: Arc<Manager>, listener: TcpListener) -> Result<()> {
    let admin =
        Admin { manager, informer_metrics: InformerMetrics::default(), server_revisions: ServerRevisions::default() };
    let routes = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/informers", get(informers))
        .route("/logs/{namespace}/{plugin}", get(logs))
        .route("/rbac/{namespace}/{plugin}", get(rbac))
        .with_state(Arc::new(admin));
    axum::serve(listener, routes).await.context("the admin server stopped")
}

/// Responds as an API server does: with `ok`, or with the list of checks after a failure or for `?verbose`.
async fn ready(State(admin): State<Arc<Admin>>, Query(query): Query<HashMap<String, String>>) -> Response {
    let checks = admin.manager.readiness.checks();
    let is_ready = checks.iter().all(Check::passes);
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if is_ready && !query.contains_key("verbose") {
        return "ok".into_response();
    }
    let result = if is_ready { "passed" } else { "failed" };
    let lines: String = checks.iter().map(|check| format!("{check}\n")).collect();
    (status, format!("{lines}readyz check {result}\n")).into_response()
}

async fn informers(State(admin): State<Arc<Admin>>) -> Json<Informers> {
    let Manager { context, hosted_plugins, .. } = &*admin.manager;
    Json(informers::list(&context.cluster, hosted_plugins, &admin.server_revisions).await)
}

async fn metrics(State(admin): State<Arc<Admin>>) -> Response {
    let Manager { context, hosted_plugins, .. } = &*admin.manager;
    let mut samples = Samples::default();
    plugins::sample(hosted_plugins, &mut samples);
    quotas::sample(&context.tenants, &mut samples);
    plugins::sample_code(context.engine.mapped(), &mut samples);
    admin.informer_metrics.sample(&context.cluster.registry.running(), &mut samples);
    let dropped = context.cluster.recorder.dropped.load(Ordering::Relaxed);
    let help = "Number of Events of the host dropped because the queue was full";
    samples.gauge("operetta_events_dropped", help, [(Labels::new(), dropped)]);
    let help = "Number of consecutive crashes of the host during this step for this plugin; 2 quarantine it";
    let deaths = admin.manager.suspects().into_iter().map(|Entry { work, deaths, .. }| {
        let step = work.step.as_str().to_owned();
        (vec![("plugin", work.name), ("namespace", work.namespace), ("step", step)], u64::from(deaths))
    });
    samples.gauge("operetta_plugin_crashes", help, deaths);
    match context.metrics.encode(samples) {
        Ok(text) => ([("content-type", OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[derive(Deserialize)]
struct LogQuery {
    #[serde(default)]
    follow: bool,
    tail: Option<usize>,
}

/// Returns one JSON object for each line; with `follow` the response continues until the client disconnects.
async fn logs(
    State(admin): State<Arc<Admin>>,
    Path((namespace, plugin)): Path<(String, String)>,
    Query(query): Query<LogQuery>,
) -> Response {
    let key = ObjectKey::namespaced(namespace, plugin);
    let Some(log) = admin.manager.context.logs.get(&key) else { return unknown(&key) };
    let (lines, tail) = log.follow(query.tail.unwrap_or(usize::MAX));
    let kept = stream::iter(lines).map(|line| Ok::<_, Infallible>(bytes(&line)));
    let body = if query.follow { Body::from_stream(kept.chain(rest(tail))) } else { Body::from_stream(kept) };
    ([("content-type", "application/x-ndjson")], body).into_response()
}

fn unknown(plugin: &ObjectKey) -> Response {
    (StatusCode::NOT_FOUND, format!("this host runs no plugin {plugin}")).into_response()
}

async fn rbac(State(admin): State<Arc<Admin>>, Path((namespace, plugin)): Path<(String, String)>) -> Response {
    let key = ObjectKey::namespaced(namespace, plugin);
    match permissions::list(&admin.manager.context, &admin.manager.hosted_plugins, &key).await {
        Ok(permissions) => Json(permissions).into_response(),
        Err(PermissionsError::Unknown) => unknown(&key),
        Err(PermissionsError::NotRunning) => {
            (StatusCode::CONFLICT, format!("Plugin {key} does not run")).into_response()
        }
        Err(PermissionsError::Unavailable(error)) => {
            (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
        }
    }
}

/// Streams new lines until the host drops the plugin's log.
fn rest(tail: Receiver<Arc<LogLine>>) -> impl futures::Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(tail, |mut tail| async move {
        loop {
            match tail.recv().await {
                Ok(line) => return Some((Ok(bytes(&line)), tail)),
                // A slow reader loses lines, not the connection.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    })
}

fn bytes(line: &LogLine) -> Bytes {
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text.into()
}
