//! The host's metrics, under controller-runtime's names where those exist, in the OpenMetrics text
//! format and in Prometheus' Protobuf format. Only the latter has native histograms.
//!
//! [`Metrics`] counts as things happen; [`samples::Samples`] are taken at each scrape.

mod conflicts;
mod controllers;
pub mod informers;
pub mod pages;
pub mod plugins;
pub mod process;
mod queues;
pub mod quotas;
pub mod recorder;
pub mod rest_client;
pub mod samples;
pub mod traces;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use operetta_core::{
    conflict::FieldConflict,
    controller::request::{Action, Failure},
    object::ObjectKey,
};
use operetta_wasm::{Origin, Provenance};
use prometheus_client::{
    encoding::{
        EncodeLabelSet, prometheus_protobuf,
        text::{encode_eof, encode_registry},
    },
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use prost::Message;

pub(crate) use self::controllers::result_name;
use crate::metrics::{
    conflicts::ConflictMetrics,
    controllers::ControllerMetrics,
    pages::merge::{Merged, OwnFamily, Page, merge},
    plugins::plugin_labels,
    rest_client::RestClientMetrics,
    samples::Samples,
};

/// The host's metrics.
pub struct Metrics {
    registry: Registry,
    controllers: ControllerMetrics,
    conflicts: ConflictMetrics,
    code: CodeMetrics,
    rest_client: Arc<RestClientMetrics>,
}

#[derive(Default)]
struct CodeMetrics {
    loads: Family<LoadLabels, Counter>,
    origins: Family<CompileLabels, Counter>,
    seconds: Family<CompileLabels, Counter<f64, AtomicU64>>,
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

impl CodeMetrics {
    fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "operetta_plugin_loads",
            "Number of component loads by result",
            metrics.loads.clone(),
        );
        let help =
            "Number of component loads by the origin of the compiled code: cache, host or worker";
        registry.register("operetta_plugin_code", help, metrics.origins.clone());

        let help = "Time to obtain the compiled code of a component in seconds";
        registry.register(
            "operetta_plugin_code_seconds",
            help,
            metrics.seconds.clone(),
        );

        metrics
    }
}

impl Metrics {
    /// Creates all metrics at zero.
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::default();
        let controllers = ControllerMetrics::register(&mut registry);
        let conflicts = ConflictMetrics::register(&mut registry);
        let code = CodeMetrics::register(&mut registry);
        let rest_client = Arc::new(RestClientMetrics::register(&mut registry));

