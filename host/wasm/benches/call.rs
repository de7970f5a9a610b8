//! Cost of one call into a guest: a fresh instance for each reconcile, against native Rust doing the same.
//!
//! - `call.fresh_bare`: a reconcile of a guest of ten instructions without imports: what the host alone takes.
//! - `call.fresh_noop`: a reconcile of an SDK plugin that returns at once. The difference is the guest's: its start,
//!   the imports that its language's library brings along, the pages it touches.
//! - `call.warm_noop`: the same in an instance that is kept: what instances made ahead of their calls could save at most.
//! - `call.fresh_full`: read a Deployment of 3.3 KB, parse it, change its status, write it, parse the answer; the peer
//!   does the same with the same types in the same process, its rounds between ours.
//! - `call.two_threads`: reconciles per second on two threads, over those on one; the peer as above.
//!
//! `cargo bench -p operetta-wasm --bench call`; the guest is built on the way. With `-- noop` only the first
//! three, for profilers.

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
        let plugin = Arc::new(runtime.block_on(Plugin::load(&engine, wasm, &limits, ports.clone()))?);
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
    let metrics = [("call.fresh_bare", None), ("call.fresh_noop", Some(6.0)), ("call.warm_noop", None)];
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
        &mut [&mut || per_call(&runtime, || reconcile(&sdk, "full")), &mut || per_call(&runtime, || native(&api))],
    );
    let native = samples.remove(1);
    let full = samples.remove(0);
    report.row(Row::new("call.fresh_full", "us", full).peer("native", &native).target((1.6 * native.median()).round()));
    let [ours, native] = two_threads(&sdk, &api);
    report.row(Row::new("call.two_threads", "x", ours).peer("native", &native).target(1.9).more_is_better());
    report.finish()?;
    Ok(())
}

/// Throughput of two threads over that of one, ours and native, in each round: what native gains is what the machine
/// has to give at that moment.
fn two_threads(reconciler: &Arc<PluginReconciler>, api: &Arc<dyn ObjectApi>) -> [Samples; 2] {
    let ours = || {
        let reconciler = reconciler.clone();
        gain(move |runtime| per_call(runtime, || reconcile(&reconciler, "full")))
    };
    let peer = || {
        let api = api.clone();
        gain(move |runtime| per_call(runtime, || native(&api)))
    };
    let mut samples = Samples::interleaved(number("ROUNDS", ROUNDS), &mut [&mut || ours(), &mut || peer()]);
    let peer = samples.remove(1);
    [samples.remove(0), peer]
}

/// Throughput of a round of calls on two threads, over that on one.
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

fn per_call<F: Future<Output = ()>>(runtime: &Runtime, call: impl Fn() -> F) -> f64 {
    common::per_call(runtime, CALLS, call)
}
