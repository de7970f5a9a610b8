//! The host's own HTTP: /healthz, /readyz, /metrics, the informers under /informers, the plugins' logs under
//! /logs/NAMESPACE/PLUGIN, and what rights they need under /rbac/NAMESPACE/PLUGIN.

pub mod informers;

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
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
use operetta_core::{gate::operation::Verb, object::ObjectKey, queue::WorkQueue};
use operetta_wasm::MappedTotals;
use serde::Deserialize;
use tokio::{
    net::TcpListener,
    sync::broadcast::{Receiver, error::RecvError},
};

use crate::{
    admin::informers::Informers,
    authz::permissions::{self, NoRights},
    logs::store::LogLine,
    manager::Host,
    metrics::{counter, gauge},
    plugin::running::Metered,
};

/// Binds the address in the configuration and returns it with the port it got.
pub async fn bind(host: &Host) -> Result<(TcpListener, String)> {
    let wanted = host.config.admin_address;
    let listener =
        TcpListener::bind(wanted).await.with_context(|| format!("cannot listen on {wanted} (adminAddress)"))?;
    let address = listener.local_addr()?.to_string();
    Ok((listener, address))
}

/// Serves until the process ends.
pub async fn serve(host: Arc<Host>, listener: TcpListener) -> Result<()> {
    let routes = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/informers", get(informers))
        .route("/logs/{namespace}/{plugin}", get(logs))
        .route("/rbac/{namespace}/{plugin}", get(rbac))
        .with_state(host);
    axum::serve(listener, routes).await.context("the admin server stopped")
}

async fn ready(State(host): State<Arc<Host>>) -> Response {
    if host.is_ready() {
        "ok".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "waiting for the first list of Plugins and ConfigMaps").into_response()
    }
}

async fn informers(State(host): State<Arc<Host>>) -> Json<Informers> {
    Json(informers::of(&host).await)
}

/// How much of the plugins' code is mapped.
fn code(text: &mut String, code: MappedTotals) -> std::fmt::Result {
    let one = |value: u64| [(String::new(), value)];
    gauge(text, "operetta_plugins_loaded", "Plugins whose code is loaded", &one(code.loaded as u64))?;
    gauge(text, "operetta_plugins_mapped", "Those of them whose code is mapped", &one(code.mapped as u64))?;
    gauge(text, "operetta_mapped_code_bytes", "Address space of mapped code", &one(code.bytes))?;
    let again = [(String::new(), code.again as f64)];
    counter(text, "operetta_code_mapped_again_total", "Code that a call mapped again", &again)
}

