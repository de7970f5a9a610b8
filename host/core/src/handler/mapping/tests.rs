use parking_lot::Mutex;

use crate::handler::{mapping::*, unmapped_events::MAX_OLD_STATES};
use crate::{
    controller::{Controller, MAX_MAPPED, Observer, request::Fault},
    object::{ManagedFields, Object},
    queue::{ItemExponentialFailureRateLimiter, WorkQueue, budget::QueueBudget},
    recorder::record::{Cause, Trigger},
};

fn watched(name: &str, names: &[&str]) -> Arc<Object> {
    let text = serde_json::json!({"metadata": {"name": name, "namespace": "n"}, "names": names})
        .to_string();
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    Arc::new(Object::from_json(&text, &kind, ManagedFields::Drop).expect("object"))
}

fn added(object: &Arc<Object>) -> Event {
    Event::Added {
        object: object.clone(),
        initial: false,
    }
}

fn modified(old: &Arc<Object>, object: &Arc<Object>) -> Event {
    Event::Modified {
        old: old.clone(),
        object: object.clone(),
    }
}

fn deleted(object: &Arc<Object>) -> Event {
    Event::deleted(object.clone())
}

fn kind() -> GroupVersionKind {
    GroupVersionKind::new("v1", "ConfigMap")
}

fn rules() -> KeyRules {
    KeyRules {
        kind: GroupVersionKind::new("g/v1", "Foo"),
        cluster_scoped: false,
        namespace: None,
    }
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Added,
    Modified,
    Deleted,
}

fn change(event: &Event) -> Change {
    match event {
        Event::Added { .. } => Change::Added,
        Event::Modified { .. } => Change::Modified,
        Event::Deleted { .. } => Change::Deleted,
    }
}

/// A mapper that returns the names in the field `names` of both states, and records its events. It
/// fails as often as `failures` says.
#[derive(Default)]
struct ByNames {
    mapped: Mutex<Vec<(Change, String, Option<String>)>>,
    failures: Mutex<Vec<Failure>>,
    takes: Duration,
}

fn names(object: &Object) -> Vec<String> {
    serde_json::from_str(object.at(".names").expect("names")).expect("a list")
}

#[async_trait]
impl Mapper for ByNames {
    async fn map(
        &self,
        _: &ReconcileRequest,
        _: &GroupVersionKind,
        event: &Event,
    ) -> Result<Vec<ObjectKey>, Failure> {
        tokio::time::sleep(self.takes).await;
        let now = names(event.object());
        let old = event.changed_from().map(|old| names(old));
        self.mapped.lock().push((
            change(event),
            now.join(","),
            old.as_ref().map(|old| old.join(",")),
        ));
        if let Some(failure) = self.failures.lock().pop() {
            return Err(failure);
        }
        Ok(now
            .into_iter()
            .chain(old.into_iter().flatten())
            .map(|name| ObjectKey::namespaced("n", name))
            .collect())
    }
}

/// An observer that records failures.
#[derive(Default)]
struct Failures(Mutex<Vec<String>>);

impl Observer for Failures {
    fn reconciled(
        &self,
        _: &ReconcileRequest,
        result: &Result<Action, Failure>,
        _: Duration,
        _: u32,
    ) {
        if let Err(failure) = result {
            self.0.lock().push(failure.to_string());
        }
    }
}

struct Stage {
    mapper: Arc<ByNames>,
    mappings: Arc<UnmappedEvents>,
    controller: Arc<Controller>,
    enqueued: Arc<Mutex<Vec<String>>>,
    /// The triggers of the enqueued keys.
    triggers: Arc<Mutex<Vec<Trigger>>>,
    failures: Arc<Failures>,
}

impl Stage {
    fn new(mapper: ByNames, rules: KeyRules) -> Self {
        let mapper = Arc::new(mapper);
        let mappings = UnmappedEvents::new(QueueBudget::new(usize::MAX, MAX_OLD_STATES));
        let enqueued = Arc::<Mutex<Vec<String>>>::default();
        let failures = Arc::<Failures>::default();
        let triggers = Arc::<Mutex<Vec<Trigger>>>::default();
        let (enqueues, notes) = (enqueued.clone(), triggers.clone());
        let enqueue: Enqueue = Arc::new(move |event: &Event, key: ObjectKey, _| {
            enqueues.lock().push(key.name);
            notes.lock().push(Trigger::of_event(event));
            true
        });
        let reconciler =
            MapReconciler::new(kind(), mappings.clone(), mapper.clone(), rules, enqueue);
        let limiter =
            ItemExponentialFailureRateLimiter::new(Duration::from_secs(1), Duration::from_secs(60));
        let queue = WorkQueue::with_rate_limiter(limiter);
        let controller = Controller::new("c", queue, Arc::new(reconciler), failures.clone());
        Self {
            mapper,
            mappings,
            controller,
            enqueued,
            triggers,
            failures,
        }
    }

