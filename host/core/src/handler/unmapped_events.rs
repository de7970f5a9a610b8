//! Events that are not mapped to keys yet, because a plugin has to be asked for the keys, or because
//! the queue is full.
//!
//! - **Changes are merged**, so that there is at most one event per object: all changes since the
//!   last mapping, with the current state and the state whose keys were enqueued last. So the keys
//!   of the old state are enqueued as well.
//! - **No event is lost** while it is being mapped: if that fails or is aborted, the event is kept
//!   and merged with later ones.
//! - **Memory is bounded.** Objects that are in the store are shared with it. Old states of changed
//!   and deleted objects, which the store no longer has, take bytes of the [`QueueBudget`]. States
//!   beyond that are dropped, and [`UnmappedEvents::add`] reports it.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    handler::event::Event,
    object::ObjectKey,
    queue::{Priority, budget::QueueBudget},
};

/// The maximum size of old object states that the queues of a tenant keep for their keys, in bytes.
pub const MAX_OLD_STATES: usize = 32 << 20;

/// The number of events that are delivered at once.
const BATCH: usize = 64;

/// The events of one watch that are not mapped yet.
pub struct UnmappedEvents {
    pub(super) pending: Mutex<Pending>,
}

pub(super) struct Pending {
    pub(super) events: HashMap<ObjectKey, Unmapped>,
    /// The size of object states that the store no longer has, in bytes, as taken from the budget.
    pub(super) old_bytes: usize,
    budget: Arc<QueueBudget>,
    /// The number of times that the code was replaced.
    swaps: u64,
}

/// An event that is not mapped yet.
pub(super) struct Unmapped {
    pub(super) event: Event,
    pub(super) priority: Priority,
    /// The number of its keys, in order, that were enqueued before the queue was full. So each
    /// attempt goes on where the one before ended, even if its keys are reconciled meanwhile.
    pub(super) enqueued: usize,
}

impl Unmapped {
    fn then(self, later: Self) -> Self {
        Self {
            event: self.event.then(later.event),
            priority: self.priority.max(later.priority),
            enqueued: 0,
        }
    }

    /// The size of its states that the store no longer has.
    fn old_bytes(&self) -> usize {
        let now = self.event.object();
        let old = self.event.old().filter(|old| !Arc::ptr_eq(old, now));
        let deleted = matches!(self.event, Event::Deleted { .. }).then_some(now);

        old.into_iter()
            .chain(deleted)
            .map(|object| object.raw().heap_bytes())
            .sum()
    }
}

impl UnmappedEvents {
    /// Creates the empty events of a watch. Old states take bytes of the budget.
    pub fn new(budget: Arc<QueueBudget>) -> Arc<Self> {
        let pending = Pending {
            events: HashMap::new(),
            old_bytes: 0,
            budget,
            swaps: 0,
        };
        Arc::new(Self {
            pending: Mutex::new(pending),
        })
    }

    /// Adds an event; the caller then enqueues the object's key. Returns false if a state was
    /// dropped for lack of room: keys that only that state names will not be enqueued.
    pub fn add(&self, event: &Event, priority: Priority) -> bool {
        self.add_rest(event, priority, 0)
    }

    /// Adds an event as [`Self::add`] does, of whose keys the first ones are enqueued already.
    pub(super) fn add_rest(&self, event: &Event, priority: Priority, enqueued: usize) -> bool {
        let key = event.object().key().clone();
        let later = Unmapped {
            event: event.clone(),
            priority,
            enqueued,
        };

        let mut pending = self.pending.lock();
        let merged = match pending.remove(&key) {
            Some(before) => before.then(later),
            None => later,
        };
        pending.put(key, merged)
    }

    /// Takes the event of an object. It is put back if the guard is dropped before
    /// [`Taken::complete`].
    pub(super) fn take(&self, key: &ObjectKey) -> Option<Taken<'_>> {
        let mut pending = self.pending.lock();
        let unmapped = pending.remove(key)?;
        Some(Taken {
            events: self,
            key: key.clone(),
            unmapped: Some(unmapped),
            swaps: pending.swaps,
        })
    }

    /// Makes all events start with their first key again, because new code may name other keys for
    /// them.
    pub fn restart(&self) {
        let mut pending = self.pending.lock();
        pending.swaps += 1;
        for unmapped in pending.events.values_mut() {
            unmapped.enqueued = 0;
        }
    }

    /// Adds the keys of some events to a queue by `enqueue`, which returns false when the queue is
    /// full; `keys_of` maps an event. Reports whether the queue was never full.
    pub(super) fn deliver(
        &self,
        keys_of: impl Fn(&Event) -> Vec<ObjectKey>,
        enqueue: impl Fn(&Event, ObjectKey, Priority) -> bool,
    ) -> bool {
        let objects: Vec<ObjectKey> = {
            let pending = self.pending.lock();
            pending.events.keys().take(BATCH).cloned().collect()
        };

        for object in objects {
            let Some(mut taken) = self.take(&object) else {
                continue;
            };
            let Some(unmapped) = &mut taken.unmapped else {
                continue;
            };

            let keys = keys_of(&unmapped.event);
            for key in keys.into_iter().skip(unmapped.enqueued) {
                if !enqueue(&unmapped.event, key, unmapped.priority) {
                    return false;
                }
                unmapped.enqueued += 1;
            }
            taken.complete();
        }
        true
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.pending.lock().events.len()
    }

    /// Reports whether all events are mapped.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Pending {
    fn remove(&mut self, key: &ObjectKey) -> Option<Unmapped> {
        let unmapped = self.events.remove(key)?;
        let bytes = unmapped.old_bytes();
        self.old_bytes -= bytes;
        self.budget.return_bytes(bytes);
        Some(unmapped)
    }

    /// Adds an event. Reports whether nothing was dropped.
    fn put(&mut self, key: ObjectKey, mut unmapped: Unmapped) -> bool {
        let fits = |unmapped: &Unmapped| self.budget.take_bytes(unmapped.old_bytes());

        let is_whole = fits(&unmapped);
        if !is_whole {
            unmapped.event = unmapped.event.without_old();
            if !fits(&unmapped) {
                return false;
            }
        }

        self.old_bytes += unmapped.old_bytes();
        self.events.insert(key, unmapped);
        is_whole
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.budget.return_bytes(self.old_bytes);
    }
}

/// The event of an object while it is being mapped.
pub(super) struct Taken<'a> {
    events: &'a UnmappedEvents,
    key: ObjectKey,
    /// None once it is mapped.
    pub(super) unmapped: Option<Unmapped>,
    /// The number of code swaps before.
    swaps: u64,
}

impl Taken<'_> {
    /// Removes the event, because its keys are enqueued.
    pub(super) fn complete(mut self) {
        self.unmapped = None;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let Some(mut unmapped) = self.unmapped.take() else {
            return;
        };

        let mut pending = self.events.pending.lock();
        if pending.swaps != self.swaps {
            unmapped.enqueued = 0;
        }
        let merged = match pending.remove(&self.key) {
            Some(later) => unmapped.then(later),
            None => unmapped,
        };
        pending.put(self.key.clone(), merged);
    }
}
