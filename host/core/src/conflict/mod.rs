//! Field conflicts: two controllers set a field to different values, each reverting the other, for ever. Every reconcile
//! succeeds, so no error shows it.
//!
//! A writer **reverts** a field when it changes the field to the value that it had set before, and another writer had
//! changed it in between. Two writers that do this [`FLIPS`] times within [`WINDOW`] conflict. It is not a conflict when
//!
//! - a controller repairs drift now and then;
//! - values do not return, such as counters and timestamps;
//! - one writer alternates by itself;
//! - a write changes nothing, because the API server or a webhook restores the old value.
//!
//! A writer is a controller of a plugin. Another writer is known by its own writes, or by the field manager that the API
//! server names. Objects that are not in the caches are not compared: see [`crate::gate::audit`].

#[cfg(test)]
mod model;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod writes;

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    gate::changes::{Change, managers},
    object::{Object, ObjectKey, kind::GroupVersionKind},
};

pub use state::{FLIPS, WINDOW};
use state::{FieldChange, State};

/// The interval at which a lasting conflict is reported again.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(600);
/// Fields looked at in one write; more in one write are no fight over a field.
const MAX_FIELDS: usize = 32;

/// A writer: a controller of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Author {
    /// The Plugin.
    pub plugin: ObjectKey,
    /// The controller's name in its manifest.
    pub controller: String,
}

/// The writer on the other side of an [`Author`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rival {
    /// A controller of this host.
    Author(Author),
    /// Somebody else.
    Outside {
        /// Its field manager, where it is known.
        manager: Option<String>,
    },
}

/// The stage of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It was not one before: to be reported.
    Begins,
    /// It was reported [`REPORT_INTERVAL`] ago: to be reported again.
    StillOn,
    /// It was reported.
    Lasts,
}

/// A write with which a field of an object was set back in a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldConflict {
    /// The object's kind.
    pub kind: GroupVersionKind,
    /// The object.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// The field.
    pub path: String,
    /// The author of the last write.
    pub author: Author,
    /// Against whom.
    pub rival: Rival,
    /// The stage.
    pub stage: Stage,
}

/// Receives conflicts.
pub trait ConflictSink: Send + Sync {
    /// Takes one; returns soon.
    fn conflict(&self, conflict: &FieldConflict);
}

/// A write that was done.
pub(crate) struct Wrote<'a> {
    pub author: &'a Author,
    /// Its field manager.
    pub manager: &'a str,
    pub kind: &'a GroupVersionKind,
    /// The object before the write.
    pub object: &'a Object,
    pub before: &'a Value,
    pub after: &'a Value,
    pub changes: &'a [Change<'a>],
}

/// Finds the conflicts among the writes of all plugins of a host.
pub struct FieldConflicts {
    state: Mutex<State>,
    /// Fields and values are remembered as hashes: nobody outside can make two that are the same.
    hasher: RandomState,
    sink: Arc<dyn ConflictSink>,
}

impl FieldConflicts {
    /// Knows of no write yet.
    pub fn new(sink: Arc<dyn ConflictSink>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), hasher: RandomState::new(), sink })
    }

    /// Reports whether the object's former writer must be looked up at the author's next write. Returns true once, and
    /// again only after the author has set back one more field, or after [`FieldConflicts::keep_candidate`].
    pub(crate) fn candidates(&self, author: &Author, object: &Object) -> bool {
        let mut state = self.state.lock();
        // Nearly always there is none.
        state.has_candidates() && state.take_candidate(self.hash(&(author, object.uid())))
    }

    /// The look has shown nothing: the next write is worth another one.
    pub(crate) fn keep_candidate(&self, author: &Author, object: &Object) {
        let now = tokio::time::Instant::now().into_std();
        let candidate = self.hash(&(author, object.uid()));
        self.state.lock().candidate(now, candidate);
    }

    /// Takes what a write has changed.
    pub(crate) fn wrote(&self, wrote: &Wrote<'_>) {
        // What others changed since the cache was filled is a difference too: managedFields tell whose it is. What is gone
        // has no owner.
        let own = |change: &&Change<'_>| {
            change.after.is_null()
                || managers(wrote.after, &change.path).is_none_or(|owners| owners.contains(&wrote.manager))
        };
        let own: Vec<_> = wrote.changes.iter().take(MAX_FIELDS).filter(own).collect();
        if own.is_empty() {
            return;
        }
        let now = tokio::time::Instant::now().into_std();
        let candidate = self.hash(&(wrote.author, wrote.object.uid()));
        let fields = own.into_iter().map(|change| {
            // Only what was read for it has managedFields; of the cache they are dropped.
            let others = managers(wrote.before, &change.path).into_iter().flatten();
            let field = FieldChange {
                field: self.hash(&(wrote.object.uid(), &change.path)),
                before: self.hash(change.before),
                after: self.hash(change.after),
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
        conflicts.iter().for_each(|conflict| self.sink.conflict(conflict));
    }

    fn hash(&self, what: &impl std::hash::Hash) -> u64 {
        self.hasher.hash_one(what)
    }
}
