//! Events not mapped to keys yet, because the plugin has to be asked first or the queue is full.
//!
//! - **Changes are merged** into at most one event per object. It spans all changes since the last
//!   mapping: the current state, and the state whose keys were enqueued last, so that the old
//!   state's keys are enqueued as well.
//! - **No event is lost** during its mapping: if that fails or is aborted, the event is kept and
//!   merged with later ones.
//! - **Memory is bounded.** Objects still in the store are shared with it. Old states of changed
//!   and deleted objects are in no store, so they take bytes of the [`QueueBudget`]. If it runs
//!   out, further old states are dropped, as reported by [`UnmappedEvents::add`].

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    handler::event::Event,
    object::ObjectKey,
    queue::{Priority, budget::QueueBudget},
};

/// The maximum size of old object states kept by all queues of a tenant, in bytes.
pub const MAX_OLD_STATES: usize = 32 << 20;

/// How many events are delivered at once.
const BATCH: usize = 64;

/// The unmapped events of one watch.
pub struct UnmappedEvents {
    pub(super) pending: Mutex<Pending>,
}

pub(super) struct Pending {
    pub(super) events: HashMap<ObjectKey, Unmapped>,
    /// Bytes taken from the budget, for object states no longer in the store.
    pub(super) old_bytes: usize,
    budget: Arc<QueueBudget>,
    /// How often the code was replaced.
    swaps: u64,
}

pub(super) struct Unmapped {
    pub(super) event: Event,
    pub(super) priority: Priority,
    /// How many of its keys, in order, were enqueued before the queue was full. Each attempt
    /// resumes there, even if those keys were reconciled meanwhile.
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

    /// The size of its states no longer in the store.
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
    /// Creates the events of a watch, initially none. Old states take bytes of the budget.
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

    /// Adds an event; the caller then enqueues the object's key. Returns false if an old state was
    /// dropped for lack of room: keys named by that state alone are lost.
    pub fn add(&self, event: &Event, priority: Priority) -> bool {
        self.add_rest(event, priority, 0)
    }

    /// Like [`Self::add`], for an event whose first `enqueued` keys are enqueued already.
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

    /// Takes an object's event. The guard puts it back if dropped before [`Taken::complete`].
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

    /// Makes all events start over with their first key: new code may map them differently.
    pub fn restart(&self) {
        let mut pending = self.pending.lock();
        pending.swaps += 1;
        for unmapped in pending.events.values_mut() {
            unmapped.enqueued = 0;
        }
    }

    /// Maps a batch of events with `keys_of` and passes the keys to `enqueue`, until that returns
    /// false for a full queue. Returns whether the queue had room for all of them.
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

    /// The number of events.
    pub fn len(&self) -> usize {
        self.pending.lock().events.len()
    }

    /// Whether all events are mapped.
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

    /// Adds an event. Returns false if a state was dropped.
    fn put(&mut self, key: ObjectKey, mut unmapped: Unmapped) -> bool {
        let fits = |unmapped: &Unmapped| self.budget.take_bytes(unmapped.old_bytes());

        let keeps_old = fits(&unmapped);
        if !keeps_old {
            unmapped.event = unmapped.event.without_old();
            if !fits(&unmapped) {
                return false;
            }
        }

        self.old_bytes += unmapped.old_bytes();
        self.events.insert(key, unmapped);
        keeps_old
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.budget.return_bytes(self.old_bytes);
    }
}

/// An object's event while it is being mapped.
pub(super) struct Taken<'a> {
    events: &'a UnmappedEvents,
    key: ObjectKey,
    /// None once it is mapped.
    pub(super) unmapped: Option<Unmapped>,
    /// `Pending::swaps` when the event was taken.
    swaps: u64,
}

impl Taken<'_> {
    /// Removes the event: its keys are enqueued.
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
