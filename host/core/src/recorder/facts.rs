//! The facts of the recorder about one object.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{
    History, Recorder,
    record::{CallRecord, Change, ObjectRef, Reconcile, Source},
    rings::Pattern,
};
use crate::object::ObjectKey;

/// The maximum number of changes of an object that are looked at, and of a plugin's writes of it.
const MAX_FACTS: usize = 2_000;

/// A write of an object, with the reconcile that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteFact {
    /// The Plugin.
    pub plugin: ObjectKey,
    /// Its code and its identity at that time.
    pub source: Source,
    /// The reconcile.
    pub reconcile: Reconcile,
    /// The position of the write among its calls.
    pub at: usize,
    /// True if the asker may not read the Plugin: only the time and the write are left.
    pub is_hidden: bool,
}

impl WriteFact {
    /// Returns the call that wrote; None if the fact is malformed.
    pub fn call(&self) -> Option<&CallRecord> {
        self.reconcile.calls.get(self.at)
    }

    /// Removes what is known of the Plugin and its reconcile, but the time and the write.
    #[must_use]
    pub fn hidden(self) -> Self {
        let Reconcile { started, calls, .. } = self.reconcile;
        let calls = calls.into_iter().skip(self.at).take(1).collect();
        let reconcile = Reconcile {
            started,
            calls,
            ..Reconcile::default()
        };

        Self {
            plugin: ObjectKey::default(),
            source: Source::default(),
            reconcile,
            at: 0,
            is_hidden: true,
        }
    }
}

/// The facts that recorders have of an object, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The changes that a watch has seen.
    pub changes: Vec<Change>,
    /// The writes of plugins.
    pub writes: Vec<WriteFact>,
}

impl Facts {
    /// Adds the facts of another replica. Both may have seen a change.
    pub fn add(&mut self, other: Self) {
        let version = |change: &Change| (change.resource_version.clone(), change.cause);
        let known: HashSet<_> = self.changes.iter().map(version).collect();
        self.changes.extend(
            other
                .changes
                .into_iter()
                .filter(|change| !known.contains(&version(change))),
        );
        self.writes.extend(other.writes);
    }
}

impl Recorder {
    /// Returns the facts of this host about an object, at most the newest 2,000 changes and as many
    /// writes of each plugin.
    pub fn facts(&self, object: &ObjectRef) -> Facts {
        let mut facts = Facts::default();
        let ObjectKey { namespace, name } = &object.key;
        // Several informers of a kind may have seen a change.
        let mut seen = HashSet::new();

        self.search(
            &History::Changes,
            &Pattern::of(name, &object.key),
            |change: Change| {
                if change.object.is_same(object)
                    && seen.insert((change.resource_version.clone(), change.cause))
                {
                    facts.changes.push(change);
                }
                facts.changes.len() < MAX_FACTS
            },
        );

        // A call names the key as two options.
        let named = Pattern::of(name, &(namespace, Some(name)));
        for plugin in self.plugins() {
            let before = facts.writes.len();
            self.reconciles_with(&plugin, &named, |recorded| {
                let calls = recorded.reconcile.calls.iter().enumerate();
                let writes = calls
                    .filter(|(_, call)| call.has_written() && call.is_about(object))
                    .map(|(at, _)| at);
                facts.writes.extend(writes.map(|at| WriteFact {
                    plugin: recorded.plugin.clone(),
                    source: (*recorded.source).clone(),
                    reconcile: recorded.reconcile.clone(),
                    at,
                    is_hidden: false,
                }));
                facts.writes.len() - before < MAX_FACTS
            });
        }

        facts
    }
}
