//! The health of a plugin's controllers: the failing keys, and the failures that the status
//! reports.
//!
//! The status reports a fault or a terminal failure at once, and a retried failure from the third
//! time in a row: a conflict that the next try resolves is normal.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use operetta_api::reasons::{self, Reason};
use operetta_core::{
    controller::{
        Observer,
        request::{Action, Failure, Fault, ReconcileRequest},
    },
    handler::mapping::NOTHING,
    hot_loop::{Looping, Stage},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{LogLevel, LogRecord, LogSink, LongRunSink},
    queue::WorkQueue,
    recorder::{OpenReconcile, Outcome, Triggers, record::Source},
    remedy::Command,
};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    logs::store::PluginLog,
    metrics::{Metrics, result_name},
    plugin::status::{
        hot_loop::{LoopReporter, LoopingObject, describe},
        long_run::{LongRun, LongRuns},
        records::PluginRecords,
    },
    problem::Problem,
};

/// After how many failures in a row a retried failure is reported.
const REPORTED_FROM: u32 = 3;
/// How many failing keys of a controller are remembered; more are not counted.
const REMEMBERED: usize = 10_000;
/// How many failing keys of a controller are listed.
const LISTED: usize = 100;

/// The health of one plugin's controllers.
pub struct Health {
    plugin: ObjectKey,
    controllers: Mutex<Controllers>,
    sinks: HealthSinks,
    long_runs: Mutex<LongRuns>,
    /// True if a call has ended since the counts were read.
    has_news: AtomicBool,
}

/// The sinks to which the health of a plugin is reported.
pub struct HealthSinks {
    /// The plugin's log.
    pub log: Arc<PluginLog>,
    /// The host's metrics.
    pub metrics: Arc<Metrics>,
    /// The reporter of hot loops.
    pub loops: LoopReporter,
    /// The records of its reconciles.
    pub records: PluginRecords,
    /// Called on a worker when the status has to change.
    pub changed: Box<dyn Fn() + Send + Sync>,
    /// Called on a worker when the first call ends after the counts were read.
    pub counted: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Controllers {
    by_name: HashMap<String, Counts>,
    /// The number of failures of all controllers.
    failures: u64,
}

#[derive(Default)]
struct Counts {
    failing: HashMap<Subject, Failing>,
    /// The keys in hot loops that were not reconciled since they were slowed, at most
    /// [`REMEMBERED`].
    looping: HashSet<ObjectKey>,
    /// The kind that it reconciles.
    kind: Option<GroupVersionKind>,
    reconciles: u64,
    errors: u64,
}

/// A failing reconcile of a key, or a failing mapping of a watched object.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Subject {
    /// The kind of the watched object; None for a reconcile.
    mapped_kind: Option<GroupVersionKind>,
    key: ObjectKey,
}

/// A failure of a reconcile or a mapping.
struct Failed {
    problem: Problem,
    reported: bool,
    /// Failures in a row, with this one.
    retries: u32,
}

struct Failing {
    problem: Problem,
    reported: bool,
    /// Failures in a row.
    retries: u32,
    /// The order of failures: the largest is the last.
    order: u64,
}

/// The health of one controller, as the status shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerHealth {
    /// The number of reconciles so far.
    pub reconciles: u64,
    /// The number of reconciles that failed.
    pub errors: u64,
    /// The number of keys whose last reconcile failed, and of watched objects whose last mapping
    /// failed.
    pub failing: usize,
    /// The last failure that is reported, or else the last one.
    pub last_error: Option<Problem>,
    /// True if the status reports the failure.
    pub degraded: bool,
}

/// The health of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyHealth {
    /// True if the key is slowed by a hot loop, and was not reconciled since.
    pub is_looping: bool,
    /// The failure of the last reconcile.
    pub problem: Option<Problem>,
}

/// A key whose last reconcile failed, or a watched object whose last mapping failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailingKey {
    /// The key; with the kind in front for a mapping.
    pub key: String,
    /// The key in the queue; None for a mapping.
    #[serde(skip)]
    pub queued_as: Option<ObjectKey>,
    /// The number of failures in a row.
    pub retries: u32,
    /// The last error.
    pub error: String,
}

impl Health {
    /// Creates the health of a plugin that has not reconciled anything yet.
    pub fn new(plugin: ObjectKey, sinks: HealthSinks) -> Arc<Self> {
        Arc::new(Self {
            plugin,
            controllers: Mutex::default(),
            sinks,
            long_runs: Mutex::default(),
            has_news: AtomicBool::default(),
        })
    }

