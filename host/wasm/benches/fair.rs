//! Effect of a noisy tenant on a quiet one: the p99 latency of the quiet tenant's reconciles, from
//! adding the key to the end of the reconcile, with a neighbour of equal weight and alone.
//!
//! The quiet plugin reads, changes and writes an object every 5 ms. A thread outside of the runtime
//! adds its keys, as the network would: a timer of the runtime would only fire when a worker thread
//! is free. The neighbour has 20 workers that always have a key. Each of its reconciles
//! - `fair.p99_spin`: spins until its deadline of a second;
//! - `fair.p99_flood`: returns at once;
//! - `fair.p99_memory`: allocates 32 MiB and writes to each page;
//! - `fair.p99_errors`: fails; here a thousand keys a second are added.
//!
//! The peer `alone` has no neighbour; the peer `unscheduled` has one, but no fair scheduler.
//! `cargo bench -p operetta-wasm --bench fair`.

mod common;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use common::{AnyError, Ports, deployment, guest, reconciler};
use operetta_core::{
    controller::{
        Controller, Observer,
        request::{Action, Failure, ReconcileRequest},
    },
    gate::{Gate, GateLimits, Shared},
    object::ObjectKey,
    ports::Reconciler,
    queue::{ItemExponentialFailureRateLimiter, Priority, WorkQueue},
};
use operetta_scheduler::{Background, FairReconciler, FairScheduler, Share};
use operetta_testkit::{
    bench::{Report, Row, Samples, number},
    wat_guest::Guest,
};
use operetta_wasm::{CallLimits, Engine, EngineConfig, LoadLimits, Plugin, PluginReconciler};
use parking_lot::Mutex;
use tokio::runtime::Handle;

const ROUNDS: usize = 5;
const KEYS: usize = 600;
const PERIOD: Duration = Duration::from_millis(5);
const NOISY_WORKERS: u32 = 20;

/// Records when reconciles end. Enqueues the noisy plugin's keys again at once.
#[derive(Default)]
struct Notes {
    over: Mutex<HashMap<String, Instant>>,
    again: Mutex<Option<Arc<Controller>>>,
    ended: AtomicBool,
}

impl Observer for Notes {
    fn reconciled(
        &self,
        request: &ReconcileRequest,
        _: &Result<Action, Failure>,
        _: Duration,
        _: u32,
    ) {
        if self.ended.load(Ordering::Relaxed) {
            return;
        }
        match &*self.again.lock() {
            Some(controller) => controller.enqueue(request.key.clone(), Priority::Normal),
            None => {
                let mut over = self.over.lock();
                over.insert(request.key.name.clone(), Instant::now());
            }
        }
    }
}

fn key(name: impl ToString) -> ObjectKey {
    ObjectKey::namespaced("n", name.to_string())
}

fn queue() -> WorkQueue<ObjectKey> {
    // Failures are retried almost without backoff, because the bench measures a flood of them.
    let limiter =
        ItemExponentialFailureRateLimiter::new(Duration::from_micros(1), Duration::from_millis(1));
    WorkQueue::with_rate_limiter(limiter)
}

/// A noisy neighbour.
#[derive(Clone)]
struct Noisy {
    reconciler: Arc<dyn Reconciler>,
    /// The number of keys that are added per second. With None, each key is added again after its
    /// reconcile.
    per_second: Option<u32>,
}

