//! Hot loops: a key that is reconciled again and again although only its own plugin asks for it. Most hot loops write in
//! every reconcile (a timestamp, a list in another order), and the event of that write asks for the next one. Some requeue
//! at once. Every reconcile succeeds, so no error shows it, and each costs the API server a write.
//!
//! A reconcile is asked for
//!
//! - **from outside**, by an event of a change that this plugin did not make. It clears all that is known of the key;
//! - **by the plugin itself**, by an event of its own write, or by a requeue sooner than [`SOON`]. It counts when [`CHAIN`]
//!   of its kind in a row led to it, each caused by the one before, with nothing from outside among them. So a status that
//!   follows a change is not a loop, nor is a chain of objects that each make the next, nor an object that many others
//!   write to, as long as those are reconciled for changes from outside;
//! - **by neither**: resyncs, initial lists, backoff after failures, requeues of [`SOON`] and more. They do not count.
//!
//! Each key may have [`BURST`] reconciles that count, and one more per [`REFILL`]. A key that has more is **slowed**: it
//! waits for a second, then two, up to [`SLOWEST`]. After [`ROUNDS`] such waits it is **quarantined**: it is not reconciled
//! before a change from outside, new code or configuration, or [`QUARANTINE`]; then it is tried once. Held keys stay in the
//! queue, so none is lost, and no worker waits for them.
//!
//! A plugin's own write is recognized by the uid and the resourceVersion that the API server answered. The watch may be
//! faster than the answer: an event that arrives during writes of the plugin is judged when they are answered.
//!
//! Limits: a plugin that makes others change something, and reacts to that, is in a loop that is not detected. At most
//! [`KEYS`] keys of each controller are remembered, and only while they count or wait; of each plugin its last [`WRITES`]
//! writes.

mod own_write;
mod state;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod tests;
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

pub(crate) use own_write::OwnWrite;
pub use state::{
    Admission, BURST, CHAIN, KEYS, Looping, QUARANTINE, REFILL, ROUNDS, SLOWEST, Stage, Summary, delay_of_round,
};
use state::{State, Trigger};
pub use writes::WRITES;
use writes::{Origin, Target, Writes};

/// A requeue after this time or later is a poll, and no loop.
pub const SOON: Duration = Duration::from_secs(1);

/// The hot loops of one plugin. It outlives the plugin's code.
pub struct HotLoops {
    /// Waits of a slowed key until it is quarantined.
    rounds: u32,
    /// By controller.
    guards: Mutex<HashMap<String, Arc<LoopGuard>>>,
    writes: Mutex<Writes>,
    /// Versions and writers are remembered as hashes: nobody outside can make two that are the same.
    hasher: RandomState,
}

/// The hot loops of one controller: what its workers ask before each reconcile.
pub struct LoopGuard {
    name: String,
    state: Mutex<State<ObjectKey>>,
    /// The number of keys in `state`: most workers find 0 and continue without the lock.
    len: AtomicUsize,
    /// The queue that gets the keys which are released.
    queue: WorkQueue<ObjectKey>,
}

impl HotLoops {
    /// Knows of nothing yet.
    pub fn new() -> Arc<Self> {
        Self::with_rounds(ROUNDS)
    }

    /// The same, but quarantines after this many waits.
    pub fn with_rounds(rounds: u32) -> Arc<Self> {
        Arc::new(Self { rounds, guards: Mutex::default(), writes: Mutex::default(), hasher: RandomState::new() })
    }

    /// The guard of a controller over this queue; it takes the place of one of the same name.
    pub(crate) fn guard(&self, name: &str, queue: WorkQueue<ObjectKey>) -> Arc<LoopGuard> {
        let state = Mutex::new(State::new(self.rounds));
        let len = AtomicUsize::new(0);
        let guard = Arc::new(LoopGuard { name: name.to_owned(), state, len, queue });
        self.guards.lock().insert(name.to_owned(), guard.clone());
        guard
    }

    /// Other code or another configuration runs: that is a change from outside for every key. What was held is to be
    /// enqueued by whoever calls this.
    pub fn reset(&self) {
        let mut guards = self.guards.lock();
        guards.retain(|_, guard| !guard.queue.shutting_down());
        guards.values().for_each(|guard| guard.with(State::reset));
    }

