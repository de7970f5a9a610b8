//! Hot loops: a key is reconciled again and again although only its own plugin triggers it. In most
//! hot loops every reconcile writes (a timestamp, or a list in another order), and the event of
//! that write triggers the next reconcile. Others requeue right away. Every reconcile succeeds, so
//! no error shows the loop, yet each costs the API server a write.
//!
//! A reconcile is triggered
//!
//! - **from outside**, by an event of somebody else's change. It clears everything known about the
//!   key;
//! - **by the plugin itself**, by an event of its own write, or by a requeue sooner than [`SOON`].
//!   It counts after a chain of [`CHAIN`] own triggers, each caused by the one before and none from
//!   outside in between. So a status update after a change is no loop. Neither are objects creating
//!   each other, nor an object written to by many others, as long as those are reconciled for
//!   changes from outside;
//! - **by neither**: resyncs, initial lists, backoff after failures, and requeues after [`SOON`] or
//!   more. They do not count.
//!
//! Each key may have [`BURST`] counted reconciles, and one more per [`REFILL`]. Beyond that, the
//! key is **slowed**: it is delayed by one second, then two, up to [`SLOWEST`]. After [`ROUNDS`]
//! delays it is **quarantined**: it is not reconciled until a change from outside, new code or
//! configuration, or the end of [`QUARANTINE`], after which it is tried once. Held keys stay in the
//! queue, so none is lost, and they occupy no worker.
//!
//! We recognize a plugin's own write by the uid and resourceVersion in the API server's response.
//! The event may arrive before the response, so events arriving during the plugin's writes are
//! judged when those are answered.
//!
//! Limits: a loop via another writer, with the two reacting to each other, goes undetected. We
//! remember at most [`KEYS`] keys of each controller, only while they count or are delayed, and the
//! last [`WRITES`] writes of each plugin.

mod state;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod tests;
pub(crate) mod write_in_flight;
mod writes;

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    controller::request::{Action, Failure},
    handler::event::Event,
    object::{Object, ObjectKey},
    queue::WorkQueue,
};

pub use state::{
    Admission, BURST, CHAIN, KEYS, Looping, QUARANTINE, REFILL, ROUNDS, SLOWEST, Stage, Summary,
    delay_of_round,
};
use state::{State, Trigger};
pub use writes::WRITES;
use writes::{Origin, Target, Writes};

/// Requeues with at least this delay count as polling, not as a loop.
pub const SOON: Duration = Duration::from_secs(1);

/// The hot loops of one plugin. They outlive individual versions of its code.
pub struct HotLoops {
    /// Delays of a slowed key before it is quarantined.
    rounds: u32,
    /// The guards by controller name.
    guards: Mutex<HashMap<String, Arc<LoopGuard>>>,
    writes: Mutex<Writes>,
    /// Hashes versions and writers. Randomly seeded, so that nobody can construct a collision.
    hasher: RandomState,
}

/// The hot loops of one controller. Its workers ask before each reconcile.
pub struct LoopGuard {
    name: String,
    state: Mutex<State<ObjectKey>>,
    /// Number of keys in `state`. Most workers read 0 here and go on without locking.
    len: AtomicUsize,
    /// Where to add released keys.
    queue: WorkQueue<ObjectKey>,
}

impl HotLoops {
    /// Creates a detector, initially without keys.
    pub fn new() -> Arc<Self> {
        Self::with_rounds(ROUNDS)
    }

    /// Creates a detector that quarantines keys after `rounds` delays.
    pub fn with_rounds(rounds: u32) -> Arc<Self> {
        Arc::new(Self {
            rounds,
            guards: Mutex::default(),
            writes: Mutex::default(),
            hasher: RandomState::new(),
        })
    }

    /// Creates a controller's guard over its queue, replacing any guard of the same name.
    pub(crate) fn guard(&self, name: &str, queue: WorkQueue<ObjectKey>) -> Arc<LoopGuard> {
        let state = Mutex::new(State::new(self.rounds));
        let len = AtomicUsize::new(0);
        let guard = Arc::new(LoopGuard {
            name: name.to_owned(),
            state,
            len,
            queue,
        });
        self.guards.lock().insert(name.to_owned(), guard.clone());
        guard
    }

