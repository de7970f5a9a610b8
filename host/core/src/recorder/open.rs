//! Records a reconcile and its calls while it runs.

use std::{sync::Arc, time::Duration};

use operetta_api::reasons::Reason;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    MAX_CALLS, PluginRecorder,
    record::{CallRecord, Reconcile},
    triggers::Triggers,
};
use crate::{
    gate::call::{Call, Resource},
    nondeterminism,
    status::{ApiError, ErrorKind},
};

/// Longest text chosen by a plugin, in bytes. Names of objects have at most 253.
const MAX_TEXT: usize = 256;

/// The identity of a span, as in [W3C Trace Context](https://www.w3.org/TR/trace-context/).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The id of the trace.
    pub trace_id: u128,
    /// The id of the span in the trace.
    pub span_id: u64,
}

impl SpanContext {
    /// Creates the root of a new trace.
    pub fn random() -> Self {
        // An id of zero is invalid.
        let trace_id = u128::from_le_bytes(nondeterminism::random_bytes()).max(1);
        Self {
            trace_id,
            span_id: random_span(),
        }
    }

    /// The id of the trace in hex, as in logs.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// The header `traceparent` for requests under this span.
    ///
    /// ```
    /// use operetta_core::recorder::SpanContext;
    ///
    /// let context = SpanContext { trace_id: 0x4bf9, span_id: 0xf0 };
    /// assert_eq!(context.traceparent(), "00-00000000000000000000000000004bf9-00000000000000f0-01");
    /// ```
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-01", self.trace_id, self.span_id)
    }
}

fn random_span() -> u64 {
    u64::from_le_bytes(nondeterminism::random_bytes()).max(1)
}

/// The trace of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The reconcile's own span.
    pub context: SpanContext,
    /// The span of the request that wrote the object, from its annotation.
    pub link: Option<SpanContext>,
}

/// The outcome of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The result, named as in controller-runtime's metrics: `success`, `requeue`, `requeue_after`
    /// or `error`.
    pub result: &'static str,
    /// The delay of `requeue_after`.
    pub requeue_after: Option<Duration>,
    /// The reason of an error.
    pub error: Option<Reason>,
}

/// A reconcile in flight. Clones refer to the same one. It ends when the last of them is dropped,
/// if not earlier.
#[derive(Clone)]
pub struct OpenReconcile(Arc<Open>);

struct Open {
    recorder: Arc<PluginRecorder>,
    began: Instant,
    trace: Option<Trace>,
    /// None after the end.
    record: Mutex<Option<Reconcile>>,
}

impl OpenReconcile {
    /// Begins recording a reconcile, of which this is known so far.
    pub(crate) fn begin(
        recorder: Arc<PluginRecorder>,
        reconcile: Reconcile,
        trace: Option<Trace>,
    ) -> Self {
        let record = Reconcile {
            started: nondeterminism::wall_clock(),
            result: "aborted".to_owned(),
            ..reconcile
        };

        Self(Arc::new(Open {
            recorder,
            began: Instant::now(),
            trace,
            record: Mutex::new(Some(record)),
        }))
    }

    /// The trace, if the reconcile is traced.
    pub fn trace(&self) -> Option<&Trace> {
        self.0.trace.as_ref()
    }

    /// The API server's audit id of the request of the last call that failed; None without one, and
    /// after the end.
    pub fn audit_id(&self) -> Option<String> {
        let record = self.0.record.lock();
        let failed = record
            .as_ref()?
            .calls
            .iter()
            .rfind(|call| call.error.is_some())?;
        Some(failed.audit_id.clone()).filter(|id| !id.is_empty())
    }

    /// The triggers; none after the end.
    pub(crate) fn triggers(&self) -> Triggers {
        let record = self.0.record.lock();
        let of = |record: &Reconcile| Triggers {
            first: record.triggers.clone(),
            more: record.more_triggers,
        };
        record.as_ref().map(of).unwrap_or_default()
    }

    /// Begins recording a call; None if the reconcile has too many already.
    pub fn begin_call(&self, call: &Call) -> Option<OpenCall> {
        let began = self.0.began.elapsed();
        let span = self.0.trace.as_ref().map_or(0, |_| random_span());
        let mut record = self.0.record.lock();
        let record = record.as_mut()?;
        if record.calls.len() >= MAX_CALLS {
            record.more_calls = record.more_calls.saturating_add(1);
            return None;
        }

        let (api_version, resource, is_raw) = match &call.resource {
            Resource::Kind(kind) => (&kind.api_version, &kind.kind, false),
            Resource::Path {
                api_version,
                plural,
                ..
            } => (api_version, plural, true),
        };

        let at = record.calls.len();
        record.calls.push(CallRecord {
            verb: call.verb.as_str().to_owned(),
            api_version: cut(api_version),
            resource: cut(resource),
            subresource: call.subresource.as_deref().map(cut).unwrap_or_default(),
            namespace: call.namespace.as_deref().map(cut),
            name: call.name.as_deref().map(cut),
            is_raw,
            is_cached: call.is_cached,
            began,
            span,
            ..CallRecord::default()
        });

        Some(OpenCall {
            reconcile: self.clone(),
            at,
            span,
        })
    }

