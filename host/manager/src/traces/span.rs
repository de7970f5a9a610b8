//! The spans of a reconcile and of its calls, with OpenTelemetry's names where it has one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use opentelemetry::{
    Context, KeyValue,
    trace::{Link, Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, Tracer as _},
};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use operetta_core::{
    controller::request::ReconcileRequest,
    gate::operation::Verb,
    object::{ObjectKey, kind::GroupVersionKind},
    status::ErrorKind,
    trace::{CallSpan, Outcome, ReconcileSpan, TracedCall},
};
use parking_lot::Mutex;

/// The maximum number of calls of a reconcile that have spans.
const MAX_CALLS: u32 = 128;

/// The maximum length of an attribute's text, in bytes. Names of objects have at most 253.
const MAX_TEXT: usize = 256;

const API_VERSION: &str = "k8s.object.api_version";
const ERROR_TYPE: &str = "error.type";
const KIND: &str = "k8s.object.kind";
const NAME: &str = "k8s.object.name";
const NAMESPACE: &str = "k8s.namespace.name";

/// The error of a span that was dropped before its work ended.
const ABORTED: &str = "Aborted";

/// The span of a reconcile.
pub(super) struct Reconcile {
    tracer: SdkTracer,
    /// The span's identity, as the parent of its calls.
    context: SpanContext,
    span: OpenSpan,
    /// The number of calls.
    calls: AtomicU32,
}

impl Reconcile {
    /// Starts the span. It is the root of its trace, and linked to the request that wrote the object.
    pub(super) fn start(tracer: &SdkTracer, kind: &str, attributes: Vec<KeyValue>, link: Option<SpanContext>) -> Self {
        let builder = SpanBuilder::from_name(cut(&format!("reconcile {kind}")))
            .with_kind(SpanKind::Consumer)
            .with_attributes(attributes)
            .with_links(link.into_iter().map(Link::with_context).collect());
        let span = tracer.build_with_context(builder, &Context::new());
        let context = span.span_context().clone();
        Self { tracer: tracer.clone(), context, span: OpenSpan::new(span), calls: AtomicU32::new(0) }
    }
}

/// Returns the attributes of a reconcile's span.
pub(super) fn of_reconcile(
    plugin: &ObjectKey,
    kind: &GroupVersionKind,
    request: &ReconcileRequest,
    waited: Option<Duration>,
) -> Vec<KeyValue> {
    let ReconcileRequest { controller, key, retries, reconcile_id, .. } = request;
    let mut attributes = vec![
        text("operetta.plugin.namespace", plugin.namespace.as_deref().unwrap_or_default()),
        text("operetta.plugin.name", &plugin.name),
        text("operetta.controller", controller),
        text("operetta.reconcile_id", reconcile_id),
        KeyValue::new("operetta.retries", i64::from(*retries)),
        text(API_VERSION, &kind.api_version),
        text(KIND, &kind.kind),
        text(NAME, &key.name),
    ];
    attributes.extend(key.namespace.as_deref().map(|namespace| text(NAMESPACE, namespace)));
    attributes.extend(waited.map(|waited| seconds("operetta.queue_duration_seconds", waited)));
    attributes
}

impl ReconcileSpan for Reconcile {
    fn context(&self) -> operetta_core::trace::SpanContext {
        identity(&self.context)
    }

    fn start_call(&self, call: &TracedCall<'_>) -> Option<Arc<dyn CallSpan>> {
        if self.calls.fetch_add(1, Ordering::Relaxed) >= MAX_CALLS {
            return None;
        }
        let parent = Context::new().with_remote_span_context(self.context.clone());
        let kind = if call.is_cached { SpanKind::Internal } else { SpanKind::Client };
        let builder = SpanBuilder::from_name(name_of_call(call)).with_kind(kind).with_attributes(of_call(call));
        let span = self.tracer.build_with_context(builder, &parent);
        let context = span.span_context().clone();
        Some(Arc::new(Call { context, span: OpenSpan::new(span) }))
    }

