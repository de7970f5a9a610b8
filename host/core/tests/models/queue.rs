//! The whole queue against a naive model, on random histories in paused time, with two consumers:
//! it tests the parts that are not in the state of `queue_state.rs`.
//!
//! These invariants are checked after each step:
//!
//! - only rate-limited adds count as failures, and forget, a retry and a new rate limiter reset the
//!   count;
//! - a failed key returns when the backoff of the limiter at that time or an earlier delay has
//!   ended, and not before, unless it is retried;
//! - no consumer gets a key that the other one holds;
//! - a drain ends exactly when no key is left or being processed; a plain shut down ends it at
//!   once;
//! - after a shut down each dirty key is handed out, and no other.
//!
//! A failing run prints its seed; `OPERETTA_SEED` repeats it.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

use operetta_core::queue::{ItemExponentialFailureRateLimiter, Priority, WorkQueue};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::{Instant, advance};

type Key = u8;

const MS: Duration = Duration::from_millis(1);

/// Polls a future once.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// The state that a naive reader of the contract would keep.
#[derive(Default)]
struct Model {
    dirty: BTreeSet<Key>,
    processing: BTreeSet<Key>,
    waiting: BTreeMap<Key, Instant>,
    /// The number of failures, and the time of the first one.
    failures: BTreeMap<Key, (u32, Instant)>,
    base: Duration,
    shutting_down: bool,
}

impl Model {
    fn add(&mut self, key: Key) {
        if !self.shutting_down {
            self.dirty.insert(key);
        }
    }

    fn add_after(&mut self, key: Key, delay: Duration) {
        if delay.is_zero() {
            self.add(key);
        } else if !self.shutting_down {
            let due = Instant::now() + delay;
            self.waiting
                .entry(key)
                .and_modify(|at| *at = due.min(*at))
                .or_insert(due);
        }
    }

    fn add_rate_limited(&mut self, key: Key) {
        let now = Instant::now();
        let (failures, first) = self.failures.entry(key).or_insert((0, now));
        let doubled = self.base * 2_u32.pow((*failures).min(3));
        let delay = doubled.min(now - *first + self.base);
        *failures += 1;
        self.add_after(key, delay);
    }

    fn retry_failed(&mut self) -> usize {
        let failed = |key: &Key| self.failures.contains_key(key);
        let retried: Vec<Key> = self.waiting.keys().copied().filter(failed).collect();
        self.failures.clear();
        for key in &retried {
            self.waiting.remove(key);
            self.add(*key);
        }
        retried.len()
    }

    fn retry(&mut self, key: Key) {
        self.failures.remove(&key);
        self.waiting.remove(&key);
        self.add(key);
    }

    fn advance(&mut self) {
        let now = Instant::now();
        let due: Vec<Key> = self
            .waiting
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            self.waiting.remove(&key);
            self.add(key);
        }
    }

    /// The keys of which one must be handed out now.
    fn ready(&self) -> BTreeSet<Key> {
        self.dirty.difference(&self.processing).copied().collect()
    }

    fn is_drained(&self) -> bool {
        self.ready().is_empty() && self.processing.is_empty()
    }
}

/// Takes a key without waiting.
fn take(queue: &WorkQueue<Key>, model: &mut Model) {
    let ready = model.ready();
    match poll_once(pin!(queue.get()).as_mut()) {
        Some(Some(key)) => {
            assert!(
                ready.contains(&key),
                "{key} came, one of {ready:?} should have"
            );
            model.dirty.remove(&key);
            assert!(model.processing.insert(key), "{key} twice at once");
        }
        Some(None) => assert!(
            model.shutting_down && ready.is_empty(),
            "{ready:?} are left"
        ),
        None => assert!(
            !model.shutting_down && ready.is_empty(),
            "{ready:?} did not come"
        ),
    }
}

async fn run(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut model = Model {
        base: MS,
        ..Model::default()
    };
    let limiter = |base: Duration| ItemExponentialFailureRateLimiter::new(base, base * 8);
    let queue = WorkQueue::with_rate_limiter(limiter(MS));
    let keys = random.random_range(1..12);
    for _ in 0..random.random_range(1..300) {
        let key = random.random_range(0..keys);
        match random.random_range(0..100) {
            0..15 => {
                queue.add(key);
                model.add(key);
            }
            15..25 => {
                queue.add_with_priority(key, Priority::Low);
                model.add(key);
            }
            25..35 => {
                let delay = random.random_range(0..20) * MS;
                queue.add_after(key, delay);
                model.add_after(key, delay);
            }
            35..50 => {
                queue.add_rate_limited(key);
                model.add_rate_limited(key);
            }
            50..55 => {
                queue.forget(&key);
                model.failures.remove(&key);
            }
            55..57 => {
                model.base = random.random_range(1..5) * MS;
                model.failures.clear();
                queue.set_rate_limiter(limiter(model.base));
            }
            57..59 => assert_eq!(queue.retry_failed(), model.retry_failed()),
            59..61 => {
                queue.retry(&key);
                model.retry(key);
            }
            61..67 => advance(random.random_range(0..6) * MS).await,
            67..85 => take(&queue, &mut model),
            _ => {
                queue.done(&key);
                model.processing.remove(&key);
            }
        }
        model.advance();
        assert_eq!(
            queue.num_requeues(&key),
            model.failures.get(&key).map_or(0, |(count, _)| *count)
        );
        let stats = queue.stats();
        let counts = (queue.len(), stats.depth, stats.processing, stats.waiting);
        assert_eq!(
            counts,
            (
                model.ready().len(),
                model.dirty.len(),
                model.processing.len(),
                model.waiting.len()
            )
        );
    }
    let drain = random.random::<bool>();
    let by_force = random.random::<bool>();
    let mut drained = pin!(queue.shut_down_with_drain());
    if drain {
        let ended = poll_once(drained.as_mut()).is_some();
        assert_eq!(ended, model.is_drained());
    } else {
        queue.shut_down();
    }
    model.shutting_down = true;
    model.waiting.clear();
    let mut ended = !drain || model.is_drained();
    while !model.is_drained() {
        if drain && by_force && random.random_range(0..4) == 0 {
            queue.shut_down();
            assert!(
                ended || poll_once(drained.as_mut()).is_some(),
                "a plain shut down ends the waiting"
            );
            ended = true;
        }
        // Calls after a shut down change nothing.
        queue.add(random.random_range(0..keys));
        queue.add_rate_limited(random.random_range(0..keys));
        advance(MS).await;
        if random.random::<bool>() {
            take(&queue, &mut model);
        } else if let Some(key) = model.processing.pop_first() {
            queue.done(&key);
        }
        if drain && !ended {
            ended = poll_once(drained.as_mut()).is_some();
            assert_eq!(ended, model.is_drained(), "a drain ends with the last key");
        }
    }
    assert!(ended || poll_once(drained.as_mut()).is_some());
    assert_eq!(queue.get().await, None);
}

#[tokio::test(start_paused = true)]
async fn random_histories_match_naive_model() {
    let seed = std::env::var("OPERETTA_SEED")
        .ok()
        .map(|text| text.parse().expect("OPERETTA_SEED is a number"));
    let (first, runs) = seed.map_or_else(|| (rand::random::<u32>().into(), 300), |seed| (seed, 1));
    for seed in first..first + runs {
        println!("OPERETTA_SEED={seed}");
        run(seed).await;
    }
}
