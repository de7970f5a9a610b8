//! How a plugin's reconciles go: which keys fail, and since when that is worth a person's attention.
//!
//! A fault or a terminal failure counts at once, a failure that is retried from the third time in a row: a conflict
//! that the next try resolves is everyday life.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use operetta_core::{
    controller::{
        Observer,
        request::{Action, Failure, Fault, ReconcileRequest},
    },
    handler::mapping::NOTHING,
    hot_loop::{Looping, Stage},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{LogLevel, LogRecord, LogSink},
};

use crate::plugin::{
    hot_loop::{LoopReporter, told},
    status::Problem,
};
use crate::{
    logs::store::PluginLog,
    metrics::{Metrics, Outcome},
};

/// Failures in a row from which a retried failure counts.
const WORTH_TELLING: u32 = 3;
/// Failing keys remembered per controller; more are counted as nothing.
const REMEMBERED: usize = 10_000;

/// The health of one plugin's controllers.
pub struct Health {
    plugin: ObjectKey,
    controllers: Mutex<Controllers>,
    log: Arc<PluginLog>,
    metrics: Arc<Metrics>,
    loops: LoopReporter,
    /// Called when something that the status shows has changed.
    changed: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Controllers {
    by_name: HashMap<String, Counted>,
    /// Counts failures, of all controllers.
    failures: u64,
}

/// One controller.
#[derive(Default)]
struct Counted {
    failing: HashMap<Subject, Failing>,
    /// Keys that were held and not reconciled since; more than are remembered are looked at when the status is.
    held: HashSet<ObjectKey>,
    /// What it reconciles.
    kind: Option<GroupVersionKind>,
    reconciles: u64,
    errors: u64,
}

/// What fails: a reconcile of a key, or the mapping of a watched object, with its kind.
type Subject = (Option<GroupVersionKind>, ObjectKey);

struct Failing {
    problem: Problem,
    worth_telling: bool,
    /// Orders the failures: the largest is the last.
    order: u64,
}

/// One controller's part of the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerHealth {
    /// Reconciles so far.
    pub reconciles: u64,
    /// How many of them failed.
    pub errors: u64,
    /// Keys whose last reconcile failed, and watched objects whose last mapping did.
    pub failing: usize,
    /// The last of them that is worth telling, or just the last.
    pub last_error: Option<Problem>,
    /// Whether a person should look.
    pub degraded: bool,
}

impl Health {
    /// Healthy. `changed` is called, on a worker, when the status should be looked at again.
    pub fn new(
        plugin: ObjectKey,
        log: Arc<PluginLog>,
        metrics: Arc<Metrics>,
        loops: LoopReporter,
        changed: Box<dyn Fn() + Send + Sync>,
    ) -> Arc<Self> {
        Arc::new(Self { plugin, controllers: Mutex::default(), log, metrics, loops, changed })
    }

    /// From now on a controller reconciles objects of this kind.
    pub fn reconciles(&self, controller: &str, kind: GroupVersionKind) {
        let mut controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        controllers.by_name.entry(controller.to_owned()).or_default().kind = Some(kind);
    }

    /// How a controller does.
    pub fn of(&self, controller: &str) -> ControllerHealth {
        let controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(counted) = controllers.by_name.get(controller) else { return ControllerHealth::default() };
        let last = counted.failing.values().max_by_key(|failing| (failing.worth_telling, failing.order));
        ControllerHealth {
            reconciles: counted.reconciles,
            errors: counted.errors,
            failing: counted.failing.len(),
            last_error: last.map(|failing| failing.problem.clone()),
            degraded: last.is_some_and(|failing| failing.worth_telling),
        }
    }

    /// Forgets what fails: other code runs, or none. What was counted stays.
    pub fn reset(&self) {
        let mut controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        for counted in controllers.by_name.values_mut() {
            counted.failing.clear();
            counted.held.clear();
        }
    }

    fn note(&self, request: &ReconcileRequest, failure: Option<(&Failure, u32)>) -> bool {
        let mut controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = controllers.by_name.entry(request.controller.clone()).or_default();
        counted.reconciles += 1;
        counted.errors += u64::from(failure.is_some());
        let let_go = counted.held.remove(&request.key);
        let problem = failure.map(|(failure, retries)| {
            let (reason, worth_telling) = match failure {
                Failure::Retry(_) => ("ReconcileFailing", retries >= WORTH_TELLING),
                Failure::Terminal(_) => ("TerminalError", true),
                Failure::Fault(fault) => (fault.reason(), true),
            };
            let problem = Problem::new(reason, format!("reconcile of {} failed: {failure}", request.key));
            (problem, worth_telling, retries)
        });
        controllers.keep(&request.controller, (None, request.key.clone()), problem) || let_go
    }

    /// Keeps that a key is held; of which kind it is.
    fn hold(&self, controller: &str, key: &ObjectKey) -> Option<GroupVersionKind> {
        let mut controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = controllers.by_name.entry(controller.to_owned()).or_default();
        if counted.held.len() < REMEMBERED {
            counted.held.insert(key.clone());
        }
        counted.kind.clone()
    }