        Arc::new(Self {
            registry,
            controllers,
            conflicts,
            code,
            rest_client,
        })
    }

    /// Returns the metrics of requests to the API server. The client counts them.
    pub fn rest_client(&self) -> Arc<RestClientMetrics> {
        self.rest_client.clone()
    }

    /// Counts a conflict for each plugin involved, and the write for the plugin that wrote.
    pub fn conflict(&self, conflict: &FieldConflict) {
        self.conflicts.count(conflict);
    }

    /// Creates the series of a Plugin's controllers and removes those of controllers it no longer
    /// has. Nothing about a Plugin is counted before this.
    pub fn keep_controllers<'a>(
        &self,
        plugin: &ObjectKey,
        controllers: impl IntoIterator<Item = &'a str>,
    ) {
        self.controllers.keep(plugin, controllers);
        self.conflicts.keep(plugin);
    }

    /// Removes all series of a deleted Plugin.
    pub fn forget(&self, plugin: &ObjectKey) {
        self.controllers.forget(plugin);
        self.conflicts.forget(plugin);
    }

    /// Counts a reconcile.
    pub fn reconciled(
        &self,
        plugin: &ObjectKey,
        controller: &str,
        result: &Result<Action, Failure>,
        took: Duration,
    ) {
        self.controllers
            .reconciled(plugin, controller, result, took);
    }

    /// Counts a delay of a key in a hot loop.
    pub fn slowed(&self, plugin: &ObjectKey, controller: &str) {
        self.controllers.slowed(plugin, controller);
    }

    /// Counts a load; `result` is `loaded` or the reason for refusing it.
    pub fn loaded(&self, result: &str) {
        self.code
            .loads
            .get_or_create(&LoadLabels {
                result: result.to_owned(),
            })
            .inc();
    }

    /// Counts where a loaded component's code came from, and how long that took.
    pub fn obtained(&self, provenance: &Provenance) {
        let origin = match provenance.origin {
            Origin::Cache => "cache",
            Origin::Here => "host",
            Origin::Worker => "worker",
        };
        self.code
            .origins
            .get_or_create(&CompileLabels { origin })
            .inc();
        self.code
            .seconds
            .get_or_create(&CompileLabels { origin })
            .inc_by(provenance.took.as_secs_f64());
    }

    /// Encodes the metrics, these samples and the pages of processes as OpenMetrics text.
    ///
    /// # Errors
    /// The formatter's errors.
    pub fn encode(&self, samples: Samples, pages: Vec<Page>) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &collected(samples))?;

        if !pages.is_empty() {
            let merged = merge(OwnFamily::in_text(&text), pages);
            encode_registry(&mut text, &collected(left_out(&merged)))?;
            text = merged.join_text(&text);
        }
        encode_eof(&mut text)?;
        Ok(text)
    }

    /// Encodes the metrics, these samples and the pages of processes as length-delimited Protobuf
    /// messages.
    ///
    /// # Errors
    /// The encoder's errors.
    pub fn encode_protobuf(
        &self,
        samples: Samples,
        pages: Vec<Page>,
    ) -> Result<Vec<u8>, fmt::Error> {
        let mut families = prometheus_protobuf::encode(&self.registry)?;
        families.extend(prometheus_protobuf::encode(&collected(samples))?);

        if !pages.is_empty() {
            let merged = merge(families.iter().map(OwnFamily::of).collect(), pages);
            families.extend(prometheus_protobuf::encode(&collected(left_out(&merged)))?);
            merged.join(&mut families);
        }
        let mut bytes = Vec::new();
        for family in families {
            bytes.extend(family.encode_length_delimited_to_vec());
        }
        Ok(bytes)
    }
}

/// Counts the families that were left out of what processes serve.
fn left_out(merged: &Merged) -> Samples {
    let mut samples = Samples::default();
    let help = "Number of metrics of a process that are left out of its host's, because the host has them itself";
    let by_plugin = merged.left_out.iter();
    let by_plugin = by_plugin.map(|(plugin, count)| (plugin_labels(plugin), *count));
    samples.gauge("operetta_process_metrics_left_out", help, by_plugin);
    samples
}

fn collected(samples: Samples) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(samples));
    registry
}

#[cfg(test)]
mod tests {
    use operetta_core::{
        conflict::{Author, Rival, Stage},
        controller::request::Fault,
        object::kind::GroupVersionKind,
    };
    use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;

    use super::*;

    fn text(metrics: &Metrics) -> String {
        metrics
            .encode(Samples::default(), Vec::new())
            .expect("text")
    }

    #[test]
    fn failures_count_under_controller_runtime_names() {
        let metrics = Metrics::new();
        let plugin = ObjectKey::namespaced("n", "p");
        metrics.keep_controllers(&plugin, ["c"]);

        for failure in [
            Failure::Terminal("invalid".into()),
            Failure::Fault(Fault::Trap("unreachable".into())),
            Failure::Fault(Fault::DeadlineExceeded {
                limit: Duration::from_secs(1),
            }),
        ] {
            metrics.reconciled(&plugin, "c", &Err(failure), Duration::from_millis(3));
        }

        let text = text(&metrics);
        let labels = "controller=\"c\",plugin=\"p\",namespace=\"n\"";

        for line in [
            format!("controller_runtime_terminal_reconcile_errors_total{{{labels}}} 1"),
            format!("controller_runtime_reconcile_panics_total{{{labels}}} 1"),
            format!("controller_runtime_reconcile_timeouts_total{{{labels}}} 1"),
            format!("controller_runtime_reconcile_errors_total{{{labels}}} 3"),
            format!("controller_runtime_reconcile_total{{{labels},result=\"error\"}} 3"),
            format!("controller_runtime_reconcile_total{{{labels},result=\"success\"}} 0"),
        ] {
            assert!(text.contains(&line), "{line} not in\n{text}");
        }
    }

