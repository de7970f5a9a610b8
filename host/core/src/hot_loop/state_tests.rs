//! Tests of the counting of looping keys and of their delays, with the time passed in.
//!
//! Random histories print their seed; `OPERETTA_SEED` repeats one.

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::state::*;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// A key that triggers itself and is reconciled whenever it is admitted.
struct Life {
    state: State<&'static str>,
    now: Instant,
}

impl Life {
    fn new() -> Self {
        Self {
            state: State::default(),
            now: Instant::now(),
        }
    }

    fn write(&mut self, key: &'static str) {
        let depth = self.state.depth(&key) + 1;
        self.state.trigger(
            &key,
            Trigger::Write {
                depth,
                other: false,
            },
            self.now,
        );
    }

    /// Runs one reconcile that writes, and its event. Returns the delay if the key is held instead.
    fn turn(&mut self, key: &'static str) -> Option<(Duration, Option<Looping>)> {
        match self.state.admit(&key, self.now) {
            Admission::Hold(delay, looping) => Some((delay, looping)),
            Admission::Run => {
                self.now += MS;
                self.write(key);
                self.state.ended(&key, false, self.now);
                None
            }
        }
    }

    /// Returns the number of reconciles without a pause until the key is held.
    fn until_held(&mut self, key: &'static str) -> (u32, Duration, Looping) {
        for runs in 0..1000 {
            if let Some((delay, looping)) = self.turn(key) {
                return (runs, delay, looping.expect("reported when it begins"));
            }
        }
        panic!("it is never held");
    }
}

#[test]
fn slows_then_quarantines_a_self_writing_key() {
    let mut life = Life::new();
    let (runs, delay, looping) = life.until_held("a");
    // One for the change from outside, the chain that is not counted, and the burst.
    assert_eq!((runs, delay), (1 + CHAIN + BURST, Duration::from_secs(1)));
    assert_eq!(
        (
            looping.stage,
            looping.runs,
            looping.by_write,
            looping.by_requeue
        ),
        {
            let runs = CHAIN + BURST;
            (Stage::Slowed { round: 1 }, runs, runs, 0)
        }
    );
    let mut waits = vec![delay];
    let mut last = looping;
    while last.stage != Stage::Quarantined {
        assert_eq!(
            life.turn("a"),
            Some((*waits.last().expect("one"), None)),
            "reported once, and held the whole time"
        );
        life.now += *waits.last().expect("one");
        assert_eq!(life.turn("a"), None, "its turn");
        let (delay, looping) = life.turn("a").expect("and no second one");
        waits.push(delay);
        last = looping.expect("reported");
    }
    let seconds: Vec<u64> = waits.iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 600]);
    let summary = life.state.summary(life.now);
    assert_eq!((summary.slowed, summary.quarantined), (0, 1));
    life.now += QUARANTINE;
    assert_eq!(life.turn("a"), None, "it is tried once");
    let (delay, looping) = life.turn("a").expect("it loops on");
    assert_eq!(
        (delay, looping.map(|looping| looping.stage)),
        (QUARANTINE, Some(Stage::Quarantined))
    );
}

#[test]
fn outside_change_releases_a_held_key() {
    let mut life = Life::new();
    for _ in 0..3 {
        assert_eq!(life.until_held("a").0, 1 + CHAIN + BURST);
        assert!(life.state.outside(&"a"), "it was held");
        assert_eq!(
            (life.state.len(), life.state.summary(life.now).slowed),
            (0, 0)
        );
    }
    assert!(!life.state.outside(&"a"));
}

#[test]
fn other_keys_do_not_wait_for_one_that_loops() {
    let mut life = Life::new();
    life.until_held("a");
    assert_eq!(life.until_held("b").0, 1 + CHAIN + BURST);
}

#[test]
fn polls_backoff_and_resyncs_are_not_loops() {
    // Requeued after one second for a day, with a write each time.
    let mut life = Life::new();
    for _ in 0..86_400 {
        assert_eq!(life.turn("polls"), None);
        // For the event of the write; this reconcile writes nothing.
        assert_eq!(life.state.admit(&"polls", life.now), Admission::Run);
        life.state.ended(&"polls", false, life.now);
        life.now += Duration::from_secs(1);
    }
    // A phased operator: it writes twenty times in a row and is done.
    let mut life = Life::new();
    for _ in 0..20 {
        assert_eq!(life.turn("phased"), None);
    }
    assert_eq!(life.state.admit(&"phased", life.now), Admission::Run);
    life.state.ended(&"phased", false, life.now);
    life.state.summary(life.now + REFILL * BURST);
    assert_eq!(life.state.len(), 0, "nothing is kept of it");
    // No own trigger: failures with any backoff, and resyncs.
    let mut life = Life::new();
    for _ in 0..10_000 {
        assert_eq!(life.state.admit(&"fails", life.now), Admission::Run);
        life.state.ended(&"fails", false, life.now);
    }
    assert_eq!(life.state.len(), 0);
}

