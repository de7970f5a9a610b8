//! The work queue: the contract of client-go's [`util/workqueue`], with two priorities.
//!
//! A [`WorkQueue`] promises:
//!
//! - **fair**: keys of one priority are handed out first in, first out, or in turns among flows
//!   ([`WorkQueue::in_turns`]);
//! - **stingy**: a key is never handed out twice at the same time, and a key added several times
//!   before it is handed out is handed out once. A key added while it is processed is handed out
//!   once more after [`WorkQueue::done`];
//! - **many producers and consumers**, on any thread;
//! - **delays**: [`WorkQueue::add_after`] adds a key later. A key has at most one running delay,
//!   the earlier of two. As in [client-go][add_after], a plain add doesn't end a running delay: the
//!   key is added once more when it is over;
//! - **backoff**: [`WorkQueue::add_rate_limited`] delays by the key's failures. Only these calls
//!   count as failures, not events adding the key meanwhile; and if the reconciles of such events
//!   fail, they delay the key by no more than the time since its first failure.
//!   [`WorkQueue::forget`] resets the count; it doesn't replace `done`. [`WorkQueue::retry_failed`]
//!   ends the backoff of all keys at once;
//! - **no starvation**: a [`Priority::Low`] key is handed out after at most four normal ones, and
//!   is raised when added with [`Priority::Normal`]. If a key is added with a delay while it is
//!   processed, it keeps the priority it was handed out with, as in [controller-runtime][keeps]:
//!   failing keys of an initial list still wait behind changes. Other delayed keys are normal when
//!   they become due.
//!
//! `PROMISES.md` in this folder names the test of each promise.
//!
//! Limits: keys are held in memory only, each once, and without bound except by
//! [`WorkQueue::add_if_room`]. Keys of different priorities have no order among them. Timers are
//! exact to a millisecond, as tokio's. No delay is longer than thirty years.
//!
//! The queue has no task of its own: a consumer in [`WorkQueue::get`] sleeps until the earliest
//! delay, and every operation first adds the keys that are due. So a dropped queue leaves nothing
//! running, and tests with paused time are exact.
//!
//! [`util/workqueue`]: https://github.com/kubernetes/client-go/blob/v0.36.2/util/workqueue/queue.go
//! [add_after]: https://github.com/kubernetes/client-go/blob/v0.36.2/util/workqueue/delaying_queue.go#L249
//! [keeps]: https://github.com/kubernetes-sigs/controller-runtime/blob/v0.24.1/pkg/internal/controller/controller.go#L487
//!
//! ```
//! use operetta_core::queue::WorkQueue;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let queue = WorkQueue::new();
//! queue.add("default/web");
//! queue.add("default/web");
//! while let Some(key) = queue.get().await {
//!     match reconcile(key) {
//!         Ok(()) => queue.forget(&key),
//!         Err(()) => queue.add_rate_limited(key),
//!     }
//!     queue.done(&key);
//!     queue.shut_down();
//! }
//! # }
//! # fn reconcile(_: &str) -> Result<(), ()> { Ok(()) }
//! ```

pub mod budget;
mod durations;
mod limiter;
mod priority;
#[cfg(test)]
mod priority_tests;
mod ready;
mod shut_down;
/// The pure state machine inside a queue, public so that tests can compare it with a model.
pub mod state;
mod stats;
#[cfg(test)]
mod tests;

use std::{fmt, hash::Hash, pin::pin, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use budget::QueueBudget;
pub use durations::DurationHistogram;
pub use limiter::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, MaxOfRateLimiter, RateLimiter,
};
pub use priority::Priority;
pub use state::{FlowOf, KeyPhase};
use state::{State, Wake};
pub use stats::Stats;

/// A handle to a queue. Clones share the queue.
pub struct WorkQueue<K> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    /// Never held across an await.
    shared: Mutex<Shared<K>>,
    /// Notifies one consumer per key becoming ready, and all of them when the earliest delay
    /// changes or the queue shuts down.
    ready: Notify,
    /// Notifies the callers of [`WorkQueue::shut_down_with_drain`] when the queue is drained or
    /// [`WorkQueue::shut_down`] gives draining up.
    drained: Notify,
}

struct Shared<K> {
    state: State<K>,
    limiter: Box<dyn RateLimiter<K>>,
    /// Whether [`WorkQueue::shut_down_with_drain`] may wait; a later [`WorkQueue::shut_down`]
    /// clears it.
    drain: bool,
    budget: Option<Arc<QueueBudget>>,
    /// How many keys the budget has counted for this queue.
    counted: usize,
}

