//! The work queues of Plugins and of drop-in ConfigMaps, as a handle for all parts of the manager.

use std::{
    collections::{HashMap, HashSet},
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

/// Above this number of objects, we forget those without recent changes.
const MAX_OBJECTS: usize = 1_024;

/// How many changes of permissions from another tenant's namespace are followed at once.
const BURST_ELSEWHERE: u32 = 5;

/// How often such changes are followed after that.
const INTERVAL_ELSEWHERE: Duration = Duration::from_secs(30);

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

    /// Adds a Plugin when its own or the host's permissions change: soon, and again when the
    /// authorizer should know of the change. A RoleBinding may name subjects of any namespace, or
    /// all of them, so changes that come from another namespace are followed less and less often.
    pub async fn enqueue_on_permission_change(
        self,
        mut own: PermissionChanges,
        mut of_host: PermissionChanges,
        plugin: ObjectKey,
    ) {
        let mut elsewhere = ElsewhereLimiter::default();
        loop {
            let due = elsewhere.due;
            let is_due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = own.changed() => {}
                () = of_host.changed() => {}
                () = is_due => {
                    elsewhere.followed();
                    tokio::time::sleep(Grants::UNSETTLED + Grants::SETTLE + HostPermissions::KEEP).await;
                    self.enqueue(&plugin);
                    continue;
                }
            }

            // A binding of everybody changes both.
            let causes = &own.take() | &of_host.take();
            let now = Instant::now();
            let mut is_urgent = false;
            for cause in causes {
                is_urgent |= match cause {
                    Some(namespace) if plugin.namespace.as_ref() != Some(&namespace) => {
                        elsewhere.admits(namespace, now)
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

/// Limits how often changes of permissions from other namespaces are followed, by a token bucket
/// for each namespace.
#[derive(Default)]
struct ElsewhereLimiter {
    /// When the bucket of each namespace is full again; full ones are left out.
    full_at: HashMap<String, Instant>,
    /// The namespaces whose changes wait.
    waiting: HashSet<String>,
    /// When to follow them.
    due: Option<Instant>,
}

impl ElsewhereLimiter {
    /// Reports whether to follow a change in this namespace now. Otherwise it is due later.
    fn admits(&mut self, namespace: String, now: Instant) -> bool {
        if self.waiting.contains(&namespace) {
            return false;
        }

        self.full_at.retain(|_, full_at| *full_at > now);
        let full_at = self.full_at.entry(namespace.clone()).or_insert(now);
        let delay = (*full_at + INTERVAL_ELSEWHERE)
            .saturating_duration_since(now + INTERVAL_ELSEWHERE * BURST_ELSEWHERE);
        *full_at += INTERVAL_ELSEWHERE;
        if delay.is_zero() {
            return true;
        }

        self.waiting.insert(namespace);
        let due = now + delay;
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        false
    }

    /// Notes that all waiting changes are followed now.
    fn followed(&mut self) {
        self.due = None;
        self.waiting.clear();
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
