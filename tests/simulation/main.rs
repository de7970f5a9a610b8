//! Runs of the host against the embedded API server in one process and on one thread, with a paused
//! clock. A seed decides everything: what the user does, the order and the delay of requests and
//! events, and the faults.
//!
//! `make test-simulation SEEDS=1000` runs many; `make test-simulation FIRST=17 SEEDS=1` runs one
//! again and prints its history. `invariants.rs` lists what is checked, `faults.rs` what goes
//! wrong.

mod cluster;
mod faults;
mod history;
mod invariants;
mod network;
mod run;
mod source;
mod user;

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use crate::{
    faults::Profile,
    run::{Outcome, Shared, run, run_with},
};

/// The seeds that `make test` runs.
const SEEDS: u64 = 25;

/// Returns a number from the environment.
fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs a seed. A panic counts as a breach.
fn caught(shared: &Shared, seed: u64) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| run(shared, seed))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default();
        Outcome {
            breaches: vec![format!("panic: {text}")],
            history: Vec::new(),
            starts: 0,
            writes: 0,
        }
    })
}

#[test]
fn no_run_breaks_an_invariant() {
    let [first, seeds] = [
        number("FIRST").unwrap_or(0),
        number("SEEDS").unwrap_or(SEEDS),
    ];

    let shared = Shared::new();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let began = Instant::now();
    let next = AtomicU64::new(first);
    let outcomes = Mutex::new(Vec::new());

    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        return;
                    }
                    let outcome = caught(&shared, seed);
                    if seeds == 1 || !outcome.breaches.is_empty() {
                        println!("{}", outcome.history.join("\n"));
                        println!("seed {seed}: {:?}", outcome.breaches);
                        println!("run it again: make test-simulation FIRST={seed} SEEDS=1");
                    }
                    let Outcome {
                        breaches,
                        history,
                        starts,
                        writes,
                    } = outcome;
                    outcomes.lock().expect("no panic").push((
                        seed,
                        breaches,
                        history.len(),
                        starts,
                        writes,
                    ));
                }
            });
        }
    });

    let outcomes = outcomes.into_inner().expect("no panic");
    let seconds = began.elapsed().as_secs_f64();
    let lines: usize = outcomes.iter().map(|(_, _, lines, _, _)| lines).sum();
    let starts: u32 = outcomes.iter().map(|(_, _, _, starts, _)| starts).sum();
    let writes: usize = outcomes.iter().map(|(_, _, _, _, writes)| writes).sum();

    println!(
        "{seeds} runs: {starts} starts of a host, {writes} writes of the plugin, {lines} lines of history"
    );
    println!(
        "{seconds:.1} s on {threads} threads: {:.0} runs a minute",
        seeds as f64 * 60.0 / seconds
    );

    let failed = outcomes
        .iter()
        .filter(|(_, breaches, ..)| !breaches.is_empty());
    let failed: Vec<String> = failed
        .map(|(seed, breaches, ..)| format!("seed {seed}: {}", breaches.join("; ")))
        .collect();

    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(writes as u64 > seeds, "the plugin works");
}

/// The seeds that once broke an invariant. In 5178, one request of discovery without a response
/// ended the watch of Leases.
const ONCE_BROKEN: &[u64] = &[5178, 17275];

#[test]
fn no_run_that_once_failed_fails_again() {
    let shared = Shared::new();
    for &seed in ONCE_BROKEN {
        assert_eq!(
            run(&shared, seed).breaches,
            Vec::<String>::new(),
            "seed {seed}"
        );
    }
}

#[test]
fn same_seed_has_the_same_history() {
    let shared = Shared::new();

    for seed in 0..5 {
        let [one, other] = [(); 2].map(|()| run(&shared, seed).history);
        let differs = one.iter().zip(&other).position(|(one, other)| one != other);
        if let Some(at) = differs {
            panic!(
                "seed {seed} differs in line {at}:\n{}\n{}\nafter\n{}",
                one[at],
                other[at],
                one[..at].join("\n")
            );
        }
        assert_eq!(one.len(), other.len(), "seed {seed}");
        assert!(one.len() > 100, "the run did something");
    }
}

#[test]
fn lost_events_are_found() {
    let shared = Shared::new();
    let profile = Profile {
        lost_events: 200,
        ..Profile::NONE
    };

    let found = (0..10)
        .filter(|seed| !run_with(&shared, *seed, Some(profile)).breaches.is_empty())
        .count();
    assert!(
        found > 0,
        "10 runs whose watches lose events break no invariant"
    );

    let without = (0..3).all(|seed| {
        run_with(&shared, seed, Some(Profile::NONE))
            .breaches
            .is_empty()
    });
    assert!(without, "a run without faults breaks an invariant");
}
