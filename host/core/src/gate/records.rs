//! The records of calls, if their reconcile is recorded.

use std::sync::Arc;

use crate::{
    gate::{
        Session,
        operation::{Operation, Page, Written},
        raw_request::{RawRequest, RawResponse, ResourcePath, Target},
    },
    object::{Object, fields::field},
    recorder::{OpenCall, RecordedCall, current_call, record::Call},
    status::{ApiError, ErrorKind, Status},
};

impl Session {
    /// Begins the record of an operation; None if the reconcile is not recorded.
    pub(super) fn begin_call(&self, operation: &dyn Operation) -> Option<OpenCall> {
        let kind = operation.kind();
        self.reconcile.as_ref()?.record.as_ref()?.begin_call(&RecordedCall {
            verb: operation.verb(),
            api_version: &kind.api_version,
            resource: &kind.kind,
            subresource: operation.subresource().filter(|name| !name.is_empty()),
            namespace: operation.namespace().filter(|name| !name.is_empty()),
            name: operation.name(),
            is_raw: false,
            is_cached: operation.is_cached(),
        })
    }

    /// Begins the record of a raw request; None if the reconcile is not recorded, or if the request is invalid.
    pub(super) fn begin_raw(&self, request: &RawRequest) -> Option<OpenCall> {
        let record = self.reconcile.as_ref()?.record.as_ref()?;
        let target = request.target().ok()?;
        record.begin_call(&raw_call(request, &target))
    }
}

impl RawResponse {
    /// Returns the kind of a response that is an error; None for others.
    pub(super) fn failure(&self) -> Option<ErrorKind> {
        let status = Status { code: self.status, ..Status::default() };
        (self.status >= 400).then(|| status.kind())
    }
}

/// Changes the record of the current call.
fn note(change: impl FnOnce(&mut Call)) {
    if let Some(call) = current_call() {
        call.change(change);
    }
}

/// Notes the version that a get returned. Returns the result.
pub(super) fn noted_get(result: Result<Arc<Object>, ApiError>) -> Result<Arc<Object>, ApiError> {
    result.inspect(|object| note(|call| call.resource_version = object.resource_version().to_owned()))
}

/// Notes the size of a page. Returns the result.
pub(super) fn noted_list(result: Result<Page, ApiError>) -> Result<Page, ApiError> {
    result.inspect(|page| note(|call| call.items = u32::try_from(page.items.len()).ok()))
}

/// A write, as its record shows it beside the call.
#[derive(Default)]
pub(super) struct WriteNote {
    /// True for a dry run.
    pub is_dry_run: bool,
    /// The resourceVersion before; empty if it is not known.
    pub before: String,
    /// The fields that changed; None if they are not known.
    pub paths: Option<Vec<String>>,
}

/// Notes a create, an update or a patch.
pub(super) fn note_write(about: WriteNote, result: &Result<Written, ApiError>) {
    note(|call| {
        if let Ok(written) = result {
            let (Written::Stored(object) | Written::Unchanged(object)) = written;
            call.resource_version = object.resource_version().to_owned();
            // The API server may have made up the name.
            call.name = Some(object.key().name.clone());
            call.is_suppressed = matches!(written, Written::Unchanged(_));
        }
        about.apply(call);
    });
}

/// Notes a deletion.
pub(super) fn note_delete(about: WriteNote) {
    note(|call| about.apply(call));
}

/// Notes the version in the response to a raw request, if it is one object. Returns the result.
pub(super) fn noted_raw(about: WriteNote, result: Result<RawResponse, ApiError>) -> Result<RawResponse, ApiError> {
    note(|call| {
        if let Ok(response) = &result
            && response.status < 400
            && (call.name.is_some() || call.verb == "create")
        {
            let metadata = field(&response.body, "metadata");
            let text = |name| metadata.and_then(|metadata| field(metadata, name)).map(|text| text.trim_matches('"'));
            call.resource_version = text("resourceVersion").unwrap_or_default().to_owned();
            call.name = call.name.take().or_else(|| text("name").map(str::to_owned));
        }
        about.apply(call);
    });
    result
}

