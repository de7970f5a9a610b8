//! Mappings by the plugin itself, between an informer and a controller's queue.
//!
//! Handlers run on the informer's task, where plugin code must not run. So the events of a watch with a custom mapping
//! are stored here, at most one per watched object, until a worker calls the plugin.
//!
//! - **Changes are merged.** The plugin gets all changes since the last mapping as one event, with the current state
//!   and the state whose keys were enqueued last, so that the keys of the old state are enqueued as well.
//! - **No event is lost** when a call fails, traps or is aborted: the event is kept and merged with later ones. The
//!   queue retries it as it retries a reconcile.
//! - **Memory is bounded.** Objects that are in the store are shared with it. Old states of changed and deleted
//!   objects, which the store no longer has, take bytes of the [`QueueBudget`]. States beyond that are dropped, and
//!   [`Mappings::note`] reports it.
//! - **Each key is checked**: see [`KeyRules`].
//! - **A full queue delays events**: while the controller's queue has no room for invented keys, an event that names new
//!   ones is kept, and mapped again later.
//!
//! A controller with a [`MapReconciler`] calls the plugin. Its keys are those of the watched objects.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use operetta_api::names::{is_dns_label, is_path_segment};
use parking_lot::Mutex;

use crate::{
    controller::request::{Action, Failure, ReconcileRequest},
    handler::{
        event::Event,
        map_event::{Change, MapEvent},
    },
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::{Mapper, Reconciler},
    queue::{Priority, budget::QueueBudget},
    recorder::record::Trigger,
};

/// The maximum number of keys that one event may enqueue.
pub const MAX_KEYS: usize = 1_000;
/// The maximum size of old object states that the queues of a tenant keep for their keys, in bytes.
pub const MAX_HELD: usize = 32 << 20;

/// The number of pending changes that are delivered at once.
const BATCH: usize = 64;

/// The events of one watch that are not mapped yet.
pub struct Mappings {
    kind: GroupVersionKind,
    pending: Mutex<Pending>,
}

struct Pending {
    events: HashMap<ObjectKey, PendingChange>,
    /// The size of object states that the store no longer has, in bytes, as taken from the budget.
    held: usize,
    budget: Arc<QueueBudget>,
    /// The number of times that the code was replaced.
    swaps: u64,
}

/// The changes of one object that are not mapped yet.
#[derive(Clone)]
struct PendingChange {
    /// The state whose keys were enqueued last.
    mapped: Option<Arc<Object>>,
    now: Arc<Object>,
    gone: bool,
    /// True if the event is of the informer's first list.
    initial: bool,
    priority: Priority,
    /// The number of its keys, in order, that were enqueued before the queue was full. So each attempt goes on where the
    /// one before ended, even if its keys are reconciled meanwhile.
    enqueued: usize,
}

impl PendingChange {
    fn of(event: &Event, priority: Priority, enqueued: usize) -> Self {
        let gone = matches!(event, Event::Deleted { .. });
        let initial = matches!(event, Event::Added { initial: true, .. });
        Self { mapped: event.old().cloned(), now: event.object().clone(), gone, initial, priority, enqueued }
    }

    /// Describes the changes as one event, for the record of the reconciles that they trigger.
    fn trigger(&self) -> Trigger {
        let object = self.now.clone();
        Trigger::of_event(&match (self.gone, &self.mapped) {
            (true, _) => Event::Deleted { object },
            (false, Some(old)) => Event::Modified { old: old.clone(), object },
            (false, None) => Event::Added { object, initial: self.initial },
        })
    }

    /// Merges these changes with later ones, when neither was mapped.
    fn then(self, later: Self) -> Self {
        // A pending deletion without an earlier state is of a state that was mapped.
        let mapped = self.mapped.or_else(|| self.gone.then_some(self.now));
        Self { mapped, priority: self.priority.max(later.priority), enqueued: 0, ..later }
    }

    fn held(&self) -> usize {
        let mapped = self.mapped.as_ref().filter(|mapped| !Arc::ptr_eq(mapped, &self.now));
        mapped.map_or(0, |mapped| mapped.raw().heap_bytes()) + if self.gone { self.now.raw().heap_bytes() } else { 0 }
    }
}

impl Mappings {
    /// Creates the mappings of a watch of this kind. Old states take bytes of the budget.
    pub fn new(kind: GroupVersionKind, budget: Arc<QueueBudget>) -> Arc<Self> {
        let pending = Pending { events: HashMap::new(), held: 0, budget, swaps: 0 };
        Arc::new(Self { kind, pending: Mutex::new(pending) })
    }

