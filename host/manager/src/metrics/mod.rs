//! What Prometheus reads, under controller-runtime's names where it has one.

pub mod informers;

use std::{
    fmt::{Display, Write},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use operetta_core::{
    conflict::{Fight, Rival, Stage},
    object::ObjectKey,
};
use operetta_wasm::{Origin, Provenance};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

/// Seconds; controller-runtime's buckets, thinned.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// The host's metrics.
pub struct Metrics {
    registry: Registry,
    reconciles: Family<OutcomeLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    terminal_errors: Family<ControllerLabels, Counter>,
    slowed: Family<ControllerLabels, Counter>,
    time: Family<ControllerLabels, Histogram, fn() -> Histogram>,
    loads: Family<LoadLabels, Counter>,
    compiles: Family<CompileLabels, Counter>,
    compile_seconds: Family<CompileLabels, Counter<f64, AtomicU64>>,
    fights: Family<FightLabels, Counter>,
    fight_writes: Family<FightLabels, Counter>,
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Success,
    /// Again, rate limited.
    Requeue,
    /// Again after a delay.
    RequeueAfter,
    /// Failed, and tried again.
    Error,
    /// Failed, and not tried again.
    TerminalError,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: String,
    plugin: String,
    namespace: String,
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
    /// `cache`, `host` or `worker`.
    origin: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FightLabels {
    plugin: String,
    namespace: String,
    /// Of the object.
    kind: String,
    /// `plugin` or `outside`.
    against: &'static str,
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::default();
        let reconciles = Family::default();
        let errors = Family::default();
        let terminal_errors = Family::default();
        let slowed = Family::default();
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let time = Family::new_with_constructor(histogram);
        let loads = Family::default();
        let compiles = Family::default();
        let compile_seconds = Family::default();
        registry.register("controller_runtime_reconcile", "Reconciles by result", reconciles.clone());
        registry.register("controller_runtime_reconcile_errors", "Reconciles that failed", errors.clone());
        let help = "Reconciles that failed and are not retried";
        registry.register("controller_runtime_terminal_reconcile_errors", help, terminal_errors.clone());
        let help = "Waits of keys that were reconciled again and again for nothing but their plugin";
        registry.register("operetta_hot_loop_slowed", help, slowed.clone());
        registry.register("controller_runtime_reconcile_time_seconds", "Time of a reconcile", time.clone());
        registry.register("operetta_plugin_loads", "Components loaded, by result", loads.clone());
        let help = "Components whose code was obtained, by where from: cache, host or worker";
        registry.register("operetta_plugin_code", help, compiles.clone());
        let help = "Time that obtaining components' code took";
        registry.register("operetta_plugin_code_seconds", help, compile_seconds.clone());
        let fights = Family::default();
        let fight_writes = Family::default();
        registry.register("operetta_fights", "Fights over a field that began, of each plugin in them", fights.clone());
        let help = "Writes of a plugin that set a field back in a fight";
        registry.register("operetta_fight_writes", help, fight_writes.clone());
        Arc::new(Self {
            registry,
            reconciles,
            errors,
            terminal_errors,
            slowed,
            time,
            loads,
            compiles,
            compile_seconds,
            fights,
            fight_writes,
        })
    }

    /// Counts a fight for each plugin in it, and the write for the one that wrote.
    pub fn fight(&self, fight: &Fight) {
        let labels = |plugin: &ObjectKey, against| FightLabels {
            plugin: plugin.name.clone(),
            namespace: plugin.namespace.clone().unwrap_or_default(),
            kind: fight.kind.to_string(),
            against,
        };
        let (against, other) = match &fight.rival {
            Rival::Author(other) => ("plugin", Some(&other.plugin).filter(|other| **other != fight.author.plugin)),
            Rival::Outside { .. } => ("outside", None),
        };
        let own = labels(&fight.author.plugin, against);
        self.fight_writes.get_or_create(&own).inc();
        if fight.stage == Stage::Begins {
            self.fights.get_or_create(&own).inc();
            if let Some(other) = other {
                self.fights.get_or_create(&labels(other, against)).inc();
            }
        }
    }

    /// Counts a reconcile.
    pub fn reconciled(&self, plugin: &ObjectKey, controller: &str, outcome: Outcome, took: Duration) {
        let (namespace, plugin) = (plugin.namespace.clone().unwrap_or_default(), plugin.name.clone());
        let labels = ControllerLabels { controller: controller.to_owned(), plugin, namespace };
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

    /// Counts a wait of a key that loops.
    pub fn slowed(&self, plugin: &ObjectKey, controller: &str) {
        let (namespace, plugin) = (plugin.namespace.clone().unwrap_or_default(), plugin.name.clone());
        self.slowed.get_or_create(&ControllerLabels { controller: controller.to_owned(), plugin, namespace }).inc();
    }

    /// Counts a load; `result` is `loaded` or the reason it was refused for.
    pub fn loaded(&self, result: &str) {
        self.loads.get_or_create(&LoadLabels { result: result.to_owned() }).inc();
    }

    /// Counts how the code of a loaded component was come by.
    pub fn obtained(&self, provenance: &Provenance) {
        let origin = match provenance.origin {
            Origin::Cache => "cache",
            Origin::Here => "host",
            Origin::Worker => "worker",
        };
        self.compiles.get_or_create(&CompileLabels { origin }).inc();
        self.compile_seconds.get_or_create(&CompileLabels { origin }).inc_by(provenance.took.as_secs_f64());
    }

    /// The text that Prometheus reads; `more` are lines of gauges taken at this moment.
    pub fn text(&self, more: impl FnOnce(&mut String) -> std::fmt::Result) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        more(&mut text)?;
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// One gauge's lines, in the text format.
pub fn gauge(text: &mut String, name: &str, help: &str, values: &[(String, impl Display)]) -> std::fmt::Result {
    lines(text, name, help, "gauge", values)
}

/// One counter's lines, in the text format; `name` ends in `_total`.
pub fn counter(text: &mut String, name: &str, help: &str, values: &[(String, f64)]) -> std::fmt::Result {
    lines(text, name, help, "counter", values)
}

fn lines(text: &mut String, name: &str, help: &str, kind: &str, values: &[(String, impl Display)]) -> std::fmt::Result {
    writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}")?;
    values.iter().try_for_each(|(labels, value)| writeln!(text, "{name}{{{labels}}} {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_error_counts_under_controller_runtime_s_names() {
        let metrics = Metrics::new();
        let plugin = ObjectKey::namespaced("n", "p");
        metrics.reconciled(&plugin, "c", Outcome::TerminalError, Duration::from_millis(3));
        let text = metrics.text(|text| gauge(text, "g", "h", &[("a=\"b\"".into(), 1_u64)])).expect("text");
        for line in [
            "controller_runtime_terminal_reconcile_errors_total{controller=\"c\",plugin=\"p\",namespace=\"n\"} 1",
            "controller_runtime_reconcile_total{controller=\"c\",plugin=\"p\",namespace=\"n\",result=\"error\"} 1",
            "g{a=\"b\"} 1",
        ] {
            assert!(text.contains(line), "{line} not in\n{text}");
        }
    }
}