impl<K: Clone + Eq + Hash> Shared<K> {
    /// Updates the budget to the current number of keys.
    fn count(&mut self) {
        let now = self.state.entries();
        if let Some(budget) = self.budget.as_ref().filter(|_| now != self.counted) {
            budget.count_keys(self.counted, now);
            self.counted = now;
        }
    }
}

impl<K> Drop for Shared<K> {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.count_keys(self.counted, 0);
        }
    }
}

enum Next<K> {
    Process(K),
    ShutDown,
    Wait(Option<Instant>),
}

impl<K: Clone + Eq + Hash + Send + 'static> WorkQueue<K> {
    /// Creates an empty queue with client-go's default rate limiter.
    pub fn new() -> Self {
        Self::with_rate_limiter(MaxOfRateLimiter::default())
    }

    /// Creates an empty queue with another rate limiter.
    pub fn with_rate_limiter(limiter: impl RateLimiter<K> + 'static) -> Self {
        let state = State::default();
        let shared = Shared {
            state,
            limiter: Box::new(limiter),
            drain: false,
            budget: None,
            counted: 0,
        };

        let inner = Inner {
            shared: Mutex::new(shared),
            ready: Notify::new(),
            drained: Notify::new(),
        };

        Self {
            inner: Arc::new(inner),
        }
    }

    /// Counts the queue's keys in a budget shared with other queues.
    #[must_use]
    pub fn within(self, budget: Arc<QueueBudget>) -> Self {
        let mut shared = self.lock();
        shared.budget = Some(budget);
        shared.count();
        drop(shared);
        self
    }

    /// Lets flows take turns: of the normal keys, one of each flow is handed out before the second
    /// of any. So whoever adds many keys delays the others by one.
    #[must_use]
    pub fn in_turns(self, flow_of: FlowOf<K>) -> Self {
        self.lock().state.in_turns(flow_of);
        self
    }

    /// Replaces the rate limiter. Failures counted so far are forgotten; running delays continue.
    pub fn set_rate_limiter(&self, limiter: impl RateLimiter<K> + 'static) {
        self.lock().limiter = Box::new(limiter);
    }

    /// Adds a key with normal priority. Ignored once the queue shuts down.
    pub fn add(&self, key: K) {
        self.add_with_priority(key, Priority::Normal);
    }

    /// Adds a key, or raises a queued key of lower priority. Ignored once the queue shuts down.
    pub fn add_with_priority(&self, key: K, priority: Priority) {
        self.change(|shared| shared.state.add(key, priority, now()));
    }

    /// Like [`Self::add_with_priority`], but refuses a new key if the queue already has `limit`
    /// keys (ready, delayed or being processed) or the budget of [`Self::within`] is used up.
    /// Returns whether the queue has the key.
    pub fn add_if_room(&self, limit: usize, key: K, priority: Priority) -> bool {
        let mut has_room = false;
        self.change(|shared| {
            let limit = if shared
                .budget
                .as_ref()
                .is_none_or(|budget| budget.has_room())
            {
                limit
            } else {
                0
            };
            has_room = shared.state.has_room(&key, limit);
            if has_room {
                shared.state.add(key, priority, now())
            } else {
                Wake::Nobody
            }
        });

        has_room
    }

    /// Adds a key after a delay, or right away if that is zero. Ignored once the queue shuts down,
    /// and forgotten if it shuts down meanwhile.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.change(|shared| shared.state.add_after(key, delay, now()));
    }

    /// Counts a failure of the key and adds it after the rate limiter's delay.
    pub fn add_rate_limited(&self, key: K) {
        self.change(|shared| {
            let Shared { state, limiter, .. } = shared;
            let now = now();
            let mut delay = limiter.count(&key, now);

            // After a failed reconcile of an event during the backoff, the key already has its
            // place among the retries of all keys. It must not reserve another with each failure.
            if !state.is_due_within(&key, delay, now) {
                delay = delay.max(limiter.reserve(now));
            }
            state.add_after(key, delay, now)
        });
    }

    /// Counts a failure of the key, but adds it after this delay instead of the rate limiter's.
    pub fn add_failed_after(&self, key: K, delay: Duration) {
        self.change(|shared| {
            let now = now();
            let _other_delay = shared.limiter.count(&key, now);
            shared.state.add_after(key, delay, now)
        });
    }

    /// Resets the key's failure count, because it succeeded or won't be retried. [`Self::done`]
    /// still has to be called.
    pub fn forget(&self, key: &K) {
        self.lock().limiter.forget(key);
    }

    /// Retries all failed keys now, because the cause may have been fixed: adds those still in
    /// backoff and resets all failure counts. Other delays keep running. Returns the number of keys
    /// added.
    pub fn retry_failed(&self) -> usize {
        let mut retried = 0;
        self.change(|shared| {
            let Shared { state, limiter, .. } = shared;
            retried = state.end_delays(|key| limiter.num_requeues(key) > 0, now());
            limiter.forget_all();
            if retried > 0 { Wake::All } else { Wake::Nobody }
        });
        retried
    }

    /// Ends a key's backoff and adds it now.
    pub fn retry(&self, key: &K) {
        self.change(|shared| {
            shared.limiter.forget(key);
            shared.state.end_delay(key);
            shared.state.add(key.clone(), Priority::Normal, now())
        });
    }

    /// Whether the key is ready, delayed or being processed, or has failures.
    pub fn has(&self, key: &K) -> bool {
        let shared = self.lock();
        shared.state.has(key) || shared.limiter.num_requeues(key) > 0
    }

    /// The phase of a key; None if the queue does not have it.
    pub fn phase(&self, key: &K) -> Option<KeyPhase> {
        self.lock().state.phase(key, now())
    }

    /// How often the key failed since it was last forgotten.
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.lock().limiter.num_requeues(key)
    }

    /// How long a key waited to be handed out; None if it is not being processed.
    pub fn queue_duration(&self, key: &K) -> Option<Duration> {
        self.lock().state.queue_duration(key)
    }

    /// Waits for a key to process. Call [`Self::done`] afterwards. Returns None once the queue
    /// shuts down and no key is left. Cancel safe: a dropped call has taken no key.
    pub async fn get(&self) -> Option<K> {
        match self.next() {
            Next::Process(key) => return Some(key),
            Next::ShutDown => return None,
            Next::Wait(_) => {}
        }

        let mut woken = pin!(self.inner.ready.notified());
        loop {
            // Register before looking again, so that a key added in between finds a consumer to
            // wake.
            woken.as_mut().enable();
            match self.next() {
                Next::Process(key) => return Some(key),
                Next::ShutDown => return None,
                Next::Wait(Some(due)) => drop(timeout_at(due, woken.as_mut()).await),
                Next::Wait(None) => woken.as_mut().await,
            }
            woken.set(self.inner.ready.notified());
        }
    }

    /// Marks a key as processed. If it was added meanwhile, it goes to the end of the queue.
    /// Ignores keys not being processed.
    pub fn done(&self, key: &K) {
        let mut shared = self.lock();
        let wake = shared.state.done(key, now());
        shared.count();
        let drained = shared.state.is_shutting_down() && shared.state.is_drained();
        drop(shared);
        self.wake(wake);
        if drained {
            self.inner.drained.notify_waiters();
        }
    }

    /// The number of ready keys, for information only: it may have changed by the time the caller
    /// reads it.
    pub fn len(&self) -> usize {
        self.lock().state.len()
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long the oldest ready key has been waiting; None if no key needs processing. Takes time
    /// linear in the number of keys.
    pub fn oldest(&self) -> Option<Duration> {
        let oldest = self.lock().state.oldest()?;
        Some(now().saturating_duration_since(oldest))
    }

    /// The counters. Takes time linear in the number of keys being processed.
    pub fn stats(&self) -> Stats {
        self.lock().state.stats(now())
    }

    fn next(&self) -> Next<K> {
        let mut shared = self.lock();
        match shared.state.get(now()) {
            Some(key) => Next::Process(key),
            None if shared.state.is_shutting_down() => Next::ShutDown,
            None => Next::Wait(shared.state.next_due().map(Instant::from_std)),
        }
    }

    /// Locks the state after adding all due keys. Reads the clock only if any delay is running.
    fn lock(&self) -> MutexGuard<'_, Shared<K>> {
        let mut shared = self.inner.shared.lock();
        if shared.state.next_due().is_some() {
            shared.state.advance(now());
        }
        shared
    }

    /// Changes the queue, and wakes consumers as necessary.
    fn change(&self, change: impl FnOnce(&mut Shared<K>) -> Wake) {
        let mut shared = self.lock();
        let wake = change(&mut shared);
        shared.count();
        drop(shared);
        self.wake(wake);
    }

    fn wake(&self, wake: Wake) {
        match wake {
            Wake::Nobody => {}
            Wake::One => self.inner.ready.notify_one(),
            Wake::All => self.inner.ready.notify_waiters(),
        }
    }
}

/// tokio's clock, because tests can pause it.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.stats()).finish()
    }
}
