//! Metrics of field conflicts between plugins.

use std::collections::{HashMap, HashSet};

use operetta_core::{
    conflict::{FieldConflict, Rival, Stage},
    object::ObjectKey,
};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

#[derive(Default)]
pub(super) struct ConflictMetrics {
    conflicts: Family<ConflictLabels, Counter>,
    writes: Family<ConflictLabels, Counter>,
    /// Each Plugin's series, to remove them together with it.
    series: Mutex<HashMap<ObjectKey, HashSet<ConflictLabels>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConflictLabels {
    plugin: String,
    namespace: String,
    kind: String,
    /// The other writer: `plugin` or `outside`.
    against: &'static str,
}

impl ConflictMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let help = "Number of field conflicts that a plugin took part in";
        registry.register("operetta_fights", help, metrics.conflicts.clone());
        let help = "Number of writes of a plugin that set a conflicting field back";
        registry.register("operetta_fight_writes", help, metrics.writes.clone());
        metrics
    }

    /// Counts a conflict for each plugin involved, and the write for the plugin that wrote.
    pub(super) fn count(&self, conflict: &FieldConflict) {
        let labels = |plugin: &ObjectKey, against| ConflictLabels {
            plugin: plugin.name.clone(),
            namespace: plugin.namespace.clone().unwrap_or_default(),
            kind: conflict.kind.to_string(),
            against,
        };
        let (against, other) = match &conflict.rival {
            Rival::Author(other) => (
                "plugin",
                Some(&other.plugin).filter(|other| **other != conflict.author.plugin),
            ),
            Rival::Outside { .. } => ("outside", None),
        };
        let own = labels(&conflict.author.plugin, against);
        self.note(&conflict.author.plugin, &own);

        self.writes.get_or_create(&own).inc();
        if conflict.stage == Stage::Begins {
            self.conflicts.get_or_create(&own).inc();
            if let Some(other) = other {
                let labels = labels(other, against);
                self.note(other, &labels);
                self.conflicts.get_or_create(&labels).inc();
            }
        }
    }

    fn note(&self, plugin: &ObjectKey, labels: &ConflictLabels) {
        let mut series = self.series.lock();
        let of_plugin = series.entry(plugin.clone()).or_default();
        if !of_plugin.contains(labels) {
            of_plugin.insert(labels.clone());
        }
    }

    pub(super) fn forget(&self, plugin: &ObjectKey) {
        for labels in self.series.lock().remove(plugin).unwrap_or_default() {
            self.conflicts.remove(&labels);
            self.writes.remove(&labels);
        }
    }
}
