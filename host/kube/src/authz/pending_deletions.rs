//! Deletions waiting for an access review to decide.

use std::collections::HashSet;

use operetta_core::handler::event::Event;

/// How many waiting deletions may be of objects that also appeared during the wait.
pub(super) const PASSING: usize = 1_000;

/// Events waiting for a decision. However long it takes, there are no more than the objects in the
/// store when the wait began, the UIDs of those in it now, and [`PASSING`] objects that came and
/// went in between.
#[derive(Default)]
pub(super) struct PendingDeletions {
    deleted: Vec<Event>,
    /// UIDs of the objects added during the wait.
    added: HashSet<String>,
    /// How many of these objects were deleted again.
    passing: usize,
}

impl PendingDeletions {
    /// Takes an event that can't be delivered now.
    pub fn take(&mut self, event: &Event) {
        let uid = event.object().uid();
        match event {
            Event::Added { initial: false, .. } => {
                self.added.insert(uid.to_owned());
            }
            Event::Deleted { .. } => {
                let is_passing = self.added.remove(uid);
                if !is_passing || self.passing < PASSING {
                    self.passing += usize::from(is_passing);
                    self.deleted.push(event.clone());
                }
            }
            Event::Added { .. } | Event::Modified { .. } => {}
        }
    }

    /// The waiting deletions.
    pub fn deleted(&self) -> &[Event] {
        &self.deleted
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.deleted.len() + self.added.len()
    }
}
