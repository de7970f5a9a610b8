//! The counters of a plugin's calls, and the limits of its requests to the API server.
//!
//! A [`Throttle`] is shared by the gate, which delays calls that go to the API server, and by the
//! API behind the gate, which delays cached reads that turn out to need a request, bounds the
//! requests in flight, and charges large responses.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    gate::{
        in_flight::{Delay, Flow, Seat},
        operation::Verb,
    },
    queue::{BucketRateLimiter, RateLimiter as _},
};

/// The bytes of a response that one request pays for. A larger response counts as one more request
/// for each further `ANSWER_BYTES`: the API server's work grows with what it encodes, as its own
/// Priority and Fairness has it for lists.
pub const ANSWER_BYTES: usize = 16 << 10;

/// A rate limiter of requests to the API server: `burst` requests at once, then `qps` per second.
/// All users of a quota share it.
pub struct CallRate(Mutex<BucketRateLimiter>);

impl CallRate {
    /// Creates a full bucket. Zero counts as 1.
    pub fn new(qps: u32, burst: u32) -> Self {
        Self(Mutex::new(BucketRateLimiter::new(qps, burst)))
    }

    /// Takes one token and returns how long the request must wait.
    fn take(&self) -> Duration {
        self.0.lock().when(&(), Instant::now().into_std())
    }

    /// Takes tokens on credit: later requests wait until they are repaid.
    fn spend(&self, tokens: u32) {
        self.0.lock().spend(tokens, Instant::now().into_std());
    }
}

/// Throttles requests to the API server: those that the gate knows of, and cached reads that the
/// API server has to answer.
#[derive(Clone, Default)]
pub struct Throttle {
    /// The quotas of requests in each second.
    pub rates: Vec<Arc<CallRate>>,
    /// The namespace's share of the requests in flight; None for no limit.
    pub in_flight: Option<Arc<Flow>>,
    /// The counters of throttled requests.
    pub meter: Arc<Meter>,
}

impl Throttle {
    /// Waits until every quota has a token for one more request.
    pub async fn wait(&self) {
        let wait = self
            .rates
            .iter()
            .map(|rate| rate.take())
            .max()
            .unwrap_or_default();

        if wait.is_zero() {
            return;
        }

        self.meter.delayed(Delay::Rate, wait);
        tokio::time::sleep(wait).await;
    }

    /// Waits until one more request may be in flight. The request is in flight until the seat is
    /// dropped. None: there is no limit.
    pub async fn begin(&self) -> Option<Seat> {
        let flow = self.in_flight.as_ref()?;
        let began = Instant::now();
        let (seat, delay) = flow.begin().await;
        if let Some(delay) = delay {
            self.meter.delayed(delay, began.elapsed());
        }
        seat
    }

    /// Charges a response of this size, see [`ANSWER_BYTES`].
    pub fn charge_answer(&self, bytes: usize) {
        let further = u32::try_from(bytes / ANSWER_BYTES).unwrap_or(u32::MAX);
        if further > 0 {
            self.rates.iter().for_each(|rate| rate.spend(further));
            self.in_flight.iter().for_each(|flow| flow.charge(further));
        }
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
    /// The time spent in calls on objects, in microseconds, without the time that [`CallRate`]
    /// delayed them.
    pub call_micros: AtomicU64,
    /// The number of requests that were delayed.
    pub throttled: AtomicU64,
    /// How long requests were delayed, in microseconds, for each [`Delay`].
    delayed_micros: [AtomicU64; Delay::Shared as usize + 1],
    /// The peak linear memory of one instance, in bytes.
    pub peak_memory_bytes: AtomicU64,
}

impl Meter {
    /// Counts one call.
    pub(crate) fn count(&self, verb: Verb) {
        self.calls[verb as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one request that was delayed.
    fn delayed(&self, delay: Delay, wait: Duration) {
        self.throttled.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.delayed_micros[delay as usize].fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns how long requests have waited for this, added up.
    pub fn delayed_by(&self, delay: Delay) -> Duration {
        Duration::from_micros(self.delayed_micros[delay as usize].load(Ordering::Relaxed))
    }

    /// Returns how long requests have waited, for whatever, added up.
    pub fn delayed_time(&self) -> Duration {
        let micros = self.delayed_micros.iter();
        Duration::from_micros(micros.map(|micros| micros.load(Ordering::Relaxed)).sum())
    }

    /// Counts one write that was not sent because it would have changed nothing.
    pub(crate) fn count_suppressed(&self, verb: Verb) {
        self.suppressed[verb as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of writes of this verb that were not sent because they would have changed
    /// nothing.
    pub fn suppressed(&self, verb: Verb) -> u64 {
        self.suppressed[verb as usize].load(Ordering::Relaxed)
    }

    /// Returns the number of calls of this verb.
    pub fn calls(&self, verb: Verb) -> u64 {
        self.calls[verb as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::in_flight::Seats;

    #[tokio::test(start_paused = true)]
    async fn large_answers_delay_later_requests() {
        let throttle = Throttle {
            rates: vec![Arc::new(CallRate::new(10, 2))],
            ..Throttle::default()
        };
        let began = Instant::now();
        throttle.wait().await;
        throttle.charge_answer(ANSWER_BYTES - 1);
        throttle.wait().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "small answers are free");
        throttle.charge_answer(20 * ANSWER_BYTES);
        throttle.wait().await;
        assert_eq!(began.elapsed().as_millis(), 2_100);
    }

    #[tokio::test(start_paused = true)]
    async fn request_waits_while_too_many_are_in_flight() {
        let throttle = Throttle {
            in_flight: Some(Seats::new(2).flow(100, 1)),
            ..Throttle::default()
        };
        let first = throttle.begin().await;
        assert!(first.is_some());
        let second = tokio::time::timeout(Duration::from_secs(3), throttle.begin());
        assert!(second.await.is_err(), "one is in flight");
        let waits = throttle.clone();
        let third = tokio::spawn(async move { waits.begin().await });
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(first);
        assert!(third.await.expect("no panic").is_some());
        assert_eq!(
            throttle.meter.delayed_by(Delay::InFlight),
            Duration::from_secs(2)
        );
        assert_eq!(throttle.meter.delayed_time(), Duration::from_secs(2));
        assert!(Throttle::default().begin().await.is_none(), "no limit");
    }
}
