//! The work queues of Plugins and of drop-in ConfigMaps, as a handle for all parts of the manager.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use operetta_core::{
    authz::{
        access_review::{Grants, PermissionChanges},
        host_permissions::HostPermissions,
    },
    object::ObjectKey,
    queue::{Priority, WorkQueue},
};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How many changes of an object in quick succession are applied immediately.
const BURST: u32 = 10;

/// How often changes are applied after such a burst.
const INTERVAL: Duration = Duration::from_secs(1);

/// Above this number of objects or namespaces, we forget those without recent changes.
const MAX_KEYS: usize = 1_024;

/// How many changes of permissions from another tenant's namespace are followed at once.
const BURST_ELSEWHERE: u32 = 5;

/// How often such changes are followed after that.
const INTERVAL_ELSEWHERE: Duration = Duration::from_secs(30);

/// A handle to the queue of Plugins or of drop-in ConfigMaps. Clones share the queue.
#[derive(Clone)]
pub struct PluginQueue {
    queue: WorkQueue<ObjectKey>,
    changes: Arc<Mutex<ChangeLimiter<ObjectKey>>>,
}

impl PluginQueue {
    /// Creates an empty queue, in which namespaces take turns: one with a thousand Plugins or
    /// drop-ins delays another by one.
    pub fn new() -> Self {
        Self {
            queue: WorkQueue::new().in_turns(namespace),
            changes: Arc::new(Mutex::new(ChangeLimiter::new(BURST, INTERVAL))),
        }
    }

    /// Adds a key. Several calls in quick succession cause one reconcile.
    pub fn enqueue(&self, key: &ObjectKey) {
        self.queue.add_with_priority(key.clone(), Priority::Normal);
    }

    /// Adds a key because its object has changed, or a Plugin's code or configuration: immediately,
    /// or within a second if that keeps happening.
    pub fn enqueue_changed(&self, key: &ObjectKey) {
        let delay = self.changes.lock().record(key, Instant::now());
        match delay {
            Duration::ZERO => self.enqueue(key),
            delay => self.enqueue_after(key, delay),
        }
    }