    #[test]
    fn reconcile_times_are_classic_and_native_histograms() {
        let metrics = Metrics::new();
        let plugin = ObjectKey::namespaced("n", "p");
        metrics.keep_controllers(&plugin, ["c"]);

        for millis in [3, 30, 30] {
            metrics.reconciled(
                &plugin,
                "c",
                &Ok(Action::Done),
                Duration::from_millis(millis),
            );
        }

        assert!(text(&metrics).contains(
            "controller_runtime_reconcile_time_seconds_bucket{le=\"0.05\",controller=\"c\""
        ));

        let mut samples = Samples::default();
        samples.counter("sampled", "Sampled", [(vec![], 7_u64)]);
        let bytes = metrics.encode_protobuf(samples, Vec::new()).expect("bytes");
        let mut rest = bytes.as_slice();
        let mut families = Vec::new();
        while !rest.is_empty() {
            families.push(MetricFamily::decode_length_delimited(&mut rest).expect("a message"));
        }

        let find = |name: &str| {
            families
                .iter()
                .find(|family| family.name == name)
                .expect(name)
                .metric[0]
                .clone()
        };
        let times = find("controller_runtime_reconcile_time_seconds")
            .histogram
            .expect("a histogram");

        // 2^(2^-3) is the largest factor that is at most 1.1.
        assert_eq!(
            (times.sample_count, times.schema, times.bucket.len()),
            (3, 3, 41)
        );
        assert_eq!(
            times
                .positive_span
                .iter()
                .map(|span| span.length)
                .sum::<u32>(),
            2,
            "two of the buckets"
        );
        assert_eq!(
            times.positive_delta,
            [1, 1],
            "one time in the first, two in the second"
        );
        assert_eq!(
            find("sampled_total").counter.map(|counter| counter.value),
            Some(7.0)
        );
    }

    #[test]
    fn pages_of_processes_are_part_of_both_formats() {
        let metrics = Metrics::new();
        let other = ObjectKey::namespaced("n", "other");
        metrics.keep_controllers(&other, ["c"]);
        let page = || {
            let text = "# TYPE controller_runtime_reconcile_total counter\n\
                        controller_runtime_reconcile_total{controller=\"mine\"} 4\n\
                        # TYPE process_open_fds gauge\nprocess_open_fds 9\njobs 2\n";
            vec![Page {
                plugin: ObjectKey::namespaced("n", "op"),
                families: pages::read(text).expect("a page"),
            }]
        };
        let samples = || {
            let mut samples = Samples::default();
            samples.gauge("process_open_fds", "Files", [(vec![], 7_u64)]);
            samples
        };

        let text = metrics.encode(samples(), page()).expect("text");
        let at = |line: &str| {
            let found = text.lines().position(|found| found == line);
            found.unwrap_or_else(|| panic!("{line} not in\n{text}"))
        };
        let head = at("# TYPE controller_runtime_reconcile counter");
        let mine = at(
            "controller_runtime_reconcile_total{controller=\"mine\",namespace=\"n\",plugin=\"op\"} 4.0",
        );
        let between: Vec<_> = text.lines().skip(head + 1).take(mine - head).collect();
        assert!(
            between
                .iter()
                .all(|line| line.starts_with("controller_runtime_reconcile_total{")),
            "{between:?}"
        );
        at("process_open_fds{} 7");
        at("jobs{namespace=\"n\",plugin=\"op\"} 2.0");
        at("operetta_process_metrics_left_out{plugin=\"op\",namespace=\"n\"} 1");
        assert!(text.ends_with("# EOF\n"), "{text}");
        let heads: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("# TYPE"))
            .collect();
        let unique: std::collections::HashSet<_> = heads.iter().collect();
        assert_eq!(unique.len(), heads.len(), "{heads:?}");

