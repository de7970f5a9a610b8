//! The work queue: the contract of client-go's
//! [`util/workqueue`](https://github.com/kubernetes/client-go/blob/master/util/workqueue/queue.go), with
//! two priorities.
//!
//! A [`WorkQueue`] promises:
//!
//! - **fair**: keys of one priority are handed out first in, first out, or in turns among flows
//!   ([`WorkQueue::in_turns`]);
//! - **stingy**: a key is never handed out twice at the same time, and a key added several times
//!   before it is handed out is handed out once. A key added while it is processed is handed out
//!   once more after [`WorkQueue::done`];
//! - **many producers and consumers**, on any thread;
//! - **delays**: [`WorkQueue::add_after`] adds a key later. A key has at most one running delay;
//!   the earlier of two counts. As in client-go, a plain add does not end a running delay: the key
//!   is added once more when it is over;
//! - **backoff**: [`WorkQueue::add_rate_limited`] delays by the key's failures. Only these calls
//!   count as failures, not events that add the key meanwhile, and reconciles of such events that
//!   fail delay the key by no more than the time since its first failure. [`WorkQueue::forget`] ends the
//!   count; it does not replace `done`. [`WorkQueue::retry_failed`] ends the backoff of all keys at
//!   once;
//! - **no starvation**: a [`Priority::Low`] key is handed out after at most four normal ones, and
//!   is raised when it is added with [`Priority::Normal`]. A delayed add while the key is processed
//!   keeps the priority with which the key was handed out, as in controller-runtime: failing keys
//!   of an initial list still wait behind changes. Other delayed keys are normal when they become
//!   due.
//!
//! `PROMISES.md` in this folder names the test of each promise.
//!
//! Limits: keys are held in memory only, each once, without bound but for
//! [`WorkQueue::add_if_room`]. Keys of different priorities have no order among them. Timers are
//! exact to a millisecond, as tokio's. No delay is longer than thirty years.
//!
//! The queue has no task of its own: a consumer in [`WorkQueue::get`] sleeps until the earliest
//! delay, and every operation first adds the keys that are due. So a dropped queue leaves nothing
//! running, and tests with paused time are exact.
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
/// The pure state machine inside a queue, public for the tests that compare it with a model.
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

/// A handle to a queue. Clones are handles to the same queue.
pub struct WorkQueue<K> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    /// Never held across an await.
    shared: Mutex<Shared<K>>,
    /// Notifies one consumer per key that becomes ready, and all of them when a new earliest delay
    /// comes or the queue shuts down.
    ready: Notify,
    /// Notifies all waiters when a queue that shuts down is drained, or when draining is given up.
    drained: Notify,
}

struct Shared<K> {
    state: State<K>,
    limiter: Box<dyn RateLimiter<K>>,
    /// True if [`WorkQueue::shut_down_with_drain`] may wait; a later [`WorkQueue::shut_down`]
    /// clears it.
    drain: bool,
    /// The budget of this and other queues.
    budget: Option<Arc<QueueBudget>>,
    /// The number of keys that the budget knows of.
    counted: usize,
}

impl<K: Clone + Eq + Hash> Shared<K> {
    /// Reports the present number of keys to the budget.
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

/// The next step of a consumer.
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

    /// Creates an empty queue with this rate limiter.
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

    /// Counts the queue's keys in a budget that it shares with other queues.
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

    /// Adds a key, or raises a key that is queued with a lower priority. Ignored once the queue
    /// shuts down.
    pub fn add_with_priority(&self, key: K, priority: Priority) {
        self.change(|shared| shared.state.add(key, priority, now()));
    }

    /// Adds a key as [`Self::add_with_priority`] does, unless it is new and the queue holds `limit`
    /// keys already, be they ready, delayed or being processed, or the budget of [`Self::within`]
    /// is used up. Reports whether the queue has the key.
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

