//! The work queues of Plugins and of drop-in ConfigMaps, as a handle for all parts of the manager.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use operetta_core::{
    authz::{access_review::Grants, host_permissions::HostPermissions},
    object::ObjectKey,
    queue::{Priority, WorkQueue},
};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

/// How many changes of an object in quick succession are applied immediately.
const BURST: u32 = 10;

/// How often changes are applied after such a burst.
const INTERVAL: Duration = Duration::from_secs(1);

/// Above this number of objects, we forget those without recent changes.
const MAX_OBJECTS: usize = 1_024;

/// A handle to the queue of Plugins or of drop-in ConfigMaps. Clones share the queue.
#[derive(Clone)]
pub struct PluginQueue {
    queue: WorkQueue<ObjectKey>,
    changes: Arc<ChangeLimiter>,
}

impl PluginQueue {
    /// Creates an empty queue, in which namespaces take turns: one with a thousand Plugins or
    /// drop-ins delays another by one.
    pub fn new() -> Self {
        Self {
            queue: WorkQueue::new().in_turns(namespace),
            changes: Arc::default(),
        }
    }

    /// Adds a key. Several calls in quick succession cause one reconcile.
    pub fn enqueue(&self, key: &ObjectKey) {
        self.queue.add_with_priority(key.clone(), Priority::Normal);
    }

    /// Adds a key because its object has changed, or a Plugin's code or configuration: immediately,
    /// or within a second if that keeps happening.
    pub fn enqueue_changed(&self, key: &ObjectKey) {
        match self.changes.record(key) {
            Duration::ZERO => self.enqueue(key),
            delay => self.enqueue_after(key, delay),
        }
    }

