//! Notes the outcomes of calls in the record of their reconcile, if it has one.

use std::sync::Arc;

use crate::{
    gate::{
        operation::{Page, Written},
        raw_request::RawResponse,
    },
    object::{Object, fields::field},
    recorder::{current_call, record::CallRecord},
    status::{ApiError, ErrorKind, Status},
};

impl RawResponse {
    /// The error kind of a failed response; None for others.
    pub(super) fn failure(&self) -> Option<ErrorKind> {
        let status = Status {
            code: self.status,
            ..Status::default()
        };
        (self.status >= 400).then(|| status.kind())
    }
}

pub(super) fn note(change: impl FnOnce(&mut CallRecord)) {
    if let Some(call) = current_call() {
        call.change(change);
    }
}

/// Notes the version returned by a get.
pub(super) fn note_get(result: &Result<Arc<Object>, ApiError>) {
    if let Ok(object) = result {
        note(|call| call.resource_version = object.resource_version().to_owned());
    }
}

pub(super) fn note_list(result: &Result<Page, ApiError>) {
    if let Ok(page) = result {
        note(|call| call.items = u32::try_from(page.items.len()).ok());
    }
}

/// Notes the version returned by a create, an update or a patch.
pub(super) fn note_write(result: &Result<Written, ApiError>) {
    let Ok(written) = result else { return };
    let (Written::Stored(object) | Written::Unchanged(object)) = written;
    note(|call| {
        call.resource_version = object.resource_version().to_owned();
        // The API server may have generated the name.
        call.name = Some(object.key().name.clone());
        call.is_suppressed = matches!(written, Written::Unchanged(_));
    });
}

/// Notes the version in the response to a raw request, if it is a single object.
pub(super) fn note_raw(result: &Result<RawResponse, ApiError>) {
    let Ok(response) = result else { return };
    if response.status >= 400 {
        return;
    }

    note(|call| {
        if call.name.is_none() && call.verb != "create" {
            return;
        }
        let metadata = field(&response.body, "metadata");
        let text = |name| {
            metadata
                .and_then(|metadata| field(metadata, name))
                .map(|text| text.trim_matches('"'))
        };
        call.resource_version = text("resourceVersion").unwrap_or_default().to_owned();
        call.name = call.name.take().or_else(|| text("name").map(str::to_owned));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        controller::request::ReconcileRequest,
        gate::{
            Gate, GateLimits, Session, Shared,
            operation::{Get, Read, Write, WriteAction, WriteOptions},
            raw_request::RawRequest,
            tests::Fake,
        },
        object::{ObjectKey, kind::GroupVersionKind},
        recorder::{
            Limits, Recorder, Triggers,
            record::{Reconcile, Source},
        },
    };

    /// Returns a session whose calls are recorded, and the recorder.
    fn session(limits: GateLimits) -> (Session, Arc<Recorder>) {
        let fake = Arc::new(Fake::default());
        let gate = Gate::new(
            fake.clone(),
            fake.clone(),
            fake,
            "{}".into(),
            limits,
            Shared::default(),
        );
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
        request.record = Some(request.begin_record(plugin, &kind, Triggers::default(), None, None));
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
        let (mut session, recorder) = session(GateLimits {
            calls: 3,
            ..GateLimits::default()
        });
        let kind = GroupVersionKind::new("v1", "Secret");
        let get = Get {
            kind,
            key: ObjectKey::namespaced("n", "b"),
            read: Read::Cached,
        };
        session.get(get.clone()).await.expect("read");
        let raw = |path: &str| RawRequest {
            method: "GET".into(),
            path: path.into(),
            ..RawRequest::default()
        };
        session
            .raw(RawRequest {
                query: "fieldSelector=x".into(),
                ..raw("/api/v1/namespaces/n/pods")
            })
            .await;
        let action = WriteAction::Create {
            namespace: None,
            object: "{}".to_owned(),
        };
        let kind = GroupVersionKind::new("v1", "Node");
        session
            .write(Write {
                kind,
                action,
                options: WriteOptions::default(),
            })
            .await
            .expect("created");
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
                format!(
                    "{} {} {namespace} {name} {} {error}",
                    call.verb, call.resource, call.is_cached
                )
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
        assert_eq!(
            (record.result.as_str(), record.kind.as_str()),
            ("aborted", "Foo")
        );
    }

    #[test]
    fn response_with_status_of_an_error_is_a_failure() {
        let failure = |status| {
            let content_type = String::new();
            RawResponse {
                status,
                content_type,
                retry_after_seconds: None,
                body: String::new(),
            }
            .failure()
        };
        assert_eq!(failure(201), None);
        assert_eq!(failure(404), Some(ErrorKind::NotFound));
        assert_eq!(failure(418), Some(ErrorKind::Other));
    }
}
