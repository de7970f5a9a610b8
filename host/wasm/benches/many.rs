//! Cost of many distinct plugins: `make bench-many`.
//!
//! There are [`PLUGINS`] plugins, which share only the engine: each is the example pod-tracker with
//! another number in a custom section. The first run compiles them into `target/bench/compiled`,
//! which takes minutes. Later runs load them from there.
//!
//! - `many.idle`: the anonymous memory of the process for each loaded plugin whose code is unmapped
//!   after idling (`Anonymous` of `/proc/self/smaps_rollup`, which leaves out pages of files).
//! - `many.loaded`: the same just after loading: the code is mapped, and the plugin was never
//!   called.
//! - `many.live`: the same after each plugin was called once.
//! - `many.load`: the time to load a plugin whose code is in the cache.
//! - `many.rotation_1`, `_100`, `_1000`: a reconcile, with this number of plugins called in turn.
//!   The difference is the cost of misses in the processor's caches and in the instance pool.
//! - `many.same_digest`: a reconcile, with 100 plugins of the same digest called in turn, as 100
//!   tenants of one operator.
//! - `many.mapped_again`: a reconcile, with 100 plugins called in turn, where each call maps the
//!   code again.
//!
//! `PLUGINS=100` runs fewer plugins. `ONLY=rotation_1,rotation_100` measures these metrics alone,
//! for a profiler; `memory` stands for the first four.

mod common;

use std::{
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use common::{AnyError, Ports, deployment, reconcile, reconciler, runtime};
use operetta_testkit::{
    bench::{Report, Row, Samples, is_chosen, number, only_starts},
    usage::anonymous_bytes,
    wat_guest::numbered,
};
use operetta_wasm::{Code, CodeCache, Engine, EngineConfig, LoadLimits, Plugin, PluginReconciler};
use tokio::runtime::Runtime;

const PLUGINS: usize = 1000;
const ROUNDS: usize = 9;
const CALLS: usize = 2000;
/// The time after which idle code is unmapped: shorter than the host's default, and longer than a
/// round.
const IDLE: Duration = Duration::from_secs(20);
/// The argument with which the bench compiles the plugins and exits.
const COMPILE: &str = "compile";

fn main() -> Result<(), AnyError> {
    if only_starts() {
        return Ok(());
    }
    let plugins = number("PLUGINS", PLUGINS);
    let rounds = number("ROUNDS", ROUNDS);
    let wasm = std::fs::read(
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/pod-tracker.wasm"),
    )?;
    let ports = Arc::new(Ports(Arc::new(deployment()?)));
    let runtime = runtime()?;
    let load_all =
        |engine: &Engine, numbers: &[usize]| -> Result<Vec<PluginReconciler>, AnyError> {
            let load = |&at: &usize| {
                let component = numbered(&wasm, at);
                let limits = LoadLimits::default();
                let loaded = Plugin::load(engine, component, &limits, ports.clone());
                Ok(reconciler(&Arc::new(runtime.block_on(loaded)?), &ports))
            };
            numbers.iter().map(load).collect()
        };
    let fill = |engine: &Engine, plugins: usize| load_all(engine, &Vec::from_iter(0..plugins));
    if std::env::args().any(|argument| argument == COMPILE) {
        return fill(&engine(u64::MAX)?, plugins).map(drop);
    }
    // Another process compiles, so that memory that compiling leaves behind is not measured.
    let started = Instant::now();
    let compiled = Command::new(std::env::current_exe()?)
        .arg(COMPILE)
        .status()?;
    assert!(compiled.success(), "{compiled}");
    println!(
        "{plugins} plugins, compiled or found in {:.0} s",
        started.elapsed().as_secs_f64()
    );

    let mut report = Report::new("many");
    let engine_of_all = engine(u64::MAX)?;
    drop(fill(&engine_of_all, 1)?);
    let before = anonymous_bytes(std::process::id());
    let started = Instant::now();
    let all = fill(&engine_of_all, plugins)?;
    let took = started.elapsed().as_secs_f64() * 1e3 / plugins as f64;
    if is_chosen("memory") {
        memory(&mut report, &runtime, &engine_of_all, &all, before);
        report.row(Row::new("many.load", "ms", Samples::new(vec![took])));
    }
    rotations(&mut report, &runtime, &all, rounds);
    drop(all);
    if is_chosen("same_digest") {
        let same = load_all(&engine_of_all, &[0; 100])?;
        report.row(Row::new(
            "many.same_digest",
            "us",
            Samples::of(rounds, || rotate(&runtime, &same, CALLS)),
        ));
    }
    if is_chosen("mapped_again") {
        let some = engine(0)?;
        let unmapped = fill(&some, 100.min(plugins))?;
        let samples = Samples::of(rounds, || rotate(&runtime, &unmapped, 200));
        report.row(Row::new("many.mapped_again", "us", samples));
    }
    report.finish()?;
    Ok(())
}

/// Measures the memory of each plugin, of a process that had `before` bytes without them.
fn memory(
    report: &mut Report,
    runtime: &Runtime,
    engine: &Engine,
    all: &[PluginReconciler],
    before: u64,
) {
    let each = || {
        let bytes = anonymous_bytes(std::process::id()).saturating_sub(before);
        Samples::new(vec![bytes as f64 / 1024.0 / all.len() as f64])
    };
    let loaded = each();
    runtime.block_on(async {
        while engine.mapped().mapped > 0 {
            tokio::time::sleep(IDLE / 10).await;
        }
        // Freed memory is returned to the system after a second:
        // docs/decisions/0006-memory-goes-back.md.
        tokio::time::sleep(IDLE).await;
    });
    report.row(Row::new("many.idle", "KiB", each()).target(60.0));
    report.row(Row::new("many.loaded", "KiB", loaded));
    rotate(runtime, all, all.len());
    report.row(Row::new("many.live", "KiB", each()).target(120.0));
}

/// Measures a reconcile of 1, 100 and all plugins in turn.
fn rotations(report: &mut Report, runtime: &Runtime, all: &[PluginReconciler], rounds: usize) {
    let mut sizes = vec![1, 100.min(all.len()), all.len()];
    sizes.dedup();
    sizes.retain(|of| is_chosen(&format!("rotation_{of}")));
    let mut measured: Vec<_> = sizes
        .iter()
        .map(|&of| move || rotate(runtime, &all[..of], CALLS))
        .collect();
    let mut measured: Vec<&mut dyn FnMut() -> f64> =
        measured.iter_mut().map(|one| one as _).collect();
    for (of, samples) in sizes
        .iter()
        .zip(Samples::interleaved(rounds, &mut measured))
    {
        let row = Row::new(format!("many.rotation_{of}"), "us", samples);
        report.row(if *of == 1 { row } else { row.target(80.0) });
    }
}

/// Makes an engine with this limit on mapped code.
fn engine(max_mapped_code_bytes: u64) -> Result<Engine, AnyError> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/bench/compiled");
    let cache = CodeCache::open(&directory, 16 << 30)?;
    let config = EngineConfig {
        max_mapped_code_bytes,
        max_idle_code: IDLE,
        ..EngineConfig::default()
    };
    Ok(Engine::with_code(&config, Code::new(Some(cache), None))?)
}

/// Calls the plugins in turn and returns the microseconds of one reconcile.
fn rotate(runtime: &Runtime, plugins: &[PluginReconciler], calls: usize) -> f64 {
    runtime.block_on(async {
        let started = Instant::now();
        for plugin in plugins.iter().cycle().take(calls) {
            reconcile(plugin, "pod").await;
        }
        started.elapsed().as_secs_f64() * 1e6 / calls as f64
    })
}