    /// Records that the counts are being read: the next call that ends is news. Call it before the
    /// read, so that none is lost.
    pub fn begin_read(&self) {
        self.has_news.store(false, Ordering::SeqCst);
    }

    /// Reports the end of a call that was recorded.
    fn ended(&self, is_changed: bool) {
        if !self.has_news.swap(true, Ordering::SeqCst) {
            (self.sinks.counted)();
        }
        if is_changed {
            (self.sinks.changed)();
        }
    }

    /// Records the kind that a controller reconciles.
    pub fn reconciles(&self, controller: &str, kind: GroupVersionKind) {
        let mut controllers = self.controllers.lock();
        controllers
            .by_name
            .entry(controller.to_owned())
            .or_default()
            .kind = Some(kind);
    }

    fn kind_of(&self, controller: &str) -> Option<GroupVersionKind> {
        let controllers = self.controllers.lock();
        controllers.by_name.get(controller)?.kind.clone()
    }

    /// Attributes later reconciles to this code and identity.
    pub fn set_source(&self, source: Source) {
        self.sinks.records.set_source(&self.plugin, source);
    }

    /// Returns the health of a controller.
    pub fn of(&self, controller: &str) -> ControllerHealth {
        let controllers = self.controllers.lock();
        let Some(counted) = controllers.by_name.get(controller) else {
            return ControllerHealth::default();
        };

        let last = counted
            .failing
            .values()
            .max_by_key(|failing| (failing.reported, failing.order));
        ControllerHealth {
            reconciles: counted.reconciles,
            errors: counted.errors,
            failing: counted.failing.len(),
            last_error: last.map(|failing| failing.problem.clone()),
            degraded: last.is_some_and(|failing| failing.reported),
        }
    }

    /// Returns the health of a key in a controller.
    pub fn of_key(&self, controller: &str, key: &ObjectKey) -> KeyHealth {
        let controllers = self.controllers.lock();
        let Some(counted) = controllers.by_name.get(controller) else {
            return KeyHealth::default();
        };

        let subject = Subject {
            mapped_kind: None,
            key: key.clone(),
        };
        let problem = counted
            .failing
            .get(&subject)
            .map(|failing| failing.problem.clone());

        KeyHealth {
            is_looping: counted.looping.contains(key),
            problem,
        }
    }

    /// Returns the keys of a controller that fail, at most 100, the last failure first.
    pub fn failing(&self, controller: &str) -> Vec<FailingKey> {
        let controllers = self.controllers.lock();
        let Some(counted) = controllers.by_name.get(controller) else {
            return Vec::new();
        };

        let mut failing: Vec<_> = counted.failing.iter().collect();
        failing.sort_by_key(|(_, failing)| Reverse(failing.order));
        let shown = |(subject, failing): (&Subject, &Failing)| FailingKey {
            key: match &subject.mapped_kind {
                Some(kind) => format!("{kind} {}", subject.key),
                None => subject.key.to_string(),
            },
            queued_as: subject.mapped_kind.is_none().then(|| subject.key.clone()),
            retries: failing.retries,
            error: failing.problem.message.clone(),
        };
        failing.into_iter().take(LISTED).map(shown).collect()
    }

    /// Returns the objects of a kind whose last reconcile failed, if the status reports the failure:
    /// one that the next try may resolve is left out. A kind has the same objects in all versions.
    pub fn failing_objects(&self, kind: &GroupVersionKind) -> Vec<ObjectKey> {
        let is_kind = |counted: &&Counts| {
            counted
                .kind
                .as_ref()
                .is_some_and(|own| own.kind == kind.kind && own.group() == kind.group())
        };
        let controllers = self.controllers.lock();
        let failing = controllers
            .by_name
            .values()
            .filter(is_kind)
            .flat_map(|counted| &counted.failing);

        failing
            .filter(|(subject, failing)| failing.reported && subject.mapped_kind.is_none())
            .map(|(subject, _)| subject.key.clone())
            .collect()
    }

    /// Forgets the failures, because other code runs, or none. Keeps the counts.
    pub fn reset(&self) {
        let mut controllers = self.controllers.lock();
        for counted in controllers.by_name.values_mut() {
            counted.failing.clear();
            counted.looping.clear();
        }
    }

