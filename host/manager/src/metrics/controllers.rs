//! Metrics of reconciles, under controller-runtime's names.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use operetta_core::{
    controller::request::{Action, Failure, Fault},
    object::ObjectKey,
};
use parking_lot::RwLock;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, NativeHistogramConfig},
    },
    registry::Registry,
};

/// controller-runtime's buckets for reconcile times and request durations, in seconds.
const BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

/// Creates a histogram with [`BUCKETS`], and with native buckets in controller-runtime's
/// resolution.
pub(super) fn histogram() -> Histogram {
    let native = NativeHistogramConfig::new(1.1)
        .max_buckets(100)
        .min_reset_duration(Duration::from_secs(3600));
    Histogram::new_classic_and_native(BUCKETS, native)
}

/// The results of reconciles, under controller-runtime's names.
const RESULTS: [&str; 4] = ["success", "requeue", "requeue_after", "error"];

/// Returns a result's name, one of [`RESULTS`].
pub(crate) fn result_name(result: &Result<Action, Failure>) -> &'static str {
    match result {
        Ok(Action::Done) => "success",
        Ok(Action::Requeue) => "requeue",
        Ok(Action::RequeueAfter(_)) => "requeue_after",
        Err(_) => "error",
    }
}

/// A controller's counters without further labels, and their help texts.
const COUNTERS: [(&str, &str); 5] = [
    (
        "controller_runtime_reconcile_errors",
        "Number of failed reconciles",
    ),
    (
        "controller_runtime_terminal_reconcile_errors",
        "Number of failed reconciles that are not retried",
    ),
    (
        "controller_runtime_reconcile_panics",
        "Number of reconciles that panicked, or trapped in the sandbox",
    ),
    (
        "controller_runtime_reconcile_timeouts",
        "Number of reconciles that exceeded their deadline",
    ),
    (
        "operetta_hot_loop_slowed",
        "Number of times that a key in a hot loop was delayed",
    ),
];
const ERRORS: usize = 0;
const TERMINAL_ERRORS: usize = 1;
const PANICS: usize = 2;
const TIMEOUTS: usize = 3;
const SLOWED: usize = 4;

/// Metrics of reconciles. As in controller-runtime, all series of a controller exist from its
/// start, at zero.
pub(super) struct ControllerMetrics {
    reconciles: Family<OutcomeLabels, Counter>,
    /// In the order of [`COUNTERS`].
    counters: [Family<ControllerLabels, Counter>; COUNTERS.len()],
    time: Family<ControllerLabels, Histogram, fn() -> Histogram>,
    /// The controllers with series, per Plugin. Locked for reading while counting, so that a
    /// reconcile which ends late can't recreate removed series.
    known: RwLock<HashMap<ObjectKey, HashSet<String>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: String,
    plugin: String,
    namespace: String,
}

impl ControllerLabels {
    fn new(plugin: &ObjectKey, controller: &str) -> Self {
        Self {
            controller: controller.to_owned(),
            plugin: plugin.name.clone(),
            namespace: plugin.namespace.clone().unwrap_or_default(),
        }
    }

    fn with_result(self, result: &'static str) -> OutcomeLabels {
        let Self {
            controller,
            plugin,
            namespace,
        } = self;
        OutcomeLabels {
            controller,
            plugin,
            namespace,
            result,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    controller: String,
    plugin: String,
    namespace: String,
    result: &'static str,
}

impl ControllerMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            reconciles: Family::default(),
            counters: std::array::from_fn(|_| Family::default()),
            time: Family::new_with_constructor(histogram as fn() -> Histogram),
            known: RwLock::default(),
        };
        let help = "Number of reconciles by result";
        registry.register(
            "controller_runtime_reconcile",
            help,
            metrics.reconciles.clone(),
        );
        for ((name, help), family) in COUNTERS.into_iter().zip(&metrics.counters) {
            registry.register(name, help, family.clone());
        }

        let help = "Duration of a reconcile in seconds";
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            help,
            metrics.time.clone(),
        );

        metrics
    }

    /// Creates the series of these controllers and removes those of the Plugin's other ones.
    pub(super) fn keep<'a>(
        &self,
        plugin: &ObjectKey,
        controllers: impl IntoIterator<Item = &'a str>,
    ) {
        let kept: HashSet<String> = controllers.into_iter().map(str::to_owned).collect();
        let mut known = self.known.write();
        let before = known
            .insert(plugin.clone(), kept.clone())
            .unwrap_or_default();
        before
            .difference(&kept)
            .for_each(|controller| self.remove(plugin, controller));
        kept.difference(&before)
            .for_each(|controller| self.create(plugin, controller));
    }

    pub(super) fn forget(&self, plugin: &ObjectKey) {
        let mut known = self.known.write();
        for controller in known.remove(plugin).unwrap_or_default() {
            self.remove(plugin, &controller);
        }
    }

    fn create(&self, plugin: &ObjectKey, controller: &str) {
        let labels = ControllerLabels::new(plugin, controller);
        for result in RESULTS {
            drop(
                self.reconciles
                    .get_or_create(&labels.clone().with_result(result)),
            );
        }

        for family in &self.counters {
            drop(family.get_or_create(&labels));
        }
        drop(self.time.get_or_create(&labels));
    }

    fn remove(&self, plugin: &ObjectKey, controller: &str) {
        let labels = ControllerLabels::new(plugin, controller);
        self.time.remove(&labels);
        for family in &self.counters {
            family.remove(&labels);
        }
        for result in RESULTS {
            self.reconciles.remove(&labels.clone().with_result(result));
        }
    }

    /// Counts a reconcile, unless its controller is already gone.
    pub(super) fn reconciled(
        &self,
        plugin: &ObjectKey,
        controller: &str,
        result: &Result<Action, Failure>,
        took: Duration,
    ) {
        let known = self.known.read();
        if !known
            .get(plugin)
            .is_some_and(|controllers| controllers.contains(controller))
        {
            return;
        }

        let labels = ControllerLabels::new(plugin, controller);
        self.time.get_or_create(&labels).observe(took.as_secs_f64());
        let count = |counter: usize| self.counters[counter].get_or_create(&labels).inc();
        if let Err(failure) = result {
            count(ERRORS);
            match failure {
                Failure::Terminal(_) => count(TERMINAL_ERRORS),
                Failure::Fault(Fault::Trap(_)) => count(PANICS),
                Failure::Fault(Fault::DeadlineExceeded { .. }) => count(TIMEOUTS),
                Failure::Fault(Fault::MemoryExceeded { .. })
                | Failure::Retry(_)
                | Failure::RetryAfter(..) => 0,
            };
        }

        self.reconciles
            .get_or_create(&labels.with_result(result_name(result)))
            .inc();
    }

    pub(super) fn slowed(&self, plugin: &ObjectKey, controller: &str) {
        let known = self.known.read();
        if known
            .get(plugin)
            .is_some_and(|controllers| controllers.contains(controller))
        {
            self.counters[SLOWED]
                .get_or_create(&ControllerLabels::new(plugin, controller))
                .inc();
        }
    }
}
