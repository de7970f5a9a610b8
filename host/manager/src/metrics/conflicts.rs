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
    /// The series of each Plugin that is set up here, to remove them together with it.
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

    /// Counts the conflicts of a Plugin from now on.
    pub(super) fn keep(&self, plugin: &ObjectKey) {
        self.series.lock().entry(plugin.clone()).or_default();
    }

    /// Counts a conflict for each plugin involved, and the write for the plugin that wrote. What a
    /// deleted Plugin's last write did is not counted: nobody would remove its series again.
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
        // Until all is counted, so that nothing is counted after the series are removed.
        let mut series = self.series.lock();
        let mut note = |plugin: &ObjectKey| {
            let labels = labels(plugin, against);
            let of_plugin = series.get_mut(plugin)?;
            if !of_plugin.contains(&labels) {
                of_plugin.insert(labels.clone());
            }
            Some(labels)
        };

        let begins = conflict.stage == Stage::Begins;
        if let Some(own) = note(&conflict.author.plugin) {
            self.writes.get_or_create(&own).inc();
            if begins {
                self.conflicts.get_or_create(&own).inc();
            }
        }
        if let Some(labels) = other.filter(|_| begins).and_then(note) {
            self.conflicts.get_or_create(&labels).inc();
        }
    }

    pub(super) fn forget(&self, plugin: &ObjectKey) {
        let mut series = self.series.lock();
        for labels in series.remove(plugin).unwrap_or_default() {
            self.conflicts.remove(&labels);
            self.writes.remove(&labels);
        }
    }
}