    /// Reports whether a reconcile of this key may apply its object's changes now. If not, the key
    /// is added again later.
    pub fn may_apply_changes(&self, key: &ObjectKey) -> bool {
        let delay = self.changes.lock().admit(key, Instant::now());
        match delay {
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

    /// Adds a Plugin when its own or the host's permissions change: soon, and again when the
    /// authorizer should know of the change. A RoleBinding may name subjects of any namespace, or
    /// all of them, so changes that come from another namespace are followed less and less often.
    pub async fn enqueue_on_permission_change(
        self,
        mut own: PermissionChanges,
        mut of_host: PermissionChanges,
        plugin: ObjectKey,
    ) {
        let mut elsewhere = ChangeLimiter::new(BURST_ELSEWHERE, INTERVAL_ELSEWHERE);
        loop {
            let due = elsewhere.due();
            let is_due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // First what is due: a change of now waits for the next time.
                biased;
                () = is_due => {
                    elsewhere.admit_all();
                    tokio::time::sleep(Grants::UNSETTLED + Grants::SETTLE + HostPermissions::KEEP).await;
                    self.enqueue(&plugin);
                    continue;
                }
                () = own.changed() => {}
                () = of_host.changed() => {}
            }

            // A binding of everybody changes both.
            let causes = &own.take() | &of_host.take();
            let now = Instant::now();
            let mut is_urgent = false;
            for cause in causes {
                is_urgent |= match cause {
                    Some(namespace) if plugin.namespace.as_ref() != Some(&namespace) => {
                        elsewhere.record(&namespace, now).is_zero()
                    }
                    _ => true,
                };
            }
            if !is_urgent {
                continue;
            }
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

/// Limits how often changes are followed, by a token bucket for each object or namespace: one that
/// changes continually costs the host and the API server no more than one that changes once per
/// interval.
struct ChangeLimiter<K> {
    /// How many changes in quick succession are followed immediately.
    burst: u32,
    /// How often changes are followed after that.
    interval: Duration,
    /// Those with recent changes.
    changes: HashMap<K, Changes>,
}

/// The recent changes of an object or namespace.
struct Changes {
    /// When the bucket is full again.
    full_at: Instant,
    /// When to follow the changes that have to wait.
    due: Option<Instant>,
}

impl Changes {
    /// Returns how long changes still have to wait, or zero if there are none.
    fn delay(&self, now: Instant) -> Duration {
        self.due
            .map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
    }
}

impl<K: Clone + Eq + Hash> ChangeLimiter<K> {
    fn new(burst: u32, interval: Duration) -> Self {
        Self {
            burst,
            interval,
            changes: HashMap::new(),
        }
    }

    /// Records a change. Returns the delay before following it: zero, or up to an interval if the
    /// key keeps changing.
    fn record(&mut self, key: &K, now: Instant) -> Duration {
        if self.changes.len() >= MAX_KEYS {
            self.changes.retain(|_, changes| changes.full_at > now);
        }

        let changes = self.changes.entry(key.clone()).or_insert(Changes {
            full_at: now,
            due: None,
        });
        // Waiting changes are followed together, so only the first of them is paid for.
        if changes.due.is_none() {
            changes.full_at = changes.full_at.max(now) + self.interval;
            let delay = changes
                .full_at
                .saturating_duration_since(now + self.interval * self.burst);
            if !delay.is_zero() {
                changes.due = Some(now + delay);
            }
        }

        changes.delay(now)
    }

    /// Returns zero if a key's changes may be followed now, and counts them as followed. Otherwise
    /// returns how long to wait.
    fn admit(&mut self, key: &K, now: Instant) -> Duration {
        let Some(changes) = self.changes.get_mut(key) else {
            return Duration::ZERO;
        };

        let delay = changes.delay(now);
        if delay.is_zero() {
            changes.due = None;
        }

        delay
    }

    /// Returns when the first of all waiting changes is to be followed.
    fn due(&self) -> Option<Instant> {
        self.changes
            .values()
            .filter_map(|changes| changes.due)
            .min()
    }

    /// Counts all changes as followed, also those that could wait for longer.
    fn admit_all(&mut self) {
        for changes in self.changes.values_mut() {
            changes.due = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use operetta_core::{
        authz::access_review::{Access, AccessReviewer, BindingText, ServiceAccount},
        status::ApiError,
    };

    use super::*;

    struct DenyAll;

    #[async_trait]
    impl AccessReviewer for DenyAll {
        async fn review(&self, _: &ServiceAccount, _: &Access) -> Result<bool, ApiError> {
            Ok(false)
        }
    }

    /// A Plugin in the namespace `team` that follows changes of bindings, and the time it is woken.
    struct Follower {
        grants: Arc<Grants>,
        queue: PluginQueue,
        bindings: u32,
    }

    impl Follower {
        async fn new() -> Self {
            let grants = Grants::new(Arc::new(DenyAll));
            let host = HostPermissions::new(grants.clone());
            host.set_user("host", &["system:authenticated".to_owned()]);
            let account = ServiceAccount {
                namespace: "team".to_owned(),
                name: "plugin".to_owned(),
            };
            let own = grants.of(account).permission_changes();
            let queue = PluginQueue::new();
            let plugin = ObjectKey::namespaced("team", "a");
            let task =
                queue
                    .clone()
                    .enqueue_on_permission_change(own, host.permission_changes(), plugin);
            tokio::spawn(task);
            tokio::task::yield_now().await;
            Self {
                grants,
                queue,
                bindings: 0,
            }
        }

        /// Creates a binding in this namespace.
        fn bind(&mut self, namespace: &str, subject: &str) {
            self.bindings += 1;
            let text = BindingText {
                subjects: &format!("[{subject}]"),
                role: r#"{"kind":"ClusterRole","name":"edit"}"#,
            };
            let binding = ObjectKey::namespaced(namespace, self.bindings.to_string());
            self.grants.binding_changed(&binding, Some(text));
        }

        /// Returns how often the Plugin is woken during this time.
        async fn woken_within(&self, time: Duration) -> usize {
            let queue = self.queue.work_queue();
            let end = Instant::now() + time;
            let mut times = 0;
            while let Ok(Some(key)) = tokio::time::timeout_at(end, queue.get()).await {
                queue.done(&key);
                times += 1;
            }
            times
        }
    }

    const OWN: &str = r#"{"kind":"ServiceAccount","namespace":"team","name":"plugin"}"#;
    const OTHER: &str = r#"{"kind":"ServiceAccount","namespace":"team","name":"other"}"#;
    const ANYBODY: &str = r#"{"kind":"Group","name":"system:authenticated"}"#;
    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn binding_wakes_only_plugins_of_its_subjects() {
        let mut follower = Follower::new().await;
        follower.bind("team", OTHER);
        follower.bind("elsewhere", OTHER);
        assert_eq!(follower.woken_within(MINUTE).await, 0);

        for (namespace, subject) in [
            ("team", OWN),
            ("elsewhere", OWN),
            ("far", ANYBODY),
            (
                "far",
                r#"{"kind":"Group","name":"system:serviceaccounts:team"}"#,
            ),
            ("far", r#"{"kind":"User","name":"host"}"#),
        ] {
            follower.bind(namespace, subject);
            let woken = follower.woken_within(MINUTE).await;
            assert_eq!(woken, 3, "{namespace} {subject}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn churn_of_another_namespace_wakes_a_plugin_once_per_interval() {
        let mut follower = Follower::new().await;
        let mut churn = async |namespace: &str, minutes: u32| {
            let mut woken = 0;
            for _ in 0..minutes * 60 {
                follower.bind(namespace, ANYBODY);
                woken += follower.woken_within(Duration::from_secs(1)).await;
            }
            woken
        };
        let first = churn("elsewhere", 2).await;
        assert!((15..=21).contains(&first), "{first}: the burst");
        let later = churn("elsewhere", 10).await;
        assert!((15..=22).contains(&later), "{later}: every 30 seconds");

        let own = churn("team", 1).await;
        assert!(own > 30, "{own}: the Plugin's own namespace");

        // Another namespace has a burst of its own.
        follower.woken_within(MINUTE).await;
        follower.bind("other", ANYBODY);
        assert_eq!(follower.woken_within(MINUTE).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn last_change_of_a_churn_is_followed() {
        let mut follower = Follower::new().await;
        for _ in 0..100 {
            follower.bind("elsewhere", OWN);
            follower.woken_within(Duration::from_secs(1)).await;
        }
        follower.bind("elsewhere", OWN);
        assert!(follower.woken_within(INTERVAL_ELSEWHERE * 2).await > 0);
        assert_eq!(follower.woken_within(10 * MINUTE).await, 0);
    }

    #[test]
    fn burst_is_followed_at_once_and_continual_changes_every_second() {
        let mut limiter = ChangeLimiter::new(BURST, INTERVAL);
        let object = ObjectKey::namespaced("a", "b");
        let start = Instant::now();
        let burst: Vec<_> = (0..BURST).map(|_| limiter.record(&object, start)).collect();
        assert_eq!(burst, [Duration::ZERO; BURST as usize]);

        let mut admitted = 0;
        for tenth in 0..600 {
            let now = start + Duration::from_millis(100) * tenth;
            let delay = limiter.record(&object, now);
            assert!(delay <= INTERVAL, "{delay:?}");
            // Whatever else causes a reconcile, and however often.
            admitted += u32::from(limiter.admit(&object, now).is_zero());
        }

        assert!(
            (50..=62).contains(&admitted),
            "{admitted} of the changes in a minute were admitted"
        );

        let other = ObjectKey::namespaced("a", "c");
        assert_eq!(
            limiter.record(&other, start),
            Duration::ZERO,
            "each object has its own"
        );
        assert_eq!(limiter.admit(&other, start), Duration::ZERO);

        let later = start + Duration::from_secs(60 + u64::from(BURST) + 1);
        assert_eq!(
            limiter.record(&object, later),
            Duration::ZERO,
            "the burst is available again"
        );
    }

    #[test]
    fn change_that_is_due_is_followed_although_more_changes_come() {
        let mut limiter = ChangeLimiter::new(BURST, INTERVAL);
        let object = ObjectKey::namespaced("a", "b");
        let start = Instant::now();
        let delay = (0..=BURST)
            .map(|_| limiter.record(&object, start))
            .last()
            .expect("a change");
        assert_eq!((delay, limiter.admit(&object, start)), (INTERVAL, INTERVAL));

        let due = start + INTERVAL;
        assert_eq!(
            limiter.record(&object, due),
            Duration::ZERO,
            "it is due, and the new one with it"
        );
        assert_eq!(limiter.admit(&object, due), Duration::ZERO);
        assert_eq!(
            limiter.record(&object, due),
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
        let mut limiter = ChangeLimiter::new(BURST, INTERVAL);
        let start = Instant::now();
        for number in 0..MAX_KEYS {
            limiter.record(&ObjectKey::namespaced("a", number.to_string()), start);
        }
        limiter.record(&ObjectKey::namespaced("a", "last"), start + 2 * INTERVAL);
        assert_eq!(limiter.changes.len(), 1);
    }
}
