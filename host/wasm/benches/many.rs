//! Cost of many distinct plugins: `make bench-many`.
//!
//! There are [`PLUGINS`] plugins, which share only the engine: each is the example pod-tracker with another number in a
//! custom section. The first run compiles them into `target/bench/compiled`, which takes minutes. Later runs load them
//! from there.
//!
//! - `many.idle`: the anonymous memory of the process for each loaded plugin whose code is unmapped after idling
//!   (`Anonymous` of `/proc/self/smaps_rollup`, which leaves out pages of files).
//! - `many.loaded`: the same just after loading: the code is mapped, and the plugin was never called.
//! - `many.live`: the same after each plugin was called once.
//! - `many.load`: the time to load a plugin whose code is in the cache.
//! - `many.rotation_1`, `_100`, `_1000`: a reconcile, with this number of plugins called in turn. The difference is the
//!   cost of misses in the processor's caches and in the instance pool.
//! - `many.mapped_again`: a reconcile, with 100 plugins called in turn, where each call maps the code again.
//!
//! `PLUGINS=100` runs fewer plugins.

mod common;

use std::{
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use common::{AnyError, Ports, deployment, reconcile, reconciler, runtime};
use operetta_testkit::{
    bench::{Report, Row, Samples, number},
    usage::anonymous_bytes,
    wat_guest::numbered,
};
use operetta_wasm::{Code, CodeCache, Engine, EngineConfig, LoadLimits, Plugin, PluginReconciler};
use tokio::runtime::Runtime;

const PLUGINS: usize = 1000;
const ROUNDS: usize = 9;
const CALLS: usize = 2000;
/// The time after which idle code is unmapped: shorter than the host's default, and longer than a round.
const IDLE: Duration = Duration::from_secs(20);
/// The argument with which the bench compiles the plugins and exits.
const COMPILE: &str = "compile";

fn main() -> Result<(), AnyError> {
    // `cargo test --benches` only checks that the bench starts.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let plugins = number("PLUGINS", PLUGINS);
    let rounds = number("ROUNDS", ROUNDS);
    let wasm = std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/pod-tracker.wasm"))?;
    let ports = Arc::new(Ports(Arc::new(deployment()?)));
    let runtime = runtime()?;
    let fill = |engine: &Engine, plugins: usize| -> Result<Vec<PluginReconciler>, AnyError> {
        let load = |at| {
            let component = numbered(&wasm, at);
            let limits = LoadLimits::default();
            let loaded = Plugin::load(engine, component, &limits, ports.clone());
            Ok(reconciler(&Arc::new(runtime.block_on(loaded)?), &ports))
        };
        (0..plugins).map(load).collect()
    };
    if std::env::args().any(|argument| argument == COMPILE) {
        return fill(&engine(u64::MAX)?, plugins).map(drop);
    }
    // Another process compiles, so that memory that compiling leaves behind is not measured.
    let started = Instant::now();
    let compiled = Command::new(std::env::current_exe()?).arg(COMPILE).status()?;
    assert!(compiled.success(), "{compiled}");
    println!("{plugins} plugins, compiled or found in {:.0} s", started.elapsed().as_secs_f64());

    let mut report = Report::new("many");
    let engine_of_all = engine(u64::MAX)?;
    drop(fill(&engine_of_all, 1)?);
    let pid = std::process::id();
    let before = anonymous_bytes(pid);
    let started = Instant::now();
    let all = fill(&engine_of_all, plugins)?;
    let took = started.elapsed().as_secs_f64() * 1e3 / plugins as f64;
    let each = |bytes: u64| Samples::new(vec![bytes.saturating_sub(before) as f64 / 1024.0 / plugins as f64]);
    let loaded = each(anonymous_bytes(pid));
    runtime.block_on(async {
        while engine_of_all.mapped().mapped > 0 {
            tokio::time::sleep(IDLE / 10).await;
        }
        // Freed memory is returned to the system after a second: docs/decisions/0006-memory-goes-back.md.
        tokio::time::sleep(IDLE).await;
    });
    report.row(Row::new("many.idle", "KiB", each(anonymous_bytes(pid))).target(60.0));
    report.row(Row::new("many.loaded", "KiB", loaded));
    rotate(&runtime, &all, plugins);
    report.row(Row::new("many.live", "KiB", each(anonymous_bytes(pid))).target(120.0));
    report.row(Row::new("many.load", "ms", Samples::new(vec![took])));

    let of = [1, 100.min(plugins), plugins];
    let round = |of: usize| rotate(&runtime, &all[..of], CALLS);
    let samples = Samples::interleaved(rounds, &mut [&mut || round(of[0]), &mut || round(of[1]), &mut || round(of[2])]);
    for (of, samples) in of.into_iter().zip(samples) {
        report.row(Row::new(format!("many.rotation_{of}"), "us", samples));
    }
    drop(all);
    let some = engine(0)?;
    let unmapped = fill(&some, 100.min(plugins))?;
    let samples = Samples::of(rounds, || rotate(&runtime, &unmapped, 200));
    report.row(Row::new("many.mapped_again", "us", samples));
    report.finish()?;
    Ok(())
}

/// Makes an engine with this limit on mapped code.
fn engine(max_mapped_code_bytes: u64) -> Result<Engine, AnyError> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/bench/compiled");
    let cache = CodeCache::open(&directory, 16 << 30)?;
    let config = EngineConfig { max_mapped_code_bytes, max_idle_code: IDLE, ..EngineConfig::default() };
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