#[test]
fn allows_one_own_write_a_second_not_two() {
    let held_within = |pause: Duration| {
        let mut life = Life::new();
        (0..1000).any(|_| {
            life.now += pause;
            life.turn("a").is_some()
        })
    };
    assert!(!held_within(Duration::from_secs(1)));
    assert!(held_within(Duration::from_millis(500)));
}

#[test]
fn immediate_requeues_are_a_separate_loop() {
    let mut state = State::default();
    let now = Instant::now();
    for runs in 0..100 {
        match state.admit(&"a", now) {
            Admission::Run => state.ended(&"a", true, now),
            Admission::Hold(_, looping) => {
                let looping = looping.expect("reported");
                assert_eq!(
                    (runs, looping.by_requeue, looping.by_write),
                    (1 + CHAIN + BURST, CHAIN + BURST, 0)
                );
                return;
            }
        }
    }
    panic!("it is never held");
}

#[test]
fn mutual_writes_are_a_loop_shared_target_is_not() {
    let mut state = State::default();
    let mut now = Instant::now();
    for _ in 0..10_000 {
        // The reconcile of another key, for a change from outside, writes to it; it writes its own
        // status.
        state.trigger(
            &"sum",
            Trigger::Write {
                depth: 1,
                other: true,
            },
            now,
        );
        assert_eq!(state.admit(&"sum", now), Admission::Run);
        state.trigger(
            &"sum",
            Trigger::Write {
                depth: state.depth(&"sum") + 1,
                other: false,
            },
            now,
        );
        state.ended(&"sum", false, now);
        now += MS;
    }
    let mut from = "a";
    let mut to = "b";
    for turn in 0..1000 {
        let depth = state.depth(&from) + 1;
        state.trigger(&to, Trigger::Write { depth, other: true }, now);
        state.ended(&from, false, now);
        (from, to) = (to, from);
        if state.admit(&from, now) != Admission::Run {
            assert!(turn >= 2 * BURST, "each has its own burst: {turn}");
            return;
        }
    }
    panic!("ping and pong for ever");
}

#[test]
fn corrects_wrong_origin_of_a_write() {
    let mut life = Life::new();
    life.until_held("a");
    assert!(
        !life.state.correct(
            &"a",
            Trigger::Write {
                depth: 40,
                other: true
            },
            life.now
        ),
        "it is its own"
    );
    assert!(
        life.state.correct(
            &"a",
            Trigger::Write {
                depth: 1,
                other: true
            },
            life.now
        ),
        "it follows from outside"
    );
    assert_eq!(life.state.admit(&"a", life.now), Admission::Run);
    assert_eq!(life.state.depth(&"a"), 1);
    assert!(!life.state.correct(
        &"unknown",
        Trigger::Write {
            depth: 1,
            other: false
        },
        life.now
    ));
    assert_eq!(life.state.len(), 1, "of what is over nothing is begun");
}

#[test]
fn forgets_key_at_rest() {
    let mut life = Life::new();
    let (_, delay, _) = life.until_held("a");
    life.now += delay;
    assert_eq!(life.state.admit(&"a", life.now), Admission::Run);
    life.state.ended(&"a", false, life.now);
    assert_eq!(life.state.summary(life.now).slowed, 1, "it may go on");
    life.now += Duration::from_secs(61);
    assert_eq!(
        (life.state.summary(life.now).slowed, life.state.len()),
        (0, 0)
    );
}

#[test]
fn memory_is_bounded_and_further_keys_still_run() {
    let mut state = State::default();
    let now = Instant::now();
    for key in 0..KEYS + 100 {
        state.trigger(
            &key,
            Trigger::Write {
                depth: 1,
                other: false,
            },
            now,
        );
    }
    assert_eq!(state.len(), KEYS);
    assert_eq!(state.admit(&(KEYS + 50), now), Admission::Run);
    for key in 0..KEYS {
        assert_eq!(state.admit(&key, now), Admission::Run);
        state.ended(&key, false, now);
    }
    assert_eq!(state.len(), 0);
}

