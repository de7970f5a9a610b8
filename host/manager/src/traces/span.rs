//! The spans of a recorded reconcile and of its calls, with OpenTelemetry's names where it has any.

use std::time::{Duration, SystemTime};

use opentelemetry::{
    InstrumentationScope, KeyValue, TraceFlags,
    trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use operetta_core::{
    object::ObjectKey,
    recorder::{
        self, Trace,
        record::{CallRecord, Reconcile},
    },
};

/// The maximum length of an attribute's text, in bytes. Object names have at most 253.
const MAX_TEXT: usize = 256;

const API_VERSION: &str = "k8s.object.api_version";
const ERROR_TYPE: &str = "error.type";
const KIND: &str = "k8s.object.kind";
const NAME: &str = "k8s.object.name";
const NAMESPACE: &str = "k8s.namespace.name";

/// The error of a span whose work didn't finish.
const ABORTED: &str = "Aborted";

/// Returns the spans of a reconcile: those of its calls, and then its own, the root of the trace.
pub(super) fn of_record(
    scope: &InstrumentationScope,
    plugin: &ObjectKey,
    record: &Reconcile,
    trace: &Trace,
) -> Vec<SpanData> {
    let started = SystemTime::UNIX_EPOCH + record.started;
    let ended = started + record.took;
    let root = local(trace.context);
    let mut spans: Vec<SpanData> = Vec::with_capacity(record.calls.len() + 1);

    for call in &record.calls {
        let own = recorder::SpanContext {
            trace_id: trace.context.trace_id,
            span_id: call.span,
        };
        let start_time = started + call.began;
        let error = if call.took.is_none() {
            Some(ABORTED)
        } else {
            call.error.as_deref()
        };
        spans.push(SpanData {
            parent_span_id: root.span_id(),
            span_kind: if call.is_cached {
                SpanKind::Internal
            } else {
                SpanKind::Client
            },
            start_time,
            end_time: call.took.map_or(ended, |took| start_time + took),
            ..span(scope, local(own), name_of_call(call), of_call(call), error)
        });
    }

    let error = if record.result == "aborted" {
        Some(ABORTED)
    } else {
        record.error.as_deref()
    };
    let mut links = SpanLinks::default();
    links.links.extend(
        trace
            .link
            .map(|link| Link::with_context(context(link, true))),
    );
    spans.push(SpanData {
        span_kind: SpanKind::Consumer,
        start_time: started,
        end_time: ended,
        links,
        ..span(
            scope,
            root,
            cut(&format!("reconcile {}", record.kind)),
            of_reconcile(plugin, record),
            error,
        )
    });

    spans
}

/// Returns a span without times. It doesn't have an error's message, which may quote a Secret.
fn span(
    scope: &InstrumentationScope,
    span_context: SpanContext,
    name: String,
    mut attributes: Vec<KeyValue>,
    error: Option<&str>,
) -> SpanData {
    attributes.extend(error.map(|error| text(ERROR_TYPE, error)));
    SpanData {
        span_context,
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: name.into(),
        start_time: SystemTime::UNIX_EPOCH,
        end_time: SystemTime::UNIX_EPOCH,
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: error.map_or(Status::Unset, |error| Status::error(error.to_owned())),
        instrumentation_scope: scope.clone(),
    }
}

fn of_reconcile(plugin: &ObjectKey, record: &Reconcile) -> Vec<KeyValue> {
    let mut attributes = vec![
        text(
            "operetta.plugin.namespace",
            plugin.namespace.as_deref().unwrap_or_default(),
        ),
        text("operetta.plugin.name", &plugin.name),
        text("operetta.controller", &record.controller),
        text("operetta.reconcile_id", &record.id),
        KeyValue::new("operetta.retries", i64::from(record.retries)),
        text(API_VERSION, &record.api_version),
        text(KIND, &record.kind),
        text(NAME, &record.key.name),
    ];
    attributes.extend(
        record
            .key
            .namespace
            .as_deref()
            .map(|namespace| text(NAMESPACE, namespace)),
    );

    attributes.extend(
        record
            .waited
            .map(|waited| seconds("operetta.queue_duration_seconds", waited)),
    );
    if record.result != "aborted" {
        attributes.push(text("operetta.result", &record.result));
    }

    attributes.extend(
        record
            .requeue_after
            .map(|delay| seconds("operetta.requeue_after_seconds", delay)),
    );
    if record.more_calls > 0 {
        attributes.push(KeyValue::new(
            "operetta.calls_without_span",
            i64::from(record.more_calls),
        ));
    }

    attributes
}

/// Returns the name of a call's span: the verb, and the kind with its subresource.
fn name_of_call(call: &CallRecord) -> String {
    let resource = if call.resource.is_empty() {
        "discovery"
    } else {
        &call.resource
    };
    cut(&match call.subresource.as_str() {
        "" => format!("{} {resource}", call.verb),
        subresource => format!("{} {resource}/{subresource}", call.verb),
    })
}

fn of_call(call: &CallRecord) -> Vec<KeyValue> {
    let mut attributes = vec![text("operetta.operation", &call.verb)];
    if matches!(&*call.verb, "get" | "list") {
        attributes.push(text(
            "operetta.read",
            if call.is_cached { "cached" } else { "live" },
        ));
    }

    if !call.resource.is_empty() {
        let key = if call.is_raw {
            "operetta.resource"
        } else {
            KIND
        };
        attributes.extend([
            text(API_VERSION, &call.api_version),
            text(key, &call.resource),
        ]);
    }

    if !call.subresource.is_empty() {
        attributes.push(text("operetta.subresource", &call.subresource));
    }
    attributes.extend(
        call.namespace
            .as_deref()
            .map(|namespace| text(NAMESPACE, namespace)),
    );
    attributes.extend(call.name.as_deref().map(|name| text(NAME, name)));

    if let Some((method, status)) = &call.response {
        attributes.push(text("http.request.method", method));
        if *status > 0 {
            attributes.push(KeyValue::new(
                "http.response.status_code",
                i64::from(*status),
            ));
        }
    }

    attributes
}

/// Returns the context of a span of this host.
fn local(span: recorder::SpanContext) -> SpanContext {
    context(span, false)
}

fn context(span: recorder::SpanContext, is_remote: bool) -> SpanContext {
    SpanContext::new(
        TraceId::from(span.trace_id),
        SpanId::from(span.span_id),
        TraceFlags::SAMPLED,
        is_remote,
        TraceState::default(),
    )
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
    use super::*;

    fn spans(record: &Reconcile) -> Vec<SpanData> {
        let trace = Trace {
            context: recorder::SpanContext {
                trace_id: 7,
                span_id: 8,
            },
            link: Some(recorder::SpanContext {
                trace_id: 9,
                span_id: 10,
            }),
        };

        of_record(
            &InstrumentationScope::builder("test").build(),
            &ObjectKey::namespaced("n", "p"),
            record,
            &trace,
        )
    }

    fn value(span: &SpanData, key: &str) -> Option<String> {
        let found = span
            .attributes
            .iter()
            .find(|attribute| attribute.key.as_str() == key);
        found.map(|attribute| attribute.value.as_str().into_owned())
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn calls_are_children_and_failures_have_their_reason() {
        let call = CallRecord {
            verb: "patch".to_owned(),
            resource: "Foo".to_owned(),
            subresource: "status".to_owned(),
            began: millis(2),
            took: Some(millis(3)),
            response: Some(("PATCH".to_owned(), 409)),
            error: Some("Conflict".to_owned()),
            span: 11,
            ..CallRecord::default()
        };

        let record = Reconcile {
            kind: "Foo".to_owned(),
            started: millis(1000),
            took: millis(10),
            calls: vec![call],
            result: "error".to_owned(),
            error: Some("ReconcileFailing".to_owned()),
            ..Reconcile::default()
        };
        let spans = spans(&record);
        let [call, root] = spans.as_slice() else {
            panic!("{spans:?}")
        };

        assert_eq!(
            (&*call.name, &*root.name),
            ("patch Foo/status", "reconcile Foo")
        );
        assert_eq!(
            (call.span_kind.clone(), root.span_kind.clone()),
            (SpanKind::Client, SpanKind::Consumer)
        );
        assert_eq!(
            (call.parent_span_id, call.parent_span_is_remote),
            (root.span_context.span_id(), false)
        );
        assert_eq!(call.span_context.trace_id(), root.span_context.trace_id());
        assert_eq!(
            (call.span_context.span_id(), root.span_context.span_id()),
            (SpanId::from(11), SpanId::from(8))
        );

        let at = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).expect("after it");
        assert_eq!(
            (at(call.start_time), at(call.end_time)),
            (millis(1002), millis(1005))
        );
        assert_eq!(
            (at(root.start_time), at(root.end_time)),
            (millis(1000), millis(1010))
        );
        assert_eq!(call.status, Status::error("Conflict"));
        assert_eq!(
            value(call, "http.response.status_code").as_deref(),
            Some("409")
        );
        assert_eq!(value(root, ERROR_TYPE).as_deref(), Some("ReconcileFailing"));

        let link = &root.links.links[0].span_context;
        assert_eq!(
            (link.trace_id(), link.is_remote()),
            (TraceId::from(9), true)
        );
    }

    #[test]
    fn unended_work_is_aborted() {
        let call = CallRecord {
            verb: "get".to_owned(),
            resource: "Pod".to_owned(),
            ..CallRecord::default()
        };
        let calls = vec![call];
        let record = Reconcile {
            kind: "Foo".to_owned(),
            result: "aborted".to_owned(),
            calls,
            took: millis(1),
            ..Reconcile::default()
        };
        let spans = spans(&record);
        assert_eq!(
            spans.iter().map(|span| &*span.name).collect::<Vec<_>>(),
            ["get Pod", "reconcile Foo"]
        );
        assert!(
            spans
                .iter()
                .all(|span| span.status == Status::error(ABORTED)),
            "{spans:?}"
        );
        assert_eq!(spans[0].end_time, spans[1].end_time);
    }

    #[test]
    fn texts_are_bounded() {
        let record = Reconcile {
            kind: "é".repeat(10_000),
            more_calls: 3,
            ..Reconcile::default()
        };
        let spans = spans(&record);
        let root = spans.last().expect("the root");
        assert_eq!(
            value(root, "operetta.calls_without_span").as_deref(),
            Some("3")
        );

        let texts = root
            .attributes
            .iter()
            .map(|attribute| attribute.value.as_str().len());
        assert!(
            root.name.len() <= MAX_TEXT && texts.max().is_none_or(|longest| longest <= MAX_TEXT),
            "{root:?}"
        );
    }
}
