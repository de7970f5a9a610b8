//! Field conflicts: two controllers set a field to different values, each reverting the other,
//! without end. Every reconcile succeeds, so no error shows the conflict.
//!
//! A writer **reverts** a field by setting it back to its own earlier value after another writer
//! changed it. Two writers doing so [`FLIPS`] times within [`WINDOW`] are in conflict. These are
//! not conflicts:
//!
//! - a controller repairs drift now and then;
//! - values do not return, such as counters and timestamps;
//! - a single writer alternates by itself;
//! - a write has no effect, because the API server or a webhook restores the old value.
//!
//! A writer is a controller of a plugin. Other writers are identified by their own writes, or by
//! the field manager in managedFields. Objects outside the caches are not compared: see
//! [`crate::gate::audit`].

#[cfg(test)]
mod model;
mod rivals;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod writes;

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::object::{
    Object, ObjectKey, changes::Change, field_managers::field_managers_of, kind::GroupVersionKind,
    value,
};

pub use rivals::{Author, REPORT_INTERVAL, Rival, Stage};
pub use state::{FLIPS, WINDOW};
use state::{FieldChange, State};

/// A write that reverted a field during a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldConflict {
    /// The object's kind.
    pub kind: GroupVersionKind,
    /// The object's key.
    pub key: ObjectKey,
    /// The object's uid.
    pub uid: String,
    /// The field's path.
    pub path: String,
    /// The author of the last write.
    pub author: Author,
    /// The other writer.
    pub rival: Rival,
    /// How far the conflict has got.
    pub stage: Stage,
}

/// Receives field conflicts.
pub trait ConflictSink: Send + Sync {
    /// Handles a conflict. Must not block.
    fn conflict(&self, conflict: &FieldConflict);
}

/// A successful write.
pub(crate) struct Wrote<'a> {
    pub author: &'a Author,
    pub manager: &'a str,
    pub kind: &'a GroupVersionKind,
    /// The object before the write.
    pub object: &'a Object,
    /// The object's text after the write.
    pub after: &'a str,
    /// The write's first changes. A write with many more is not fighting over a field.
    pub changes: &'a [Change<'a>],
}

/// Detects field conflicts among the writes of all plugins of a host.
pub struct FieldConflicts {
    state: Mutex<State>,
    /// Hashes fields and values. Randomly seeded, so that nobody can construct a collision.
    hasher: RandomState,
    sink: Arc<dyn ConflictSink>,
}

impl FieldConflicts {
    /// Creates a detector without recorded writes.
    pub fn new(sink: Arc<dyn ConflictSink>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            hasher: RandomState::new(),
            sink,
        })
    }

    /// Whether to look up the object's previous writer before the author's next write. Returns true
    /// once, and again only after the author reverted another field, or after
    /// [`FieldConflicts::keep_candidate`].
    pub(crate) fn candidates(&self, author: &Author, object: &Object) -> bool {
        let mut state = self.state.lock();
        // Usually there are no candidates, so don't bother hashing.
        state.has_candidates() && state.take_candidate(self.hash(&(author, object.uid())))
    }

    /// Keeps author and object as a candidate, because the lookup proved nothing.
    pub(crate) fn keep_candidate(&self, author: &Author, object: &Object) {
        let now = tokio::time::Instant::now().into_std();
        let candidate = self.hash(&(author, object.uid()));
        self.state.lock().candidate(now, candidate);
    }

    pub(crate) fn wrote(&self, wrote: &Wrote<'_>) {
        if wrote.changes.is_empty() {
            return;
        }

        // The difference also contains changes made by others since the cache was filled;
        // managedFields tell whose they are. Removed fields have no owner.
        let owners = field_managers_of(wrote.after, wrote.changes);
        let is_own = |(at, change): &(usize, &Change<'_>)| {
            let is_owner = || {
                owners
                    .iter()
                    .any(|entry| entry.owns(*at) && entry.manager.as_deref() == Some(wrote.manager))
            };
            change.after == "null" || owners.is_empty() || is_owner()
        };

        let own: Vec<_> = wrote.changes.iter().enumerate().filter(is_own).collect();
        if own.is_empty() {
            return;
        }

        let now = tokio::time::Instant::now().into_std();
        let candidate = self.hash(&(wrote.author, wrote.object.uid()));
        // Only a looked-up object has managedFields; the cache drops them.
        let former = field_managers_of(wrote.object.json(), wrote.changes);

        let fields = own.into_iter().map(|(at, change)| {
            let others = former
                .iter()
                .filter(|entry| entry.owns(at))
                .filter_map(|entry| entry.manager.as_deref());
            let field = FieldChange {
                field: self.hash(&(wrote.object.uid(), &change.path)),
                before: value::hash(change.before, &self.hasher),
                after: value::hash(change.after, &self.hasher),
                candidate,
                manager: others.into_iter().find(|manager| *manager != wrote.manager),
            };
            (change, field)
        });

        let fields: Vec<_> = fields.collect();
        let mut conflicts = Vec::new();
        {
            let mut state = self.state.lock();
            for (change, field) in &fields {
                if let Some((rival, stage)) = state.changed(now, wrote.author, field) {
                    conflicts.push(FieldConflict {
                        kind: wrote.kind.clone(),
                        key: wrote.object.key().clone(),
                        uid: wrote.object.uid().to_owned(),
                        path: change.path.to_string(),
                        author: wrote.author.clone(),
                        rival,
                        stage,
                    });
                }
            }
        }

        conflicts
            .iter()
            .for_each(|conflict| self.sink.conflict(conflict));
    }

    fn hash(&self, value: &impl std::hash::Hash) -> u64 {
        self.hasher.hash_one(value)
    }
}
