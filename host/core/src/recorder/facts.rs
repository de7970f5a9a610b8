//! The facts of the recorder about one object.

use tokio::time::Instant;

use super::{
    History, Recorded, Recorder,
    record::{Call, Change, ObjectRef},
};

/// A write of an object, with the reconcile that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFact {
    /// The reconcile.
    pub recorded: Recorded,
    /// The position of the write among its calls.
    pub at: usize,
}

impl WriteFact {
    /// Returns the call that wrote.
    pub fn call(&self) -> &Call {
        &self.recorded.reconcile.calls[self.at]
    }
}

/// The facts that a recorder has of an object, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The changes that a watch has seen.
    pub changes: Vec<Change>,
    /// The writes of plugins.
    pub writes: Vec<WriteFact>,
}

impl Recorder {
    /// Returns the facts about an object.
    pub fn facts(&self, object: &ObjectRef) -> Facts {
        let mut facts = Facts::default();
        let name = object.key.name.as_str();
        self.rings.lock().newest_first(&History::Changes, name, Instant::now(), |change: Change| {
            if change.object.is_same(object) && !facts.changes.contains(&change) {
                facts.changes.push(change);
            }
            true
        });
        for plugin in self.plugins() {
            self.reconciles_with(&plugin, name, |recorded| {
                let calls = recorded.reconcile.calls.iter().enumerate();
                let writes = calls.filter(|(_, call)| call.has_written() && call.is_about(object)).map(|(at, _)| at);
                let writes: Vec<usize> = writes.collect();
                facts.writes.extend(writes.into_iter().map(|at| WriteFact { recorded: recorded.clone(), at }));
                true
            });
        }
        facts
    }
}
