//! Traces: a span for each sampled reconcile, with a span for each of its calls on objects, sent to an OpenTelemetry
//! Collector.
//!
//! Nothing is traced without an endpoint ([`config`]). The host decides which reconciles are traced. The annotation
//! `tracing.k8s.io/traceparent` of the reconciled object (KEP-5915) becomes a link of the span, not its parent: a
//! reconcile is not a part of the request that wrote the object, and one object has many. If the annotation has the flag
//! `sampled`, the reconcile is traced whatever the ratio is, at most one in a second for each namespace with plugins.
//!
//! Whatever a plugin does, memory and traffic are bounded: the queue of spans, the calls of a reconcile that have spans, and
//! each text. Spans do not depend on the filter of the log.

pub mod config;
mod exporter;
mod link;
mod span;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use opentelemetry::{
    InstrumentationScope,
    trace::{SpanContext, TracerProvider as _},
};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use operetta_core::{
    controller::request::ReconcileRequest,
    object::{Object, ObjectKey, kind::GroupVersionKind},
    trace::TracedReconcile,
};
use parking_lot::Mutex;

use self::config::TracesConfig;
pub use self::exporter::SpanCounts;

/// The time in which the last spans must be exported when the host stops.
const FLUSH: Duration = Duration::from_secs(3);

/// The time between two reconciles of a namespace's plugins that are traced because their object asks for it.
const REQUESTED_EVERY: Duration = Duration::from_secs(1);

/// The traces of a host.
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    /// The share of reconciles that are traced.
    ratio: f64,
    counts: Arc<SpanCounts>,
    /// The reconciles of the last second, by the namespace of the plugin, that are traced because their object asks for it.
    requested: Mutex<HashMap<String, Instant>>,
}

/// The traces of one plugin.
pub struct PluginTraces {
    /// The traces of the host.
    pub traces: Arc<Traces>,
    /// Returns an object as it is cached.
    pub cached: Box<Cached>,
}

/// A function as in [`PluginTraces::cached`].
pub type Cached = dyn Fn(&GroupVersionKind, &ObjectKey) -> Option<Arc<Object>> + Send + Sync;

impl Traces {
    /// Starts the export of traces; None if none are configured. `instance` names this host among all replicas. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the configuration or the environment is invalid: it names the field or the variable.
    pub fn start(config: &TracesConfig, instance: &str) -> Result<Option<Arc<Self>>> {
        let Some(settings) = config.settings(&|name| std::env::var(name).ok())? else { return Ok(None) };
        let counts = Arc::new(SpanCounts::default());
        let provider = exporter::start(&settings, instance, &counts)?;
        let scope = InstrumentationScope::builder("operetta").with_version(env!("CARGO_PKG_VERSION")).build();
        let tracer = provider.tracer_with_scope(scope);
        tracing::info!(endpoint = %settings.endpoint, ratio = settings.ratio, "exporting traces");
        Ok(Some(Arc::new(Self { provider, tracer, ratio: settings.ratio, counts, requested: Mutex::default() })))
    }

    /// Returns the counts of spans.
    pub fn counts(&self) -> &SpanCounts {
        &self.counts
    }

    /// Exports the remaining spans, within a few seconds. Later spans are dropped.
    pub async fn stop(&self) {
        let provider = self.provider.clone();
        let stopped = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH)).await;
        if !matches!(stopped, Ok(Ok(()))) {
            tracing::warn!("failed to export the last spans within {} s", FLUSH.as_secs());
        }
    }

    /// Decides whether a reconcile is traced. `plugin` is the namespace of its plugin.
    fn samples(&self, plugin: &str, link: Option<&SpanContext>, now: Instant) -> bool {
        if rand::random::<f64>() < self.ratio {
            return true;
        }
        if !link.is_some_and(SpanContext::is_sampled) {
            return false;
        }
        let mut requested = self.requested.lock();
        requested.retain(|_, last| now.saturating_duration_since(*last) < REQUESTED_EVERY);
        let is_first = !requested.contains_key(plugin);
        if is_first {
            requested.insert(plugin.to_owned(), now);
        }
        is_first
    }
}

impl PluginTraces {
    /// Starts the span of a reconcile if it is traced. `waited` is the time that its key was in the queue.
    pub(crate) fn start(
        &self,
        plugin: &ObjectKey,
        kind: &GroupVersionKind,
        request: &ReconcileRequest,
        waited: Option<Duration>,
    ) -> Option<TracedReconcile> {
        let link = (self.cached)(kind, &request.key).and_then(|object| link::of_object(&object));
        let namespace = plugin.namespace.as_deref().unwrap_or_default();
        if !self.traces.samples(namespace, link.as_ref(), Instant::now()) {
            return None;
        }
        let attributes = span::of_reconcile(plugin, kind, request, waited);
        Some(TracedReconcile::new(Arc::new(span::Reconcile::start(&self.traces.tracer, &kind.kind, attributes, link))))
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanId, TraceFlags, TraceId, TraceState};

    use super::*;

    fn traces(ratio: f64) -> Traces {
        let provider = SdkTracerProvider::builder().build();
        let tracer = provider.tracer("test");
        Traces { provider, tracer, ratio, counts: Arc::default(), requested: Mutex::default() }
    }

    fn link(flags: TraceFlags) -> SpanContext {
        SpanContext::new(TraceId::from(1), SpanId::from(1), flags, true, TraceState::default())
    }

    #[test]
    fn object_may_ask_for_one_trace_in_a_second() {
        let traces = traces(0.0);
        let asks = link(TraceFlags::SAMPLED);
        let start = Instant::now();
        let samples =
            |plugin: &str, millis: u64| traces.samples(plugin, Some(&asks), start + Duration::from_millis(millis));
        let times = [0, 1, 500, 999, 1000, 1500, 2000];
        assert_eq!(times.map(|at| samples("one", at)), [true, false, false, false, true, false, true]);
        assert!(samples("two", 1), "another namespace");
        assert!(!traces.samples("three", Some(&link(TraceFlags::NOT_SAMPLED)), start));
        assert!(!traces.samples("three", None, start));
    }

    #[test]
    fn ratio_decides_without_a_request() {
        let now = Instant::now();
        let counted = |ratio: f64| {
            let traces = traces(ratio);
            (0..10_000).filter(|_| traces.samples("n", Some(&link(TraceFlags::NOT_SAMPLED)), now)).count()
        };
        assert_eq!((counted(0.0), counted(1.0)), (0, 10_000));
        assert!((800..1200).contains(&counted(0.1)), "a tenth");
    }
}
