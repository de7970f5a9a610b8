//! The work queue of Plugins, as a handle for all parts of the manager.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    object::ObjectKey,
    queue::{Priority, WorkQueue},
};

use crate::plugin::pace::Pace;

/// A handle of the queue of Plugins to reconcile. Clones are handles of the same queue.
#[derive(Clone)]
pub struct PluginQueue {
    queue: WorkQueue<ObjectKey>,
    pace: Arc<Pace>,
}

impl PluginQueue {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self { queue: WorkQueue::new(), pace: Arc::default() }
    }

    /// Adds a Plugin's key. Calls in quick succession cause one reconcile.
    pub fn enqueue(&self, plugin: &ObjectKey) {
        self.queue.add_with_priority(plugin.clone(), Priority::Normal);
    }

    /// Adds the key of a Plugin whose spec, code or configuration somebody has changed: at once, or after a second if that
    /// happens continually.
    pub fn enqueue_changed(&self, plugin: &ObjectKey) {
        match self.pace.delay(plugin) {
            Duration::ZERO => self.enqueue(plugin),
            delay => self.enqueue_after(plugin, delay),
        }
    }

    /// Adds a Plugin's key after a delay.
    pub fn enqueue_after(&self, plugin: &ObjectKey, delay: Duration) {
        self.queue.add_after(plugin.clone(), delay);
    }

    /// Returns the queue itself, for the controller that drains it.
    pub fn work_queue(&self) -> WorkQueue<ObjectKey> {
        self.queue.clone()
    }
}

impl Default for PluginQueue {
    fn default() -> Self {
        Self::new()
    }
}