    /// Adds a key when the delay is over, at once when it is zero. Ignored once the queue shuts
    /// down, and forgotten when it shuts down meanwhile.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.change(|shared| shared.state.add_after(key, delay, now()));
    }

    /// Counts a failure of the key and adds it after the delay of the rate limiter.
    pub fn add_rate_limited(&self, key: K) {
        self.change(|shared| {
            let Shared { state, limiter, .. } = shared;
            let now = now();
            let mut delay = limiter.count(&key, now);

            // An event during the backoff: the key has its place among the retries of all keys, and
            // one failure after the other must not reserve more of them.
            if !state.is_due_within(&key, delay, now) {
                delay = delay.max(limiter.reserve(now));
            }
            state.add_after(key, delay, now)
        });
    }

    /// Counts a failure of the key, and adds it after this delay and not that of the rate limiter.
    pub fn add_failed_after(&self, key: K, delay: Duration) {
        self.change(|shared| {
            let now = now();
            let _other_delay = shared.limiter.count(&key, now);
            shared.state.add_after(key, delay, now)
        });
    }

    /// Resets the key's count of failures, because it succeeded or is not retried. [`Self::done`]
    /// still has to be called.
    pub fn forget(&self, key: &K) {
        self.lock().limiter.forget(key);
    }

    /// Ends the backoff of all keys, because what they failed of may be gone: adds those whose
    /// delay runs after a failure, and resets the failures of all. Returns the number of keys that
    /// it added. Other delays run on.
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

    /// Ends the backoff of a key, and adds it now.
    pub fn retry(&self, key: &K) {
        self.change(|shared| {
            shared.limiter.forget(key);
            shared.state.end_delay(key);
            shared.state.add(key.clone(), Priority::Normal, now())
        });
    }

    /// Reports whether the key is ready, delayed or being processed, or has failures.
    pub fn has(&self, key: &K) -> bool {
        let shared = self.lock();
        shared.state.has(key) || shared.limiter.num_requeues(key) > 0
    }

    /// Returns the phase of a key; None if the queue does not have it.
    pub fn phase(&self, key: &K) -> Option<KeyPhase> {
        self.lock().state.phase(key, now())
    }

    /// Returns the number of failures of the key since it was last forgotten.
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.lock().limiter.num_requeues(key)
    }

    /// Returns the time that a key waited until it was handed out; None if it is not being
    /// processed.
    pub fn queue_duration(&self, key: &K) -> Option<Duration> {
        self.lock().state.queue_duration(key)
    }

    /// Waits for a key to process; [`Self::done`] has to be called afterwards. Returns None once
    /// the queue shuts down and no key is left. Cancel safe: a dropped call has taken no key.
    pub async fn get(&self) -> Option<K> {
        match self.next() {
            Next::Process(key) => return Some(key),
            Next::ShutDown => return None,
            Next::Wait(_) => {}
        }

        let mut woken = pin!(self.inner.ready.notified());
        loop {
            // Registers before the second look: a key added in between finds a consumer to wake.
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
    /// Ignored for a key that is not being processed.
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

    /// Returns the number of ready keys, for information: it may change before the caller reads it.
    pub fn len(&self) -> usize {
        self.lock().state.len()
    }

    /// Reports whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long the oldest ready key has been waiting; None if no key needs processing. Takes time
    /// in proportion to all keys in the queue.
    pub fn oldest(&self) -> Option<Duration> {
        let oldest = self.lock().state.oldest()?;
        Some(now().saturating_duration_since(oldest))
    }

    /// Returns the counters. Takes time in proportion to the keys being processed.
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

    /// The state with all keys added that are due by now; the clock is read only when some are
    /// waiting.
    fn lock(&self) -> MutexGuard<'_, Shared<K>> {
        let mut shared = self.inner.shared.lock();
        if shared.state.next_due().is_some() {
            shared.state.advance(now());
        }
        shared
    }

    /// Changes the queue, and wakes the consumers that this concerns.
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

/// tokio's clock, which tests pause.
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
