//! What the recorder knows about one object.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{
    History, Recorder,
    record::{CallRecord, Change, ObjectRef, Reconcile, Source},
    rings::Pattern,
};
use crate::object::ObjectKey;

/// How many changes of an object to look at, and how many of each plugin's writes to it.
const MAX_FACTS: usize = 2_000;

/// A write to an object, with the writing reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteFact {
    /// The Plugin.
    pub plugin: ObjectKey,
    /// The plugin's code and identity at that time.
    pub source: Source,
    /// The reconcile.
    pub reconcile: Reconcile,
    /// The write's position among the reconcile's calls.
    pub at: usize,
    /// True if the asker may not read the Plugin or the object that it reconciled: only the time and
    /// the write are left.
    pub is_hidden: bool,
    /// How many triggers and calls were left out because the asker may not read their objects.
    #[serde(default)]
    pub left_out: usize,
}

impl WriteFact {
    /// The call that wrote; None if the fact is malformed.
    pub fn call(&self) -> Option<&CallRecord> {
        self.reconcile.calls.get(self.at)
    }

    /// Removes everything about the Plugin and its reconcile except the time and the write.
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
            left_out: 0,
        }
    }
}

/// What recorders know about an object, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Changes seen by a watch.
    pub changes: Vec<Change>,
    /// Writes by plugins.
    pub writes: Vec<WriteFact>,
}

impl Facts {
    /// Adds another replica's facts. Both may have seen the same change.
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
    /// This host's facts about an object: at most the newest 2,000 changes, and as many writes of
    /// each plugin.
    pub fn facts(&self, object: &ObjectRef) -> Facts {
        let mut facts = Facts::default();
        let ObjectKey { namespace, name } = &object.key;
        // Several informers of a kind may have seen the same change.
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

        // Calls name the key as two options.
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
                    left_out: 0,
                }));
                facts.writes.len() - before < MAX_FACTS
            });
        }

        facts
    }
}