    fn note_mapping(
        &self,
        kind: &GroupVersionKind,
        request: &ReconcileRequest,
        failure: Option<(&Failure, u32)>,
    ) -> bool {
        let problem = failure.map(|(failure, retries)| {
            let (reason, worth_telling) = match failure {
                Failure::Retry(_) => ("MapFailing", retries >= WORTH_TELLING),
                Failure::Terminal(_) => ("InvalidKeys", true),
                Failure::Fault(Fault::Trap(_)) => ("MapTrapped", true),
                Failure::Fault(fault) => (fault.reason(), true),
            };
            let message = format!("mapping {} {} failed: {failure}", kind.kind, request.key);
            (Problem::new(reason, message), worth_telling, retries)
        });
        let mut controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        controllers.keep(&request.controller, (Some(kind.clone()), request.key.clone()), problem)
    }

    fn log_failure(&self, what: &str, request: &ReconcileRequest, failure: &Failure, took: Duration) {
        let next = match failure {
            Failure::Retry(_) | Failure::Fault(_) => "retrying",
            Failure::Terminal(_) => "not retrying",
        };
        let fields = vec![
            ("error".to_owned(), failure.to_string()),
            ("retries".to_owned(), request.retries.to_string()),
            ("took".to_owned(), format!("{took:.1?}")),
        ];
        let reconcile = Some(request.clone());
        self.log.write(LogRecord {
            level: LogLevel::Error,
            message: format!("{what} failed, {next}"),
            fields,
            reconcile,
        });
    }
}

impl Controllers {
    /// Keeps what is wrong with something, or that nothing is. Whether the status should be looked at again.
    fn keep(&mut self, controller: &str, subject: Subject, problem: Option<(Problem, bool, u32)>) -> bool {
        let keys = &mut self.by_name.entry(controller.to_owned()).or_default().failing;
        let Some((problem, worth_telling, retries)) = problem else { return keys.remove(&subject).is_some() };
        self.failures += 1;
        if keys.len() >= REMEMBERED && !keys.contains_key(&subject) {
            return false;
        }
        let reason = problem.reason.clone();
        let before = keys.insert(subject, Failing { problem, worth_telling, order: self.failures });
        before.is_none_or(|before| before.problem.reason != reason || before.worth_telling != worth_telling)
            || retries == 0
    }
}

/// Is told of the mappings of one watched kind. They count as no reconciles.
pub(super) struct MapHealth {
    health: Arc<Health>,
    kind: GroupVersionKind,
}

impl MapHealth {
    pub(super) fn new(health: Arc<Health>, kind: GroupVersionKind) -> Self {
        Self { health, kind }
    }
}

impl Observer for MapHealth {
    fn reconciled(&self, request: &ReconcileRequest, result: &Result<Action, Failure>, took: Duration, retries: u32) {
        if *result == Ok(NOTHING) {
            return;
        }
        let failure = result.as_ref().err();
        if let Some(failure) = failure {
            self.health.log_failure(&format!("mapping of a {}", self.kind.kind), request, failure, took);
        }
        if self.health.note_mapping(&self.kind, request, failure.map(|failure| (failure, retries))) {
            (self.health.changed)();
        }
    }
}

impl Observer for Health {
    fn reconciled(&self, request: &ReconcileRequest, result: &Result<Action, Failure>, took: Duration, retries: u32) {
        let outcome = match result {
            Ok(Action::Done) => Outcome::Success,
            Ok(Action::Requeue) => Outcome::Requeue,
            Ok(Action::RequeueAfter(_)) => Outcome::RequeueAfter,
            Err(Failure::Terminal(_)) => Outcome::TerminalError,
            Err(Failure::Retry(_) | Failure::Fault(_)) => Outcome::Error,
        };
        self.metrics.reconciled(&self.plugin, &request.controller, outcome, took);
        if let Err(failure) = result {
            self.log_failure("reconcile", request, failure, took);
        }
        if self.note(request, result.as_ref().err().map(|failure| (failure, retries))) {
            (self.changed)();
        }
    }

