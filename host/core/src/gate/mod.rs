//! The gate: the chain of checks that every call of a guest passes.
//!
//! A [`Gate`] belongs to a plugin, a [`Session`] to one reconcile. The sandbox holds only a
//! session, so a plugin can do nothing else. The steps of the chain, in order:
//!
//! 1. `Session::admit` counts the call, and refuses it if the gate is closed or the reconcile is
//!    over a limit;
//! 2. [`Throttle`](throttle::Throttle) delays requests to the API server by their quota. A cached
//!    read that turns out to need a request is delayed later;
//! 3. [`RequestPermit`] is checked again, because the delay takes time. The client checks it once more
//!    before it sends;
//! 4. the call runs with its own timeout;
//! 5. `Session::meter` records the duration and the result.
//!
//! The chain describes each call on objects once, as a [`Call`]. If the reconcile is recorded, the
//! record of the call begins before the chain and ends after it ([`crate::recorder`]). A write has
//! a second one around step 4, for the audit and the detector of hot loops: both read the [`Call`]
//! before it is sent, and its `Answer` afterwards.
//!
//! Cached reads are checked against RBAC once the resource is known: see
//! [`crate::authz::access_review`]. Nothing bypasses this chain.
//!
//! An operator that is a process has no reconciles and sends HTTP: its requests pass the same steps
//! in [`proxied_request`], several at once, with deadlines of their own.

pub mod audit;
pub mod bytes;
pub mod call;
mod config;
pub mod finalizers;
pub mod in_flight;
pub mod operation;
pub mod options;
mod out_of_reach;
pub mod path;
pub mod permit;
pub mod proxied_request;
pub mod raw_request;
mod records;
mod refusals;
pub mod reply;
mod shared;
mod target;
pub mod throttle;
pub mod verb;
pub mod wait_time;
pub mod warnings;
mod write_record;

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use operetta_api::reasons;
use parking_lot::RwLock;

pub use self::{config::PluginConfig, shared::Shared};
use crate::{
    controller::request::{Action, Failure, ReconcileRequest},
    gate::{
        bytes::{Bytes, charged},
        call::Call,
        operation::{Delete, Get, List, Operation, Page, Verb, Write, Written, describe_call},
        out_of_reach::OutOfReach,
        path::check_name,
        permit::RequestPermit,
        raw_request::{IMPOSSIBLE_NAME, RawRequest, RawResponse},
        records::{note_get, note_list, note_raw, note_write},
        refusals::{Refusals, RejectedWrites},
        reply::Answer,
        throttle::Meter,
        warnings::{Warnings, collected},
        write_record::WriteRecord,
    },
    object::{Object, kind::GroupVersionKind},
    ports::{
        EventNote, EventSink, EventType, LogLevel, LogRecord, LogSink, Nondeterminism, ObjectApi,
    },
    recorder::{OpenCall, recorded},
    status::{ApiError, ErrorKind},
};

/// The bytes that a log field is charged in addition to its text.
pub const FIELD_BYTES: usize = size_of::<(String, String)>();

/// The limits of one reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateLimits {
    /// The timeout of one host call.
    pub call_timeout: Duration,
    /// The maximum number of calls per reconcile, all imports together.
    pub calls: u32,
    /// The maximum size of an object or a patch that the guest passes, in bytes. The API server's
    /// own limit is about 3 MiB.
    pub payload_bytes: usize,
    /// The maximum size of the log per reconcile, in bytes, including [`FIELD_BYTES`] per field.
    /// Further lines are dropped after one line that reports it.
    pub log_bytes: usize,
}

impl Default for GateLimits {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_secs(10),
            calls: 10_000,
            payload_bytes: 3 * 1024 * 1024,
            log_bytes: 256 * 1024,
        }
    }
}

/// The host interface of one plugin.
pub struct Gate {
    api: Arc<dyn ObjectApi>,
    events: Arc<dyn EventSink>,
    logs: Arc<dyn LogSink>,
    /// The plugin's configuration as JSON text; replaced as a whole.
    config: RwLock<PluginConfig>,
    limits: GateLimits,
    shared: Shared,
    rejected: RejectedWrites,
}

impl Gate {
    /// Creates a gate over these ports. `config` is JSON text; the gate uses the counts, quotas and
    /// records of `shared`.
    pub fn new(
        api: Arc<dyn ObjectApi>,
        events: Arc<dyn EventSink>,
        logs: Arc<dyn LogSink>,
        config: PluginConfig,
        limits: GateLimits,
        shared: Shared,
    ) -> Arc<Self> {
        Arc::new(Self {
            api,
            events,
            logs,
            config: RwLock::new(config),
            limits,
            shared,
            rejected: RejectedWrites::default(),
        })
    }

