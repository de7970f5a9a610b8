//! Fakes of the API server, the event recorder and the log.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use operetta_core::{
    conflict::{ConflictSink, FieldConflict, FieldConflicts},
    controller::request::{Action, ReconcileRequest},
    gate::{
        Gate, GateLimits, Shared,
        audit::{Audit, AuditRecord, AuditSink, Writer},
        operation::{Delete, Get, List, Page, Write, Written},
        raw_request::{RawRequest, RawResponse, Target},
        warnings,
    },
    object::{ManagedFields, Object, ObjectKey, kind::GroupVersionKind},
    ports::{
        EventNote, EventSink, LogLevel, LogRecord, LogSink, LongRunSink, ObjectApi, ObjectLookup,
        Reconciler,
    },
    status::ApiError,
};
use operetta_wasm::PluginReconciler;
use parking_lot::Mutex;

/// An operation that reached the API server.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    dead_code,
    reason = "not every test binary that includes this file reads each field"
)]
pub enum Called {
    Get(Get),
    List(List),
    Write(Write),
    Delete(Delete),
}

/// A fake of all ports that answers every call alike, after a pause, and keeps the requests.
pub struct Ports {
    pub answer: Result<Arc<Object>, ApiError>,
    /// The response to lists.
    pub page: Option<Page>,
    pub pause: Option<Duration>,
    /// The warning about each write.
    pub warns: Option<&'static str>,
    pub operations: Mutex<Vec<Called>>,
    pub raws: Mutex<Vec<RawRequest>>,
    /// The configuration that the guest reads.
    pub config: String,
    pub events: Mutex<Vec<EventNote>>,
    pub records: Mutex<Vec<LogRecord>>,
    /// The stacks of guests that ran for long.
    pub long_runs: Mutex<Vec<String>>,
    /// True to record writes in `audit`, with `answer` as the object before them.
    pub audited: bool,
    pub audit: Mutex<Vec<AuditRecord>>,
    /// The number of calls in flight.
    pub running: AtomicU32,
    /// The highest value of `running`.
    pub most: AtomicU32,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            answer: Ok(Arc::new(pod("a"))),
            page: None,
            pause: Some(Duration::ZERO),
            warns: None,
            operations: Mutex::default(),
            raws: Mutex::default(),
            config: r#"{"replicas":3}"#.into(),
            events: Mutex::default(),
            records: Mutex::default(),
            long_runs: Mutex::default(),
            audited: false,
            audit: Mutex::default(),
            running: AtomicU32::new(0),
            most: AtomicU32::new(0),
        }
    }
}

impl Ports {
    /// Answers every call with this error.
    #[allow(
        dead_code,
        reason = "not every test binary that includes this file uses it"
    )]
    pub fn failing(error: ApiError) -> Self {
        Self {
            answer: Err(error),
            ..Self::default()
        }
    }

    /// Answers after this pause; None never answers.
    pub fn slow(pause: Option<Duration>) -> Self {
        Self {
            pause,
            ..Self::default()
        }
    }

    /// Returns the gate of a reconciler.
    pub fn gate(self: &Arc<Self>) -> Arc<Gate> {
        let shared = self.shared();
        Gate::new(
            self.clone(),
            self.clone(),
            self.clone(),
            self.config.as_str().into(),
            limits(),
            shared,
        )
    }

    /// Returns the gate of a mapper.
    #[allow(
        dead_code,
        reason = "not every test binary that includes this file uses it"
    )]
    pub fn mapping_gate(self: &Arc<Self>) -> Arc<Gate> {
        Gate::mapping(
            self.clone(),
            self.config.as_str().into(),
            limits(),
            self.shared(),
        )
    }

    fn shared(self: &Arc<Self>) -> Shared {
        if !self.audited {
            return Shared {
                long_runs: Some(self.clone()),
                ..Shared::default()
            };
        }
        let writer = Writer {
            plugin: ObjectKey::namespaced("n", "p"),
            digest: String::new(),
            service_account: "plugin".into(),
            field_manager: "operetta:n/p".into(),
        };
        let audit = Audit {
            writer,
            sink: self.clone(),
            conflicts: FieldConflicts::new(self.clone()),
        };
        Shared {
            audit: Some(audit),
            objects: Some(self.clone()),
            ..Shared::default()
        }
    }

    /// Returns the level and message of each log record.
    pub fn lines(&self) -> Vec<(LogLevel, String)> {
        self.records
            .lock()
            .iter()
            .map(|record| (record.level, record.message.clone()))
            .collect()
    }
}