impl WriteNote {
    fn apply(self, call: &mut Call) {
        call.is_dry_run = self.is_dry_run;
        call.before = self.before;
        call.paths = self.paths;
    }
}

/// Describes a raw request, without its query.
fn raw_call<'a>(request: &RawRequest, target: &'a Target) -> RecordedCall<'a> {
    let call = RecordedCall {
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
        Target::Resource(ResourcePath { api_version, plural, namespace, name, subresource }) => RecordedCall {
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
            operation::{Get, Read, Write, WriteAction, WriteOptions},
            tests::Fake,
        },
        object::{ObjectKey, kind::GroupVersionKind},
        recorder::{
            Limits, OpenReconcile, Recorder, Triggers,
            record::{Reconcile, Source},
        },
    };

    /// Returns a session whose calls are recorded, and the recorder.
    fn session(limits: GateLimits) -> (Session, Arc<Recorder>) {
        let fake = Arc::new(Fake::default());
        let gate = Gate::new(fake.clone(), fake.clone(), fake, "{}".into(), limits, Shared::default());
        let recorder = Recorder::new(Limits::default(), None);
        let mut request = ReconcileRequest {
            controller: "c".into(),
            key: ObjectKey::namespaced("n", "a"),
            retries: 0,
            reconcile_id: "r".into(),
            record: None,
        };
        let plugin = recorder.of_plugin(&plugin(), Source::default());
        let kind = GroupVersionKind::new("v1", "Foo");
        request.record = Some(OpenReconcile::begin(plugin, &kind, &request, Triggers::default(), None, None));
        (gate.session(Some(request)), recorder)
    }

    fn plugin() -> ObjectKey {
        ObjectKey::namespaced("n", "p")
    }

    fn recorded(recorder: &Recorder) -> Reconcile {
        let (found, _) = recorder.reconciles(&plugin(), &[], usize::MAX);
        found.into_iter().next_back().expect("a record").reconcile
    }

    #[tokio::test]
    async fn calls_are_recorded_with_names_and_results() {
        let (mut session, recorder) = session(GateLimits { calls: 3, ..GateLimits::default() });
        let kind = GroupVersionKind::new("v1", "Secret");
        let get = Get { kind, key: ObjectKey::namespaced("n", "b"), read: Read::Cached };
        session.get(get.clone()).await.expect("read");
        let raw = |path: &str| RawRequest { method: "GET".into(), path: path.into(), ..RawRequest::default() };
        session.raw(RawRequest { query: "fieldSelector=x".into(), ..raw("/api/v1/namespaces/n/pods") }).await;
        let action = WriteAction::Create { namespace: None, object: "{}".to_owned() };
        let kind = GroupVersionKind::new("v1", "Node");
        session.write(Write { kind, action, options: WriteOptions::default() }).await.expect("created");
        session.get(get).await.expect_err("over the limit");
        session.raw(raw("/etc/passwd")).await;
        drop(session);
        let record = recorded(&recorder);
        let calls: Vec<_> = record
            .calls
            .iter()
            .map(|call| {
                let namespace = call.namespace.as_deref().unwrap_or("-");
                let name = call.name.as_deref().unwrap_or("-");
                let error = call.error.as_deref().unwrap_or("ok");
                format!("{} {} {namespace} {name} {} {error}", call.verb, call.resource, call.is_cached)
            })
            .collect();
        assert_eq!(
            calls,
            [
                "get Secret n b true ok",
                "get pods n - false ok",
                "create Node - a false ok",
                "get Secret n b true Forbidden"
            ]
        );
        assert!(record.calls.iter().all(|call| call.took.is_some()));
        assert_eq!((record.result.as_str(), record.kind.as_str()), ("aborted", "Foo"));
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