    /// Creates a gate for `describe`: the log works, API calls fail, Events are discarded.
    pub fn describing(logs: Arc<dyn LogSink>) -> Arc<Self> {
        let out = Arc::new(OutOfReach("in describe()"));
        Self::new(
            out.clone(),
            out,
            logs,
            "{}".into(),
            GateLimits::default(),
            Shared::default(),
        )
    }

    /// Creates a gate for mapping events: the log and the configuration work, API calls fail,
    /// Events are discarded.
    pub fn mapping(
        logs: Arc<dyn LogSink>,
        config: PluginConfig,
        limits: GateLimits,
        shared: Shared,
    ) -> Arc<Self> {
        let out = Arc::new(OutOfReach("in a mapping"));
        let shared = Shared {
            long_runs: None,
            ..shared
        };
        Self::new(out.clone(), out, logs, config, limits, shared)
    }

    /// Replaces the configuration. Reconciles that begin later use the new one.
    pub fn set_config(&self, config: PluginConfig) {
        *self.config.write() = config;
    }

    /// Closes the gate, also for reconciles in flight: each further call fails with `Forbidden` and
    /// this message.
    pub fn close(&self, why: &str) {
        self.permit().revoke(why);
    }

    /// Returns the permit of this gate. Revoking it closes the gate.
    pub fn permit(&self) -> &Arc<RequestPermit> {
        &self.shared.permit
    }

    /// Returns the plugin's counters.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.shared.throttle.meter
    }

    /// The maximum size of a body that a guest passes, in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.limits.payload_bytes
    }

    /// Starts a count of bytes that are charged to the plugin's namespace; None without a limit.
    pub fn memory(&self) -> Option<Bytes> {
        self.shared.memory.as_ref().map(|memory| memory.open())
    }

    /// Counts how long a call took, and whether it failed.
    fn count_call(&self, took: Duration, failed: bool) {
        let meter = self.meter();
        meter.call_micros.fetch_add(
            u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
        meter.errors.fetch_add(u64::from(failed), Ordering::Relaxed);
    }

    /// Runs one call with the timeout of a host call.
    async fn within<T>(
        &self,
        what: String,
        call: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        throttle::within(self.limits.call_timeout, what, call).await
    }

    /// Opens a session for one reconcile. `reconcile` is None for `describe`.
    pub fn session(self: &Arc<Self>, reconcile: Option<ReconcileRequest>) -> Session {
        let config = self.config.read().clone();
        Session {
            gate: self.clone(),
            reconcile,
            config,
            calls: 0,
            log_bytes: 0,
            has_dropped: false,
            response_bytes: None,
            failed: None,
            refusals: Refusals::default(),
            warnings: Warnings::default(),
        }
    }
}

/// The calls that a guest can make during one reconcile.
pub struct Session {
    gate: Arc<Gate>,
    reconcile: Option<ReconcileRequest>,
    config: PluginConfig,
    /// The number of calls so far, without refused ones; at most the limit.
    calls: u32,
    /// The log bytes so far, dropped lines included.
    log_bytes: usize,
    /// True once a notice says that the limit of calls drops log lines and Events.
    has_dropped: bool,
    /// The memory charged for the last response, until the next call.
    response_bytes: Option<Bytes>,
    /// The failure that the guest has reported, beside the action that it returns.
    failed: Option<String>,
    /// The requests that no retry can make succeed.
    refusals: Refusals,
    /// The API server's warnings about the calls since the guest last took them.
    warnings: Warnings,
}

impl Session {
    /// Reports that this reconcile has failed, whatever action it returns.
    pub fn fail(&mut self, message: String) {
        self.failed = Some(message);
    }

    /// Reports that the guest has run for long, with its stack.
    pub fn long_run(&self, ran: Duration, stack: &str) {
        if let (Some(sink), Some(request)) = (&self.gate.shared.long_runs, &self.reconcile) {
            sink.long_run(request, ran, stack);
        }
    }

    /// Takes the message of the failure that the guest has reported.
    pub fn take_failure(&mut self) -> Option<String> {
        self.failed.take()
    }