    /// Adds processor time used by the reconcile.
    pub fn used_cpu(&self, time: Duration) {
        if let Some(record) = &mut *self.0.record.lock() {
            record.cpu += time;
        }
    }

    /// Ends the record with the reconcile's outcome.
    pub fn end(&self, outcome: &Outcome) {
        self.0.end(|record| {
            record.result = outcome.result.to_owned();
            record.requeue_after = outcome.requeue_after;
            record.error = outcome.error.map(|reason| reason.as_str().to_owned());
        });
    }
}

impl PartialEq for OpenReconcile {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OpenReconcile {}

impl std::fmt::Debug for OpenReconcile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenReconcile")
            .field(&*self.0.record.lock())
            .finish()
    }
}

impl Open {
    fn end(&self, change: impl FnOnce(&mut Reconcile)) {
        let Some(mut record) = self.record.lock().take() else {
            return;
        };
        record.took = self.began.elapsed();
        change(&mut record);
        self.recorder.add(&record, self.trace.as_ref());
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end(|_| {});
    }
}

/// A call in flight.
#[derive(Clone)]
pub struct OpenCall {
    reconcile: OpenReconcile,
    at: usize,
    span: u64,
}

impl OpenCall {
    /// The identity of its span, if the reconcile is traced.
    pub fn context(&self) -> Option<SpanContext> {
        let trace = self.reconcile.trace()?;
        Some(SpanContext {
            trace_id: trace.context.trace_id,
            span_id: self.span,
        })
    }

    /// Changes the record, unless the reconcile has ended.
    pub fn change(&self, change: impl FnOnce(&mut CallRecord)) {
        let mut record = self.reconcile.0.record.lock();
        if let Some(call) = record
            .as_mut()
            .and_then(|record| record.calls.get_mut(self.at))
        {
            change(call);
        }
    }

    /// Records the API server's response to a request of this call: its status, and the id of the
    /// request in the audit log. `response` is None if there was none.
    pub fn responded(&self, method: &str, response: Option<(u16, Option<&str>)>) {
        let (status, audit_id) = response.unwrap_or_default();
        self.change(|call| {
            call.response = Some((cut(method), status));
            call.audit_id = audit_id
                .filter(|_| status >= 400)
                .map(cut)
                .unwrap_or_default();
        });
    }

    /// Ends the record. `error` is the kind of a failure.
    pub fn end(&self, error: Option<ErrorKind>) {
        let now = self.reconcile.0.began.elapsed();
        self.change(|call| {
            call.took = Some(now.saturating_sub(call.began));
            call.error = error.map(|kind| kind.reason().to_owned());
        });
    }
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

tokio::task_local! {
    /// The record of the call running on this task.
    static CALL: Option<OpenCall>;
}

/// Runs a call under its record, and ends the record with the result. `failure` detects results
/// that are failures without being an error, such as a response with an error status.
///
/// # Errors
/// The error of the call.
pub async fn recorded<T>(
    open: Option<OpenCall>,
    call: impl Future<Output = Result<T, ApiError>>,
    failure: impl FnOnce(&T) -> Option<ErrorKind>,
) -> Result<T, ApiError> {
    let result = CALL.scope(open.clone(), call).await;
    if let Some(open) = open {
        open.end(
            result
                .as_ref()
                .map_or_else(|error| Some(error.kind), failure),
        );
    }
    result
}

/// The record of the call running on this task; None outside of a call, or if the call is not
/// recorded.
pub fn current_call() -> Option<OpenCall> {
    CALL.try_with(Clone::clone).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        gate::verb::Verb,
        object::{ObjectKey, kind::GroupVersionKind},
        recorder::{Limits, Recorder, record::Source},
    };

    #[tokio::test(start_paused = true)]
    async fn calls_of_a_reconcile_and_their_texts_are_bounded() {
        let recorder = Recorder::new(Limits::default(), None);
        let plugin = ObjectKey::namespaced("n", "p");
        let source = recorder.of_plugin(&plugin, Source::default());
        let open = OpenReconcile::begin(source, Reconcile::default(), None);
        let long = "é".repeat(100_000);
        let call = Call {
            verb: Verb::Get,
            resource: Resource::Kind(GroupVersionKind::new(&*long, &*long)),
            subresource: Some(long.clone()),
            namespace: Some(long.clone()),
            name: Some(long),
            field_selector: None,
            field_manager: None,
            is_cached: false,
            is_dry_run: false,
        };
        let begun = (0..1000).filter_map(|_| open.begin_call(&call)).count();
        assert_eq!(begun, MAX_CALLS);
        drop(open);
        let (found, older) = recorder.reconciles(&plugin, &[], 10);
        assert_eq!((found.len(), older), (1, 0));
        let reconcile = &found[0].reconcile;
        assert_eq!(reconcile.more_calls as usize, 1000 - MAX_CALLS);
        for call in &reconcile.calls {
            let texts = [&call.api_version, &call.resource, &call.subresource];
            assert!(texts.iter().all(|text| text.len() <= MAX_TEXT), "{call:?}");
        }
        let bytes = recorder.counts().bytes;
        assert!(bytes < MAX_CALLS * 6 * MAX_TEXT, "{bytes} bytes");
    }
}