    /// Reports whether a reconcile of this key may apply its object's changes now. If not, the key
    /// is added again later.
    pub fn may_apply_changes(&self, key: &ObjectKey) -> bool {
        match self.changes.admit(key) {
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

    /// Adds a Plugin when its own or the host's permissions change: immediately, and again when the
    /// authorizer should know of the change. Ends when the sender of the changes is dropped.
    pub async fn enqueue_on_permission_change(
        self,
        mut changes: watch::Receiver<u64>,
        plugin: ObjectKey,
    ) {
        while changes.changed().await.is_ok() {
            for pause in [Grants::UNSETTLED, Grants::SETTLE, HostPermissions::KEEP] {
                tokio::time::sleep(pause).await;
                self.enqueue(&plugin);
            }
        }
    }

    /// Returns the queue itself, for the controller.
    pub fn work_queue(&self) -> WorkQueue<ObjectKey> {
        self.queue.clone()
    }
}

impl Default for PluginQueue {
    fn default() -> Self {
        Self::new()
    }
}

fn namespace(key: &ObjectKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.namespace.hash(&mut hasher);
    hasher.finish()
}

/// Limits how often the host applies the changes of an object, by a token bucket for each: one that
/// is changed continually costs the host and the API server no more than one that is changed every
/// second.
#[derive(Default)]
struct ChangeLimiter(Mutex<HashMap<ObjectKey, Changes>>);

/// The recent changes of an object.
struct Changes {
    /// When the bucket is full again.
    full_at: Instant,
    /// When to apply the changes that have to wait.
    due: Option<Instant>,
}

impl Changes {
    /// Returns how long changes still have to wait, or zero if there are none.
    fn delay(&self, now: Instant) -> Duration {
        self.due
            .map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
    }
}

impl ChangeLimiter {
    /// Records a change of an object. Returns the delay before applying it: zero, or up to a second
    /// if the object keeps changing.
    fn record(&self, object: &ObjectKey) -> Duration {
        self.record_at(object, Instant::now())
    }

    /// Returns zero if the object's changes may be applied now, and counts them as applied.
    /// Otherwise returns how long to wait.
    fn admit(&self, object: &ObjectKey) -> Duration {
        self.admit_at(object, Instant::now())
    }

    fn record_at(&self, object: &ObjectKey, now: Instant) -> Duration {
        let mut objects = self.0.lock();
        if objects.len() >= MAX_OBJECTS {
            objects.retain(|_, changes| changes.full_at > now);
        }

        let changes = objects.entry(object.clone()).or_insert(Changes {
            full_at: now,
            due: None,
        });

        // Waiting changes are applied together, so at most one of them is paid for in advance.
        changes.full_at = changes.full_at.max(now).min(now + INTERVAL * BURST) + INTERVAL;
        let delay = changes
            .full_at
            .saturating_duration_since(now + INTERVAL * BURST);
        if changes.due.is_none() && !delay.is_zero() {
            changes.due = Some(now + delay);
        }
        changes.delay(now)
    }

    fn admit_at(&self, object: &ObjectKey, now: Instant) -> Duration {
        let mut objects = self.0.lock();
        let Some(changes) = objects.get_mut(object) else {
            return Duration::ZERO;
        };

        let delay = changes.delay(now);
        if delay.is_zero() {
            changes.due = None;
        }

        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_followed_at_once_and_continual_changes_every_second() {
        let limiter = ChangeLimiter::default();
        let object = ObjectKey::namespaced("a", "b");
        let start = Instant::now();
        let burst: Vec<_> = (0..BURST)
            .map(|_| limiter.record_at(&object, start))
            .collect();
        assert_eq!(burst, [Duration::ZERO; BURST as usize]);

        let mut admitted = 0;
        for tenth in 0..600 {
            let now = start + Duration::from_millis(100) * tenth;
            let delay = limiter.record_at(&object, now);
            assert!(delay <= INTERVAL, "{delay:?}");
            // Whatever else causes a reconcile, and however often.
            admitted += u32::from(limiter.admit_at(&object, now).is_zero());
        }

        assert!(
            (50..=62).contains(&admitted),
            "{admitted} of the changes in a minute were admitted"
        );

        let other = ObjectKey::namespaced("a", "c");
        assert_eq!(
            limiter.record_at(&other, start),
            Duration::ZERO,
            "each object has its own"
        );
        assert_eq!(limiter.admit_at(&other, start), Duration::ZERO);

        let later = start + Duration::from_secs(60 + u64::from(BURST) + 1);
        assert_eq!(
            limiter.record_at(&object, later),
            Duration::ZERO,
            "the burst is available again"
        );
    }

    #[test]
    fn change_that_is_due_is_followed_although_more_changes_come() {
        let limiter = ChangeLimiter::default();
        let object = ObjectKey::namespaced("a", "b");
        let start = Instant::now();
        let delay = (0..=BURST)
            .map(|_| limiter.record_at(&object, start))
            .last()
            .expect("a change");
        assert_eq!(
            (delay, limiter.admit_at(&object, start)),
            (INTERVAL, INTERVAL)
        );

        let due = start + INTERVAL;
        assert_eq!(
            limiter.record_at(&object, due),
            Duration::ZERO,
            "it is due, and the new one with it"
        );
        assert_eq!(limiter.admit_at(&object, due), Duration::ZERO);
        assert_eq!(
            limiter.record_at(&object, due),
            INTERVAL,
            "the next one has to wait again"
        );
    }

    #[tokio::test]
    async fn namespaces_take_turns() {
        let queue = PluginQueue::new();
        for number in 0..1_000 {
            queue.enqueue(&ObjectKey::namespaced("many", number.to_string()));
        }
        queue.enqueue(&ObjectKey::namespaced("one", "a"));

        let queue = queue.work_queue();
        let first = [queue.get().await, queue.get().await].map(|key| key.expect("a key").name);
        assert_eq!(first, ["0", "a"]);
    }

    #[test]
    fn objects_that_no_longer_change_are_forgotten() {
        let limiter = ChangeLimiter::default();
        let start = Instant::now();
        for number in 0..MAX_OBJECTS {
            limiter.record_at(&ObjectKey::namespaced("a", number.to_string()), start);
        }
        limiter.record_at(&ObjectKey::namespaced("a", "last"), start + 2 * INTERVAL);
        assert_eq!(limiter.0.lock().len(), 1);
    }
}