    /// Returns the result of this reconcile, given the guest's: a failure becomes terminal if a
    /// retry would only repeat a request that was refused for what it says. Of an object of `kind`
    /// outside the plugin's own namespace, an Event then reports it, under the plugin's identity; of
    /// one in its own namespace, the host does.
    ///
    /// # Errors
    /// The guest's failure, with what it means for a retry.
    pub fn settle(
        &mut self,
        result: Result<Action, Failure>,
        kind: Option<&GroupVersionKind>,
    ) -> Result<Action, Failure> {
        let Some(request) = &self.reconcile else {
            return result;
        };
        let was_terminal = matches!(result, Err(Failure::Terminal(_)));
        let settled = self.refusals.settle(request, &self.gate.rejected, result);

        let audit = self.gate.shared.audit.as_ref();
        let home = audit.and_then(|audit| audit.writer.plugin.namespace.as_ref());
        let is_elsewhere = request.key.namespace.as_ref() != home;
        if let (Err(Failure::Terminal(message)), Some(kind)) = (&settled, kind)
            && !was_terminal
            && is_elsewhere
        {
            let objects = self.gate.shared.objects.as_ref();
            let object = objects.and_then(|objects| objects.cached(kind, &request.key));
            let note = EventNote {
                regarding: kind.clone(),
                key: request.key.clone(),
                uid: object.map(|object| object.uid().to_owned()),
                event_type: EventType::Warning,
                reason: reasons::TERMINAL_ERROR.into(),
                action: String::new(),
                note: message.clone(),
            };
            self.event(note);
        }

        settled
    }

    /// Reads one object.
    ///
    /// # Errors
    /// The API server's error; `Forbidden` when a limit of this reconcile is reached; `TimedOut`
    /// when the call takes longer than [`GateLimits::call_timeout`]. The other calls fail in the
    /// same ways.
    pub async fn get(&mut self, get: Get) -> Result<Arc<Object>, ApiError> {
        self.operate(get, async |gate, _, get| {
            let what = describe_call(&get);
            let result = gate.within(what, gate.api.get(get)).await;
            note_get(&result);
            result
        })
        .await
    }

    /// Reads a page of objects.
    ///
    /// # Errors
    /// Fails as [`Session::get`] does.
    pub async fn list(&mut self, list: List) -> Result<Page, ApiError> {
        self.operate(list, async |gate, _, list| {
            let what = describe_call(&list);
            let result = gate.within(what, gate.api.list(list)).await;
            note_list(&result);
            result
        })
        .await
    }