    /// Returns a summary of the keys of a controller that are held back; empty when it does not run.
    pub fn look(&self, controller: &str) -> Summary<ObjectKey> {
        let guard = self.guards.lock().get(controller).cloned();
        guard.map(|guard| guard.with(|state| state.look(now()))).unwrap_or_default()
    }

    /// An event asks for a key of a controller. To be called before the key is enqueued.
    pub(crate) fn event(&self, guard: &LoopGuard, key: &ObjectKey, event: &Event) {
        let Some(version) = self.version(event) else { return };
        let target = Target { controller: guard.name.clone(), key: key.clone() };
        let asked = self.writer(&guard.name, key);
        let origin = self.writes.lock().origin(version, asked, target);
        // Whoever tells of the event enqueues the key.
        let _held = match trigger_of(&origin) {
            None => guard.outside(key),
            Some(trigger) => guard.with(|state| state.trigger(key, trigger, now())),
        };
    }

    /// A hash of the change that an event tells of; None when it tells of none: it is part of an initial list, or a resync.
    fn version(&self, event: &Event) -> Option<u64> {
        match event {
            Event::Added { initial: true, .. } => None,
            Event::Modified { old, object } if Arc::ptr_eq(old, object) => None,
            Event::Deleted { object } => Some(self.gone(object.uid())),
            Event::Modified { old, object } if object.deleting() && !old.deleting() => Some(self.gone(object.uid())),
            Event::Added { object, .. } | Event::Modified { object, .. } => Some(self.made(object)),
        }
    }

    fn writer(&self, controller: &str, key: &ObjectKey) -> u64 {
        self.hasher.hash_one((controller, key))
    }

    fn made(&self, object: &Object) -> u64 {
        self.hasher.hash_one((object.uid(), object.resource_version()))
    }

    fn gone(&self, uid: &str) -> u64 {
        self.hasher.hash_one((uid, "deleted"))
    }
}

impl LoopGuard {
    /// Decides whether a key that was taken from the queue is reconciled.
    pub(crate) fn admit(&self, key: &ObjectKey) -> Admission {
        if self.is_idle() { Admission::Run } else { self.with(|state| state.admit(key, now())) }
    }

    /// A reconcile that was admitted has ended.
    pub(crate) fn ended(&self, key: &ObjectKey, result: &Result<Action, Failure>) {
        let requeues = match result {
            Ok(Action::Requeue) => true,
            Ok(Action::RequeueAfter(delay)) => *delay < SOON && !delay.is_zero(),
            Ok(Action::Done) | Err(_) => false,
        };
        if requeues || !self.is_idle() {
            self.with(|state| state.ended(key, requeues, now()));
        }
    }

    /// Something from outside asks for a key. Whether it was held until now.
    pub(crate) fn outside(&self, key: &ObjectKey) -> bool {
        !self.is_idle() && self.with(|state| state.outside(key))
    }

    /// Corrects the trigger of an event that was recognized wrongly. Reports whether the key was held back until now.
    fn corrected(&self, key: &ObjectKey, origin: &Origin) -> bool {
        match trigger_of(origin) {
            None => self.outside(key),
            Some(trigger) => self.with(|state| state.correct(key, trigger, now())),
        }
    }

    fn depth(&self, key: &ObjectKey) -> u32 {
        if self.is_idle() { 0 } else { self.with(|state| state.depth(key)) }
    }

    fn is_idle(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    fn with<T>(&self, what: impl FnOnce(&mut State<ObjectKey>) -> T) -> T {
        let mut state = self.state.lock();
        let result = what(&mut state);
        self.len.store(state.len(), Ordering::Release);
        result
    }
}

/// Returns the trigger of an event of the plugin's own; None when the event is from outside.
fn trigger_of(origin: &Origin) -> Option<Trigger> {
    match *origin {
        Origin::Outside => None,
        Origin::Own { depth, other } => Some(Trigger::Write { depth: depth.saturating_add(1), other }),
    }
}

/// tokio's clock, which tests pause.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