    fn note(&self, event: &Event) {
        assert!(self.mappings.add(event, Priority::Normal));
        self.controller
            .enqueue(event.object().key().clone(), Priority::Normal);
    }

    async fn run(&self) {
        self.controller.set_workers(1);
        tokio::time::sleep(Duration::from_secs(100)).await;
    }

    /// Returns the events that the mapper got since the last call, and the enqueued keys.
    async fn settled(&self) -> (Vec<(Change, String, Option<String>)>, Vec<String>) {
        self.run().await;
        let mapped = std::mem::take(&mut *self.mapper.mapped.lock());
        (mapped, std::mem::take(&mut *self.enqueued.lock()))
    }
}

fn mapped(change: Change, now: &str, old: Option<&str>) -> (Change, String, Option<String>) {
    (change, now.to_owned(), old.map(str::to_owned))
}

#[tokio::test(start_paused = true)]
async fn merges_changes_since_the_last_mapping() {
    let states: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| watched("w", &[name]))
        .collect();
    let [a, b, c] = &states[..] else {
        panic!("three")
    };
    for (events, expected) in [
        (vec![added(a)], mapped(Change::Added, "a", None)),
        (
            vec![added(a), modified(a, b)],
            mapped(Change::Added, "b", None),
        ),
        (
            vec![modified(a, b), modified(b, c)],
            mapped(Change::Modified, "c", Some("a")),
        ),
        (vec![modified(a, a)], mapped(Change::Modified, "a", None)),
        (
            vec![modified(a, b), modified(b, a)],
            mapped(Change::Modified, "a", None),
        ),
        (vec![deleted(a)], mapped(Change::Deleted, "a", None)),
        (
            vec![modified(a, b), deleted(b)],
            mapped(Change::Deleted, "b", Some("a")),
        ),
        (
            vec![added(a), deleted(a)],
            mapped(Change::Deleted, "a", None),
        ),
        (
            vec![deleted(a), added(b)],
            mapped(Change::Modified, "b", Some("a")),
        ),
        (
            vec![modified(a, b), deleted(b), added(c)],
            mapped(Change::Modified, "c", Some("a")),
        ),
        (
            vec![deleted(a), added(b), deleted(b)],
            mapped(Change::Deleted, "b", Some("a")),
        ),
    ] {
        let stage = Stage::new(ByNames::default(), rules());
        events.iter().for_each(|event| stage.note(event));
        let (all, enqueued) = stage.settled().await;
        assert_eq!(all, std::slice::from_ref(&expected), "{events:?}");
        let wanted: Vec<String> = [Some(expected.1), expected.2]
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(enqueued, wanted, "{events:?}");
        assert!(stage.mappings.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn trigger_of_a_mapped_key_is_the_event_that_was_mapped() {
    let (a, b) = (watched("w", &["a"]), watched("w", &["b"]));
    let first = Event::Added {
        object: a.clone(),
        initial: true,
    };
    for (event, cause) in [
        (first, Cause::Initial),
        (added(&a), Cause::Added),
        (modified(&a, &b), Cause::Modified),
        (modified(&a, &a), Cause::Resync),
        (deleted(&a), Cause::Deleted),
    ] {
        let stage = Stage::new(ByNames::default(), rules());
        stage.note(&event);
        stage.settled().await;
        let triggers = stage.triggers.lock();
        assert!(
            !triggers.is_empty()
                && triggers
                    .iter()
                    .all(|trigger| *trigger == Trigger::of_event(&event)),
            "{triggers:?}"
        );
        assert_eq!(triggers[0].cause, cause);
    }
}

#[tokio::test(start_paused = true)]
async fn retries_failed_mapping_with_later_events() {
    let a = watched("w", &["a"]);
    let b = watched("w", &["b"]);
    let c = watched("w", &["c"]);
    let failures = vec![
        Failure::Fault(Fault::Trap("t".into())),
        Failure::Retry("r".into()),
    ];
    let mapper = ByNames {
        failures: Mutex::new(failures),
        takes: Duration::from_millis(10),
        ..ByNames::default()
    };
    let stage = Stage::new(mapper, rules());
    stage.note(&modified(&a, &b));
    stage.controller.set_workers(1);
    tokio::time::sleep(Duration::from_millis(5)).await;
    stage.note(&modified(&b, &c));
    let (all, enqueued) = stage.settled().await;
    let last = mapped(Change::Modified, "c", Some("a"));
    assert_eq!(
        all,
        [mapped(Change::Modified, "b", Some("a")), last.clone(), last]
    );
    assert_eq!(enqueued, ["c", "a"]);
    assert_eq!(*stage.failures.0.lock(), ["r", "the plugin trapped: t"]);
}

#[tokio::test(start_paused = true)]
async fn next_code_maps_an_interrupted_deletion() {
    let a = watched("w", &["a"]);
    let stuck = ByNames {
        takes: Duration::from_secs(1_000_000),
        ..ByNames::default()
    };
    let stage = Stage::new(stuck, rules());
    stage.note(&deleted(&a));
    stage.run().await;
    assert!(stage.mappings.is_empty(), "it is being mapped");
    drop(stage.controller);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let next = ByNames::default();
    let taken = stage.mappings.take(a.key()).expect("it went back");
    let event = taken.unmapped.as_ref().expect("an event").event.clone();
    let request = ReconcileRequest {
        controller: "c".into(),
        key: a.key().clone(),
        retries: 0,
        reconcile_id: String::new(),
        record: None,
    };
    assert_eq!(
        next.map(&request, &kind(), &event).await,
        Ok(vec![ObjectKey::namespaced("n", "a")])
    );
}

#[tokio::test(start_paused = true)]
async fn reports_bad_keys_and_enqueues_good_ones() {
    let stage = Stage::new(ByNames::default(), rules());
    stage.note(&added(&watched("w", &["good", "b/ad", "good", "better"])));
    assert_eq!(stage.settled().await.1, ["good", "better"]);
    let many: Vec<String> = (0..10_000).map(|at| format!("k{at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    stage.note(&added(&watched("many", &many)));
    let (mapped, enqueued) = stage.settled().await;
    assert_eq!(
        (mapped.len(), enqueued.len()),
        (1, MAX_KEYS),
        "it is not tried again"
    );
    let failures = stage.failures.0.lock().clone();
    assert!(
        failures[0].contains("\"b/ad\" is not an object name"),
        "{failures:?}"
    );
    assert!(
        failures[1].contains("10000 keys, over the limit of 1000"),
        "{failures:?}"
    );
}

#[test]
fn admits_keys_by_scope_and_namespace() {
    let own = KeyRules {
        namespace: Some("n".into()),
        ..rules()
    };
    let cluster = KeyRules {
        cluster_scoped: true,
        ..rules()
    };
    let of = |namespace: &str, name: &str| ObjectKey::namespaced(namespace, name);
    let long = "a".repeat(254);
    for (rules, key, admitted) in [
        (rules(), of("n", "a"), Ok(true)),
        (rules(), of("m", "system:a.b_C"), Ok(true)),
        (own.clone(), of("n", "a"), Ok(true)),
        (own, of("m", "a"), Ok(false)),
        (cluster.clone(), ObjectKey::cluster_scoped("a"), Ok(true)),
        (
            cluster,
            of("n", "a"),
            Err("has a namespace, but Foo is cluster-scoped"),
        ),
        (
            rules(),
            ObjectKey::cluster_scoped("a"),
            Err("has no namespace, but Foo is namespaced"),
        ),
        (rules(), of("n", ""), Err("is not an object name")),
        (rules(), of("n", ".."), Err("is not an object name")),
        (rules(), of("n", "a/../b"), Err("is not an object name")),
        (rules(), of("n", "a%2fb"), Err("is not an object name")),
        (rules(), of("n", &long), Err("is not an object name")),
        (rules(), of("n/a", "a"), Err("is not a namespace name")),
        (rules(), of("", "a"), Err("is not a namespace name")),
    ] {
        let found = rules.admit(key.clone());
        match admitted {
            Ok(enqueued) => assert_eq!(found, Ok(enqueued.then_some(key))),
            Err(words) => assert!(
                found.as_ref().is_err_and(|error| error.contains(words)),
                "{key}: {found:?}"
            ),
        }
    }
}

#[test]
fn bounds_memory_of_deleted_objects() {
    let mappings = UnmappedEvents::new(QueueBudget::new(usize::MAX, MAX_OLD_STATES));
    let large = "x".repeat(1 << 20);
    let kept = (0..40).filter(|at| {
        mappings.add(
            &deleted(&watched(&at.to_string(), &[&large])),
            Priority::Normal,
        )
    });
    assert_eq!((kept.count(), mappings.len()), (31, 31));
    // The current object is in the store and takes no room, but its old state does.
    let old = watched("w", &[&large]);
    let now = watched("w", &["a"]);
    assert!(!mappings.add(&modified(&old, &now), Priority::Normal));
    assert_eq!(mappings.len(), 32);
    let taken = mappings.take(now.key()).expect("kept");
    assert_eq!(
        taken
            .unmapped
            .as_ref()
            .map(|taken| (change(&taken.event), taken.event.old().is_none())),
        Some((Change::Added, true))
    );
    taken.complete();
    let keys: Vec<_> = mappings.pending.lock().events.keys().cloned().collect();
    keys.iter()
        .filter_map(|key| mappings.take(key))
        .for_each(|taken| {
            let priority = taken.unmapped.as_ref().map(|taken| taken.priority);
            assert_eq!(priority, Some(Priority::Normal));
            taken.complete();
        });
    assert_eq!((mappings.len(), mappings.pending.lock().old_bytes), (0, 0));
}

/// Names ever new keys.
#[derive(Default)]
struct NewKeys(Mutex<usize>);

#[async_trait]
impl Mapper for NewKeys {
    async fn map(
        &self,
        _: &ReconcileRequest,
        _: &GroupVersionKind,
        _: &Event,
    ) -> Result<Vec<ObjectKey>, Failure> {
        let mut count = self.0.lock();
        let first = *count;
        *count += MAX_KEYS;
        Ok((first..*count)
            .map(|at| ObjectKey::namespaced("n", format!("{at:0>253}")))
            .collect())
    }
}

/// Nobody takes its keys.
struct Idle;

#[async_trait]
impl Reconciler for Idle {
    async fn reconcile(&self, _: &ReconcileRequest) -> Result<Action, Failure> {
        Ok(Action::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn mapping_of_endless_keys_waits_for_a_full_queue() {
    let target = Controller::new(
        "target",
        WorkQueue::new(),
        Arc::new(Idle),
        Arc::new(Failures::default()),
    );
    let mappings = UnmappedEvents::new(QueueBudget::new(usize::MAX, MAX_OLD_STATES));
    let enqueue: Enqueue = {
        let target = target.clone();
        Arc::new(move |event: &Event, key, priority| target.enqueue_mapped(event, key, priority))
    };
    let mapper = MapReconciler::new(
        kind(),
        mappings.clone(),
        Arc::new(NewKeys::default()),
        rules(),
        enqueue,
    );
    let request = |name: &str| ReconcileRequest {
        controller: "target".to_owned(),
        key: ObjectKey::namespaced("n", name),
        retries: 0,
        reconcile_id: String::new(),
        record: None,
    };
    let map = async |name: &str| {
        mappings.add(&added(&watched(name, &[])), Priority::Normal);
        mapper.reconcile(&request(name)).await
    };
    for at in 0..MAX_MAPPED / MAX_KEYS {
        assert_eq!(map(&format!("w-{at}")).await, Ok(Action::Done));
    }
    assert_eq!(target.queue().len(), MAX_MAPPED);
    for at in 0..10 {
        let Err(Failure::Retry(message)) = map(&format!("x-{at}")).await else {
            panic!("not refused")
        };
        assert_eq!(message, "the queue is full: 1000 mapped keys have to wait");
    }
    assert_eq!(
        (target.queue().len(), mappings.len()),
        (MAX_MAPPED, 10),
        "the events are kept"
    );
    // Keys that are there already, and those of other controllers, are not concerned.
    let object = watched("x", &[]);
    let resync = modified(&object, &object);
    assert!(target.enqueue_mapped(
        &resync,
        ObjectKey::namespaced("n", format!("{:0>253}", 1)),
        Priority::Normal
    ));
    target.enqueue(ObjectKey::namespaced("n", "an-object"), Priority::Low);
    assert_eq!(target.queue().len(), MAX_MAPPED + 1);
    // There is room again once keys were reconciled.
    target.set_workers(1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(target.queue().is_empty());
    assert_eq!(mapper.reconcile(&request("x-0")).await, Ok(Action::Done));
    assert_eq!(mappings.len(), 9);
}
