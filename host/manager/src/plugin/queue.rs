//! The work queues of Plugins and of drop-in ConfigMaps, as a handle for all parts of the manager.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    authz::{access_review::Grants, host_permissions::HostPermissions},
    object::ObjectKey,
    queue::{Priority, WorkQueue},
};
use tokio::sync::watch;

use crate::plugin::pace::Pace;

/// A handle of the queue of Plugins, or of drop-in ConfigMaps, to reconcile. Clones are handles of the same queue.
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

    /// Adds a key. Calls in quick succession cause one reconcile.
    pub fn enqueue(&self, key: &ObjectKey) {
        self.queue.add_with_priority(key.clone(), Priority::Normal);
    }

    /// Adds a key because somebody has changed its object, or the code or configuration of a Plugin: at once, or after a second if that
    /// happens continually.
    pub fn enqueue_changed(&self, key: &ObjectKey) {
        match self.pace.delay(key) {
            Duration::ZERO => self.enqueue(key),
            delay => self.enqueue_after(key, delay),
        }
    }

    /// Reports whether a reconcile of this key may follow the changes of its object, which then count as followed. If they must wait,
    /// the key is added for the time when it may.
    pub fn may_follow(&self, key: &ObjectKey) -> bool {
        match self.pace.follow(key) {
            Duration::ZERO => true,
            delay => {
                self.enqueue_after(key, delay);
                false
            }
        }
    }

    /// Adds a key after a delay.
    pub fn enqueue_after(&self, key: &ObjectKey, delay: Duration) {
        self.queue.add_after(key.clone(), delay);
    }

    /// Adds a Plugin when its own or the host's permissions have changed: at once, and again when the authorizer has noticed the
    /// change. Ends with the sender of the changes.
    pub async fn enqueue_on_permission_change(self, mut changes: watch::Receiver<u64>, plugin: ObjectKey) {
        while changes.changed().await.is_ok() {
            for pause in [Grants::UNSETTLED, Grants::SETTLE, HostPermissions::KEEP] {
                tokio::time::sleep(pause).await;
                self.enqueue(&plugin);
            }
        }
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