    /// Stores an event; the caller then enqueues the object's key. Returns false if a state was dropped for lack of
    /// room: keys that only that state names will not be enqueued.
    pub fn note(&self, event: &Event, priority: Priority) -> bool {
        self.note_rest(event, priority, 0)
    }

    /// Stores an event as [`Self::note`] does, of whose keys the first ones are enqueued already.
    pub(super) fn note_rest(&self, event: &Event, priority: Priority, enqueued: usize) -> bool {
        let key = event.object().key().clone();
        let mut pending = self.pending.lock();
        let event = PendingChange::of(event, priority, enqueued);
        let event = match pending.remove(&key) {
            Some(before) => before.then(event),
            None => event,
        };
        pending.put(key, event)
    }

    /// Takes the pending changes of an object. They are put back if the guard is dropped before [`Taken::complete`].
    fn take(&self, key: &ObjectKey) -> Option<Taken<'_>> {
        let mut pending = self.pending.lock();
        let change = pending.remove(key)?;
        Some(Taken { mappings: self, key: key.clone(), change: Some(change), swaps: pending.swaps })
    }

    /// Makes all pending changes start with their first key again, because new code may name other keys for them.
    pub fn restart(&self) {
        let mut pending = self.pending.lock();
        pending.swaps += 1;
        pending.events.values_mut().for_each(|change| change.enqueued = 0);
    }

    /// Adds keys of pending changes to a queue by `enqueue`, which returns false when the queue is full; `keys_of` returns
    /// those of an object's old and new state. Reports whether the queue was never full.
    pub(super) fn deliver(
        &self,
        keys_of: impl Fn(Option<&Arc<Object>>, &Object) -> Vec<ObjectKey>,
        enqueue: impl Fn(&Trigger, ObjectKey, Priority) -> bool,
    ) -> bool {
        let objects: Vec<ObjectKey> = self.pending.lock().events.keys().take(BATCH).cloned().collect();
        for object in objects {
            let Some(mut taken) = self.take(&object) else { continue };
            let Some(change) = &mut taken.change else { continue };
            let keys = keys_of(change.mapped.as_ref(), &change.now);
            let trigger = change.trigger();
            for key in keys.into_iter().skip(change.enqueued) {
                if !enqueue(&trigger, key, change.priority) {
                    return false;
                }
                change.enqueued += 1;
            }
            taken.complete();
        }
        true
    }

    /// Returns the number of objects with pending changes.
    pub fn len(&self) -> usize {
        self.pending.lock().events.len()
    }

    /// Reports whether no changes are pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Pending {
    fn remove(&mut self, key: &ObjectKey) -> Option<PendingChange> {
        let change = self.events.remove(key)?;
        self.held -= change.held();
        self.budget.return_bytes(change.held());
        Some(change)
    }

    /// Adds pending changes. Reports whether nothing was dropped.
    fn put(&mut self, key: ObjectKey, mut change: PendingChange) -> bool {
        let fits = |change: &PendingChange| self.budget.take_bytes(change.held());
        let whole = fits(&change);
        if !whole {
            change.mapped = None;
            if !fits(&change) {
                return false;
            }
        }
        self.held += change.held();
        self.events.insert(key, change);
        whole
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.budget.return_bytes(self.held);
    }
}

/// The pending changes of an object while they are being mapped.
struct Taken<'a> {
    mappings: &'a Mappings,
    key: ObjectKey,
    change: Option<PendingChange>,
    /// The number of code swaps before.
    swaps: u64,
}

impl Taken<'_> {
    fn event(&self) -> Option<MapEvent> {
        let PendingChange { mapped, now, gone, .. } = self.change.clone()?;
        let change = match (gone, &mapped) {
            (true, _) => Change::Deleted,
            (false, Some(_)) => Change::Modified,
            (false, None) => Change::Added,
        };
        // A resync repeats the same object.
        let old = mapped.filter(|mapped| mapped.json() != now.json());
        Some(MapEvent { kind: self.mappings.kind.clone(), change, object: now, old })
    }

    /// Returns the priority of the keys.
    fn priority(&self) -> Priority {
        self.change.as_ref().map(|change| change.priority).unwrap_or_default()
    }

    /// Returns the number of keys that earlier attempts have enqueued.
    fn enqueued(&self) -> usize {
        self.change.as_ref().map_or(0, |change| change.enqueued)
    }

    /// Records that the queue was full after this number of keys.
    fn set_enqueued(&mut self, enqueued: usize) {
        if let Some(change) = &mut self.change {
            change.enqueued = enqueued;
        }
    }

    /// Removes the changes, because their keys are enqueued.
    fn complete(mut self) {
        self.change = None;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let Some(mut change) = self.change.take() else { return };
        let mut pending = self.mappings.pending.lock();
        if pending.swaps != self.swaps {
            change.enqueued = 0;
        }
        let change = match pending.remove(&self.key) {
            Some(later) => change.then(later),
            None => change,
        };
        pending.put(self.key.clone(), change);
    }
}