/// Measures the p99 latency of the quiet plugin in milliseconds, with a neighbour or alone.
async fn p99(quiet: Arc<dyn Reconciler>, noisy: Option<Noisy>, fair: bool) -> f64 {
    let threads = Handle::current().metrics().num_workers();
    let background = Background::start(threads).expect("threads");
    let scheduler = FairScheduler::with_background(threads, background.handle().clone());
    let of_tenant = |name: &str, reconciler: &Arc<dyn Reconciler>| -> Arc<dyn Reconciler> {
        let account = scheduler
            .group(name, Share::default())
            .account(Share::default());
        if fair {
            Arc::new(FairReconciler::new(reconciler.clone(), account))
        } else {
            reconciler.clone()
        }
    };
    let neighbour = noisy.as_ref().map(|noisy| {
        let notes = Arc::new(Notes::default());
        let controller = Controller::new(
            "full",
            queue(),
            of_tenant("noisy", &noisy.reconciler),
            notes.clone(),
        );
        controller.set_workers(NOISY_WORKERS);
        let adding = match noisy.per_second {
            None => {
                *notes.again.lock() = Some(controller.clone());
                (0..1000).for_each(|number| controller.enqueue(key(number), Priority::Normal));
                None
            }
            Some(per_second) => {
                let controller = controller.clone();
                Some(tokio::spawn(async move {
                    let mut tick = tokio::time::interval(Duration::from_millis(10));
                    for number in 0_u64.. {
                        tick.tick().await;
                        for at in 0..per_second / 100 {
                            controller
                                .enqueue(key(number * 1000 + u64::from(at)), Priority::Normal);
                        }
                    }
                }))
            }
        };
        (controller, notes, adding)
    });
    let notes = Arc::new(Notes::default());
    let controller = Controller::new("full", queue(), of_tenant("quiet", &quiet), notes.clone());
    controller.set_workers(2);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let source = controller.clone();
    let adding = tokio::task::spawn_blocking(move || {
        let mut added = HashMap::new();
        let mut next = Instant::now();
        for number in 0..KEYS {
            next += PERIOD;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            added.insert(number.to_string(), Instant::now());
            source.enqueue(key(number), Priority::Normal);
        }
        added
    });
    let added = adding.await.expect("no panic");
    while notes.over.lock().len() < KEYS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if let Some((controller, notes, adding)) = neighbour {
        notes.ended.store(true, Ordering::Relaxed);
        *notes.again.lock() = None;
        adding.inspect(tokio::task::JoinHandle::abort);
        controller.stop().await;
    }
    controller.stop().await;
    let over = notes.over.lock();
    let mut took: Vec<f64> = added
        .iter()
        .map(|(key, added)| (over[key] - *added).as_secs_f64() * 1e3)
        .collect();
    took.sort_by(f64::total_cmp);
    took[took.len() * 99 / 100]
}

fn main() -> Result<(), AnyError> {
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .event_interval(1)
        .global_queue_interval(1)
        .enable_all()
        .build()?;
    let engine = Engine::new(&EngineConfig::default())?;
    let ports = Arc::new(Ports(Arc::new(deployment()?)));
    let load = |wasm: Vec<u8>| -> Result<Arc<Plugin>, AnyError> {
        let limits = LoadLimits::default();
        Ok(Arc::new(runtime.block_on(Plugin::load(
            &engine,
            wasm,
            &limits,
            ports.clone(),
        ))?))
    };
    let quiet: Arc<dyn Reconciler> = Arc::new(reconciler(&load(std::fs::read(guest()?)?)?, &ports));
    let noisy = |guest: Guest, per_second| -> Result<Noisy, AnyError> {
        let limits = CallLimits {
            timeout: Duration::from_secs(1),
            ..CallLimits::default()
        };
        let gates = GateLimits::default();
        let gate = Gate::new(
            ports.clone(),
            ports.clone(),
            ports.clone(),
            "{}".into(),
            gates,
            Shared::default(),
        );
        let reconciler = Arc::new(PluginReconciler::new(load(guest.build())?, gate, limits));
        Ok(Noisy {
            reconciler,
            per_second,
        })
    };
    let eat = "(func $eat (local $at i32)
        (local.set $at (i32.shl (memory.grow (i32.const 512)) (i32.const 16)))
        (loop $next
            (i32.store (local.get $at) (i32.const 1))
            (local.set $at (i32.add (local.get $at) (i32.const 4096)))
            (br_if $next (i32.lt_u (local.get $at) (i32.shl (memory.size) (i32.const 16))))))";
    let neighbours = [
        (
            "fair.p99_spin",
            noisy(
                Guest::default().reconcile("(call $spin) i32.const 16"),
                None,
            )?,
        ),
        ("fair.p99_flood", noisy(Guest::default(), None)?),
        (
            "fair.p99_memory",
            noisy(
                Guest::default()
                    .with(eat)
                    .reconcile("(call $eat) i32.const 16"),
                None,
            )?,
        ),
        (
            "fair.p99_errors",
            noisy(
                Guest::default()
                    .text("it fails")
                    .reconcile("(call $retry (global.get $text) (global.get $text_len))"),
                Some(1000),
            )?,
        ),
    ];
    let mut report = Report::new("fair");
    // On a worker thread of the runtime, as in the host.
    let run = |noisy: Option<&Noisy>, fair: bool| {
        runtime
            .block_on(runtime.spawn(p99(quiet.clone(), noisy.cloned(), fair)))
            .expect("no panic")
    };
    for (metric, neighbour) in &neighbours {
        let mut samples = Samples::interleaved(
            number("ROUNDS", ROUNDS),
            &mut [
                &mut || run(Some(neighbour), true),
                &mut || run(None, true),
                &mut || run(Some(neighbour), false),
            ],
        );
        let unscheduled = samples.remove(2);
        let alone = samples.remove(1);
        let ours = samples.remove(0);
        let target = (1.5 * alone.median() * 1e3).round() / 1e3;
        let row = Row::new(*metric, "ms", ours)
            .peer("alone", &alone)
            .peer("unscheduled", &unscheduled);
        report.row(row.target(target));
    }
    report.finish()?;
    Ok(())
}