    /// Records the outcome of a reconcile. `retries` counts failures in a row. Reports whether the
    /// status changes.
    fn record(&self, request: &ReconcileRequest, failure: Option<&Failure>, retries: u32) -> bool {
        let mut controllers = self.controllers.lock();
        let counted = controllers
            .by_name
            .entry(request.controller.clone())
            .or_default();
        counted.reconciles += 1;
        counted.errors += u64::from(failure.is_some());

        let released = counted.looping.remove(&request.key);
        let failed = failure.map(|failure| {
            let reported = !matches!(failure, Failure::Retry(_) | Failure::RetryAfter(..))
                || retries >= REPORTED_FROM;
            let problem = Problem::new(
                reason(failure),
                format!(
                    "reconcile of {} failed: {}",
                    request.key,
                    described(failure)
                ),
            );
            Failed {
                problem,
                reported,
                retries,
            }
        });

        let subject = Subject {
            mapped_kind: None,
            key: request.key.clone(),
        };
        controllers.record(&request.controller, subject, failed) || released
    }

    /// Records that a key is slowed or quarantined. Returns its kind.
    fn record_looping(&self, controller: &str, key: &ObjectKey) -> Option<GroupVersionKind> {
        let mut controllers = self.controllers.lock();
        let counted = controllers
            .by_name
            .entry(controller.to_owned())
            .or_default();
        if counted.looping.len() < REMEMBERED {
            counted.looping.insert(key.clone());
        }
        counted.kind.clone()
    }

    /// Records the outcome of a mapping, as [`Self::record`] does of a reconcile.
    fn record_mapping(
        &self,
        kind: &GroupVersionKind,
        request: &ReconcileRequest,
        failure: Option<&Failure>,
        retries: u32,
    ) -> bool {
        let failed = failure.map(|failure| {
            let (reason, reported) = match failure {
                Failure::Retry(_) | Failure::RetryAfter(..) => {
                    (reasons::MAP_FAILING, retries >= REPORTED_FROM)
                }
                Failure::Terminal(_) => (reasons::INVALID_KEYS, true),
                Failure::Fault(Fault::Trap(_)) => (reasons::MAP_TRAPPED, true),
                Failure::Fault(fault) => (fault.reason(), true),
            };

            // The host itself reports keys that are not valid.
            let why = match failure {
                Failure::Terminal(text) => text.clone(),
                failure => described(failure),
            };
            let message = format!("mapping {} {} failed: {why}", kind.kind, request.key);
            Failed {
                problem: Problem::new(reason, message),
                reported,
                retries,
            }
        });

        let subject = Subject {
            mapped_kind: Some(kind.clone()),
            key: request.key.clone(),
        };
        self.controllers
            .lock()
            .record(&request.controller, subject, failed)
    }

    fn log_failure(
        &self,
        what: &str,
        request: &ReconcileRequest,
        failure: &Failure,
        took: Duration,
        audit_id: Option<String>,
    ) {
        let next = match failure {
            Failure::Retry(_) | Failure::RetryAfter(..) | Failure::Fault(_) => "retrying",
            Failure::Terminal(_) => "not retrying",
        };
        let error = failure.to_string();
        let cure = is_denied(&error).then(|| cure(&self.plugin)).flatten();
        let mut fields = vec![
            ("error".to_owned(), error),
            ("retries".to_owned(), request.retries.to_string()),
            ("took".to_owned(), format!("{took:.1?}")),
        ];
        fields.extend(audit_id.map(|id| ("auditID".to_owned(), id)));
        fields.extend(cure.map(|command| ("cure".to_owned(), command)));

        let reconcile = Some(request.clone());
        self.sinks.log.write(LogRecord {
            level: LogLevel::Error,
            message: format!("{what} failed, {next}"),
            fields,
            reconcile,
        });
    }
}

/// Reports whether an error has a denial by RBAC, in the API server's wording.
fn is_denied(error: &str) -> bool {
    error.contains("is forbidden: User \"system:serviceaccount:") && error.contains("\" cannot ")
}

/// Returns the command that gives a plugin the permissions that it was refused.
fn cure(plugin: &ObjectKey) -> Option<String> {
    let namespace = plugin.namespace.as_deref().unwrap_or_default();
    let rbac = Command::new(["operetta", "rbac", &plugin.name, "-n", namespace])?;
    Some(format!("{rbac} | kubectl apply -f -"))
}

/// Describes a failure. The plugin's own words are in quotation marks, which they cannot close: they
/// may look like the host's, or like a command that the host suggests.
fn described(failure: &Failure) -> String {
    match failure {
        Failure::Retry(text) | Failure::RetryAfter(text, _) | Failure::Terminal(text) => {
            format!("the plugin reports “{}”", text.replace(['“', '”'], "\""))
        }
        Failure::Fault(fault) => fault.to_string(),
    }
}

