//! The trace context in an annotation of the reconciled object.

use opentelemetry::{
    Context,
    propagation::{Extractor, TextMapPropagator},
    trace::{SpanContext, TraceContextExt},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use operetta_core::object::Object;

/// The annotation with a W3C traceparent, as proposed for all Kubernetes components by
/// [KEP-5915](https://github.com/kubernetes/enhancements/issues/5915).
const TRACEPARENT: &str = "tracing.k8s.io/traceparent";

/// The maximum length of the annotation's value as JSON, in bytes. Version 00 takes 57; later
/// versions may append fields.
const MAX_LENGTH: usize = 256;

/// Presents one traceparent to the parser.
struct Traceparent<'a>(&'a str);

impl Extractor for Traceparent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == "traceparent").then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}

/// Returns the trace context in an object's annotation, if there is a valid one.
pub(super) fn of_object(object: &Object) -> Option<SpanContext> {
    let value = object
        .along(["metadata", "annotations", TRACEPARENT])
        .filter(|value| value.len() <= MAX_LENGTH)?;
    let text: String = serde_json::from_str(value).ok()?;
    let context =
        TraceContextPropagator::new().extract_with_context(&Context::new(), &Traceparent(&text));
    let context = context.span().span_context().clone();

    // The parser accepts shorter ids, too.
    let ids = format!("-{}-{}-", context.trace_id(), context.span_id());
    (context.is_valid() && text.contains(&ids)).then_some(context)
}

#[cfg(test)]
mod tests {
    use operetta_core::object::{ManagedFields, kind::GroupVersionKind};
    use serde_json::{Value, json};

    use super::*;

    fn read(annotation: &Value) -> Option<(String, String, bool)> {
        let metadata = json!({"name": "a", "annotations": {"other": "x", TRACEPARENT: annotation}});
        let text = json!({"metadata": metadata, "spec": {}}).to_string();
        let object = Object::from_json(
            &text,
            &GroupVersionKind::new("v1", "ConfigMap"),
            ManagedFields::Drop,
        );
        let context = of_object(&object.expect("an object"))?;

        Some((
            context.trace_id().to_string(),
            context.span_id().to_string(),
            context.is_sampled(),
        ))
    }

    #[test]
    fn reads_traceparent() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4737";
        const SPAN: &str = "00f067aa0ba902b7";
        let of = |flags: &str| read(&json!(format!("00-{TRACE}-{SPAN}-{flags}")));
        assert_eq!(of("01"), Some((TRACE.to_owned(), SPAN.to_owned(), true)));
        assert_eq!(of("00"), Some((TRACE.to_owned(), SPAN.to_owned(), false)));
    }

    #[test]
    fn ignores_malformed_traceparent() {
        for value in [
            json!(""),
            json!("-"),
            json!("00-1-2-01"),
            json!("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
            json!("00-4bf92f3577b34da6a3ce929d0e0e4737-0000000000000000-01"),
            json!("ff-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-01"),
            json!("00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-01-more"),
            json!("00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01"),
            json!("x".repeat(100_000)),
            json!({"nested": true}),
            json!(null),
            json!(7),
        ] {
            assert_eq!(read(&value), None, "{value}");
        }
    }
}