    fn end(&self, outcome: &Outcome) {
        let Outcome { result, requeue_after, error } = outcome;
        let left_out = self.calls.load(Ordering::Relaxed).saturating_sub(MAX_CALLS);
        self.span.end(|span| {
            span.set_attribute(text("operetta.result", result));
            if let Some(delay) = requeue_after {
                span.set_attribute(seconds("operetta.requeue_after_seconds", *delay));
            }
            if left_out > 0 {
                span.set_attribute(KeyValue::new("operetta.calls_without_span", i64::from(left_out)));
            }
            if let Some(reason) = error {
                fail(span, reason.as_str());
            }
        });
    }
}

/// The span of a call.
struct Call {
    context: SpanContext,
    span: OpenSpan,
}

/// Returns the name of a call's span: the verb, and the kind with its subresource.
fn name_of_call(call: &TracedCall<'_>) -> String {
    let TracedCall { verb, resource, subresource, .. } = call;
    let resource = if resource.is_empty() { "discovery" } else { resource };
    cut(&match subresource {
        Some(subresource) => format!("{verb} {resource}/{subresource}"),
        None => format!("{verb} {resource}"),
    })
}

/// Returns the attributes of a call's span.
fn of_call(call: &TracedCall<'_>) -> Vec<KeyValue> {
    let TracedCall { verb, api_version, resource, subresource, namespace, name, is_raw, is_cached } = call;
    let mut attributes = vec![text("operetta.operation", verb.as_str())];
    if matches!(verb, Verb::Get | Verb::List) {
        attributes.push(text("operetta.read", if *is_cached { "cached" } else { "live" }));
    }
    if !resource.is_empty() {
        let key = if *is_raw { "operetta.resource" } else { KIND };
        attributes.extend([text(API_VERSION, api_version), text(key, resource)]);
    }
    let others = [("operetta.subresource", subresource), (NAMESPACE, namespace), (NAME, name)];
    attributes.extend(others.into_iter().filter_map(|(key, value)| Some(text(key, (*value)?))));
    attributes
}

impl CallSpan for Call {
    fn context(&self) -> operetta_core::trace::SpanContext {
        identity(&self.context)
    }

    fn responded(&self, method: &str, status: Option<u16>) {
        self.span.change(|span| {
            span.set_attribute(text("http.request.method", method));
            if let Some(status) = status {
                span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
            }
        });
    }

    fn end(&self, error: Option<ErrorKind>) {
        self.span.end(|span| {
            if let Some(kind) = error {
                fail(span, kind.reason());
            }
        });
    }
}

/// A span that ends at most once. Dropped before, it ends as aborted.
struct OpenSpan(Mutex<Option<Span>>);

impl OpenSpan {
    fn new(span: Span) -> Self {
        Self(Mutex::new(Some(span)))
    }

    /// Changes the span unless it has ended.
    fn change(&self, change: impl FnOnce(&mut Span)) {
        if let Some(span) = &mut *self.0.lock() {
            change(span);
        }
    }

