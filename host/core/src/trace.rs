//! Spans of reconciles and of their calls, as ports: the core says what happens, a tracer records it.
//!
//! An [`Observer`](crate::controller::Observer) starts the span of a reconcile, or none if the reconcile is not traced. The
//! request carries it to the gate, which starts a [`CallSpan`] for each call on objects. While the call runs,
//! [`current_call`] returns its span, for the client that sends the call's requests.
//!
//! A span has names, codes and times. It has no content of objects and no message of an error: messages may quote the
//! values of Secrets.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use operetta_api::reasons::Reason;

use crate::{
    gate::operation::{Operation, Verb},
    status::{ApiError, ErrorKind},
};

/// The identity of a recorded span, as W3C Trace Context has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The id of the trace.
    pub trace_id: u128,
    /// The id of the span in the trace.
    pub span_id: u64,
}

impl SpanContext {
    /// Returns the id of the trace in hex, as logs have it.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// Returns the value of the header `traceparent` of requests under this span.
    ///
    /// ```
    /// use operetta_core::trace::SpanContext;
    ///
    /// let context = SpanContext { trace_id: 0x4bf9, span_id: 0xf0 };
    /// assert_eq!(context.traceparent(), "00-00000000000000000000000000004bf9-00000000000000f0-01");
    /// ```
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-01", self.trace_id, self.span_id)
    }
}

/// The span of a reconcile. It ends when it is dropped, if not before.
pub trait ReconcileSpan: Send + Sync {
    /// Returns the span's identity.
    fn context(&self) -> SpanContext;

    /// Starts the span of a call; None if the reconcile has as many spans as it may.
    fn start_call(&self, call: &TracedCall<'_>) -> Option<Arc<dyn CallSpan>>;

    /// Ends the span with the outcome of the reconcile.
    fn end(&self, outcome: &Outcome);
}

/// The outcome of a reconcile, as its span shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The result, as controller-runtime's metrics name it: `success`, `requeue`, `requeue_after` or `error`.
    pub result: &'static str,
    /// The delay of `requeue_after`.
    pub requeue_after: Option<Duration>,
    /// The reason of an error.
    pub error: Option<Reason>,
}

/// The span of one call. It ends when it is dropped, if not before.
pub trait CallSpan: Send + Sync {
    /// Returns the span's identity.
    fn context(&self) -> SpanContext;

    /// Records the response of the API server to a request of this call; `status` is None without a response.
    fn responded(&self, method: &str, status: Option<u16>);

    /// Ends the span. `error` is the kind of a failure.
    fn end(&self, error: Option<ErrorKind>);
}

/// A call on objects, as its span shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedCall<'a> {
    /// The verb.
    pub verb: Verb,
    /// The objects' `group/version`; empty if the call is about no resource.
    pub api_version: &'a str,
    /// The objects' kind; in a raw request the plural name of the resource; empty if the call is about no resource.
    pub resource: &'a str,
    /// The subresource.
    pub subresource: Option<&'a str>,
    /// The namespace; None for all namespaces and for cluster-scoped objects.
    pub namespace: Option<&'a str>,
    /// The object's name; None if the call names none.
    pub name: Option<&'a str>,
    /// True for a raw request.
    pub is_raw: bool,
    /// True for a read that the cache may answer.
    pub is_cached: bool,
}

impl<'a> TracedCall<'a> {
    /// Describes an operation.
    pub(crate) fn of_operation(operation: &'a dyn Operation) -> Self {
        let kind = operation.kind();
        Self {
            verb: operation.verb(),
            api_version: &kind.api_version,
            resource: &kind.kind,
            subresource: operation.subresource().filter(|name| !name.is_empty()),
            namespace: operation.namespace().filter(|name| !name.is_empty()),
            name: operation.name(),
            is_raw: false,
            is_cached: operation.is_cached(),
        }
    }
}

/// The span of a reconcile, as its request carries it. Clones are handles of the same span.
#[derive(Clone)]
pub struct TracedReconcile(Arc<dyn ReconcileSpan>);

impl TracedReconcile {
    /// Creates a handle of a span.
    pub fn new(span: Arc<dyn ReconcileSpan>) -> Self {
        Self(span)
    }
}

impl Deref for TracedReconcile {
    type Target = dyn ReconcileSpan;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for TracedReconcile {
    fn eq(&self, other: &Self) -> bool {
        self.context() == other.context()
    }
}

impl Eq for TracedReconcile {}

impl fmt::Debug for TracedReconcile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TracedReconcile").field(&self.context()).finish()
    }
}

tokio::task_local! {
    /// The span of the call that the current task runs.
    static CALL: Option<Arc<dyn CallSpan>>;
}

/// Runs a call under its span, and ends the span with the result. `failure` returns the kind of a result that is a failure
/// although it is no error, such as a response with an error's status.
///
/// # Errors
/// The error of the call.
pub async fn traced<T>(
    span: Option<Arc<dyn CallSpan>>,
    call: impl Future<Output = Result<T, ApiError>>,
    failure: impl FnOnce(&T) -> Option<ErrorKind>,
) -> Result<T, ApiError> {
    let result = CALL.scope(span.clone(), call).await;
    if let Some(span) = span {
        span.end(result.as_ref().map_or_else(|error| Some(error.kind), failure));
    }
    result
}

/// Returns the span of the call that the current task runs; None outside of a call, and in one that is not traced.
pub fn current_call() -> Option<Arc<dyn CallSpan>> {
    CALL.try_with(Clone::clone).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// A tracer that writes down what it is told.
    #[derive(Clone, Default)]
    pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

    impl Notes {
        pub(crate) fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock())
        }

        fn note(&self, note: String) {
            self.0.lock().push(note);
        }
    }

    impl ReconcileSpan for Notes {
        fn context(&self) -> SpanContext {
            SpanContext { trace_id: 7, span_id: 1 }
        }

        fn start_call(&self, call: &TracedCall<'_>) -> Option<Arc<dyn CallSpan>> {
            let TracedCall { verb, resource, namespace, name, is_cached, .. } = call;
            self.note(format!("{verb} {resource} {namespace:?} {name:?} cached={is_cached}"));
            Some(Arc::new(self.clone()))
        }

        fn end(&self, outcome: &Outcome) {
            self.note(outcome.result.to_owned());
        }
    }

    impl CallSpan for Notes {
        fn context(&self) -> SpanContext {
            SpanContext { trace_id: 7, span_id: 2 }
        }

        fn responded(&self, method: &str, status: Option<u16>) {
            self.note(format!("{method} {status:?}"));
        }

        fn end(&self, error: Option<ErrorKind>) {
            self.note(format!("{error:?}"));
        }
    }

    #[tokio::test]
    async fn call_has_its_span_while_it_runs() {
        let notes = Notes::default();
        let call = async {
            tokio::task::yield_now().await;
            let span = current_call().expect("a span");
            assert_eq!(span.context().traceparent(), "00-00000000000000000000000000000007-0000000000000002-01");
            span.responded("PUT", Some(409));
            Err::<(), _>(ApiError::new(ErrorKind::Conflict, "secret"))
        };
        let result = traced(Some(Arc::new(notes.clone())), call, |()| None).await;
        assert_eq!(result.map_err(|error| error.kind), Err(ErrorKind::Conflict));
        assert_eq!(notes.take(), ["PUT Some(409)", "Some(Conflict)"]);
        let untraced = traced(None, async { Ok(current_call().is_none()) }, |_| None).await;
        assert_eq!(untraced, Ok(true));
        assert!(current_call().is_none());
    }
}
