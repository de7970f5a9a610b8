//! The host's metrics, under controller-runtime's names where it has one, in the OpenMetrics text format.
//!
//! [`Metrics`] counts as things happen; a [`samples::Samples`] is taken at each scrape.

pub mod informers;
pub mod plugins;
pub mod quotas;
pub mod samples;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use operetta_core::{
    conflict::{FieldConflict, Rival, Stage},
    object::ObjectKey,
};
use operetta_wasm::{Origin, Provenance};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::{
        EncodeLabelSet,
        text::{encode_eof, encode_registry},
    },
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use crate::metrics::samples::Samples;

/// The buckets of reconcile times, in seconds: some of controller-runtime's.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// The results of reconciles, as controller-runtime names them.
const RESULTS: [&str; 4] = ["success", "requeue", "requeue_after", "error"];

/// The host's metrics.
pub struct Metrics {
    registry: Registry,
    reconciles: Family<OutcomeLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    terminal_errors: Family<ControllerLabels, Counter>,
    slowed: Family<ControllerLabels, Counter>,
    time: Family<ControllerLabels, Histogram, fn() -> Histogram>,
    code: CodeMetrics,
    conflicts: Family<ConflictLabels, Counter>,
    conflict_writes: Family<ConflictLabels, Counter>,
    /// The series of each Plugin, to remove them with it.
    series: Mutex<HashMap<ObjectKey, Series>>,
}

/// The labels of a Plugin's series.
#[derive(Default)]
struct Series {
    controllers: HashSet<String>,
    conflicts: HashSet<ConflictLabels>,
}

/// The metrics of loading code.
#[derive(Default)]
struct CodeMetrics {
    loads: Family<LoadLabels, Counter>,
    origins: Family<CompileLabels, Counter>,
    seconds: Family<CompileLabels, Counter<f64, AtomicU64>>,
}