/// Returns the reason of a failed reconcile.
fn reason(failure: &Failure) -> Reason {
    match failure {
        Failure::Retry(_) | Failure::RetryAfter(..) => reasons::RECONCILE_FAILING,
        Failure::Terminal(_) => reasons::TERMINAL_ERROR,
        Failure::Fault(fault) => fault.reason(),
    }
}

/// Ends the record of a reconcile, if it is recorded.
fn end_record(request: &ReconcileRequest, result: &Result<Action, Failure>) {
    let Some(record) = &request.record else {
        return;
    };
    let requeue_after = match result {
        Ok(Action::RequeueAfter(delay)) => Some(*delay),
        _ => None,
    };
    let error = result.as_ref().err().map(reason);
    record.end(&Outcome {
        result: result_name(result),
        requeue_after,
        error,
    });
}

impl Controllers {
    /// Records a failure, or a success for None. Reports whether the status changes.
    fn record(&mut self, controller: &str, subject: Subject, failed: Option<Failed>) -> bool {
        let keys = &mut self
            .by_name
            .entry(controller.to_owned())
            .or_default()
            .failing;
        let Some(Failed {
            problem,
            reported,
            retries,
        }) = failed
        else {
            return keys.remove(&subject).is_some();
        };

        self.failures += 1;
        if keys.len() >= REMEMBERED && !keys.contains_key(&subject) {
            return false;
        }

        let reason = problem.reason;
        let before = keys.insert(
            subject,
            Failing {
                problem,
                reported,
                retries,
                order: self.failures,
            },
        );
        before.is_none_or(|before| before.problem.reason != reason || before.reported != reported)
            || retries == 0
    }
}

/// The observer of the mappings of one watched kind. They do not count as reconciles.
pub struct MapHealth {
    health: Arc<Health>,
    kind: GroupVersionKind,
}

impl MapHealth {
    /// Creates the observer of the mappings of this kind.
    pub fn new(health: Arc<Health>, kind: GroupVersionKind) -> Self {
        Self { health, kind }
    }
}

impl Observer for MapHealth {
    fn reconciled(
        &self,
        request: &ReconcileRequest,
        result: &Result<Action, Failure>,
        took: Duration,
        retries: u32,
    ) {
        if *result == Ok(NOTHING) {
            return;
        }
        let failure = result.as_ref().err();
        if let Some(failure) = failure {
            self.health.log_failure(
                &format!("mapping of a {}", self.kind.kind),
                request,
                failure,
                took,
                None,
            );
        }

        self.health.ended(
            self.health
                .record_mapping(&self.kind, request, failure, retries),
        );
    }
}

impl Observer for Health {
    fn is_recording(&self) -> bool {
        self.sinks.records.is_recording()
    }

    fn begin_record(
        &self,
        request: &ReconcileRequest,
        queue: &WorkQueue<ObjectKey>,
        triggers: Triggers,
    ) -> Option<OpenReconcile> {
        let kind = self.kind_of(&request.controller)?;

        self.sinks.records.begin(
            &self.plugin,
            &kind,
            request,
            triggers,
            queue.queue_duration(&request.key),
        )
    }

    fn reconciled(
        &self,
        request: &ReconcileRequest,
        result: &Result<Action, Failure>,
        took: Duration,
        retries: u32,
    ) {
        let record = request.record.as_ref();
        let audit_id = record.and_then(OpenReconcile::audit_id);
        end_record(request, result);
        self.sinks
            .metrics
            .reconciled(&self.plugin, &request.controller, result, took);
        if let Err(failure) = result {
            self.log_failure("reconcile", request, failure, took, audit_id);
        }
        if let Err(Failure::Terminal(message)) = result
            && let Some(kind) = self.kind_of(&request.controller)
        {
            let loops = &self.sinks.loops;
            loops.report_terminal(&self.plugin, &kind, &request.key, message);
        }
        self.ended(self.record(request, result.as_ref().err(), retries));
    }

    fn looping(&self, controller: &str, key: &ObjectKey, how: &Looping) {
        let kind = self.record_looping(controller, key);
        (self.sinks.changed)();

        if let Stage::Slowed { round } = how.stage {
            self.sinks.metrics.slowed(&self.plugin, controller);
            if round > 1 {
                return;
            }
        }

        let message = format!(
            "controller {controller:?} reconciles {key} in a loop: {}",
            describe(how)
        );
        self.sinks.log.write_host_line(LogLevel::Warn, message);

        if let Some(kind) = kind {
            let object = LoopingObject { kind: &kind, key };
            self.sinks
                .loops
                .report(&self.plugin, controller, object, how);
        }
    }
}