/// The rules for keys that a custom mapping may enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRules {
    /// The kind that the controller reconciles.
    pub kind: GroupVersionKind,
    /// True if the kind is cluster-scoped: its keys then have no namespace.
    pub cluster_scoped: bool,
    /// The namespace of the keys; None for all namespaces.
    pub namespace: Option<String>,
}

impl KeyRules {
    /// Checks a key that the plugin named. Returns None if it is outside the controller's namespace.
    ///
    /// # Errors
    /// Returns the reason why the key cannot be one of the kind.
    pub fn admit(&self, key: ObjectKey) -> Result<Option<ObjectKey>, String> {
        let kind = &self.kind.kind;
        match (&key.namespace, self.cluster_scoped) {
            (Some(_), true) => {
                return Err(format!("{:?} has a namespace, but {kind} is cluster-scoped", cut(&key.to_string())));
            }
            (None, false) => return Err(format!("{:?} has no namespace, but {kind} is namespaced", cut(&key.name))),
            _ => {}
        }
        if !is_path_segment(&key.name) {
            return Err(format!("{:?} is not an object name", cut(&key.name)));
        }
        if key.namespace.as_ref().is_some_and(|namespace| !is_dns_label(namespace)) {
            let namespace = cut(key.namespace.as_deref().unwrap_or_default());
            return Err(format!("{namespace:?} is not a namespace name"));
        }
        Ok(Some(key).filter(|key| self.namespace.is_none() || key.namespace == self.namespace))
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(64)]
}

/// The result of a [`MapReconciler`] when there was nothing to map, because the event was mapped together with an earlier
/// one. It does not tell whether mapping the object succeeds.
pub const NOTHING: Action = Action::RequeueAfter(Duration::ZERO);

/// Enqueues a key of a mapping, whose event is the trigger. Returns false when the queue is full.
pub type Enqueue = Arc<dyn Fn(&Trigger, ObjectKey, Priority) -> bool + Send + Sync>;

/// A reconciler that lets the plugin map one watched object, and enqueues the keys it names. Its own keys are those of
/// the watched objects.
pub struct MapReconciler {
    mappings: Arc<Mappings>,
    mapper: Arc<dyn Mapper>,
    rules: KeyRules,
    enqueue: Enqueue,
}

impl MapReconciler {
    /// Creates a reconciler that maps the pending changes by `mapper`, and passes the keys that `rules` admit to
    /// `enqueue`.
    pub fn new(mappings: Arc<Mappings>, mapper: Arc<dyn Mapper>, rules: KeyRules, enqueue: Enqueue) -> Self {
        Self { mappings, mapper, rules, enqueue }
    }
}

#[async_trait]
impl Reconciler for MapReconciler {
    /// Enqueues the valid keys. Invalid keys make the reconcile fail, without a retry, because the same event would be
    /// mapped the same way. It is retried if the queue has no room for all keys.
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let Some(mut taken) = self.mappings.take(&request.key) else { return Ok(NOTHING) };
        let Some(event) = taken.event() else { return Ok(NOTHING) };
        let keys = self.mapper.map(request, &event).await?;
        let priority = taken.priority();
        let Some(trigger) = taken.change.as_ref().map(PendingChange::trigger) else { return Ok(NOTHING) };
        let mut refused = 0_usize;
        let mut wrong = (keys.len() > MAX_KEYS)
            .then(|| format!("{} keys, over the limit of {MAX_KEYS}: the first {MAX_KEYS} are enqueued", keys.len()));
        let mut distinct = HashSet::new();
        let mut enqueued = taken.enqueued();
        for key in keys.into_iter().take(MAX_KEYS) {
            match self.rules.admit(key) {
                // Those that an earlier attempt has enqueued are not enqueued again: others would never get room.
                Ok(Some(key)) if distinct.insert(key.clone()) && distinct.len() > enqueued => {
                    if refused == 0 && (self.enqueue)(&trigger, key, priority) {
                        enqueued = distinct.len();
                    } else {
                        refused += 1;
                    }
                }
                Ok(_) => {}
                Err(error) => drop(wrong.get_or_insert(error)),
            }
        }
        if refused > 0 {
            taken.set_enqueued(enqueued);
            let full = format!("the queue is full: {refused} mapped keys have to wait");
            return Err(Failure::Retry(full));
        }
        taken.complete();
        wrong.map_or(Ok(Action::Done), |wrong| Err(Failure::Terminal(wrong)))
    }
}

#[cfg(test)]
mod tests;
