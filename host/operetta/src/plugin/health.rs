//! How a plugin's reconciles go: which keys fail, and since when that is worth a person's attention.
//!
//! A fault or a terminal failure counts at once, a failure that is retried from the third time in a row: a conflict
//! that the next try resolves is everyday life.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use operetta_core::{
    controller::Observer,
    object::ObjectKey,
    ports::{LogLevel, LogRecord, LogSink},
    request::{Action, Failure, ReconcileRequest},
};

use super::status::Problem;
use crate::{
    log_store::PluginLog,
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
    failing: HashMap<ObjectKey, Failing>,
    reconciles: u64,
    errors: u64,
}

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
    /// Keys whose last reconcile failed.
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
        changed: Box<dyn Fn() + Send + Sync>,
    ) -> Arc<Self> {
        Arc::new(Self { plugin, controllers: Mutex::default(), log, metrics, changed })
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
        controllers.by_name.values_mut().for_each(|counted| counted.failing.clear());
    }

    fn note(&self, request: &ReconcileRequest, failure: Option<(&Failure, u32)>) -> bool {
        let mut controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        let Controllers { by_name, failures } = &mut *controllers;
        let counted = by_name.entry(request.controller.clone()).or_default();
        counted.reconciles += 1;
        let keys = &mut counted.failing;
        let Some((failure, retries)) = failure else { return keys.remove(&request.key).is_some() };
        counted.errors += 1;
        *failures += 1;
        let order = *failures;
        if keys.len() >= REMEMBERED && !keys.contains_key(&request.key) {
            return false;
        }
        let (reason, worth_telling) = match failure {
            Failure::Retry(_) => ("ReconcileFailing", retries >= WORTH_TELLING),
            Failure::Terminal(_) => ("TerminalError", true),
            Failure::Fault(fault) => (fault.reason(), true),
        };
        let message = format!("reconcile of {} failed: {failure}", request.key);
        let failing = Failing { problem: Problem::new(reason, message), worth_telling, order };
        let before = keys.insert(request.key.clone(), failing);
        before.is_none_or(|before| before.problem.reason != reason || before.worth_telling != worth_telling)
            || retries == 0
    }

    fn log_failure(&self, request: &ReconcileRequest, failure: &Failure, took: Duration) {
        let what = match failure {
            Failure::Retry(_) | Failure::Fault(_) => "reconcile failed, retrying",
            Failure::Terminal(_) => "reconcile failed, not retrying",
        };
        let fields = vec![
            ("error".to_owned(), failure.to_string()),
            ("retries".to_owned(), request.retries.to_string()),
            ("took".to_owned(), format!("{took:.1?}")),
        ];
        let reconcile = Some(request.clone());
        self.log.write(LogRecord { level: LogLevel::Error, message: what.to_owned(), fields, reconcile });
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
            self.log_failure(request, failure, took);
        }
        if self.note(request, result.as_ref().err().map(|failure| (failure, retries))) {
            (self.changed)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use operetta_core::request::Fault;

    use super::*;
    use crate::log_store::LogStore;

    #[test]
    fn a_retried_failure_counts_from_the_third_time_a_fault_at_once_and_a_success_ends_both() {
        let plugin = ObjectKey::namespaced("n", "p");
        let log = LogStore::default().of(&plugin, LogLevel::Info);
        let changes = Arc::new(AtomicU32::new(0));
        let counted = changes.clone();
        let changed = Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let health = Health::new(plugin, log, Metrics::new(), changed);
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
    }
}