    /// Forgets all keys, because other code or another configuration runs. The caller enqueues the
    /// held keys.
    pub fn reset(&self) {
        let mut guards = self.guards.lock();
        guards.retain(|_, guard| !guard.queue.shutting_down());
        guards.values().for_each(|guard| guard.with(State::reset));
    }

    /// Summarizes a controller's held keys; empty if it does not run.
    pub fn summary(&self, controller: &str) -> Summary<ObjectKey> {
        let guard = self.guards.lock().get(controller).cloned();
        guard
            .map(|guard| guard.with(|state| state.summary(now())))
            .unwrap_or_default()
    }

    /// Records an event for a controller's key. Call this before enqueueing the key.
    pub(crate) fn event(&self, guard: &LoopGuard, key: &ObjectKey, event: &Event) {
        let Some(version) = self.version(event) else {
            return;
        };

        let target = Target {
            controller: guard.name.clone(),
            key: key.clone(),
        };
        let asked = self.writer(&guard.name, key);
        let origin = self.writes.lock().origin(version, asked, target);

        // The caller enqueues the key.
        let _held = match trigger_of(&origin) {
            None => guard.outside(key),
            Some(trigger) => guard.with(|state| state.trigger(key, trigger, now())),
        };
    }

    /// Hashes the change reported by an event; None for initial lists and resyncs, which report
    /// none.
    fn version(&self, event: &Event) -> Option<u64> {
        match event {
            Event::Added { initial: true, .. } => None,
            Event::Modified { .. } if event.is_resync() => None,
            Event::Deleted { object, .. } => Some(self.gone(object.uid())),
            Event::Modified { old, object } if object.deleting() && !old.deleting() => {
                Some(self.gone(object.uid()))
            }
            Event::Added { object, .. } | Event::Modified { object, .. } => Some(self.made(object)),
        }
    }

    fn writer(&self, controller: &str, key: &ObjectKey) -> u64 {
        self.hasher.hash_one((controller, key))
    }

    fn made(&self, object: &Object) -> u64 {
        self.hasher
            .hash_one((object.uid(), object.resource_version()))
    }

    fn gone(&self, uid: &str) -> u64 {
        self.hasher.hash_one((uid, "deleted"))
    }
}

impl LoopGuard {
    /// Decides whether to reconcile a key taken from the queue.
    pub(crate) fn admit(&self, key: &ObjectKey) -> Admission {
        if self.is_idle() {
            Admission::Run
        } else {
            self.with(|state| state.admit(key, now()))
        }
    }

    pub(crate) fn ended(&self, key: &ObjectKey, result: &Result<Action, Failure>) {
        let requeues = match result {
            Ok(Action::Requeue) => true,
            Ok(Action::RequeueAfter(delay)) => *delay < SOON && !delay.is_zero(),
            Err(Failure::RetryAfter(_, delay)) => *delay < SOON,
            Ok(Action::Done) | Err(_) => false,
        };
        if requeues || !self.is_idle() {
            self.with(|state| state.ended(key, requeues, now()));
        }
    }

    /// Records a trigger from outside. Reports whether the key was held until now.
    pub(crate) fn outside(&self, key: &ObjectKey) -> bool {
        !self.is_idle() && self.with(|state| state.outside(key))
    }

    /// Corrects the trigger of a misjudged event. Reports whether the key was held until now.
    fn corrected(&self, key: &ObjectKey, origin: &Origin) -> bool {
        match trigger_of(origin) {
            None => self.outside(key),
            Some(trigger) => self.with(|state| state.correct(key, trigger, now())),
        }
    }

    fn depth(&self, key: &ObjectKey) -> u32 {
        if self.is_idle() {
            0
        } else {
            self.with(|state| state.depth(key))
        }
    }

    fn is_idle(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    fn with<T>(&self, change: impl FnOnce(&mut State<ObjectKey>) -> T) -> T {
        let mut state = self.state.lock();
        let result = change(&mut state);
        self.len.store(state.len(), Ordering::Release);
        result
    }
}

/// The trigger for an event of the plugin's own write; None for an event from outside.
fn trigger_of(origin: &Origin) -> Option<Trigger> {
    match *origin {
        Origin::Outside => None,
        Origin::Own { depth, other } => Some(Trigger::Write {
            depth: depth.saturating_add(1),
            other,
        }),
    }
}

/// tokio's clock, because tests can pause it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
