//! Histories of replicas that are killed, stopped, cut off, slowed down and replaced at random
//! moments, whose clocks are stepped and whose Leases are edited by hand: whatever happens, no key
//! is reconciled by two at once, no write comes after its epoch, and no key is lost. One of the
//! plugins is split, into another number of shards from time to time. `operetta_testkit::history`
//! says what is checked, and what guarantees it.
//!
//! `make test-ha SEEDS=200` runs many; `make test-ha FIRST=17 SEEDS=1` runs one again. A seed
//! determines what is done, but not how the processes interleave. `PARALLEL=4` histories run at
//! once, each on a control plane of its own, because all hosts of a control plane share its
//! Plugins, whatever the namespace of their Leases. That is why this is a file of its own.

mod fate;
mod history;
mod replica;

use std::{
    any::Any,
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use operetta_testkit::ControlPlane;
use rand::{SeedableRng, rngs::StdRng};

use crate::history::{Summary, by_fate, plan, run};

/// The seeds that `make test` runs.
const SEEDS: u64 = 20;
/// The histories that run at once. They mostly wait.
const PARALLEL: usize = 5;

/// The results of all histories.
#[derive(Default)]
struct Results {
    summaries: Vec<Summary>,
    times: Vec<Duration>,
    /// The seeds that have failed, with the reason.
    failed: Vec<(u64, String)>,
}

/// Runs the histories of the next seeds on one control plane.
fn run_seeds(next: &AtomicU64, end: u64, results: &Mutex<Results>) {
    let mut control_plane = None;
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }

        let control_plane_of_seed = control_plane.get_or_insert_with(|| {
            let started = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
            started.install_host();
            started
        });

        let began = Instant::now();
        let history = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(run(control_plane_of_seed, seed))
        };

        let ended = catch_unwind(AssertUnwindSafe(history));
        let took = began.elapsed();
        let mut results = results
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());

        match ended {
            Ok(summary) => {
                let Summary {
                    processes,
                    reconciles,
                    ..
                } = summary;
                println!(
                    "seed {seed}: {processes} processes, {reconciles} reconciles, no breach, {took:.1?}"
                );
                results.summaries.push(summary);
                results.times.push(took);
            }
            Err(panic) => {
                let reason = words(&*panic);
                let logs = keep_logs(control_plane_of_seed, seed);
                println!("seed {seed} FAILED: {reason}\nits logs: {}", logs.display());
                println!("run it again: make test-ha FIRST={seed} SEEDS=1");
                results.failed.push((seed, reason));
                // What is left of the history must not disturb the next one.
                control_plane = None;
            }
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_default()
}

/// Copies the logs of a history's hosts, and the audit log, to a folder that stays.
fn keep_logs(control_plane: &ControlPlane, seed: u64) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let root = operetta_testkit::repository();
    let kept = target
        .unwrap_or_else(|| root.join("target"))
        .join(format!("test-ha/seed-{seed}"));
    let _not_there = fs::remove_dir_all(&kept);
    fs::create_dir_all(&kept).expect("a folder");

    for entry in fs::read_dir(control_plane.folder())
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        let (from, to) = match name.as_str() {
            "audit.log" => (entry.path(), name),
            _ if name.starts_with("host-") => (entry.path().join("stderr"), format!("{name}.log")),
            _ => continue,
        };

        let _it_may_be_missing = fs::copy(from, kept.join(to));
    }

    kept
}

fn print_table(results: &Results) {
    println!(
        "{:<14} {:>5} {:>9} {:>9} {:>9}",
        "fate", "keys", "p50 ms", "p99 ms", "max ms"
    );

    for (fate, mut pauses) in by_fate(&results.summaries) {
        pauses.sort_by(f64::total_cmp);
        let at = |part: f64| pauses[((pauses.len() - 1) as f64 * part).ceil() as usize];
        let name = format!("{fate:?}");
        println!(
            "{name:<14} {:>5} {:>9.0} {:>9.0} {:>9.0}",
            pauses.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }

    let seconds: f64 = results.times.iter().map(Duration::as_secs_f64).sum();
    if !results.times.is_empty() {
        println!(
            "a history takes {:.1} s",
            seconds / results.times.len() as f64
        );
    }
}

#[test]
fn no_history_breaks_a_promise() {
    let number = |name: &str, default: u64| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let first = number("FIRST", 0);
    let seeds = number("SEEDS", SEEDS);
    let parallel = number("PARALLEL", PARALLEL as u64).min(seeds);

    let began = Instant::now();
    let next = AtomicU64::new(first);
    let results = Mutex::new(Results::default());
    thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| run_seeds(&next, first + seeds, &results));
        }
    });

    let results = results.into_inner().expect("no panic");
    print_table(&results);
    let each = began.elapsed().as_secs_f64() / seeds as f64;
    println!(
        "{seeds} histories, {parallel} at once: {:.1?}, {each:.1} s for each",
        began.elapsed()
    );

    let failed: Vec<String> = results
        .failed
        .iter()
        .map(|(seed, reason)| format!("seed {seed}: {reason}"))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(results.summaries.len() as u64, seeds);
}

#[test]
fn seven_seeds_have_all_fates() {
    let fates = |seed: u64| {
        plan(seed, &mut StdRng::seed_from_u64(seed))
            .into_iter()
            .flat_map(|step| step.0)
    };

    let mut met: Vec<_> = (40..47).flat_map(fates).collect();
    met.sort();
    met.dedup();
    assert_eq!(met.len(), fate::FATES.len());
    assert_eq!(fates(3).collect::<Vec<_>>(), fates(3).collect::<Vec<_>>());
}
