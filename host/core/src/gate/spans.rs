//! The spans of calls, if their reconcile is traced.

use std::sync::Arc;

use crate::{
    gate::{
        Session,
        operation::Operation,
        raw_request::{RawRequest, RawResponse, ResourcePath, Target},
    },
    status::{ErrorKind, Status},
    trace::{CallSpan, TracedCall},
};

impl Session {
    /// Starts the span of an operation; None if the reconcile is not traced.
    pub(super) fn start_call(&self, operation: &dyn Operation) -> Option<Arc<dyn CallSpan>> {
        self.reconcile.as_ref()?.span.as_ref()?.start_call(&TracedCall::of_operation(operation))
    }

    /// Starts the span of a raw request; None if the reconcile is not traced, or if the request is invalid.
    pub(super) fn start_raw(&self, request: &RawRequest) -> Option<Arc<dyn CallSpan>> {
        let span = self.reconcile.as_ref()?.span.as_ref()?;
        let target = request.target().ok()?;
        span.start_call(&raw_call(request, &target))
    }
}

impl RawResponse {
    /// Returns the kind of a response that is an error; None for others.
    pub(super) fn failure(&self) -> Option<ErrorKind> {
        let status = Status { code: self.status, ..Status::default() };
        (self.status >= 400).then(|| status.kind())
    }
}

/// Describes a raw request, without its query.
fn raw_call<'a>(request: &RawRequest, target: &'a Target) -> TracedCall<'a> {
    let call = TracedCall {
        verb: request.verb(),
        api_version: "",
        resource: "",
        subresource: None,
        namespace: None,
        name: None,
        is_raw: true,
        is_cached: request.is_cached(),
    };
    match target {
        Target::Discovery => call,
        Target::Resource(ResourcePath { api_version, plural, namespace, name, subresource }) => TracedCall {
            api_version,
            resource: plural,
            subresource: subresource.as_deref(),
            namespace: namespace.as_deref(),
            name: name.as_deref(),
            ..call
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        controller::request::ReconcileRequest,
        gate::{
            Gate, GateLimits, Shared,
            operation::{Get, Read},
            tests::Fake,
        },
        object::{ObjectKey, kind::GroupVersionKind},
        trace::{TracedReconcile, tests::Notes},
    };

    fn session(notes: &Notes, limits: GateLimits) -> Session {
        let fake = Arc::new(Fake::default());
        let gate = Gate::new(fake.clone(), fake.clone(), fake, "{}".into(), limits, Shared::default());
        gate.session(Some(ReconcileRequest {
            controller: "c".into(),
            key: ObjectKey::namespaced("n", "a"),
            retries: 0,
            reconcile_id: "r".into(),
            span: Some(TracedReconcile::new(Arc::new(notes.clone()))),
        }))
    }

    #[tokio::test]
    async fn calls_have_spans_with_names_and_results() {
        let notes = Notes::default();
        let mut session = session(&notes, GateLimits { calls: 2, ..GateLimits::default() });
        let kind = GroupVersionKind::new("v1", "Secret");
        let get = Get { kind, key: ObjectKey::namespaced("n", "b"), read: Read::Cached };
        session.get(get.clone()).await.expect("read");
        let raw = |path: &str| RawRequest { method: "GET".into(), path: path.into(), ..RawRequest::default() };
        session.raw(RawRequest { query: "fieldSelector=x".into(), ..raw("/api/v1/namespaces/n/pods") }).await;
        session.get(get).await.expect_err("over the limit");
        session.raw(raw("/etc/passwd")).await;
        let read = "get Secret Some(\"n\") Some(\"b\") cached=true";
        let listed = "get pods Some(\"n\") None cached=false";
        assert_eq!(notes.take(), [read, "None", listed, "None", read, "Some(Forbidden)"]);
    }

    #[test]
    fn response_with_status_of_an_error_is_a_failure() {
        let failure = |status| {
            let content_type = String::new();
            RawResponse { status, content_type, retry_after_seconds: None, body: String::new() }.failure()
        };
        assert_eq!(failure(201), None);
        assert_eq!(failure(404), Some(ErrorKind::NotFound));
        assert_eq!(failure(418), Some(ErrorKind::Other));
    }
}
