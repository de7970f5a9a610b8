//! Rate limiters compute a failed key's delay. They are client-go's, with the time passed in and
//! one difference: events don't lengthen a backoff.
//!
//! | here | client-go `util/workqueue` | delay |
//! |---|---|---|
//! | [`ItemExponentialFailureRateLimiter`] | the same | `base * 2^failures` of this key, at most `base` plus the time since its first failure, and at most `max` |
//! | [`BucketRateLimiter`] | the same, over `x/time/rate` | until the shared bucket has a token |
//! | [`MaxOfRateLimiter`] | the same | the longest of its parts |
//!
//! [`MaxOfRateLimiter::default`] is client-go's [`DefaultTypedControllerRateLimiter`].
//!
//! An event reconciles a key right away, even during its backoff. If that fails too, client-go
//! doubles the delay: 18 events within an outage of seconds make the next try wait for 1,000 s
//! ([kubernetes#112325](https://github.com/kubernetes/kubernetes/issues/112325)). With retries
//! alone, the doubled delays add up to the time since the first failure. So capping the delay at
//! that time leaves plain retries as they are, and takes the effect out of events in between.
//!
//! [`DefaultTypedControllerRateLimiter`]: https://github.com/kubernetes/client-go/blob/v0.36.2/util/workqueue/default_rate_limiters.go#L50

use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

use crate::manifest;

/// Computes the delay before a key is retried (client-go's `TypedRateLimiter`).
pub trait RateLimiter<K>: Send {
    /// Counts a failure of the key and returns the delay for its failures so far.
    fn count(&mut self, key: &K, now: Instant) -> Duration;
    /// Reserves a place for a retry among those of all keys, and returns the time until then.
    fn reserve(&mut self, now: Instant) -> Duration;
    /// Counts a failure of the key, reserves a place for its retry, and returns the delay
    /// (client-go's `When`).
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        self.count(key, now).max(self.reserve(now))
    }
    /// Stops tracking the key: it succeeded or won't be retried.
    fn forget(&mut self, key: &K);
    /// Stops tracking all keys: the cause of their failures may have been fixed.
    fn forget_all(&mut self);
    /// How often the key failed since it was last forgotten.
    fn num_requeues(&self, key: &K) -> u32;
}

/// Doubles a key's delay with each failure, up to the time since the first one.
#[derive(Debug)]
pub struct ItemExponentialFailureRateLimiter<K> {
    /// Keys with failures since they were last forgotten.
    failures: HashMap<K, Failures>,
    base: Duration,
    max: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    /// At least 1.
    count: u32,
    /// When the first failure was counted.
    first: Instant,
}

impl<K> ItemExponentialFailureRateLimiter<K> {
    /// Creates a limiter with `base` as the first delay and `max` as the longest.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self {
            failures: HashMap::new(),
            base,
            max,
        }
    }
}

impl<K: Clone + Eq + Hash + Send> RateLimiter<K> for ItemExponentialFailureRateLimiter<K> {
    fn count(&mut self, key: &K, now: Instant) -> Duration {
        let failures = match self.failures.get_mut(key) {
            Some(failures) => {
                failures.count = failures.count.saturating_add(1);
                *failures
            }
            None => {
                let failures = Failures {
                    count: 1,
                    first: now,
                };
                self.failures.insert(key.clone(), failures);
                failures
            }
        };
        let since_first = now.saturating_duration_since(failures.first);

        // A factor overflowing u32 exceeds any maximum, except with a base of zero: that stays
        // zero.
        let delay = 2_u32
            .checked_pow(failures.count - 1)
            .and_then(|factor| self.base.checked_mul(factor));

        delay
            .unwrap_or(if self.base.is_zero() {
                self.base
            } else {
                self.max
            })
            .min(since_first.saturating_add(self.base))
            .min(self.max)
    }

    /// Keys don't wait for each other.
    fn reserve(&mut self, _: Instant) -> Duration {
        Duration::ZERO
    }

    fn forget(&mut self, key: &K) {
        // Most keys never fail, so don't bother hashing them.
        if !self.failures.is_empty() {
            self.failures.remove(key);
        }
    }

    fn forget_all(&mut self) {
        self.failures = HashMap::new();
    }

    fn num_requeues(&self, key: &K) -> u32 {
        if self.failures.is_empty() {
            0
        } else {
            self.failures.get(key).map_or(0, |failures| failures.count)
        }
    }
}