        let bytes = metrics.encode_protobuf(samples(), page()).expect("bytes");
        let mut rest = bytes.as_slice();
        let mut names = Vec::new();
        while !rest.is_empty() {
            let family = MetricFamily::decode_length_delimited(&mut rest).expect("a message");
            names.push(family.name);
        }
        assert_eq!(
            names
                .iter()
                .filter(|name| *name == "controller_runtime_reconcile_total")
                .count(),
            1
        );
        assert!(names.iter().any(|name| name == "jobs"), "{names:?}");
    }

    #[test]
    fn own_families_are_read_alike_in_both_formats() {
        let metrics = Metrics::new();
        metrics.keep_controllers(&ObjectKey::namespaced("n", "p"), ["c"]);
        metrics.loaded("loaded");
        let samples = || {
            let mut samples = Samples::default();
            let plugin = vec![("plugin", "p".to_owned())];
            samples.gauge("depth", "By plugin", [(plugin.clone(), 7_u64)]);
            samples.counter("reads", "Of the host", [(vec![], 0.5)]);
            samples.counter("operetta_calls", "By plugin", [(plugin, 1_u64)]);
            samples.gauge("none", "No series", Vec::<(samples::Labels, u64)>::new());
            samples
        };

        let mut text = String::new();
        encode_registry(&mut text, &metrics.registry).expect("text");
        encode_registry(&mut text, &collected(samples())).expect("text");
        let mut families = prometheus_protobuf::encode(&metrics.registry).expect("families");
        families.extend(prometheus_protobuf::encode(&collected(samples())).expect("families"));

        let in_protobuf: Vec<_> = families.iter().map(OwnFamily::of).collect();
        assert!(in_protobuf.len() > 8, "{in_protobuf:?}");
        assert_eq!(OwnFamily::in_text(&text), in_protobuf);
    }

    #[test]
    fn series_end_with_their_controller_and_their_plugin() {
        let metrics = Metrics::new();
        let plugin = ObjectKey::namespaced("n", "p");
        metrics.keep_controllers(&plugin, ["old", "kept"]);
        metrics.reconciled(&plugin, "old", &Ok(Action::Done), Duration::ZERO);
        metrics.keep_controllers(&plugin, ["kept", "new"]);

        let now = text(&metrics);
        assert!(
            !now.contains("\"old\"") && now.contains("\"kept\"") && now.contains("\"new\""),
            "{now}"
        );

        metrics.forget(&plugin);
        metrics.reconciled(&plugin, "kept", &Ok(Action::Done), Duration::ZERO);
        let now = text(&metrics);
        assert!(!now.contains("plugin=\"p\""), "{now}");
    }

    #[test]
    fn conflicts_of_a_deleted_plugin_are_not_counted_again() {
        let metrics = Metrics::new();
        let author = |plugin: &ObjectKey| Author {
            plugin: plugin.clone(),
            controller: "c".to_owned(),
        };
        let (deleted, other) = (
            ObjectKey::namespaced("n", "deleted"),
            ObjectKey::namespaced("n", "other"),
        );
        metrics.keep_controllers(&deleted, []);
        metrics.keep_controllers(&other, []);
        let conflict = |by: &ObjectKey, rival: &ObjectKey| {
            metrics.conflict(&FieldConflict {
                kind: GroupVersionKind::new("v1", "Secret"),
                key: ObjectKey::namespaced("n", "target"),
                uid: "u".to_owned(),
                path: ".data.x".to_owned(),
                author: author(by),
                rival: Rival::Author(author(rival)),
                stage: Stage::Begins,
            });
        };

        conflict(&deleted, &other);
        let now = text(&metrics);
        assert!(
            now.contains("plugin=\"deleted\"") && now.contains("plugin=\"other\""),
            "{now}"
        );

        metrics.forget(&deleted);
        conflict(&deleted, &other);
        conflict(&other, &deleted);
        let now = text(&metrics);
        assert!(
            !now.contains("plugin=\"deleted\"") && now.contains("plugin=\"other\""),
            "{now}"
        );
    }
}
