//! Cost of one call into a guest, with a fresh instance for each reconcile, compared with native
//! Rust.
//!
//! - `call.fresh_bare`: a reconcile of a guest of ten instructions without imports: the cost of the
//!   host alone.
//! - `call.fresh_noop`: a reconcile of an SDK plugin that returns at once. The difference is the
//!   cost of the guest: its start, the imports of its language's library, the pages that it
//!   touches.
//! - `call.warm_noop`: the same in a warm instance: the most that instantiating ahead of the calls
//!   could save.
//! - `call.fresh_full`: read a Deployment of 3.3 KB, parse it, change its status, write it, parse
//!   the response. The peer does the same with the same types in the same process, in alternating
//!   rounds.
//! - `call.two_threads`: reconciles per second on two threads, divided by those on one; the peer is
//!   the same.
//!
//! `cargo bench -p operetta-wasm --bench call` also builds the guest. With `-- noop` it runs only
//! the first three metrics, for profilers.

mod common;

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Instant,
};

use common::{AnyError, Ports, deployment, guest, native, reconcile, reconciler, runtime};
use operetta_core::ports::ObjectApi;
use operetta_testkit::{
    bench::{Report, Row, Samples, number},
    wat_guest::Guest,
};
use operetta_wasm::{Engine, EngineConfig, LoadLimits, Plugin, PluginReconciler, WarmLimits};
use tokio::runtime::Runtime;

const ROUNDS: usize = 15;
const CALLS: u32 = 2000;

fn main() -> Result<(), AnyError> {
    let engine = Engine::new(&EngineConfig::default())?;
    println!("instances come from the pool: {}", engine.is_pooled());
    let ports = Arc::new(Ports(Arc::new(deployment()?)));
    println!("the object has {} bytes", ports.0.json().len());
    let runtime = runtime()?;
    let load = |wasm: Vec<u8>| -> Result<Arc<PluginReconciler>, AnyError> {
        let limits = LoadLimits::default();
        let plugin =
            Arc::new(runtime.block_on(Plugin::load(&engine, wasm, &limits, ports.clone()))?);
        Ok(Arc::new(reconciler(&plugin, &ports)))
    };
    let bare = load(Guest::default().build())?;
    let sdk = load(std::fs::read(guest()?)?)?;
    let warm = reconciler(sdk.plugin(), &ports).keep_warm(WarmLimits::default());

    let mut report = Report::new("call");
    let samples = Samples::interleaved(
        number("ROUNDS", ROUNDS),
        &mut [
            &mut || per_call(&runtime, || reconcile(&bare, "c")),
            &mut || per_call(&runtime, || reconcile(&sdk, "noop")),
            &mut || per_call(&runtime, || reconcile(&warm, "noop")),
        ],
    );
    let metrics = [
        ("call.fresh_bare", None),
        ("call.fresh_noop", Some(6.0)),
        ("call.warm_noop", None),
    ];
    for ((metric, target), samples) in metrics.into_iter().zip(samples) {
        let row = Row::new(metric, "us", samples);
        report.row(match target {
            Some(target) => row.target(target),
            None => row,
        });
    }
    if std::env::args().any(|argument| argument == "noop") {
        println!("{report}");
        return Ok(());
    }
    let api: Arc<dyn ObjectApi> = ports;
    let mut samples = Samples::interleaved(
        number("ROUNDS", ROUNDS),
        &mut [
            &mut || per_call(&runtime, || reconcile(&sdk, "full")),
            &mut || per_call(&runtime, || native(&api)),
        ],
    );
    let native = samples.remove(1);
    let full = samples.remove(0);
    report.row(
        Row::new("call.fresh_full", "us", full)
            .peer("native", &native)
            .target((1.6 * native.median()).round()),
    );
    let [ours, native] = two_threads(&sdk, &api);
    report.row(
        Row::new("call.two_threads", "x", ours)
            .peer("native", &native)
            .target(1.9)
            .more_is_better(),
    );
    report.finish()?;
    Ok(())
}

/// Measures the throughput of two threads divided by that of one, of plugins and of native code, in
/// each round. The gain of native code is the most that the machine offers at that moment.
fn two_threads(reconciler: &Arc<PluginReconciler>, api: &Arc<dyn ObjectApi>) -> [Samples; 2] {
    let ours = || {
        let reconciler = reconciler.clone();
        gain(move |runtime| per_call(runtime, || reconcile(&reconciler, "full")))
    };
    let peer = || {
        let api = api.clone();
        gain(move |runtime| per_call(runtime, || native(&api)))
    };
    let mut samples = Samples::interleaved(
        number("ROUNDS", ROUNDS),
        &mut [&mut || ours(), &mut || peer()],
    );
    let peer = samples.remove(1);
    [samples.remove(0), peer]
}

/// Measures the throughput of a round of calls on two threads, divided by that on one.
fn gain(round: impl Fn(&Runtime) -> f64 + Clone + Send + 'static) -> f64 {
    let throughput = |threads: u32| {
        let start = Arc::new(Barrier::new(threads as usize + 1));
        let run = |_| {
            let start = start.clone();
            let round = round.clone();
            thread::spawn(move || {
                let runtime = runtime().expect("a runtime");
                start.wait();
                round(&runtime);
            })
        };
        let runs: Vec<_> = (0..threads).map(run).collect();
        start.wait();
        let started = Instant::now();
        for run in runs {
            run.join().expect("no panic");
        }
        f64::from(threads) / started.elapsed().as_secs_f64()
    };
    let one = throughput(1);
    throughput(2) / one
}

/// Returns the microseconds of one call.
fn per_call<F: Future<Output = ()>>(runtime: &Runtime, call: impl Fn() -> F) -> f64 {
    common::per_call(runtime, CALLS, call)
}