impl Ports {
    /// Records the operation and answers after the pause.
    async fn answer(&self, called: Called) -> Result<Arc<Object>, ApiError> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        self.operations.lock().push(called);
        match self.pause {
            Some(Duration::ZERO) => {}
            Some(pause) => tokio::time::sleep(pause).await,
            None => std::future::pending().await,
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.answer.clone()
    }
}

#[async_trait]
impl ObjectApi for Ports {
    async fn get(&self, get: Get) -> Result<Arc<Object>, ApiError> {
        self.answer(Called::Get(get)).await
    }

    async fn list(&self, list: List) -> Result<Page, ApiError> {
        self.answer(Called::List(list)).await?;
        Ok(self.page.clone().expect("a test of lists sets the page"))
    }

    async fn write(&self, write: Write) -> Result<Written, ApiError> {
        if let Some(text) = self.warns {
            warnings::note(text);
        }
        self.answer(Called::Write(write)).await.map(Written::Stored)
    }

    async fn delete(&self, delete: Delete) -> Result<(), ApiError> {
        self.answer(Called::Delete(delete)).await.map(drop)
    }

    async fn raw(&self, request: RawRequest, _: Target) -> Result<RawResponse, ApiError> {
        let body = format!("{request} {}", request.body.as_deref().unwrap_or_default());
        self.raws.lock().push(request);
        Ok(RawResponse {
            status: 200,
            content_type: "text/plain".into(),
            retry_after_seconds: Some(7),
            body,
        })
    }
}

fn limits() -> GateLimits {
    GateLimits {
        call_timeout: Duration::from_secs(3600),
        ..GateLimits::default()
    }
}

#[async_trait]
impl ObjectLookup for Ports {
    fn cached(&self, _: &GroupVersionKind, _: &ObjectKey) -> Option<Arc<Object>> {
        self.answer.clone().ok()
    }

    fn kind_of(&self, _: &str, _: &str) -> Option<GroupVersionKind> {
        None
    }

    async fn live(&self, _: &GroupVersionKind, _: &ObjectKey) -> Option<Arc<Object>> {
        None
    }
}

impl AuditSink for Ports {
    fn record(&self, record: &AuditRecord) {
        self.audit.lock().push(record.clone());
    }
}

impl ConflictSink for Ports {
    fn conflict(&self, _: &FieldConflict) {}
}

impl EventSink for Ports {
    fn emit(&self, note: EventNote) {
        self.events.lock().push(note);
    }
}

impl LongRunSink for Ports {
    fn long_run(&self, request: &ReconcileRequest, ran: Duration, stack: &str) {
        self.long_runs
            .lock()
            .push(format!("{} {ran:?} {stack}", request.key));
    }
}

impl LogSink for Ports {
    fn enabled(&self, level: LogLevel) -> bool {
        level <= LogLevel::Info
    }

    fn write(&self, record: LogRecord) {
        self.records.lock().push(record);
    }
}

pub fn pod(name: &str) -> Object {
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"n"}}}}"#
    );
    Object::from_json(
        &text,
        &GroupVersionKind::new("v1", "Pod"),
        ManagedFields::Drop,
    )
    .expect("a pod")
}

pub fn request(name: &str) -> ReconcileRequest {
    ReconcileRequest {
        controller: "c".into(),
        key: ObjectKey::namespaced("n", name),
        retries: 2,
        reconcile_id: "id-1".into(),
        record: None,
    }
}

/// Runs `count` reconciles at once and asserts that each is done.
pub async fn all_done(reconciler: &Arc<PluginReconciler>, count: u32) {
    let calls: Vec<_> = (0..count)
        .map(|_| {
            let reconciler = reconciler.clone();
            tokio::spawn(async move { reconciler.reconcile(&request("a")).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.expect("no panic"), Ok(Action::Done));
    }
}
