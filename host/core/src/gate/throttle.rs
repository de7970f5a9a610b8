//! The counters of a plugin's calls, and the rate limits of its requests to the API server.
//!
//! A [`Throttle`] is shared by the gate, which throttles calls that go to the API server, and by the API behind the
//! gate, which throttles cached reads that turn out to need a request.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    gate::operation::Verb,
    queue::{BucketRateLimiter, RateLimiter as _},
};

/// A rate limiter of requests to the API server: `burst` requests at once, then `qps` per second. All users of a quota
/// share it.
pub struct CallRate(Mutex<BucketRateLimiter>);

impl CallRate {
    /// Creates a full bucket. Zero counts as 1.
    pub fn new(qps: u32, burst: u32) -> Self {
        Self(Mutex::new(BucketRateLimiter::new(qps, burst)))
    }

    /// Takes one token and returns how long the request must wait.
    fn take(&self) -> Duration {
        self.0.lock().when(&(), tokio::time::Instant::now().into_std())
    }
}

/// Throttles requests to the API server: those that the gate knows of, and cached reads that the API server has to
/// answer.
#[derive(Clone, Default)]
pub struct Throttle {
    /// The quotas.
    pub rates: Vec<Arc<CallRate>>,
    /// The counters of throttled requests.
    pub meter: Arc<Meter>,
}

impl Throttle {
    /// Waits until every quota has a token for one more request.
    pub async fn wait(&self) {
        let wait = self.rates.iter().map(|rate| rate.take()).max().unwrap_or_default();
        if wait.is_zero() {
            return;
        }
        self.meter.throttled.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.meter.throttled_micros.fetch_add(micros, Ordering::Relaxed);
        tokio::time::sleep(wait).await;
    }
}

/// Counters of a plugin's calls since it was loaded.
#[derive(Debug, Default)]
pub struct Meter {
    calls: [AtomicU64; Verb::Config as usize + 1],
    suppressed: [AtomicU64; Verb::Config as usize + 1],
    /// The number of calls that failed, refused ones included.
    pub errors: AtomicU64,
    /// The number of calls that the gate refused.
    pub refused: AtomicU64,
    /// The time spent in calls on objects, in microseconds, without the time that [`CallRate`] delayed them.
    pub call_micros: AtomicU64,
    /// The number of requests that a [`CallRate`] delayed.
    pub throttled: AtomicU64,
    /// The time that calls were throttled, in microseconds.
    pub throttled_micros: AtomicU64,
    /// The peak linear memory of one instance, in bytes.
    pub peak_memory_bytes: AtomicU64,
}

impl Meter {
    /// Counts one call.
    pub(crate) fn count(&self, verb: Verb) {
        self.calls[verb as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one write that was not sent because it would have changed nothing.
    pub(crate) fn count_suppressed(&self, verb: Verb) {
        self.suppressed[verb as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of writes of this verb that were not sent because they would have changed nothing.
    pub fn suppressed(&self, verb: Verb) -> u64 {
        self.suppressed[verb as usize].load(Ordering::Relaxed)
    }

    /// Returns the number of calls of this verb.
    pub fn calls(&self, verb: Verb) -> u64 {
        self.calls[verb as usize].load(Ordering::Relaxed)
    }
}