    /// Ends the span after a last change.
    fn end(&self, change: impl FnOnce(&mut Span)) {
        let span = self.0.lock().take();
        if let Some(mut span) = span {
            change(&mut span);
            span.end();
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        self.end(|span| fail(span, ABORTED));
    }
}

/// Marks a span as failed. The error's message is not part of it: it may quote values of Secrets.
fn fail(span: &mut Span, reason: &str) {
    span.set_attribute(text(ERROR_TYPE, reason));
    span.set_status(Status::error(reason.to_owned()));
}

fn identity(context: &SpanContext) -> operetta_core::trace::SpanContext {
    operetta_core::trace::SpanContext {
        trace_id: u128::from_be_bytes(context.trace_id().to_bytes()),
        span_id: u64::from_be_bytes(context.span_id().to_bytes()),
    }
}

fn text(key: &'static str, value: &str) -> KeyValue {
    KeyValue::new(key, cut(value))
}

fn seconds(key: &'static str, time: Duration) -> KeyValue {
    KeyValue::new(key, time.as_secs_f64())
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::{
        error::OTelSdkResult,
        trace::{SdkTracerProvider, SpanData, SpanExporter},
    };
    use operetta_api::reasons;

    use super::*;

    /// An exporter that keeps all spans.
    #[derive(Clone, Debug, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Kept {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().extend(batch);
            Ok(())
        }
    }

    impl Kept {
        fn take(&self) -> Vec<SpanData> {
            std::mem::take(&mut self.0.lock())
        }
    }

    fn tracer(kept: &Kept) -> SdkTracer {
        SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build().tracer("test")
    }

    fn value(span: &SpanData, key: &str) -> Option<String> {
        let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
        found.map(|attribute| attribute.value.as_str().into_owned())
    }

    fn call<'a>(resource: &'a str, name: &'a str) -> TracedCall<'a> {
        TracedCall {
            verb: Verb::Get,
            api_version: "v1",
            resource,
            subresource: None,
            namespace: Some("n"),
            name: Some(name),
            is_raw: false,
            is_cached: true,
        }
    }

    const DONE: Outcome = Outcome { result: "success", requeue_after: None, error: None };

    #[test]
    fn calls_are_children_and_failures_have_their_reason() {
        let kept = Kept::default();
        let reconcile = Reconcile::start(&tracer(&kept), "Foo", vec![], None);
        let status =
            TracedCall { verb: Verb::Patch, subresource: Some("status"), is_cached: false, ..call("Foo", "a") };
        let span = reconcile.start_call(&status).expect("a span");
        span.responded("PATCH", Some(409));
        span.end(Some(ErrorKind::Conflict));
        reconcile.end(&Outcome { result: "error", error: Some(reasons::RECONCILE_FAILING), ..DONE });
        reconcile.end(&DONE);
        drop((span, reconcile));
        let spans = kept.take();
        let [call, root] = spans.as_slice() else { panic!("{spans:?}") };
        assert_eq!((&*call.name, &*root.name), ("patch Foo/status", "reconcile Foo"));
        assert_eq!((call.span_kind.clone(), root.span_kind.clone()), (SpanKind::Client, SpanKind::Consumer));
        assert_eq!(call.parent_span_id, root.span_context.span_id());
        assert_eq!(call.span_context.trace_id(), root.span_context.trace_id());
        assert!(!call.parent_span_is_remote);
        assert_eq!(call.status, Status::error("Conflict"));
        assert_eq!(value(call, "http.response.status_code").as_deref(), Some("409"));
        assert_eq!(value(root, ERROR_TYPE).as_deref(), Some("ReconcileFailing"));
    }

    #[test]
    fn dropped_span_ends_as_aborted() {
        let kept = Kept::default();
        let reconcile = Reconcile::start(&tracer(&kept), "Foo", vec![], None);
        drop(reconcile.start_call(&call("Pod", "a")));
        drop(reconcile);
        let spans = kept.take();
        assert_eq!(spans.iter().map(|span| &*span.name).collect::<Vec<_>>(), ["get Pod", "reconcile Foo"]);
        assert!(spans.iter().all(|span| span.status == Status::error(ABORTED)), "{spans:?}");
    }

    #[test]
    fn spans_of_a_reconcile_and_their_texts_are_bounded() {
        let kept = Kept::default();
        let reconcile = Reconcile::start(&tracer(&kept), &"é".repeat(10_000), vec![], None);
        let long = "x".repeat(100_000);
        let spans = (0..1000).filter_map(|_| reconcile.start_call(&call(&long, &long))).count();
        assert_eq!(spans, MAX_CALLS as usize);
        reconcile.end(&DONE);
        let spans = kept.take();
        let root = spans.last().expect("the root");
        assert_eq!(value(root, "operetta.calls_without_span"), Some((1000 - MAX_CALLS).to_string()));
        for span in &spans {
            let texts = span.attributes.iter().map(|attribute| attribute.value.as_str().len());
            assert!(span.name.len() <= MAX_TEXT && texts.max().is_none_or(|longest| longest <= MAX_TEXT), "{span:?}");
        }
    }
}