/// A token bucket shared by all keys: `burst` tokens initially, then `qps` per second.
#[derive(Debug)]
pub struct BucketRateLimiter {
    /// How long it takes to add one token.
    interval: Duration,
    /// How long an empty bucket takes to fill.
    fill: Duration,
    /// When the bucket is full again; None if it has never been used.
    full_at: Option<Instant>,
}

impl BucketRateLimiter {
    /// Creates a full bucket. Zero counts as 1: keys would get stuck on a bucket that never fills.
    pub fn new(qps: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / qps.max(1);
        Self {
            interval,
            fill: interval.saturating_mul(burst.max(1)),
            full_at: None,
        }
    }

    /// Takes tokens, on credit if there are none.
    pub fn spend(&mut self, tokens: u32, now: Instant) {
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        self.full_at = Some(
            full_at
                .checked_add(self.interval.saturating_mul(tokens))
                .unwrap_or(full_at),
        );
    }
}

impl<K> RateLimiter<K> for BucketRateLimiter {
    /// Doesn't count failures.
    fn count(&mut self, _: &K, _: Instant) -> Duration {
        Duration::ZERO
    }

    /// Takes a token, on credit if there is none, and returns the time until it is available.
    fn reserve(&mut self, now: Instant) -> Duration {
        self.spend(1, now);
        let full_at = self.full_at.unwrap_or(now);
        full_at.duration_since(now).saturating_sub(self.fill)
    }

    fn forget(&mut self, _: &K) {}

    /// Does nothing: spent tokens stay spent.
    fn forget_all(&mut self) {}

    fn num_requeues(&self, _: &K) -> u32 {
        0
    }
}

/// Asks every limiter and returns the longest delay.
pub struct MaxOfRateLimiter<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOfRateLimiter<K> {
    /// Combines these limiters. Without any, nothing is delayed.
    pub fn new(limiters: Vec<Box<dyn RateLimiter<K>>>) -> Self {
        Self { limiters }
    }
}

impl<K> RateLimiter<K> for MaxOfRateLimiter<K> {
    fn count(&mut self, key: &K, now: Instant) -> Duration {
        self.limiters
            .iter_mut()
            .map(|limiter| limiter.count(key, now))
            .max()
            .unwrap_or_default()
    }

    fn reserve(&mut self, now: Instant) -> Duration {
        self.limiters
            .iter_mut()
            .map(|limiter| limiter.reserve(now))
            .max()
            .unwrap_or_default()
    }

    fn forget(&mut self, key: &K) {
        for limiter in &mut self.limiters {
            limiter.forget(key);
        }
    }

    fn forget_all(&mut self) {
        self.limiters
            .iter_mut()
            .for_each(|limiter| limiter.forget_all());
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.limiters
            .iter()
            .map(|limiter| limiter.num_requeues(key))
            .max()
            .unwrap_or(0)
    }
}

/// Per-key backoff and a shared bucket, with a manifest's numbers.
impl<K: Clone + Eq + Hash + Send + 'static> From<manifest::RateLimiter> for MaxOfRateLimiter<K> {
    fn from(numbers: manifest::RateLimiter) -> Self {
        let millis = |count: u32| Duration::from_millis(count.into());
        let base = millis(numbers.base_delay_ms);
        let max = millis(numbers.max_delay_ms);
        Self::new(vec![
            Box::new(ItemExponentialFailureRateLimiter::new(base, max)),
            Box::new(BucketRateLimiter::new(numbers.qps, numbers.burst)),
        ])
    }
}