    fn looping(&self, controller: &str, key: &ObjectKey, how: &Looping) {
        let kind = self.hold(controller, key);
        (self.changed)();
        if let Stage::Slowed { round } = how.stage {
            self.metrics.slowed(&self.plugin, controller);
            if round > 1 {
                return;
            }
        }
        let message = format!("controller {controller:?} reconciles {key} in a loop: {}", told(how));
        self.log.tell(LogLevel::Warn, message);
        if let Some(kind) = kind {
            self.loops.tell(&self.plugin, controller, (&kind, key), how);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::logs::store::LogStore;

    #[test]
    fn a_retried_failure_counts_from_the_third_time_a_fault_at_once_a_success_ends_both_and_loops_are_told() {
        let plugin = ObjectKey::namespaced("n", "p");
        let log = LogStore::default().of(&plugin, LogLevel::Info);
        let changes = Arc::new(AtomicU32::new(0));
        let counted = changes.clone();
        let changed = Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let events = Arc::new(Events::default());
        let loops = LoopReporter { events: events.clone(), known: Box::new(|_, _| Some("u".to_owned())) };
        let metrics = Metrics::new();
        let health = Health::new(plugin, log.clone(), metrics.clone(), loops, changed);
        let request = |name: &str, retries| ReconcileRequest {
            controller: "c".into(),
            key: ObjectKey::namespaced("n", name),
            retries,
            reconcile_id: "r".into(),
        };
        let tell = |name: &str, result: Result<Action, Failure>, retries| {
            health.reconciled(&request(name, retries), &result, Duration::ZERO, retries);
            health.of("c")
        };
        let retry = || Err(Failure::Retry("conflict".into()));
        assert!(!tell("a", retry(), 1).degraded);
        assert!(!tell("a", retry(), 2).degraded);
        let now = tell("a", retry(), 3);
        assert!(now.degraded && now.last_error.is_some_and(|error| error.message.contains("n/a failed: conflict")));
        let well = ControllerHealth { reconciles: 4, errors: 3, ..ControllerHealth::default() };
        assert_eq!(tell("a", Ok(Action::Done), 0), well);
        let now = tell("b", Err(Failure::Fault(Fault::Trap("unreachable".into()))), 1);
        assert!(now.degraded && now.last_error.is_some_and(|error| error.reason == "ReconcileTrapped"));
        assert_eq!(tell("c", retry(), 1).failing, 2);
        assert!(changes.load(Ordering::Relaxed) >= 4);

        health.reconciles("c", GroupVersionKind::new("v1", "Pod"));
        let how = |stage| Looping { stage, runs: 34, by_write: 34, by_requeue: 0, within: Duration::from_secs(1) };
        let key = ObjectKey::namespaced("n", "loops");
        for stage in [Stage::Slowed { round: 1 }, Stage::Slowed { round: 2 }, Stage::Quarantined] {
            health.looping("c", &key, &how(stage));
        }
        let told = events.0.lock().expect("lock").iter().map(|note| note.reason.clone()).collect::<Vec<_>>();
        assert_eq!(told, ["HotLoop", "Quarantined"], "once each, however many waits there are");
        let lines = log.follow(10).0.into_iter().filter(|line| line.message.contains("n/loops in a loop")).count();
        assert_eq!(lines, 2);
        let text = metrics.text(|_| Ok(())).expect("text");
        let line = "operetta_hot_loop_slowed_total{controller=\"c\",plugin=\"p\",namespace=\"n\"} 2";
        assert!(text.contains(line), "{line} not in\n{text}");
        let before = changes.load(Ordering::Relaxed);
        tell("loops", Ok(Action::Done), 0);
        tell("loops", Ok(Action::Done), 0);
        assert_eq!(changes.load(Ordering::Relaxed), before + 1, "the status is looked at when it is let go");
    }

    #[derive(Default)]
    struct Events(Mutex<Vec<operetta_core::ports::EventNote>>);

    impl operetta_core::ports::EventSink for Events {
        fn emit(&self, note: operetta_core::ports::EventNote) {
            self.0.lock().expect("lock").push(note);
        }
    }

    #[test]
    fn a_mapping_that_fails_is_told_beside_reconciles_of_the_same_key_and_counts_as_none() {
        let plugin = ObjectKey::namespaced("n", "p");
        let log = LogStore::default().of(&plugin, LogLevel::Info);
        let loops = LoopReporter { events: Arc::new(Events::default()), known: Box::new(|_, _| None) };
        let health = Health::new(plugin, log, Metrics::new(), loops, Box::new(|| {}));
        let mapping = MapHealth::new(health.clone(), GroupVersionKind::new("v1", "ConfigMap"));
        let request = ReconcileRequest {
            controller: "c".into(),
            key: ObjectKey::namespaced("n", "a"),
            retries: 0,
            reconcile_id: "r".into(),
        };
        let trap = Err(Failure::Fault(Fault::Trap("unreachable".into())));
        mapping.reconciled(&request, &trap, Duration::ZERO, 1);
        health.reconciled(&request, &Ok(Action::Done), Duration::ZERO, 0);
        let now = health.of("c");
        assert_eq!((now.reconciles, now.errors, now.failing, now.degraded), (1, 0, 1, true));
        let error = now.last_error.expect("told");
        assert_eq!(
            (error.reason.as_str(), error.message.as_str()),
            ("MapTrapped", "mapping ConfigMap n/a failed: the plugin trapped: unreachable",)
        );
        mapping.reconciled(&request, &Ok(NOTHING), Duration::ZERO, 0);
        assert_eq!(health.of("c").failing, 1);
        mapping.reconciled(&request, &Ok(Action::Done), Duration::ZERO, 0);
        assert_eq!(health.of("c").failing, 0);
    }
}
