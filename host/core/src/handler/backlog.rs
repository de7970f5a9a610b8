//! The backlog of a source: events with keys a full queue refused.
//!
//! An object may name keys of other objects, by its owner references or by a field, and its author
//! may invent any number of them. So such keys are added only while the queue has room, like those
//! of a plugin's own mapping. Beyond that, the events wait in [`UnmappedEvents`]: merged, at most
//! one per object, within a memory bound. A task delivers them once there is room. Neither the
//! informer nor other sources wait.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;

use crate::{
    controller::Controller,
    handler::{EventHandler, event::Event, unmapped_events::UnmappedEvents},
    object::kind::GroupVersionKind,
    queue::{Priority, budget::QueueBudget},
};

/// How often to retry a full queue.
const RETRY: Duration = Duration::from_millis(500);
/// Pause between deliveries, so that the thread can do other work.
const PAUSE: Duration = Duration::from_millis(1);

/// Events of one source of a controller, waiting for room in its queue.
pub struct Backlog {
    kind: GroupVersionKind,
    handler: RwLock<EventHandler>,
    events: Arc<UnmappedEvents>,
    /// Weak: the backlog must not keep its controller alive.
    target: Weak<Controller>,
    is_draining: AtomicBool,
}

impl Backlog {
    /// Returns the backlog for a source of a controller: the one of the same kind from `before`,
    /// with its events, or a new one.
    pub fn replace(
        before: &mut Vec<Arc<Self>>,
        kind: &GroupVersionKind,
        handler: EventHandler,
        target: &Arc<Controller>,
        budget: &Arc<QueueBudget>,
    ) -> Arc<Self> {
        if let Some(at) = before.iter().position(|old| old.kind == *kind) {
            let old = before.swap_remove(at);
            *old.handler.write() = handler;
            old.events.restart();
            return old;
        }

        Arc::new(Self {
            kind: kind.clone(),
            handler: RwLock::new(handler),
            events: UnmappedEvents::new(budget.clone()),
            target: Arc::downgrade(target),
            is_draining: AtomicBool::new(false),
        })
    }

    /// Adds an event's keys to the controller's queue, and keeps the event if there is no room for
    /// all of them. Returns false if an old state was dropped: keys named by that state alone are
    /// lost. Must be called within a tokio runtime.
    pub fn enqueue(self: &Arc<Self>, event: &Event, priority: Priority) -> bool {
        let Some(target) = self.target.upgrade() else {
            return true;
        };

        let mut keys = self.handler.read().keys(event).into_iter();
        let Some(enqueued) = keys.position(|key| !target.enqueue_named(event, key, priority))
        else {
            return true;
        };

        let is_kept = self.events.add_rest(event, priority, enqueued);
        if !self.is_draining.swap(true, Ordering::SeqCst) {
            tokio::spawn(drain(Arc::downgrade(self)));
        }

        is_kept
    }

    /// The number of objects with waiting events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether no event is waiting.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Delivers a batch of events, as far as there is room.
    fn deliver(&self) -> Delivery {
        let Some(target) = self
            .target
            .upgrade()
            .filter(|target| !target.queue().shutting_down())
        else {
            return Delivery::Stopped;
        };

        let handler = self.handler.read().clone();
        let is_room = self.events.deliver(
            |event| handler.target.keys_of(event.old(), event.object()),
            |event, key, priority| target.enqueue_mapped(event, key, priority),
        );

        match (is_room, self.is_empty()) {
            (_, true) => Delivery::Done,
            (true, false) => Delivery::More,
            (false, false) => Delivery::Full,
        }
    }
}

enum Delivery {
    /// There may be room for more.
    More,
    /// The queue is full.
    Full,
    /// No event is left.
    Done,
    /// The controller has stopped and needs no keys.
    Stopped,
}