async fn metrics(State(host): State<Arc<Host>>) -> Response {
    let (mut queues, mut quarantined) = (Queues::default(), Vec::new());
    let mut used = Used::default();
    for (key, slot) in host.slots() {
        // A plugin that is being set up right now is left out this time.
        let Ok(state) = slot.state.try_lock() else { continue };
        let (namespace, plugin) = (key.namespace.unwrap_or_default(), key.name);
        if let Some(metered) = state.running.as_ref().and_then(|running| running.metered()) {
            let cached = slot.cached_bytes.load(Ordering::Relaxed);
            used.add(&format!("plugin={plugin:?},namespace={namespace:?}"), metered, cached);
        }
        for controller in state.running.iter().flat_map(|running| running.controllers()) {
            let labels = format!("name={:?},plugin={plugin:?},namespace={namespace:?}", controller.name());
            let loops = state.running.as_ref().map(|running| running.loops().look(controller.name()));
            quarantined.push((labels.clone(), loops.unwrap_or_default().quarantined as u64));
            queues.add(labels, controller.queue());
        }
    }
    let informers = host.registry.running();
    let dropped = host.recorder.dropped.load(Ordering::Relaxed);
    let text = host.metrics.text(|text| {
        queues.write(text)?;
        gauge(text, "operetta_quarantined_keys", "Keys that are not reconciled because they loop", &quarantined)?;
        used.write(text)?;
        host.informer_metrics.write(text, &informers)?;
        code(text, host.engine.mapped())?;
        gauge(text, "operetta_events_dropped", "Own Events that found the queue full", &[(String::new(), dropped)])
    });
    match text {
        Ok(text) => ([("content-type", "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// The numbers of each queue, under controller-runtime's names: labels and value.
#[derive(Default)]
struct Queues {
    depth: Vec<(String, u64)>,
    adds: Vec<(String, f64)>,
    retries: Vec<(String, f64)>,
    unfinished: Vec<(String, f64)>,
    longest: Vec<(String, f64)>,
}

impl Queues {
    fn add(&mut self, labels: String, queue: &WorkQueue<ObjectKey>) {
        let (depth, stats) = (queue.len() as u64, queue.stats());
        self.adds.push((labels.clone(), stats.adds_total as f64));
        self.retries.push((labels.clone(), stats.retries_total as f64));
        self.unfinished.push((labels.clone(), stats.unfinished_work.as_secs_f64()));
        self.longest.push((labels.clone(), stats.longest_running.as_secs_f64()));
        self.depth.push((labels, depth));
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        gauge(text, "workqueue_depth", "Keys waiting", &self.depth)?;
        counter(text, "workqueue_adds_total", "Keys that came to need a reconcile", &self.adds)?;
        counter(text, "workqueue_retries_total", "Keys added with a delay", &self.retries)?;
        let help = "How long the reconciles in flight have been, summed up";
        gauge(text, "workqueue_unfinished_work_seconds", help, &self.unfinished)?;
        let help = "How long the longest reconcile in flight has been";
        gauge(text, "workqueue_longest_running_processor_seconds", help, &self.longest)
    }
}

/// What each plugin has used, by metric: labels and value.
#[derive(Default)]
struct Used {
    cpu: Vec<(String, f64)>,
    waited: Vec<(String, f64)>,
    throttled: Vec<(String, f64)>,
    calls: Vec<(String, f64)>,
    suppressed: Vec<(String, f64)>,
    memory: Vec<(String, u64)>,
    cached: Vec<(String, u64)>,
}

impl Used {
    fn add(&mut self, labels: &str, metered: &Metered, cached: u64) {
        let (usage, meter) = (metered.account.usage(), &metered.throttle.meter);
        self.cpu.push((labels.to_owned(), usage.polled.as_secs_f64()));
        self.waited.push((labels.to_owned(), usage.wait.as_secs_f64()));
        self.memory.push((labels.to_owned(), meter.peak_memory_bytes.load(Ordering::Relaxed)));
        self.cached.push((labels.to_owned(), cached));
        let calls = Duration::from_micros(meter.throttled_micros.load(Ordering::Relaxed));
        for (what, time) in [("cpu", usage.throttled_time), ("api", calls)] {
            self.throttled.push((format!("{labels},quota={what:?}"), time.as_secs_f64()));
        }
        for verb in Verb::ALL {
            self.calls.push((format!("{labels},verb=\"{verb}\""), meter.calls(verb) as f64));
        }
        for verb in [Verb::Update, Verb::Patch] {
            self.suppressed.push((format!("{labels},verb=\"{verb}\""), meter.suppressed(verb) as f64));
        }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        counter(text, "operetta_plugin_cpu_seconds_total", "Processor time that a plugin's code took", &self.cpu)?;
        let help = "Time that a plugin waited for a processor";
        counter(text, "operetta_plugin_wait_seconds_total", help, &self.waited)?;
        let help = "Time that a quota held a plugin back";
        counter(text, "operetta_plugin_throttled_seconds_total", help, &self.throttled)?;
        counter(text, "operetta_plugin_calls_total", "Calls of a plugin to the host, by verb", &self.calls)?;
        let help = "Writes that were not sent because they would have changed nothing";
        counter(text, "operetta_suppressed_writes_total", help, &self.suppressed)?;
        let help = "The most linear memory that one instance of a plugin had";
        gauge(text, "operetta_plugin_peak_memory_bytes", help, &self.memory)?;
        let help = "Bytes that the host caches for a plugin: its part of what it uses";
        gauge(text, "operetta_plugin_cached_bytes", help, &self.cached)
    }
}

#[derive(Deserialize)]
struct LogQuery {
    #[serde(default)]
    follow: bool,
    tail: Option<usize>,
}

/// One JSON object a line; with `follow` the response goes on as long as the reader stays.
async fn logs(
    State(host): State<Arc<Host>>,
    Path((namespace, plugin)): Path<(String, String)>,
    Query(query): Query<LogQuery>,
) -> Response {
    let key = ObjectKey::namespaced(namespace, plugin);
    let Some(log) = host.logs.get(&key) else { return unknown(&key) };
    let (lines, tail) = log.follow(query.tail.unwrap_or(usize::MAX));
    let kept = stream::iter(lines).map(|line| Ok::<_, Infallible>(bytes(&line)));
    let body = if query.follow { Body::from_stream(kept.chain(rest(tail))) } else { Body::from_stream(kept) };
    ([("content-type", "application/x-ndjson")], body).into_response()
}

fn unknown(plugin: &ObjectKey) -> Response {
    (StatusCode::NOT_FOUND, format!("this host runs no plugin {plugin}")).into_response()
}

async fn rbac(State(host): State<Arc<Host>>, Path((namespace, plugin)): Path<(String, String)>) -> Response {
    let key = ObjectKey::namespaced(namespace, plugin);
    match permissions::of(&host, &key).await {
        Ok(rights) => Json(rights).into_response(),
        Err(NoRights::Unknown) => unknown(&key),
        Err(NoRights::NotRunning) => (StatusCode::CONFLICT, format!("Plugin {key} does not run")).into_response(),
        Err(NoRights::Unavailable(error)) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

/// The lines to come; they end when the host drops the plugin's log.
fn rest(tail: Receiver<Arc<LogLine>>) -> impl futures::Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(tail, |mut tail| async move {
        loop {
            match tail.recv().await {
                Ok(line) => return Some((Ok(bytes(&line)), tail)),
                // A reader too slow loses lines, not the rest.
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
