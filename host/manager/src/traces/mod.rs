//! Traces: a span for each sampled reconcile and for each of its calls about objects, sent to an
//! OpenTelemetry Collector.
//!
//! Without an endpoint nothing is traced ([`config`]). The host decides which reconciles are. The
//! annotation `tracing.k8s.io/traceparent` on the reconciled object (KEP-5915) becomes a link of
//! the span and not its parent: a reconcile isn't part of the request that wrote the object, and an
//! object has many reconciles. If the annotation has the flag `sampled`, the reconcile is traced
//! regardless of the ratio, but at most once a second for each namespace with plugins.
//!
//! Memory and traffic are limited whatever a plugin does: the queue of spans, the calls with spans
//! per reconcile, and the length of texts. The log filter doesn't affect spans.

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
use opentelemetry::{InstrumentationScope, trace::SpanContext};
use operetta_core::{
    object::{Object, ObjectKey},
    recorder::{self, Trace, TraceSink, record::Reconcile},
};
use parking_lot::Mutex;

pub use self::exporter::SpanCounts;
use self::{config::TracesConfig, exporter::Exporter};

/// How long exporting the last spans may take when the host stops.
const FLUSH: Duration = Duration::from_secs(3);

/// How often a namespace's plugins may have a reconcile traced because its object requests it.
const REQUESTED_EVERY: Duration = Duration::from_secs(1);

/// A host's traces.
pub struct Traces {
    exporter: Arc<Exporter>,
    scope: InstrumentationScope,
    sampler: Sampler,
    counts: Arc<SpanCounts>,
}

/// Decides which reconciles are traced.
struct Sampler {
    /// The share of reconciles to trace.
    ratio: f64,
    /// When each namespace's plugins last had a reconcile traced at an object's request.
    requested: Mutex<HashMap<String, Instant>>,
}

impl Traces {
    /// Starts exporting traces, or returns None if none are configured. `instance` identifies this
    /// host among all replicas. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the configuration or the environment is invalid; the message names the field or the
    /// variable.
    pub fn start(config: &TracesConfig, instance: &str) -> Result<Option<Arc<Self>>> {
        let Some(settings) = config.settings(&|name| std::env::var(name).ok())? else {
            return Ok(None);
        };
        let counts = Arc::new(SpanCounts::default());
        let exporter = Arc::new(exporter::start(&settings, instance, &counts)?);
        let scope = InstrumentationScope::builder("operetta")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();

        tracing::info!(endpoint = %settings.endpoint, ratio = settings.ratio, "exporting traces");
        let sampler = Sampler {
            ratio: settings.ratio,
            requested: Mutex::default(),
        };

        Ok(Some(Arc::new(Self {
            exporter,
            scope,
            sampler,
            counts,
        })))
    }

    /// Returns the counts of spans.
    pub fn counts(&self) -> &SpanCounts {
        &self.counts
    }

    /// Exports the remaining spans within a few seconds. Later spans are dropped.
    pub async fn stop(&self) {
        let exporter = self.exporter.clone();
        let stopped = tokio::task::spawn_blocking(move || exporter.stop(FLUSH)).await;
        if !matches!(stopped, Ok(Ok(()))) {
            tracing::warn!(
                "failed to export the last spans within {} s",
                FLUSH.as_secs()
            );
        }
    }

    /// Returns the trace for a reconcile of this object, or None if it isn't traced. `plugin` is
    /// the plugin's namespace.
    pub(crate) fn sample(&self, plugin: &str, object: Option<&Object>) -> Option<Trace> {
        let link = object.and_then(link::of_object);
        let is_traced = self.sampler.samples(plugin, link.as_ref(), Instant::now());
        let link = link.map(|link| recorder::SpanContext {
            trace_id: u128::from_be_bytes(link.trace_id().to_bytes()),
            span_id: u64::from_be_bytes(link.span_id().to_bytes()),
        });
        is_traced.then(|| Trace {
            context: recorder::SpanContext::random(),
            link,
        })
    }
}

impl Sampler {
    /// Decides whether to trace a reconcile.
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

impl TraceSink for Traces {
    fn export(&self, plugin: &ObjectKey, reconcile: &Reconcile, trace: &Trace) {
        for span in span::of_record(&self.scope, plugin, reconcile, trace) {
            self.exporter.export(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanId, TraceFlags, TraceId, TraceState};

    use super::*;

    fn sampler(ratio: f64) -> Sampler {
        Sampler {
            ratio,
            requested: Mutex::default(),
        }
    }

    fn link(flags: TraceFlags) -> SpanContext {
        SpanContext::new(
            TraceId::from(1),
            SpanId::from(1),
            flags,
            true,
            TraceState::default(),
        )
    }

    #[test]
    fn object_may_ask_for_one_trace_in_a_second() {
        let sampler = sampler(0.0);
        let asks = link(TraceFlags::SAMPLED);
        let start = Instant::now();
        let samples = |plugin: &str, millis: u64| {
            sampler.samples(plugin, Some(&asks), start + Duration::from_millis(millis))
        };
        let times = [0, 1, 500, 999, 1000, 1500, 2000];
        assert_eq!(
            times.map(|at| samples("one", at)),
            [true, false, false, false, true, false, true]
        );
        assert!(samples("two", 1), "another namespace");
        assert!(!sampler.samples("three", Some(&link(TraceFlags::NOT_SAMPLED)), start));
        assert!(!sampler.samples("three", None, start));
    }

    #[test]
    fn ratio_decides_without_a_request() {
        let now = Instant::now();
        let counted = |ratio: f64| {
            let sampler = sampler(ratio);
            (0..10_000)
                .filter(|_| sampler.samples("n", Some(&link(TraceFlags::NOT_SAMPLED)), now))
                .count()
        };
        assert_eq!((counted(0.0), counted(1.0)), (0, 10_000));
        assert!((800..1200).contains(&counted(0.1)), "a tenth");
    }
}
