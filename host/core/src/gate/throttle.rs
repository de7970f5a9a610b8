//! The counters of a plugin's calls, and the limits of its requests to the API server.
//!
//! A [`Throttle`] is shared by the gate, which delays calls that go to the API server, and by the
//! API behind the gate, which delays cached reads that turn out to need a request, bounds the
//! requests in flight, and charges large responses.

use std::{
    cell::Cell,
    pin::pin,
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
        wait_time::WaitTime,
    },
    queue::{BucketRateLimiter, RateLimiter as _},
    status::{ApiError, ErrorKind},
};

/// The bytes of a response that one request pays for. A larger response counts as one more request
/// for each further `ANSWER_BYTES`: the API server's work grows with what it encodes, as its own
/// Priority and Fairness has it for lists.
pub const ANSWER_BYTES: usize = 16 << 10;

tokio::task_local! {
    /// What the call that runs on this task waits for. A call that is cut off never clears it.
    static WAITS_FOR: Cell<Option<Delay>>;
}

/// Runs a call for at most this time.
///
/// # Errors
/// `TimedOut`, which names the call and the quota it was waiting for at the end, if any.
pub async fn within<T>(
    limit: Duration,
    what: String,
    call: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    // The call may be large, and each layer around it would hold it once more.
    let call = pin!(call);
    let timed = async {
        tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
            let quota = match WAITS_FOR.with(Cell::get) {
                None => "",
                Some(Delay::Rate) => {
                    ": it was waiting for the quota of requests in each second (apiQps under quotas of the host's configuration)"
                }
                Some(Delay::InFlight) => {
                    ": it was waiting for a request of its namespace to end (apiInFlight of the namespace, under quotas of the \
                     host's configuration)"
                }
                Some(Delay::Shared) => {
                    ": it was waiting for a request of any namespace to end (quotas.apiInFlight of the host's configuration)"
                }
            };
            let message = format!("{what} took longer than {} s{quota}", limit.as_secs_f32());
            Err(ApiError::new(ErrorKind::TimedOut, message))
        })
    };
    WAITS_FOR.scope(Cell::new(None), timed).await
}

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

        self.meter
            .delay(Delay::Rate, tokio::time::sleep(wait))
            .await;
    }

    /// Waits until one more request may be in flight. The request is in flight until the seat is
    /// dropped. None: there is no limit.
    pub async fn begin(&self) -> Option<Seat> {
        match self.in_flight.as_ref()?.request() {
            Ok(seat) => Some(seat),
            Err(pending) => {
                let delay = pending.delay;
                self.meter.delay(delay, pending.granted()).await
            }
        }
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
    /// How long requests were delayed, for each [`Delay`].
    delays: [WaitTime; Delay::Shared as usize + 1],
    /// How long calls have waited for a slot of the instance pool.
    pub slot_waits: WaitTime,
    /// The peak linear memory of one instance, in bytes.
    pub peak_memory_bytes: AtomicU64,
}

impl Meter {
    /// Counts one call.
    pub(crate) fn count(&self, verb: Verb) {
        self.calls[verb as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one request that is delayed, for as long as it waits.
    async fn delay<T>(&self, delay: Delay, wait: impl Future<Output = T>) -> T {
        self.throttled.fetch_add(1, Ordering::Relaxed);
        let _waiting = self.delays[delay as usize].begin();
        let _outside = WAITS_FOR.try_with(|waits_for| waits_for.set(Some(delay)));
        let result = wait.await;
        let _outside = WAITS_FOR.try_with(|waits_for| waits_for.set(None));
        result
    }

    /// Returns how long requests have waited for this, added up.
    pub fn delayed_by(&self, delay: Delay) -> Duration {
        self.delays[delay as usize].total()
    }

    /// Returns how long requests have waited, for whatever, added up.
    pub fn delayed_time(&self) -> Duration {
        self.delays.iter().map(WaitTime::total).sum()
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
        let waited = "the one that was given up, and the one that got its seat";
        assert_eq!(
            throttle.meter.delayed_by(Delay::InFlight),
            Duration::from_secs(5),
            "{waited}"
        );
        assert_eq!(throttle.meter.delayed_time(), Duration::from_secs(5));
        assert!(Throttle::default().begin().await.is_none(), "no limit");
    }

    #[tokio::test(start_paused = true)]
    async fn call_cut_off_names_the_quota_it_waited_for() {
        let limit = Duration::from_secs(10);
        let seats = Seats::new(1);
        let throttle = Throttle {
            in_flight: Some(seats.flow(100, 1)),
            ..Throttle::default()
        };
        let call = |throttle: Throttle| async move {
            let seat = throttle.begin().await;
            tokio::time::sleep(limit / 2).await;
            drop(seat);
            // Too slow by itself.
            tokio::time::sleep(limit).await;
            Ok(())
        };

        let slow = within(limit, "get a".to_owned(), call(throttle.clone())).await;
        let slow = slow.expect_err("too slow").status.message;
        assert_eq!(slow, "get a took longer than 10 s");

        let taken = throttle.begin().await;
        let waits = within(limit, "get b".to_owned(), call(throttle.clone())).await;
        let waits = waits.expect_err("it waits").status.message;
        assert!(
            waits.starts_with("get b took longer than 10 s: it was waiting")
                && waits.contains("apiInFlight of the namespace"),
            "{waits}"
        );
        assert_eq!(throttle.meter.delayed_time(), limit);

        let other = Throttle {
            in_flight: Some(seats.flow(100, 1)),
            ..Throttle::default()
        };
        let shared = within(limit, "get c".to_owned(), call(other)).await;
        let shared = shared.expect_err("it waits").status.message;
        assert!(shared.contains("quotas.apiInFlight"), "{shared}");
        drop(taken);
    }
}