/// Delivers a backlog's events until none is left.
async fn drain(backlog: Weak<Backlog>) {
    loop {
        let Some(backlog) = backlog.upgrade() else {
            return;
        };

        let pause = match backlog.deliver() {
            Delivery::More => PAUSE,
            Delivery::Full => RETRY,
            Delivery::Done => {
                backlog.is_draining.store(false, Ordering::SeqCst);
                // An event added before the store above saw the flag set and started no task, so
                // look again.
                if backlog.is_empty() || backlog.is_draining.swap(true, Ordering::SeqCst) {
                    return;
                }
                PAUSE
            }
            Delivery::Stopped => return,
        };

        drop(backlog);
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use async_trait::async_trait;
    use parking_lot::Mutex;
    use tokio::time::sleep;

    use super::*;
    use crate::{
        controller::{
            MAX_MAPPED, Observer,
            request::{Action, Failure, ReconcileRequest},
        },
        handler::{Target, unmapped_events::MAX_OLD_STATES},
        manifest::Mapping,
        object::{ManagedFields, Object, ObjectKey},
        ports::Reconciler,
        queue::WorkQueue,
    };

    /// A reconciler that records the names of its keys.
    #[derive(Default)]
    struct Names(Mutex<HashSet<String>>);

    #[async_trait]
    impl Reconciler for Names {
        async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
            self.0.lock().insert(request.key.name.clone());
            Ok(Action::Done)
        }
    }

    struct Unobserved;

    impl Observer for Unobserved {
        fn reconciled(
            &self,
            _: &ReconcileRequest,
            _: &Result<Action, Failure>,
            _: Duration,
            _: u32,
        ) {
        }
    }

    fn kind() -> GroupVersionKind {
        GroupVersionKind::new("v1", "ConfigMap")
    }

    fn owned(name: &str, owners: &[String]) -> Arc<Object> {
        let owner = |name: &String| serde_json::json!({"apiVersion": "g/v1", "kind": "Foo", "name": name, "controller": true, "uid": name});
        let owners: Vec<_> = owners.iter().map(owner).collect();
        let metadata =
            serde_json::json!({"name": name, "namespace": "n", "ownerReferences": owners});
        let text = serde_json::json!({"metadata": metadata}).to_string();
        Arc::new(Object::from_json(&text, &kind(), ManagedFields::Drop).expect("object"))
    }

    fn owned_by(name: &str, owner: &str) -> Arc<Object> {
        owned(name, &[owner.to_owned()])
    }

    fn handler() -> EventHandler {
        let mapping = Mapping::Owner { all_owners: false };
        let kind = GroupVersionKind::new("g/v1", "Foo");
        let target = Target::Mapped {
            kind,
            cluster_scoped: false,
            namespace: None,
            mapping,
        };
        EventHandler {
            predicates: vec![],
            namespace: None,
            target,
        }
    }

    fn all_owners() -> EventHandler {
        let mut handler = handler();
        if let Target::Mapped { mapping, .. } = &mut handler.target {
            *mapping = Mapping::Owner { all_owners: true };
        }
        handler
    }

    /// The keys for which there is room.
    const ROOM: usize = 100;

    fn budget() -> Arc<QueueBudget> {
        QueueBudget::new(ROOM, MAX_OLD_STATES)
    }

    /// Returns a controller without workers, the names that it has reconciled, and the backlog of
    /// its owned ConfigMaps.
    fn stage() -> (Arc<Controller>, Arc<Names>, Arc<Backlog>) {
        let names = Arc::<Names>::default();
        let budget = budget();
        let queue = WorkQueue::new().within(budget.clone());
        let controller = Controller::new("c", queue, names.clone(), Arc::new(Unobserved));
        let backlog = Backlog::replace(&mut Vec::new(), &kind(), handler(), &controller, &budget);
        (controller, names, backlog)
    }

    /// Adds an event of an object whose owner changes from one to the next of these, and so on.
    fn change_owner(backlog: &Arc<Backlog>, name: &str, owners: &[String]) {
        let mut old: Option<Arc<Object>> = None;
        for owner in owners {
            let object = owned_by(name, owner);
            let event = match old.replace(object.clone()) {
                None => Event::Added {
                    object,
                    initial: false,
                },
                Some(old) => Event::Modified { old, object },
            };
            assert!(
                backlog.enqueue(&event, Priority::Normal),
                "nothing is dropped"
            );
        }
    }

    fn invented(prefix: &str, count: usize) -> Vec<String> {
        (0..count).map(|at| format!("{prefix}-{at}")).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_takes_no_key_that_others_name() {
        let names = Arc::<Names>::default();
        let controller =
            Controller::new("c", WorkQueue::new(), names.clone(), Arc::new(Unobserved));
        let budget = QueueBudget::new(usize::MAX, MAX_OLD_STATES);
        let backlog = Backlog::replace(&mut Vec::new(), &kind(), handler(), &controller, &budget);
        for at in 0..MAX_MAPPED {
            controller.enqueue(ObjectKey::namespaced("n", at.to_string()), Priority::Normal);
        }
        change_owner(&backlog, "a", &["late".to_owned()]);
        assert_eq!((controller.queue().len(), backlog.len()), (MAX_MAPPED, 1));
        controller.set_workers(1);
        sleep(3 * RETRY).await;
        assert!(backlog.is_empty() && names.0.lock().contains("late"));
    }

    #[tokio::test(start_paused = true)]
    async fn endless_owners_wait_for_a_full_queue() {
        let (controller, names, backlog) = stage();
        change_owner(&backlog, "full", &invented("owner", ROOM));
        assert_eq!((controller.queue().len(), backlog.len()), (ROOM, 0));
        change_owner(&backlog, "other", &["owner-1".to_owned()]);
        assert!(backlog.is_empty(), "a key that the queue has needs no room");
        for name in ["a", "b"] {
            change_owner(&backlog, name, &invented(name, 1_000));
        }
        sleep(3 * RETRY).await;
        assert_eq!(
            (controller.queue().len(), backlog.len()),
            (ROOM, 2),
            "one event for each object"
        );
        controller.set_workers(1);
        sleep(3 * RETRY).await;
        assert!(backlog.is_empty() && controller.queue().is_empty());
        let names = names.0.lock();
        assert_eq!(names.len(), ROOM + 2);
        assert!(
            ["a-999", "b-999"]
                .into_iter()
                .all(|last| names.contains(last)),
            "the last owners are reconciled"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn many_owners_of_one_object_get_little_room_in_turn() {
        let names = Arc::<Names>::default();
        let budget = QueueBudget::new(10, MAX_OLD_STATES);
        let other = WorkQueue::new().within(budget.clone());
        (0..7).for_each(|at| other.add(at));
        let queue = WorkQueue::new().within(budget.clone());
        let controller = Controller::new("c", queue, names.clone(), Arc::new(Unobserved));
        let backlog =
            Backlog::replace(&mut Vec::new(), &kind(), all_owners(), &controller, &budget);
        let object = owned("a", &invented("owner", 30));
        controller.set_workers(1);
        assert!(backlog.enqueue(
            &Event::Added {
                object,
                initial: false
            },
            Priority::Normal
        ));
        sleep(20 * RETRY).await;
        assert_eq!((names.0.lock().len(), backlog.len()), (30, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_object_of_a_waiting_event_names_both_owners() {
        let (controller, names, backlog) = stage();
        change_owner(&backlog, "full", &invented("owner", ROOM));
        let old = owned_by("a", "first");
        let object = owned_by("a", "second");
        assert!(backlog.enqueue(
            &Event::Modified {
                old,
                object: object.clone()
            },
            Priority::Normal
        ));
        assert!(backlog.enqueue(&Event::deleted(object), Priority::Normal));
        controller.set_workers(1);
        sleep(3 * RETRY).await;
        let names = names.0.lock();
        assert!(names.contains("first") && names.contains("second"));
    }

    #[tokio::test(start_paused = true)]
    async fn new_mapping_of_waiting_event_enqueues_all_its_keys() {
        let (controller, names, backlog) = stage();
        change_owner(&backlog, "full", &invented("owner", ROOM - 1));
        let object = owned("a", &["first".to_owned(), "second".to_owned()]);
        *backlog.handler.write() = all_owners();
        assert!(backlog.enqueue(&Event::deleted(object), Priority::Normal));
        assert_eq!(
            (controller.queue().len(), backlog.len()),
            (ROOM, 1),
            "the first key has the last room"
        );
        let mut same_name = handler();
        if let Target::Mapped { mapping, .. } = &mut same_name.target {
            *mapping = Mapping::SameName {};
        }
        Backlog::replace(
            &mut vec![backlog.clone()],
            &kind(),
            same_name,
            &controller,
            &budget(),
        );
        controller.set_workers(1);
        sleep(3 * RETRY).await;
        assert!(backlog.is_empty() && names.0.lock().contains("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn backlog_stays_with_new_code_and_ends_with_its_controller() {
        let (controller, names, backlog) = stage();
        change_owner(&backlog, "full", &invented("owner", ROOM));
        change_owner(&backlog, "a", &["late".to_owned()]);
        let mut before = vec![backlog.clone()];
        let next = Backlog::replace(&mut before, &kind(), handler(), &controller, &budget());
        assert!(Arc::ptr_eq(&next, &backlog) && before.is_empty());
        drop(next);
        let pods = GroupVersionKind::new("v1", "Pod");
        let other = Backlog::replace(
            &mut vec![backlog.clone()],
            &pods,
            handler(),
            &controller,
            &budget(),
        );
        assert!(!Arc::ptr_eq(&other, &backlog));
        controller.set_workers(1);
        sleep(3 * RETRY).await;
        assert!(names.0.lock().contains("late"));
        let ended = Arc::downgrade(&backlog);
        change_owner(&backlog, "full", &invented("again", ROOM + 2));
        assert!(!backlog.is_empty());
        controller.stop().await;
        drop(backlog);
        sleep(3 * RETRY).await;
        assert!(ended.upgrade().is_none(), "no task is left");
    }
}