/// The outcome of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reconcile is done.
    Success,
    /// The key is added again, rate limited.
    Requeue,
    /// The key is added again after a delay.
    RequeueAfter,
    /// The reconcile failed and is retried.
    Error,
    /// The reconcile failed and is not retried.
    TerminalError,
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
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    controller: String,
    plugin: String,
    namespace: String,
    result: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LoadLabels {
    result: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CompileLabels {
    /// The origin of the code: `cache`, `host` or `worker`.
    origin: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConflictLabels {
    plugin: String,
    namespace: String,
    /// The object's kind.
    kind: String,
    /// The other writer: `plugin` or `outside`.
    against: &'static str,
}

impl Metrics {
    /// Creates all metrics at zero.
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::default();
        let reconciles = Family::default();
        let errors = Family::default();
        let terminal_errors = Family::default();
        let slowed = Family::default();
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let time = Family::new_with_constructor(histogram);
        let code = CodeMetrics::default();
        registry.register("controller_runtime_reconcile", "Number of reconciles by result", reconciles.clone());
        registry.register("controller_runtime_reconcile_errors", "Number of failed reconciles", errors.clone());
        let help = "Number of failed reconciles that are not retried";
        registry.register("controller_runtime_terminal_reconcile_errors", help, terminal_errors.clone());
        let help = "Number of times that a key in a hot loop was delayed";
        registry.register("operetta_hot_loop_slowed", help, slowed.clone());
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a reconcile in seconds",
            time.clone(),
        );
        registry.register("operetta_plugin_loads", "Number of component loads by result", code.loads.clone());
        let help = "Number of component loads by the origin of the compiled code: cache, host or worker";
        registry.register("operetta_plugin_code", help, code.origins.clone());
        let help = "Time to obtain the compiled code of a component in seconds";
        registry.register("operetta_plugin_code_seconds", help, code.seconds.clone());
        let conflicts = Family::default();
        let conflict_writes = Family::default();
        registry.register("operetta_fights", "Number of field conflicts that a plugin took part in", conflicts.clone());
        let help = "Number of writes of a plugin that set a conflicting field back";
        registry.register("operetta_fight_writes", help, conflict_writes.clone());
        Arc::new(Self {
            registry,
            reconciles,
            errors,
            terminal_errors,
            slowed,
            time,
            code,
            conflicts,
            conflict_writes,
            series: Mutex::default(),
        })
    }

    /// Counts a field conflict for each plugin in it, and the write for the plugin that wrote.
    pub fn conflict(&self, conflict: &FieldConflict) {
        let labels = |plugin: &ObjectKey, against| ConflictLabels {
            plugin: plugin.name.clone(),
            namespace: plugin.namespace.clone().unwrap_or_default(),
            kind: conflict.kind.to_string(),
            against,
        };
        let (against, other) = match &conflict.rival {
            Rival::Author(other) => ("plugin", Some(&other.plugin).filter(|other| **other != conflict.author.plugin)),
            Rival::Outside { .. } => ("outside", None),
        };
        let own = labels(&conflict.author.plugin, against);
        self.note_conflict(&conflict.author.plugin, &own);
        self.conflict_writes.get_or_create(&own).inc();
        if conflict.stage == Stage::Begins {
            self.conflicts.get_or_create(&own).inc();
            if let Some(other) = other {
                let labels = labels(other, against);
                self.note_conflict(other, &labels);
                self.conflicts.get_or_create(&labels).inc();
            }
        }
    }

    fn note_conflict(&self, plugin: &ObjectKey, labels: &ConflictLabels) {
        let mut series = self.series.lock();
        let of_plugin = series.entry(plugin.clone()).or_default();
        if !of_plugin.conflicts.contains(labels) {
            of_plugin.conflicts.insert(labels.clone());
        }
    }

    /// Returns the labels of a controller, and notes them as the Plugin's.
    fn labels(&self, plugin: &ObjectKey, controller: &str) -> ControllerLabels {
        let mut series = self.series.lock();
        let is_known = series.get(plugin).is_some_and(|series| series.controllers.contains(controller));
        if !is_known {
            series.entry(plugin.clone()).or_default().controllers.insert(controller.to_owned());
        }
        ControllerLabels::new(plugin, controller)
    }

    /// Removes the series of controllers that the Plugin no longer has.
    pub fn keep_controllers<'a>(&self, plugin: &ObjectKey, controllers: impl IntoIterator<Item = &'a str>) {
        let kept: HashSet<&str> = controllers.into_iter().collect();
        let mut series = self.series.lock();
        let Some(of_plugin) = series.get_mut(plugin) else { return };
        of_plugin.controllers.retain(|controller| {
            let is_kept = kept.contains(controller.as_str());
            if !is_kept {
                self.remove_controller(plugin, controller);
            }
            is_kept
        });
    }

    /// Removes all series of a Plugin that is gone.
    pub fn forget(&self, plugin: &ObjectKey) {
        let Some(Series { controllers, conflicts }) = self.series.lock().remove(plugin) else { return };
        for controller in &controllers {
            self.remove_controller(plugin, controller);
        }
        for labels in &conflicts {
            self.conflicts.remove(labels);
            self.conflict_writes.remove(labels);
        }
    }

    fn remove_controller(&self, plugin: &ObjectKey, controller: &str) {
        let labels = ControllerLabels::new(plugin, controller);
        self.time.remove(&labels);
        for family in [&self.errors, &self.terminal_errors, &self.slowed] {
            family.remove(&labels);
        }
        let ControllerLabels { controller, plugin, namespace } = labels;
        for result in RESULTS {
            let result = result.to_owned();
            let labels = OutcomeLabels {
                controller: controller.clone(),
                plugin: plugin.clone(),
                namespace: namespace.clone(),
                result,
            };
            self.reconciles.remove(&labels);
        }
    }

    /// Counts a reconcile.
    pub fn reconciled(&self, plugin: &ObjectKey, controller: &str, outcome: Outcome, took: Duration) {
        let labels = self.labels(plugin, controller);
        self.time.get_or_create(&labels).observe(took.as_secs_f64());
        let result = match outcome {
            Outcome::Success => "success",
            Outcome::Requeue => "requeue",
            Outcome::RequeueAfter => "requeue_after",
            Outcome::Error | Outcome::TerminalError => "error",
        };
        if matches!(outcome, Outcome::Error | Outcome::TerminalError) {
            self.errors.get_or_create(&labels).inc();
        }
        if outcome == Outcome::TerminalError {
            self.terminal_errors.get_or_create(&labels).inc();
        }
        let ControllerLabels { controller, plugin, namespace } = labels;
        let labels = OutcomeLabels { controller, plugin, namespace, result: result.to_owned() };
        self.reconciles.get_or_create(&labels).inc();
    }

    /// Counts a delay of a key in a hot loop.
    pub fn slowed(&self, plugin: &ObjectKey, controller: &str) {
        self.slowed.get_or_create(&self.labels(plugin, controller)).inc();
    }

    /// Counts a load; `result` is `loaded` or the reason of the refusal.
    pub fn loaded(&self, result: &str) {
        self.code.loads.get_or_create(&LoadLabels { result: result.to_owned() }).inc();
    }

    /// Counts the origin of a loaded component's code, and the time it took.
    pub fn obtained(&self, provenance: &Provenance) {
        let origin = match provenance.origin {
            Origin::Cache => "cache",
            Origin::Here => "host",
            Origin::Worker => "worker",
        };
        self.code.origins.get_or_create(&CompileLabels { origin }).inc();
        self.code.seconds.get_or_create(&CompileLabels { origin }).inc_by(provenance.took.as_secs_f64());
    }

    /// Encodes the metrics and these samples as OpenMetrics text.
    ///
    /// # Errors
    /// The formatter's errors.
    pub fn encode(&self, samples: Samples) -> Result<String, fmt::Error> {
        let mut scrape = Registry::default();
        scrape.register_collector(Box::new(samples));
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &scrape)?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_error_counts_under_controller_runtime_names() {
        let metrics = Metrics::new();
        let plugin = ObjectKey::namespaced("n", "p");
        metrics.reconciled(&plugin, "c", Outcome::TerminalError, Duration::from_millis(3));
        let mut samples = Samples::default();
        samples.gauge("g", "h", [(vec![("a", "b".to_owned())], 1_u64)]);
        let text = metrics.encode(samples).expect("text");
        for line in [
            "controller_runtime_terminal_reconcile_errors_total{controller=\"c\",plugin=\"p\",namespace=\"n\"} 1",
            "controller_runtime_reconcile_total{controller=\"c\",plugin=\"p\",namespace=\"n\",result=\"error\"} 1",
            "g{a=\"b\"} 1",
        ] {
            assert!(text.contains(line), "{line} not in\n{text}");
        }
    }
}