    /// Creates, updates or patches an object. A write that would have changed nothing is not sent,
    /// and counts as suppressed.
    ///
    /// # Errors
    /// Fails as [`Session::get`] does.
    pub async fn write(&mut self, write: Write) -> Result<Arc<Object>, ApiError> {
        let reconcile = self.reconcile_to_record();
        let hash = self.gate.rejected.hash_of(&write);
        let result = self.operate(write, async |gate, call, write| {
            let mut record = WriteRecord::begin(&gate.shared, call, reconcile.as_ref());
            let what = describe_call(&write);
            let send = async {
                record.find_previous_writer().await;
                gate.api.write(write).await
            };
            let result = gate.within(what, send).await;

            note_write(&result);
            record.end(&Answer::of_write(&result));
            if matches!(result, Ok(Written::Unchanged(_))) {
                gate.meter().count_suppressed(call.verb);
            }
            result.map(Written::into_object)
        });
        let result = result.await;
        self.refusals.answered(hash, &result);
        result
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// Fails as [`Session::get`] does.
    pub async fn delete(&mut self, delete: Delete) -> Result<(), ApiError> {
        let reconcile = self.reconcile_to_record();
        self.operate(delete, async |gate, call, delete| {
            let record = WriteRecord::begin(&gate.shared, call, reconcile.as_ref());
            let what = describe_call(&delete);
            let result = gate.within(what, gate.api.delete(delete)).await;

            record.end(&Answer::of_delete(&result));
            result
        })
        .await
    }

    /// Sends one raw request. Every failure, the gate's included, is returned as the API server's
    /// Status.
    pub async fn raw(&mut self, request: RawRequest) -> RawResponse {
        let verb = request.verb();
        let bytes = request.payload_bytes();
        let remote = !request.is_cached();
        let reconcile = self.reconcile_to_record();
        let hash = self
            .gate
            .rejected
            .hash_of_raw(&request)
            .filter(|_| verb.is_write());
        let parsed = request
            .target()
            .map(|target| (Call::of_raw(&request, &target), target));
        if let Err(error) = &parsed
            && error.status.message.contains(IMPOSSIBLE_NAME)
        {
            self.refusals.impossible_name(error);
        }
        let record = parsed
            .as_ref()
            .ok()
            .and_then(|(call, _)| self.begin_record(call));

        let sent = self.pass(verb, bytes, remote, async |gate| {
            let (call, target) = parsed?;
            let what = request.to_string();
            if !verb.is_write() {
                let result = gate.within(what, gate.api.raw(request, target)).await;
                note_raw(&result);
                return result;
            }

            let mut record = WriteRecord::begin(&gate.shared, &call, reconcile.as_ref());
            let send = async {
                record.find_previous_writer().await;
                gate.api.raw(request, target).await
            };
            let result = gate.within(what, send).await;

            note_raw(&result);
            record.end(&Answer::of_raw(verb, &result));
            result
        });
        let result = recorded(record, sent, RawResponse::failure).await;
        let response = result.unwrap_or_else(|error| RawResponse::of_error(&error));
        self.refusals.answered_raw(hash, &response);
        response
    }

    /// Reports whether a log line of this level would be kept. The call is not counted, because it
    /// exists to save work.
    pub fn log_enabled(&self, level: LogLevel) -> bool {
        self.gate.logs.enabled(level)
    }

    /// Returns the bytes that the next log line may have, including [`FIELD_BYTES`] per field. A
    /// longer line is dropped.
    pub fn log_room(&self) -> usize {
        self.gate.limits.log_bytes.saturating_sub(self.log_bytes)
    }

    /// Writes one log line. Over the limit the line is dropped; the first dropped line is replaced
    /// by a notice.
    pub fn log(&mut self, level: LogLevel, message: String, fields: Vec<(String, String)>) {
        let bytes = message.len()
            + fields
                .iter()
                .map(|(name, value)| FIELD_BYTES + name.len() + value.len())
                .sum::<usize>();
        if self.admit_log(level, bytes) {
            self.keep_line(level, message, fields);
        }
    }

    /// Counts a log line that is longer than [`Session::log_room`] as dropped, without reading it.
    pub fn drop_log(&mut self, level: LogLevel) {
        let kept = self.admit_log(level, usize::MAX);
        debug_assert!(!kept, "nothing has room for it");
    }

    /// Reports whether a line of this size is kept. Counts it, and logs a notice when the limit is
    /// reached.
    fn admit_log(&mut self, level: LogLevel, bytes: usize) -> bool {
        if !self.log_enabled(level) {
            return false;
        }
        if self.admit(Verb::Log, 0).is_err() {
            self.drop_call();
            return false;
        }

        let limit = self.gate.limits.log_bytes;
        let before = self.log_bytes;
        let after = self.log_bytes.saturating_add(bytes);
        self.log_bytes = after;

        if before <= limit && after > limit {
            let words = format!("log limit of {limit} bytes per reconcile reached, rest dropped");
            self.keep_line(LogLevel::Warn, words, vec![]);
        }

        after <= limit
    }

    fn keep_line(&self, level: LogLevel, message: String, fields: Vec<(String, String)>) {
        self.gate.logs.write(LogRecord {
            level,
            message,
            fields,
            reconcile: self.reconcile.clone(),
        });
    }

    /// Begins the record of a call; None if the reconcile is not recorded.
    fn begin_record(&self, call: &Call) -> Option<OpenCall> {
        self.reconcile.as_ref()?.record.as_ref()?.begin_call(call)
    }

    /// Returns the reconcile if writes are recorded.
    fn reconcile_to_record(&self) -> Option<ReconcileRequest> {
        let Shared { audit, loops, .. } = &self.gate.shared;
        self.reconcile
            .as_ref()
            .filter(|_| audit.is_some() || loops.is_some())
            .cloned()
    }

    /// Runs an operation on objects after checking its names and selectors.
    async fn operate<O: Operation, T>(
        &mut self,
        operation: O,
        run: impl AsyncFnOnce(&Gate, &Call, O) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let call = Call::of(&operation);
        let record = self.begin_record(&call);
        let bytes = operation.payload_bytes();
        let checked = operation.check();
        if let Err(error) = &checked
            && operation
                .name()
                .is_some_and(|name| check_name(name).is_err())
        {
            self.refusals.impossible_name(error);
        }

        let passed = self.pass(call.verb, bytes, !call.is_cached, async |gate| {
            checked?;
            run(gate, &call, operation).await
        });
        recorded(record, passed, |_| None).await
    }

    /// Runs one call through the chain.
    async fn pass<T>(
        &mut self,
        verb: Verb,
        bytes: usize,
        remote: bool,
        call: impl AsyncFnOnce(&Gate) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let admitted = self.admit(verb, bytes);
        if remote && admitted.is_ok() {
            self.gate.shared.throttle.wait().await;
        }

        let started = Instant::now();
        let permit = self.gate.permit();
        // The guest has already copied the last response.
        self.response_bytes = None;

        let mut result = match admitted.and_then(|()| permit.check()) {
            Ok(()) => {
                // The call may be large, and each layer around it would hold it once more.
                let call = pin!(call(&self.gate));
                let call = collected(&mut self.warnings, call);
                match &self.gate.shared.memory {
                    Some(memory) => {
                        let (result, bytes) = charged(memory, call).await;
                        self.response_bytes = Some(bytes);
                        result
                    }
                    None => call.await,
                }
            }
            Err(refusal) => Err(refusal),
        };

        // A read that was revoked meanwhile must not return its response. A write has taken effect,
        // so its result is returned.
        if !verb.is_write() && result.is_ok() {
            result = permit.check().and(result);
        }

        self.meter(started.elapsed(), result.is_err());
        result
    }

    /// Passes an Event to the recorder. Drops it if a limit is reached.
    pub fn event(&mut self, note: EventNote) {
        match self.admit(Verb::Event, note.note.len()) {
            Ok(()) => self.gate.events.emit(note),
            Err(_) => self.drop_call(),
        }
    }

    /// Counts a log line or an Event as refused. The contract has no error for them, so a notice in
    /// the log replaces the first one over the limit of calls.
    fn drop_call(&mut self) {
        self.meter(Duration::ZERO, true);

        let limit = self.gate.limits.calls;
        if self.calls < limit || std::mem::replace(&mut self.has_dropped, true) {
            return;
        }
        let words = format!(
            "this reconcile made more than {limit} calls to the host (limits.hostCalls), which count log lines and Events: the \
             rest of them is dropped"
        );
        self.keep_line(LogLevel::Warn, words, vec![]);
    }

    /// Starts a count of the memory that the guest itself uses, charged to its namespace; None
    /// without a limit.
    pub fn memory(&self) -> Option<Bytes> {
        self.gate.memory()
    }

    /// Records the bytes of linear memory that the reconcile used.
    pub fn used_memory(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.gate
            .shared
            .throttle
            .meter
            .peak_memory_bytes
            .fetch_max(bytes, Ordering::Relaxed);
    }

    /// Returns the source of the guest's time and randomness; None uses the machine's.
    pub fn nondeterminism(&self) -> Option<&Arc<dyn Nondeterminism>> {
        self.gate.shared.nondeterminism.as_ref()
    }

    /// Takes the API server's warnings about the calls since the last time. The call is not counted,
    /// because a client asks after each request.
    pub fn take_warnings(&mut self) -> Vec<String> {
        self.warnings.take()
    }

    /// Returns the plugin's configuration, which does not change during a reconcile.
    pub fn config(&mut self) -> PluginConfig {
        // A refused call still returns the text: it costs nothing, and the contract has no error
        // for it.
        let _counted = self.admit(Verb::Config, 0);
        self.config.clone()
    }

    fn admit(&mut self, verb: Verb, bytes: usize) -> Result<(), ApiError> {
        let Gate { limits, shared, .. } = self.gate.as_ref();
        let meter = &shared.throttle.meter;
        meter.count(verb);
        if let Err(revoked) = shared.permit.check() {
            meter.refused.fetch_add(1, Ordering::Relaxed);
            return Err(revoked);
        }

        let refusal = if self.calls >= limits.calls {
            format!(
                "this reconcile made more than {} calls to the host (limits.hostCalls)",
                limits.calls
            )
        } else if bytes > limits.payload_bytes {
            format!(
                "{verb} of {bytes} bytes is over the limit of {} bytes",
                limits.payload_bytes
            )
        } else {
            self.calls += 1;
            return Ok(());
        };

        meter.refused.fetch_add(1, Ordering::Relaxed);
        Err(ApiError::new(ErrorKind::Forbidden, refusal))
    }

    fn meter(&self, took: Duration, failed: bool) {
        self.gate.count_call(took, failed);
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use parking_lot::Mutex;

    use super::*;
    use crate::gate::{
        bytes::ByteBudget,
        in_flight::Delay,
        raw_request::Target,
        throttle::{CallRate, Throttle},
    };
    use crate::{
        gate::operation::{Read, WriteAction},
        object::{ManagedFields, ObjectKey, kind::GroupVersionKind},
        ports::{LogLevel, LogRecord},
    };

    /// An API that answers after a pause and records Events and log lines.
    #[derive(Default)]
    pub(super) struct Fake {
        pub pause: Duration,
        /// True for an API whose object no write changes.
        pub unchanging: bool,
        /// Why the API rejects every write.
        pub rejects: Option<&'static str>,
        /// The warning about every write.
        pub warns: Option<&'static str>,
        pub events: Mutex<Vec<EventNote>>,
        pub lines: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl ObjectApi for Fake {
        async fn get(&self, _: Get) -> Result<Arc<Object>, ApiError> {
            tokio::time::sleep(self.pause).await;
            Ok(node())
        }

        async fn list(&self, _: List) -> Result<Page, ApiError> {
            unreachable!("nothing lists here")
        }

        async fn write(&self, _: Write) -> Result<Written, ApiError> {
            tokio::time::sleep(self.pause).await;
            if let Some(text) = self.warns {
                warnings::note(text);
            }
            if let Some(message) = self.rejects {
                return Err(ApiError::new(ErrorKind::Invalid, message));
            }
            Ok(if self.unchanging {
                Written::Unchanged(node())
            } else {
                Written::Stored(node())
            })
        }

        async fn delete(&self, _: Delete) -> Result<(), ApiError> {
            unreachable!("nothing is deleted here")
        }

        async fn raw(&self, request: RawRequest, _: Target) -> Result<RawResponse, ApiError> {
            tokio::time::sleep(self.pause).await;
            Ok(RawResponse {
                status: 200,
                content_type: String::new(),
                retry_after_seconds: None,
                body: request.path,
            })
        }
    }

    impl EventSink for Fake {
        fn emit(&self, note: EventNote) {
            self.events.lock().push(note);
        }
    }

    impl LogSink for Fake {
        fn enabled(&self, level: LogLevel) -> bool {
            level <= LogLevel::Info
        }
        fn write(&self, record: LogRecord) {
            self.lines.lock().push(record.message);
        }
    }

    fn gate(fake: &Arc<Fake>, limits: GateLimits) -> Arc<Gate> {
        Gate::new(
            fake.clone(),
            fake.clone(),
            fake.clone(),
            "{}".into(),
            limits,
            Shared::default(),
        )
    }

    fn get() -> Get {
        let kind = GroupVersionKind::new("v1", "Node");
        Get {
            kind,
            key: ObjectKey::cluster_scoped("a"),
            read: Read::Live,
        }
    }

    fn node() -> Arc<Object> {
        let kind = GroupVersionKind::new("v1", "Node");
        let node = Object::from_json(r#"{"metadata":{"name":"a"}}"#, &kind, ManagedFields::Keep);
        Arc::new(node.expect("an object"))
    }

    #[tokio::test(start_paused = true)]
    async fn slow_call_times_out_and_is_named() {
        let fake = Arc::new(Fake {
            pause: Duration::from_secs(11),
            ..Fake::default()
        });
        let error = gate(&fake, GateLimits::default())
            .session(None)
            .get(get())
            .await
            .expect_err("too slow");
        assert_eq!(error.kind, ErrorKind::TimedOut);
        assert!(
            error
                .status
                .message
                .contains("get Node.v1 took longer than 10 s"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn rejected_write_is_terminal_the_second_time_and_an_event_says_so() {
        let fake = Arc::new(Fake {
            rejects: Some("label is too long"),
            ..Fake::default()
        });
        let gate = gate(&fake, GateLimits::default());
        let kind = GroupVersionKind::new("example.com/v1", "Site");
        let request = ReconcileRequest {
            controller: "c".to_owned(),
            key: ObjectKey::namespaced("n", "site"),
            retries: 0,
            reconcile_id: "r".to_owned(),
            record: None,
        };
        let reconcile = async |key: &str| {
            let mut session = gate.session(Some(request.clone()));
            let write = Write {
                kind: GroupVersionKind::new("v1", "ConfigMap"),
                action: WriteAction::Update {
                    key: ObjectKey::namespaced("n", key),
                    status: false,
                    object: "{}".to_owned(),
                },
                options: Default::default(),
            };
            let error = session.write(write).await.expect_err("rejected");
            let failure = Failure::Retry(format!("update: {error}"));
            session.settle(Err(failure), Some(&kind))
        };

        let first = reconcile("a").await;
        assert!(matches!(first, Err(Failure::Retry(_))), "{first:?}");
        assert!(fake.events.lock().is_empty());

        let second = reconcile("a").await;
        assert!(matches!(second, Err(Failure::Terminal(_))), "{second:?}");
        let notes = std::mem::take(&mut *fake.events.lock());
        assert_eq!(notes.len(), 1);
        assert_eq!(
            (&notes[0].regarding, &notes[0].key, notes[0].reason.as_str()),
            (&kind, &request.key, "TerminalError")
        );
        assert!(notes[0].note.contains("label is too long"), "{notes:?}");

        let impossible = reconcile("a/b").await;
        assert!(
            matches!(impossible, Err(Failure::Terminal(_))),
            "at once: {impossible:?}"
        );
    }

    #[tokio::test]
    async fn guest_takes_warnings_about_writes_that_succeed_or_fail() {
        for (rejects, memory) in [
            (None, None),
            (Some("no"), None),
            (None, Some(ByteBudget::new("n", 1_000))),
        ] {
            let fake = Arc::new(Fake {
                rejects,
                warns: Some("unknown field \"spec.x\""),
                ..Fake::default()
            });
            let shared = Shared {
                memory,
                ..Shared::default()
            };
            let gate = Gate::new(
                fake.clone(),
                fake.clone(),
                fake,
                "{}".into(),
                GateLimits::default(),
                shared,
            );
            let write = || Write {
                kind: GroupVersionKind::new("v1", "ConfigMap"),
                action: WriteAction::Create {
                    namespace: Some("n".to_owned()),
                    object: r#"{"metadata":{"name":"a"}}"#.to_owned(),
                },
                options: Default::default(),
            };

            let mut session = gate.session(None);
            assert!(session.take_warnings().is_empty());
            for _ in 0..2 {
                let written = session.write(write()).await;
                assert_eq!(written.is_err(), rejects.is_some());
            }
            assert_eq!(
                session.take_warnings(),
                ["unknown field \"spec.x\"", "unknown field \"spec.x\""]
            );
            assert!(session.take_warnings().is_empty());

            let _written = session.write(write()).await;
            let next = gate.session(None).take_warnings();
            assert!(next.is_empty(), "another reconcile has its own: {next:?}");
        }
    }

    fn with_rates(rates: Vec<Arc<CallRate>>) -> Shared {
        Shared {
            throttle: Throttle {
                rates,
                ..Throttle::default()
            },
            ..Shared::default()
        }
    }

    #[tokio::test]
    async fn refuses_and_counts_host_calls_over_limit() {
        let fake = Arc::new(Fake::default());
        let gate = gate(
            &fake,
            GateLimits {
                calls: 2,
                ..GateLimits::default()
            },
        );
        let mut session = gate.session(None);
        assert!(session.get(get()).await.is_ok());
        assert!(session.get(get()).await.is_ok());
        let error = session.get(get()).await.expect_err("over the limit");
        assert_eq!(error.kind, ErrorKind::Forbidden);
        assert!(error.status.message.contains("limits.hostCalls"), "{error}");
        assert_eq!(gate.meter().calls(Verb::Get), 3);
        assert_eq!(gate.meter().refused.load(Ordering::Relaxed), 1);

        for _ in 0..2 {
            session.log(LogLevel::Info, "lost".to_owned(), vec![]);
            session.event(EventNote {
                regarding: GroupVersionKind::new("v1", "Node"),
                key: ObjectKey::cluster_scoped("a"),
                uid: None,
                event_type: EventType::Normal,
                reason: "Lost".to_owned(),
                action: String::new(),
                note: String::new(),
            });
        }
        assert!(fake.events.lock().is_empty());
        let lines = fake.lines.lock().clone();
        assert!(
            matches!(&lines[..], [line] if line.contains("limits.hostCalls")),
            "one line says that the others are dropped: {lines:?}"
        );

        assert!(
            gate.session(None).get(get()).await.is_ok(),
            "the next reconcile starts over"
        );
    }

    #[tokio::test]
    async fn rejects_payload_over_limit_before_sending() {
        let fake = Arc::new(Fake::default());
        let gate = gate(
            &fake,
            GateLimits {
                payload_bytes: 8,
                ..GateLimits::default()
            },
        );
        let action = WriteAction::Create {
            namespace: None,
            object: "123456789".into(),
        };
        let kind = GroupVersionKind::new("v1", "Node");
        let write = Write {
            kind,
            action,
            options: Default::default(),
        };
        let error = gate
            .session(None)
            .write(write)
            .await
            .expect_err("too large");
        assert!(
            error
                .status
                .message
                .contains("create of 9 bytes is over the limit of 8 bytes"),
            "{error}"
        );
    }

    #[test]
    fn cuts_log_flood_with_one_notice() {
        let fake = Arc::new(Fake::default());
        let gate = gate(
            &fake,
            GateLimits {
                log_bytes: 10,
                ..GateLimits::default()
            },
        );
        let mut session = gate.session(None);
        for _ in 0..5 {
            session.log(LogLevel::Info, "123456".into(), vec![]);
        }
        session.log(LogLevel::Debug, "not enabled".into(), vec![]);
        session.drop_log(LogLevel::Info);
        let lines = fake.lines.lock().clone();
        assert_eq!(
            lines,
            [
                "123456",
                "log limit of 10 bytes per reconcile reached, rest dropped"
            ]
        );
    }

    #[test]
    fn drops_line_without_room_and_logs_a_notice() {
        let fake = Arc::new(Fake::default());
        let gate = gate(
            &fake,
            GateLimits {
                log_bytes: 100,
                ..GateLimits::default()
            },
        );
        let mut session = gate.session(None);
        session.log(
            LogLevel::Info,
            "123456".into(),
            vec![("a".into(), "b".into())],
        );
        assert_eq!(session.log_room(), 100 - 6 - FIELD_BYTES - 2);
        session.drop_log(LogLevel::Debug);
        assert_ne!(
            session.log_room(),
            0,
            "a line that is not enabled takes no room"
        );
        session.drop_log(LogLevel::Info);
        session.drop_log(LogLevel::Info);
        assert_eq!(session.log_room(), 0);
        let lines = fake.lines.lock().clone();
        assert_eq!(
            lines,
            [
                "123456",
                "log limit of 100 bytes per reconcile reached, rest dropped"
            ]
        );
        assert_eq!(gate.meter().calls(Verb::Log), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn raw_request_passes_the_same_gate() {
        let fake = Arc::new(Fake {
            pause: Duration::from_secs(60),
            ..Fake::default()
        });
        let slow = gate(
            &fake,
            GateLimits {
                calls: 3,
                ..GateLimits::default()
            },
        );
        let mut session = slow.session(None);
        let get = |path: &str| RawRequest {
            method: "GET".into(),
            path: path.into(),
            ..RawRequest::default()
        };
        assert_eq!(
            session.raw(get("/api/v1/pods")).await.status,
            504,
            "over the deadline of one call"
        );
        assert_eq!(
            session.raw(get("/api/v1/../x")).await.status,
            400,
            "no path of the API"
        );
        assert_eq!(session.raw(get("/api/v1/watch/pods")).await.status, 405);
        let over = session.raw(get("/api/v1/pods")).await;
        assert!(
            over.status == 403 && over.body.contains("limits.hostCalls"),
            "{over:?}"
        );
        assert_eq!(
            (
                slow.meter().calls(Verb::Get),
                slow.meter().errors.load(Ordering::Relaxed)
            ),
            (4, 4)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn requests_over_quota_wait_and_cached_reads_do_not() {
        let fake = Arc::new(Fake::default());
        let shared = Arc::new(CallRate::new(10, 2));
        let [one, other] = [(); 2].map(|()| {
            let shared = with_rates(vec![shared.clone()]);
            Gate::new(
                fake.clone(),
                fake.clone(),
                fake.clone(),
                "{}".into(),
                GateLimits::default(),
                shared,
            )
        });
        let start = tokio::time::Instant::now();
        for gate in [&one, &other, &one, &other] {
            gate.session(None)
                .get(get())
                .await
                .expect("it waits, and is not refused");
        }
        assert_eq!(
            start.elapsed().as_millis(),
            200,
            "two at once, two more at ten a second"
        );
        assert_eq!(one.meter().throttled.load(Ordering::Relaxed), 1);
        assert_eq!(
            one.meter().delayed_by(Delay::Rate),
            Duration::from_millis(100)
        );
        for _ in 0..100 {
            let cached = Get {
                read: Read::Cached,
                ..get()
            };
            one.session(None).get(cached).await.expect("answered");
        }
        assert_eq!(start.elapsed().as_millis(), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn asking_for_the_cache_does_not_bypass_the_quota() {
        let fake = Arc::new(Fake::default());
        let shared = with_rates(vec![Arc::new(CallRate::new(10, 1))]);
        let gate = Gate::new(
            fake.clone(),
            fake.clone(),
            fake.clone(),
            "{}".into(),
            GateLimits::default(),
            shared,
        );
        let path = "/api/v1/namespaces/n/configmaps".to_owned();
        let request = |method: &str| RawRequest {
            method: method.into(),
            path: path.clone(),
            cached: true,
            ..RawRequest::default()
        };
        let start = tokio::time::Instant::now();
        for _ in 0..3 {
            gate.session(None).raw(request("GET")).await;
        }
        assert_eq!(start.elapsed().as_millis(), 0, "the cache has answered");
        for _ in 0..3 {
            gate.session(None).raw(request("POST")).await;
        }
        assert_eq!(
            start.elapsed().as_millis(),
            200,
            "one at once, two more at ten a second"
        );
        let throttle = gate.shared.throttle.clone();
        for _ in 0..3 {
            // The plugin's API does the same when the cache cannot answer.
            throttle.wait().await;
        }
        assert_eq!(start.elapsed().as_millis(), 500, "the cache did not know");
    }

    #[tokio::test]
    async fn closed_gate_refuses_calls_of_reconciles_in_flight() {
        let fake = Arc::new(Fake::default());
        let gate = gate(&fake, GateLimits::default());
        let mut session = gate.session(None);
        assert!(session.get(get()).await.is_ok());
        gate.close("ServiceAccount \"x\" does not consent any more");
        let error = session.get(get()).await.expect_err("closed");
        assert!(
            error.kind == ErrorKind::Forbidden && error.status.message.contains("does not consent"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn describe_has_no_api_access() {
        let fake = Arc::new(Fake::default());
        let error = Gate::describing(fake)
            .session(None)
            .get(get())
            .await
            .expect_err("out of reach");
        assert_eq!(error.kind, ErrorKind::Forbidden);
    }

    #[tokio::test]
    async fn mapping_has_configuration_but_no_api_access() {
        let gate = Gate::mapping(
            Arc::new(Fake::default()),
            "{\"a\":1}".into(),
            GateLimits::default(),
            Shared::default(),
        );
        let mut session = gate.session(None);
        let error = session.get(get()).await.expect_err("out of reach");
        assert!(
            error.kind == ErrorKind::Forbidden && error.status.message.contains("in a mapping"),
            "{error}"
        );
        assert_eq!(&*session.config(), "{\"a\":1}");
    }
}
