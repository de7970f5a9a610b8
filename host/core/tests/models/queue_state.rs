//! The pure state against a naive model of the contract, on random operations.
//!
//! The model keeps plain lists and scans them. After every operation these must hold:
//!
//! - both hand out the same key: first in first out within a priority, a low key's turn after
//!   [`NORMAL_PER_LOW`];
//! - no key is handed out that is being processed;
//! - of two delays of a key the earliest counts, and the next due time is the same;
//! - a key that is added with a delay while it is processed keeps its priority, and of two delays
//!   the higher one counts;
//! - the numbers of ready, dirty, processing and waiting keys are equal, and those of dirty keys
//!   with low priority;
//! - the histograms have a duration for each key that was handed out, and for each that is done;
//! - the right consumers are woken: one for each key that becomes ready, all for a new earliest
//!   delay;
//! - after a shut down, which half of the histories have, nothing is added, nothing waits, and all
//!   that was dirty is handed out.
//!
//! At the end every key is done and every delay has ended: no key is lost and none is left.
//! Failures and draining, which the queue adds to the state, have their own model in
//! `queue.rs`.
//!
//! A failing run prints its seed; `OPERETTA_SEED` repeats it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use operetta_core::queue::{
    Priority,
    state::{NORMAL_PER_LOW, State, Wake},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

type Key = u8;

#[derive(Default)]
struct Model {
    /// The ready keys of both priorities, oldest first.
    ready: Vec<(Key, Priority)>,
    /// The keys added while processing.
    again: BTreeMap<Key, Priority>,
    processing: Vec<(Key, Priority)>,
    /// The due time, the order of arrival and the priority of each waiting key.
    waiting: BTreeMap<Key, ((Instant, usize), Priority)>,
    arrivals: usize,
    passed_over: u32,
    adds: u64,
    shutting_down: bool,
}

impl Model {
    fn add(&mut self, key: Key, priority: Priority) -> Wake {
        if self.shutting_down {
            return Wake::Nobody;
        }
        if self.processing.iter().any(|(of, _)| *of == key) {
            match self.again.get_mut(&key) {
                Some(before) => *before = (*before).max(priority),
                None => {
                    self.again.insert(key, priority);
                    self.adds += 1;
                }
            }
        } else if let Some(at) = self.ready.iter().position(|(ready, _)| *ready == key) {
            if self.ready[at].1 < priority {
                self.ready.remove(at);
                self.ready.push((key, priority));
            }
        } else {
            self.ready.push((key, priority));
            self.adds += 1;
            return Wake::One;
        }
        Wake::Nobody
    }

    /// Returns the priority of a key that is added with a delay.
    fn kept(&self, key: Key) -> Priority {
        self.processing
            .iter()
            .find(|(of, _)| *of == key)
            .map_or(Priority::Normal, |(_, priority)| *priority)
    }

    fn add_after(&mut self, key: Key, due: Instant) -> Wake {
        if self.shutting_down {
            return Wake::Nobody;
        }
        let priority = self.kept(key);
        if let Some((before, known)) = self.waiting.get_mut(&key) {
            *known = priority.max(*known);
            if before.0 <= due {
                return Wake::Nobody;
            }
        }
        let priority = self.waiting.get(&key).map_or(priority, |(_, known)| *known);
        self.waiting.insert(key, ((due, self.arrivals), priority));
        self.arrivals += 1;
        if self.next_due() == Some(due) {
            Wake::All
        } else {
            Wake::Nobody
        }
    }

