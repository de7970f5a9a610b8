//! Watches: cursors into the window.

use std::sync::Arc;

use tokio::sync::watch;

use super::{GroupResource, Store, error::StoreError, window::Event};

/// The most events that a watcher takes at once.
const BATCH: usize = 256;

/// A watch of one resource. Dropping it ends the watch.
pub struct Watcher {
    store: Store,
    resource: GroupResource,
    /// Every event up to this revision was returned.
    position: u64,
    signal: watch::Receiver<u64>,
}

/// Consecutive events of a watch.
#[derive(Debug)]
pub struct Batch {
    /// The events in order; empty if only the revision has moved.
    pub events: Vec<Arc<Event>>,
    /// The watch has seen every change up to this revision.
    pub revision: u64,
}

impl Watcher {
    pub(super) fn new(
        store: Store,
        resource: GroupResource,
        position: u64,
        signal: watch::Receiver<u64>,
    ) -> Self {
        Self {
            store,
            resource,
            position,
            signal,
        }
    }

    /// Returns the revision up to which the watch has seen every change.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Takes the pending events without waiting.
    ///
    /// # Errors
    ///
    /// [`StoreError::Compacted`] when the window has moved past this watch: list again.
    pub fn poll(&mut self) -> Result<Batch, StoreError> {
        self.signal.mark_unchanged();
        let inner = self.store.inner.read();

        if self.position > inner.revision() {
            return Ok(Batch {
                events: Vec::new(),
                revision: self.position,
            });
        }
        inner.check_window(&self.resource, self.position)?;

        let events: Vec<_> = inner
            .events()
            .after(&self.resource, self.position)
            .take(BATCH)
            .cloned()
            .collect();

        let last = events
            .last()
            .map(|event| event.revision())
            .filter(|_| events.len() == BATCH);
        self.position = last.unwrap_or(inner.revision());

        Ok(Batch {
            events,
            revision: self.position,
        })
    }

    /// Waits until there are events, and takes them. Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// As [`Watcher::poll`].
    pub async fn next(&mut self) -> Result<Batch, StoreError> {
        loop {
            let batch = self.poll()?;
            if !batch.events.is_empty() {
                return Ok(batch);
            }

            // The store holds the sender, and this watch holds the store.
            if self.signal.changed().await.is_err() {
                return Ok(batch);
            }
        }
    }
}
