//! The work queue of Plugins, as a handle for all parts of the manager.

use std::time::Duration;

use operetta_core::{
    object::ObjectKey,
    queue::{Priority, WorkQueue},
};

/// A handle of the queue of Plugins to reconcile. Clones are handles of the same queue.
#[derive(Clone)]
pub struct PluginQueue(WorkQueue<ObjectKey>);

impl PluginQueue {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self(WorkQueue::new())
    }

    /// Adds a Plugin's key. Calls in quick succession cause one reconcile.
    pub fn enqueue(&self, plugin: &ObjectKey) {
        self.0.add_with_priority(plugin.clone(), Priority::Normal);
    }

    /// Adds a Plugin's key after a delay.
    pub fn enqueue_after(&self, plugin: &ObjectKey, delay: Duration) {
        self.0.add_after(plugin.clone(), delay);
    }

    /// Returns the queue itself, for the controller that drains it.
    pub fn work_queue(&self) -> WorkQueue<ObjectKey> {
        self.0.clone()
    }
}

impl Default for PluginQueue {
    fn default() -> Self {
        Self::new()
    }
}
