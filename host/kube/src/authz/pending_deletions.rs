//! The deletions that wait for the decision of an access review.

use std::collections::HashSet;

use operetta_core::handler::event::Event;

/// The number of deletions that wait for a decision, of objects that were also added since.
pub(super) const PASSING: usize = 1_000;

/// The events that wait for a decision. However long it takes, this is at most the objects that the
/// store had when the wait began, the UIDs of those that it has now, and [`PASSING`] objects that
/// came and went in the meantime.
#[derive(Default)]
pub(super) struct PendingDeletions {
    deleted: Vec<Event>,
    /// The UIDs of the objects that were added since.
    added: HashSet<String>,
    /// The number of deletions of objects that were added since.
    passing: usize,
}

impl PendingDeletions {
    /// Takes an event that is not delivered now.
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

    /// Returns the deletions.
    pub fn deleted(&self) -> &[Event] {
        &self.deleted
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.deleted.len() + self.added.len()
    }
}