impl LongRunSink for Health {
    fn long_run(&self, request: &ReconcileRequest, ran: Duration, stack: &str) {
        if self
            .long_runs
            .lock()
            .admit(&request.controller, Instant::now())
        {
            LongRun {
                plugin: &self.plugin,
                request,
                ran,
                stack,
            }
            .report(&self.sinks.log, &self.sinks.loops);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::logs::store::LogStore;

    #[test]
    fn failures_and_hot_loops_are_reported_until_they_end() {
        let plugin = ObjectKey::namespaced("n", "p");
        let log = LogStore::default().get_or_create(&plugin, LogLevel::Info);
        let changes = Arc::new(AtomicU32::new(0));
        let counted = changes.clone();
        let changed = Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let events = Arc::new(Events::default());

        let loops = LoopReporter {
            events: events.clone(),
            cached_uid: Box::new(|_, _| Some("u".to_owned())),
        };
        let metrics = Metrics::new();
        metrics.keep_controllers(&plugin, ["c"]);

        let health = Health::new(
            plugin,
            HealthSinks {
                log: log.clone(),
                metrics: metrics.clone(),
                loops,
                records: no_records(),
                changed,
                counted: Box::new(|| {}),
            },
        );

        let request = |name: &str, retries| ReconcileRequest {
            controller: "c".into(),
            key: ObjectKey::namespaced("n", name),
            retries,
            reconcile_id: "r".into(),
            record: None,
        };
        let reconcile = |name: &str, result: Result<Action, Failure>, retries| {
            health.reconciled(&request(name, retries), &result, Duration::ZERO, retries);
            health.of("c")
        };
        let retry = || Err(Failure::Retry("conflict".into()));
        assert!(!reconcile("a", retry(), 1).degraded);
        assert!(!reconcile("a", retry(), 2).degraded);

        let now = reconcile("a", retry(), 3);
        assert!(
            now.degraded
                && now.last_error.is_some_and(|error| error
                    .message
                    .contains("n/a failed: the plugin reports “conflict”"))
        );

        let well = ControllerHealth {
            reconciles: 4,
            errors: 3,
            ..ControllerHealth::default()
        };
        assert_eq!(reconcile("a", Ok(Action::Done), 0), well);

        let now = reconcile(
            "b",
            Err(Failure::Fault(Fault::Trap("unreachable".into()))),
            1,
        );
        assert!(
            now.degraded
                && now
                    .last_error
                    .is_some_and(|error| error.reason == "ReconcileTrapped")
        );
        assert_eq!(reconcile("c", retry(), 1).failing, 2);

        let failing: Vec<_> = health
            .failing("c")
            .into_iter()
            .map(|failing| (failing.key, failing.retries))
            .collect();
        assert_eq!(
            failing,
            [("n/c".to_owned(), 1), ("n/b".to_owned(), 1)],
            "the last failure first"
        );
        assert!(changes.load(Ordering::Relaxed) >= 4);

        let pods = |version: &str| health.failing_objects(&GroupVersionKind::new(version, "Pod"));
        assert!(pods("v1").is_empty(), "no controller is for Pods");
        health.reconciles("c", GroupVersionKind::new("v1", "Pod"));
        assert_eq!(
            pods("v2"),
            [ObjectKey::namespaced("n", "b")],
            "not n/c, whose conflict the next try may resolve"
        );
        assert!(pods("example.com/v1").is_empty(), "another group's Pods");
        let how = |stage| Looping {
            stage,
            runs: 34,
            by_write: 34,
            by_requeue: 0,
            within: Duration::from_secs(1),
        };

        let terminal = || Err(Failure::Terminal("label is too long".into()));
        reconcile("d", terminal(), 0);
        let elsewhere = ReconcileRequest {
            key: ObjectKey::namespaced("other", "d"),
            ..request("d", 0)
        };
        health.reconciled(&elsewhere, &terminal(), Duration::ZERO, 0);

        let reported = std::mem::take(&mut *events.0.lock());
        let reported: Vec<_> = reported
            .iter()
            .map(|note| {
                (
                    note.key.to_string(),
                    note.reason.as_str(),
                    note.note.as_str(),
                )
            })
            .collect();
        assert_eq!(
            reported,
            [(
                "n/d".to_owned(),
                "TerminalError",
                "Plugin n/p: label is too long"
            )],
            "with the host's rights in the plugin's own namespace only"
        );

        let key = ObjectKey::namespaced("n", "loops");
        for stage in [
            Stage::Slowed { round: 1 },
            Stage::Slowed { round: 2 },
            Stage::Quarantined,
        ] {
            health.looping("c", &key, &how(stage));
        }

        let reported = events
            .0
            .lock()
            .iter()
            .map(|note| note.reason.clone())
            .collect::<Vec<_>>();
        assert_eq!(
            reported,
            ["HotLoop", "Quarantined"],
            "once each, however many waits there are"
        );

        let lines = log
            .follow(10)
            .0
            .into_iter()
            .filter(|line| line.get().contains("n/loops in a loop"))
            .count();
        assert_eq!(lines, 2);

        let text = metrics
            .encode(crate::metrics::samples::Samples::default(), Vec::new())
            .expect("text");
        let line =
            "operetta_hot_loop_slowed_total{controller=\"c\",plugin=\"p\",namespace=\"n\"} 2";
        assert!(text.contains(line), "{line} not in\n{text}");

        let before = changes.load(Ordering::Relaxed);
        reconcile("loops", Ok(Action::Done), 0);
        reconcile("loops", Ok(Action::Done), 0);
        assert_eq!(
            changes.load(Ordering::Relaxed),
            before + 1,
            "the status is looked at when it is let go"
        );
    }

    fn no_records() -> PluginRecords {
        let limits = operetta_core::recorder::Limits {
            bytes: 0,
            ..Default::default()
        };
        PluginRecords::new(
            operetta_core::recorder::Recorder::new(limits, None),
            None,
            Box::new(|_, _| None),
        )
    }

    #[derive(Default)]
    struct Events(Mutex<Vec<operetta_core::ports::EventNote>>);

    impl operetta_core::ports::EventSink for Events {
        fn emit(&self, note: operetta_core::ports::EventNote) {
            self.0.lock().push(note);
        }
    }

    #[test]
    fn failing_mapping_is_reported_beside_reconciles_of_its_key() {
        let plugin = ObjectKey::namespaced("n", "p");
        let log = LogStore::default().get_or_create(&plugin, LogLevel::Info);
        let loops = LoopReporter {
            events: Arc::new(Events::default()),
            cached_uid: Box::new(|_, _| None),
        };
        let news = Arc::new(AtomicU32::new(0));
        let heard = news.clone();
        let counted = Box::new(move || {
            heard.fetch_add(1, Ordering::Relaxed);
        });

        let sinks = HealthSinks {
            log,
            metrics: Metrics::new(),
            loops,
            records: no_records(),
            changed: Box::new(|| {}),
            counted,
        };
        let health = Health::new(plugin, sinks);
        let mapping = MapHealth::new(health.clone(), GroupVersionKind::new("v1", "ConfigMap"));
        let request = ReconcileRequest {
            controller: "c".into(),
            key: ObjectKey::namespaced("n", "a"),
            retries: 0,
            reconcile_id: "r".into(),
            record: None,
        };
        let trap = Err(Failure::Fault(Fault::Trap("unreachable".into())));
        mapping.reconciled(&request, &trap, Duration::ZERO, 1);

        health.reconciled(&request, &Ok(Action::Done), Duration::ZERO, 0);
        let now = health.of("c");
        assert_eq!(
            (now.reconciles, now.errors, now.failing, now.degraded),
            (1, 0, 1, true)
        );

        let error = now.last_error.expect("an error");
        assert_eq!(
            (error.reason.as_str(), error.message.as_str()),
            (
                "MapTrapped",
                "mapping ConfigMap n/a failed: the plugin trapped: unreachable",
            )
        );
        assert_eq!(
            news.load(Ordering::Relaxed),
            1,
            "the counts were not read since the first call"
        );

        health.begin_read();
        mapping.reconciled(&request, &Ok(NOTHING), Duration::ZERO, 0);
        assert_eq!(
            (health.of("c").failing, news.load(Ordering::Relaxed)),
            (1, 1),
            "nothing was mapped"
        );

        mapping.reconciled(&request, &Ok(Action::Done), Duration::ZERO, 0);
        assert_eq!(
            (health.of("c").failing, news.load(Ordering::Relaxed)),
            (0, 2)
        );
    }
}
