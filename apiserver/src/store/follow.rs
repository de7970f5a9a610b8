//! Watches of all resources at once, for controllers.

use std::sync::Arc;

use tokio::sync::watch;

use super::{GroupResource, Store, error::StoreError, object::StoredObject, window::Event};

/// The most events that a follower takes at once.
const BATCH: usize = 1024;

/// A watch of all resources, including those without objects. Dropping it ends the watch.
pub struct Follower {
    store: Store,
    /// Every event up to this revision was returned.
    position: u64,
    signal: watch::Receiver<u64>,
}

impl Store {
    /// Lists all objects of all resources and watches from there on: no change is missed or seen
    /// twice.
    #[must_use]
    pub fn follow(&self) -> (Vec<(GroupResource, Arc<StoredObject>)>, Follower) {
        let inner = self.inner.read();
        let signal = inner.subscribe_to_all();
        let follower = Follower {
            store: self.clone(),
            position: inner.revision(),
            signal,
        };

        let mut objects = inner.all_objects();
        objects.sort_by(|(one, first), (other, second)| {
            (one, first.key()).cmp(&(other, second.key()))
        });

        (objects, follower)
    }
}

impl Follower {
    /// Takes the pending changes without waiting, at most a fixed number of them.
    ///
    /// # Errors
    ///
    /// [`StoreError::Compacted`] when the window has moved past this watch: follow anew.
    pub fn poll(&mut self) -> Result<Vec<(GroupResource, Arc<Event>)>, StoreError> {
        self.signal.mark_unchanged();

        let inner = self.store.inner.read();
        let events: Vec<_> = inner.events_after(self.position)?.take(BATCH).collect();

        self.position = match events.last() {
            Some((_, last)) if events.len() == BATCH => last.revision(),
            _ => inner.revision(),
        };

        Ok(events)
    }

    /// Waits until there is something new. Nothing is lost when the future is dropped.
    pub async fn wait(&mut self) {
        if self.position < self.store.revision() {
            return;
        }
        // The store holds the sender, and this follower holds the store.
        let _closed = self.signal.changed().await;
    }
}