/// client-go's default: 5 ms doubled up to 1,000 s per key, and 10 per second with bursts of 100
/// for all keys.
impl<K: Clone + Eq + Hash + Send + 'static> Default for MaxOfRateLimiter<K> {
    fn default() -> Self {
        manifest::RateLimiter::default().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn each_failure_doubles_delay_up_to_maximum() {
        let now = Instant::now();
        let mut limiter = ItemExponentialFailureRateLimiter::new(MS, 1000 * MS);
        let mut later = now;
        for millis in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000] {
            assert_eq!(limiter.when(&"one", later), millis * MS);
            later += millis * MS;
        }
        assert_eq!(limiter.when(&"two", now), MS, "keys are counted apart");
        assert_eq!(
            (limiter.num_requeues(&"one"), limiter.num_requeues(&"two")),
            (12, 1)
        );
        limiter.forget(&"one");
        assert_eq!(
            (limiter.num_requeues(&"one"), limiter.when(&"one", now)),
            (0, MS)
        );
    }

    #[test]
    fn failures_of_events_do_not_delay_beyond_time_since_the_first() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut limiter = ItemExponentialFailureRateLimiter::new(5 * MS, 1000 * second);

        // An event every 100 ms for 13 s.
        for at in (0..13_000).step_by(100) {
            let elapsed = Duration::from_millis(at);
            let delay = limiter.when(&"key", start + elapsed);
            assert!(delay <= elapsed + 5 * MS, "{delay:?} after {elapsed:?}");
        }
        assert_eq!(limiter.num_requeues(&"key"), 130, "each one is counted");

        let much_later = start + 5000 * second;
        assert_eq!(
            limiter.when(&"key", much_later),
            1000 * second,
            "a key that fails for hours waits as long as ever"
        );
    }

    #[test]
    fn many_failures_do_not_overflow_delay() {
        let mut now = Instant::now();
        let max = Duration::from_secs(3 * 24 * 3600);
        let mut limiter = ItemExponentialFailureRateLimiter::new(MS, max);
        let delays: Vec<_> = (0..10_000)
            .map(|_| {
                let delay = limiter.when(&"key", now);
                now += delay;
                delay
            })
            .collect();
        assert!(delays.is_sorted());
        assert_eq!(delays.last(), Some(&max));
        let mut limiter = ItemExponentialFailureRateLimiter::new(Duration::ZERO, max);
        assert!((0..100).all(|_| limiter.when(&"key", now).is_zero()));
        let mut limiter = ItemExponentialFailureRateLimiter::new(Duration::MAX, Duration::MAX);
        assert!((0..100).all(|_| limiter.when(&"key", now) == Duration::MAX));
    }

    #[test]
    fn bucket_passes_burst_then_spaces_requests() {
        let start = Instant::now();
        let mut bucket = BucketRateLimiter::new(10, 3);
        let mut when = |at: Duration| RateLimiter::<&str>::when(&mut bucket, &"key", start + at);
        let delays: Vec<_> = (0..5).map(|_| when(Duration::ZERO).as_millis()).collect();
        assert_eq!(delays, [0, 0, 0, 100, 200]);
        assert_eq!(
            when(250 * MS).as_millis(),
            50,
            "the debt is paid while time passes"
        );
        let later: Vec<_> = (0..4)
            .map(|_| when(Duration::from_secs(3600)).as_millis())
            .collect();
        assert_eq!(
            later,
            [0, 0, 0, 100],
            "a bucket never holds more than its burst"
        );
    }

    #[test]
    fn default_equals_client_go_default_controller_rate_limiter() {
        let now = Instant::now();
        let mut limiter = MaxOfRateLimiter::default();
        assert_eq!(limiter.when(&0, now), 5 * MS);
        assert_eq!(limiter.when(&0, now + 5 * MS), 10 * MS);
        for key in 1..99 {
            assert_eq!(limiter.when(&key, now), 5 * MS, "{key} is within the burst");
        }
        assert_eq!(
            limiter.when(&99, now),
            100 * MS,
            "the bucket is the slower one now"
        );
        assert_eq!(
            (limiter.num_requeues(&0), limiter.num_requeues(&99)),
            (2, 1)
        );
        limiter.forget(&0);
        assert_eq!(limiter.num_requeues(&0), 0);
    }

    #[test]
    fn uses_numbers_of_the_manifest() {
        let now = Instant::now();
        let numbers = manifest::RateLimiter {
            base_delay_ms: 1000,
            max_delay_ms: 3000,
            qps: 1,
            burst: 4,
        };
        let mut limiter = MaxOfRateLimiter::from(numbers);
        let mut later = now;
        let delays: Vec<_> = (0..6)
            .map(|_| {
                let delay = limiter.when(&"key", later);
                later += delay;
                delay.as_secs()
            })
            .collect();
        assert_eq!(delays, [1, 2, 3, 3, 3, 3]);

        let others: Vec<_> = (0..6)
            .map(|other| {
                limiter
                    .when(&["a", "b", "c", "d", "e", "f"][other], later)
                    .as_secs()
            })
            .collect();
        assert_eq!(others, [1, 1, 1, 1, 1, 2], "the sixth waits for the bucket");
    }

    #[test]
    fn bucket_of_zeroes_does_not_divide_by_zero() {
        let mut bucket = BucketRateLimiter::new(0, 0);
        let now = Instant::now();
        let delays: Vec<_> = (0..3).map(|_| bucket.when(&"key", now).as_secs()).collect();
        assert_eq!(delays, [0, 1, 2]);
    }
}