    fn advance(&mut self, now: Instant) {
        let due = self.waiting.iter().filter(|(_, (at, _))| at.0 <= now);
        let mut due: Vec<_> = due
            .map(|(key, (at, priority))| (*at, *key, *priority))
            .collect();
        due.sort();
        for (_, key, priority) in due {
            self.waiting.remove(&key);
            let _wake = self.add(key, priority);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.waiting.values().map(|((due, _), _)| *due).min()
    }

    fn shut_down(&mut self) {
        self.shutting_down = true;
        self.waiting.clear();
    }

    fn get(&mut self) -> Option<Key> {
        let first = |priority| self.ready.iter().position(|(_, of)| *of == priority);
        let at = match (first(Priority::Normal), first(Priority::Low)) {
            (Some(normal), None) => {
                self.passed_over = 0;
                normal
            }
            (Some(normal), Some(_)) if self.passed_over < NORMAL_PER_LOW => {
                self.passed_over += 1;
                normal
            }
            (_, Some(low)) => {
                self.passed_over = 0;
                low
            }
            (None, None) => {
                self.passed_over = 0;
                return None;
            }
        };
        let (key, priority) = self.ready.remove(at);
        assert!(
            self.processing.iter().all(|(of, _)| *of != key),
            "{key} twice at once"
        );
        self.processing.push((key, priority));
        Some(key)
    }

    fn done(&mut self, key: Key) -> Wake {
        let Some(at) = self.processing.iter().position(|(of, _)| *of == key) else {
            return Wake::Nobody;
        };
        self.processing.remove(at);
        match self.again.remove(&key) {
            Some(priority) => {
                self.ready.push((key, priority));
                Wake::One
            }
            None => Wake::Nobody,
        }
    }
}

fn compare(state: &State<Key>, model: &Model, now: Instant) {
    let stats = state.stats(now);
    let counts = (
        state.len(),
        stats.depth,
        stats.processing,
        stats.waiting,
        stats.adds_total,
    );
    let priorities = model
        .ready
        .iter()
        .map(|(_, priority)| priority)
        .chain(model.again.values());
    assert_eq!(
        stats.depth_low,
        priorities
            .filter(|priority| **priority == Priority::Low)
            .count()
    );
    let in_histograms = (stats.queue_durations.count(), stats.work_durations.count());
    let handed_out = stats.adds_total - stats.depth as u64;
    assert_eq!(
        in_histograms,
        (handed_out, handed_out - stats.processing as u64)
    );
    let ready = model.ready.len();
    let expected = (
        ready,
        ready + model.again.len(),
        model.processing.len(),
        model.waiting.len(),
        model.adds,
    );
    assert_eq!(counts, expected);
    assert_eq!(state.next_due(), model.next_due());
    assert_eq!(
        state.is_drained(),
        model.ready.is_empty() && model.processing.is_empty()
    );
}

fn run(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let keys = random.random_range(1..40);
    let mut state = State::default();
    let mut model = Model::default();
    let mut now = Instant::now();
    let steps = random.random_range(1..800);
    let shut_down = random
        .random::<bool>()
        .then(|| random.random_range(0..steps));
    for step in 0..steps {
        let key: Key = random.random_range(0..keys);
        if shut_down == Some(step) {
            state.shut_down();
            model.shut_down();
        }
        match random.random_range(0..100) {
            0..20 => assert_eq!(
                state.add(key, Priority::Normal, now),
                model.add(key, Priority::Normal)
            ),
            20..40 => assert_eq!(
                state.add(key, Priority::Low, now),
                model.add(key, Priority::Low)
            ),
            40..55 => {
                let delay = Duration::from_millis(random.random_range(1..30));
                assert_eq!(
                    state.add_after(key, delay, now),
                    model.add_after(key, now + delay)
                );
            }
            55..60 => {
                let kept = model.kept(key);
                assert_eq!(
                    state.add_after(key, Duration::ZERO, now),
                    model.add(key, kept)
                );
            }
            60..70 => {
                now += Duration::from_millis(random.random_range(0..10));
                state.advance(now);
                model.advance(now);
            }
            70..90 => assert_eq!(state.get(now), model.get()),
            _ => assert_eq!(state.done(&key, now), model.done(key)),
        }
        compare(&state, &model, now);
    }
    now += Duration::from_secs(1);
    state.advance(now);
    model.advance(now);
    loop {
        let key = state.get(now);
        assert_eq!(key, model.get());
        let Some(key) = key.or_else(|| model.processing.first().map(|(key, _)| *key)) else {
            break;
        };
        assert_eq!(state.done(&key, now), model.done(key));
        compare(&state, &model, now);
    }
    assert!(state.is_drained() && state.stats(now).depth == 0 && state.next_due().is_none());
    assert_eq!(state.entries(), 0, "nothing is kept of a key that is done");
}

#[test]
fn random_operations_match_naive_model() {
    let seed = std::env::var("OPERETTA_SEED")
        .ok()
        .map(|text| text.parse().expect("OPERETTA_SEED is a number"));
    let (first, runs) = seed.map_or_else(|| (rand::random::<u32>().into(), 400), |seed| (seed, 1));
    for seed in first..first + runs {
        println!("OPERETTA_SEED={seed}");
        run(seed);
    }
}