#[test]
fn no_number_of_rounds_overflows_a_wait() {
    let waits: Vec<u64> = [0, 1, 2, 6, 7, 64, 65, u32::MAX]
        .map(|round| delay_of_round(round).as_secs())
        .into();
    assert_eq!(waits, [1, 1, 2, 32, 60, 60, 60, 60]);
    let mut state = State::default();
    let now = Instant::now();
    state.trigger(
        &"a",
        Trigger::Write {
            depth: u32::MAX,
            other: false,
        },
        now,
    );
    assert_eq!(state.admit(&"a", now), Admission::Run);
    state.ended(&"a", true, now);
    assert_eq!(state.admit(&"a", now), Admission::Run);
    assert_eq!(state.depth(&"a"), u32::MAX);
    // A clock that another thread read before the previous reading.
    state.trigger(
        &"a",
        Trigger::Requeue { depth: 9 },
        now - Duration::from_secs(5),
    );
    let _any = state.admit(&"a", now - Duration::from_secs(5));
    state.summary(now - Duration::from_secs(5));
}

/// Checks invariants over histories of random triggers at random times: a key without own triggers
/// is never held unless it is delayed already; within any time t a key has at most about `BURST +
/// CHAIN * changes + t / REFILL` reconciles by own triggers; a change from outside always releases
/// the key; no delay is longer than a quarantine; and in the end, without triggers, no key is
/// remembered.
#[test]
fn random_histories_hold_only_loops() {
    let seed = std::env::var("OPERETTA_SEED")
        .ok()
        .map(|text| text.parse().expect("OPERETTA_SEED is a number"));
    let (first, runs) = seed.map_or_else(
        || (rand::random::<u32>().into(), 200),
        |seed: u64| (seed, 1),
    );
    for seed in first..first + runs {
        println!("OPERETTA_SEED={seed}");
        history(seed);
    }
}

fn history(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut state = State::<u8>::default();
    let start = Instant::now();
    let mut now = start;
    let keys = random.random_range(1..6);
    // For each key: the time at which it may be taken again, its own reconciles since the last
    // change from outside, and the time of that change.
    let mut own = vec![(0_u32, start); keys.into()];
    let mut asked = vec![false; keys.into()];
    let mut held_until: Vec<Option<Instant>> = vec![None; keys.into()];
    for _ in 0..random.random_range(1..3000) {
        let key: u8 = random.random_range(0..keys);
        let at = usize::from(key);
        match random.random_range(0..100) {
            0..3 => {
                let held = state.outside(&key);
                assert_eq!(held, held_until[at].take().is_some(), "{key}");
                (own[at], asked[at]) = ((0, now), false);
                assert_eq!(
                    state.admit(&key, now),
                    Admission::Run,
                    "{key} was asked for from outside"
                );
                state.ended(&key, false, now);
            }
            3..40 => {
                let depth = state.depth(&key) + random.random_range(CHAIN..CHAIN + 9);
                assert!(!state.trigger(
                    &key,
                    Trigger::Write {
                        depth: depth + 1,
                        other: random.random()
                    },
                    now
                ));
                asked[at] = true;
            }
            40..50 => now += random.random_range(0..3000) * MS,
            50..52 => now += random.random_range(0..700) * Duration::from_secs(1),
            _ => match state.admit(&key, now) {
                Admission::Hold(delay, looping) => {
                    assert!(delay <= QUARANTINE && !delay.is_zero());
                    assert!(
                        asked[at] || held_until[at].is_some(),
                        "{key}: nothing of its own asked for it"
                    );
                    assert_eq!(
                        looping.is_some(),
                        held_until[at].is_none_or(|until| now >= until),
                        "{key} is reported once"
                    );
                    held_until[at] = Some(now + delay);
                }
                Admission::Run => {
                    assert!(
                        held_until[at].is_none_or(|until| now >= until),
                        "{key} did not wait"
                    );
                    held_until[at] = None;
                    own[at].0 += u32::from(std::mem::take(&mut asked[at]));
                    let may = BURST + u32::try_from((now - own[at].1).as_secs()).expect("few") + 2;
                    assert!(own[at].0 <= may, "{key} ran {} times of {may}", own[at].0);
                    let requeues = random.random_range(0..4) == 0 && state.depth(&key) > CHAIN;
                    state.ended(&key, requeues, now);
                    asked[at] |= requeues;
                }
            },
        }
    }
    now += QUARANTINE;
    for key in 0..keys {
        // The delays of held keys have ended.
        for _ in 0..2 {
            if let Admission::Hold(delay, _) = state.admit(&key, now) {
                now += delay;
            } else {
                state.ended(&key, false, now);
            }
        }
        let _any = state.admit(&key, now);
        state.ended(&key, false, now);
    }
    now += QUARANTINE;
    assert_eq!((state.summary(now), state.len()), (Summary::default(), 0));
}
