//! A key's way from the watch's event to a worker: `make bench-queue`.
//!
//! `path.per_key` is event -> store -> handler -> queue -> worker, in microseconds of a key and
//! wall time, for 100,000 new objects that come one after the other; the reconciler does nothing.
//! `path.per_key_10k`, `_300k` and `_1m` are the same for other numbers: a cost for each key that
//! stays the same. `path.two_workers` is how much faster two workers are than one when a reconcile
//! takes 20 us of the processor, both measured in each round.
//!
//! Runtime and allocator are the host's. The objects are decoded beforehand, for peers too. These
//! are client-go's shared informer on a watch that has all events at hand, with its workqueue and
//! one worker; and kube-rs's reflector and Controller on a stream, on tokio's default runtime and
//! on one thread, with as many reconciles at once as its default allows; its cost for each key
//! grows with their number, so it is left out where it would take minutes. No fair scheduler, no
//! sandbox: `make bench-call` and `bench-fair` measure those.
//!
//! tokio's clock is slower here than in the host, because the tests' feature `test-util` is on in
//! benches too. `KEYS=1000` takes 1,000 in place of 100,000 and the others in proportion, to see
//! whether it works.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use operetta_core::{
    controller::{
        Controller, Observer,
        request::{Action, Failure, ReconcileRequest},
    },
    handler::{EventHandler, Target, event::Event},
    object::{ManagedFields, Object, kind::GroupVersionKind},
    ports::Reconciler,
    queue::{Priority, WorkQueue},
};
use operetta_kube::{
    informer::Handler,
    store::{Store, Writer},
};
use operetta_testkit::{
    bench::{Report, Row, number, only_starts},
    peers::Peers,
};
use serde_json::json;
use tokio::{runtime::Runtime, sync::Notify};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const KEYS: usize = 100_000;
const ROUNDS: usize = 5;
/// Processor time of a reconcile of `path.two_workers`.
const WORK: Duration = Duration::from_micros(20);

fn main() -> anyhow::Result<()> {
    if only_starts() {
        return Ok(());
    }
    let keys = number("KEYS", KEYS);
    let rounds = number("ROUNDS", ROUNDS);
    // As the host makes it.
    let workers = std::thread::available_parallelism()?.get();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime
        .worker_threads(workers)
        .event_interval(1)
        .global_queue_interval(1)
        .enable_all()
        .build()?;
    let objects: Vec<_> = (0..keys * 10).map(object).collect::<Result<_, _>>()?;
    let peers = Peers::build();
    let mut report = Report::new("path");
    for (metric, size, at_most, names) in [
        ("path.per_key", keys, rounds, &["client-go", "kube-rs"][..]),
        (
            "path.per_key_10k",
            keys / 10,
            rounds,
            &["client-go", "kube-rs", "kube-rs-one-thread"],
        ),
        ("path.per_key_300k", keys * 3, 3, &["client-go"]),
        ("path.per_key_1m", keys * 10, 3, &["client-go"]),
    ] {
        let question = json!({"metric": metric, "size": size});
        let ours = || micros(one_way(&runtime, &objects[..size], 1, 0), size);
        let (ours, theirs) = peers.beside(rounds.min(at_most), names, &question, ours);
        let row = Row::new(metric, "us", ours).target(2.0);
        report.row(
            theirs
                .iter()
                .fold(row, |row, (name, samples)| row.peer(*name, samples)),
        );
    }
    let some = &objects[..keys / 5];
    let work = iterations(WORK);
    let question =
        json!({"metric": "path.two_workers", "size": some.len(), "workNs": WORK.as_nanos() as u64});
    let ours = || {
        let [one, two] = [1, 2].map(|workers| one_way(&runtime, some, workers, work).as_secs_f64());
        one / two
    };
    let (ours, theirs) = peers.beside(rounds, &["client-go", "kube-rs"], &question, ours);
    let row = Row::new("path.two_workers", "x", ours)
        .target(1.8)
        .more_is_better();
    report.row(
        theirs
            .iter()
            .fold(row, |row, (name, samples)| row.peer(*name, samples)),
    );
    println!("{}", report.finish()?.display());
    Ok(())
}

/// From the first event to the last key's reconcile.
fn one_way(runtime: &Runtime, objects: &[Arc<Object>], workers: u32, work: u64) -> Duration {
    let events = objects.to_vec();
    let done = Arc::new(Done {
        left: AtomicUsize::new(events.len()),
        all: Notify::new(),
    });
    runtime.block_on(async {
        let (_store, mut writer) = Store::new();
        let controller =
            Controller::new("path", WorkQueue::new(), Arc::new(Work(work)), done.clone());
        controller.set_workers(workers);
        let handler = enqueue_on(&controller);
        let start = Instant::now();
        let informer = tokio::spawn(async move {
            for object in events {
                deliver(&mut writer, &handler, object);
                // A watch's bytes come from a socket, which gives way now and then.
                tokio::task::coop::consume_budget().await;
            }
            writer
        });
        done.all.notified().await;
        let took = start.elapsed();
        controller.stop().await;
        drop(informer.await);
        took
    })
}

/// What an informer does with one event of its watch: the store first, then the handlers.
fn deliver(writer: &mut Writer, handler: &Handler, object: Arc<Object>) {
    let event = match writer.apply(object.clone()) {
        Some(old) => Event::Modified { old, object },
        None => Event::Added {
            object,
            initial: false,
        },
    };
    handler(&event);
}

/// As the host wires a controller's `for` to its queue.
fn enqueue_on(controller: &Arc<Controller>) -> Handler {
    let controller = controller.clone();
    let handler = EventHandler {
        predicates: vec![],
        namespace: None,
        target: Target::Itself,
    };
    Arc::new(move |event| {
        for key in handler.keys(event) {
            controller.enqueue(key, Priority::Normal);
        }
    })
}

/// Keeps the processor busy for so many turns.
struct Work(u64);

#[async_trait]
impl Reconciler for Work {
    async fn reconcile(&self, _: &ReconcileRequest) -> Result<Action, Failure> {
        if self.0 > 0 {
            spin(self.0);
        }
        Ok(Action::Done)
    }
}

/// Counts down the keys.
struct Done {
    left: AtomicUsize,
    all: Notify,
}

impl Observer for Done {
    fn reconciled(&self, _: &ReconcileRequest, _: &Result<Action, Failure>, _: Duration, _: u32) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all.notify_one();
        }
    }
}

fn object(at: usize) -> anyhow::Result<Arc<Object>> {
    let text = json!({
        "metadata": {
            "namespace": format!("team-{}", at % 100), "name": format!("web-{at:07}"), "labels": {"app": "web"},
            "uid": "4ad9c1a6-6d1b-4bb5-8d63-6f1c8a6f2f10", "resourceVersion": (at + 2).to_string(),
        },
        "data": {"key": "value"},
    });
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    Ok(Arc::new(Object::from_json(
        &text.to_string(),
        &kind,
        ManagedFields::Drop,
    )?))
}

fn micros(took: Duration, keys: usize) -> f64 {
    took.as_secs_f64() * 1e6 / keys as f64
}

/// Work for the processor and nothing else.
fn spin(turns: u64) {
    let mut x = turns | 1;
    for _ in 0..turns {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// How many turns of [`spin`] take so long on a processor of their own.
fn iterations(work: Duration) -> u64 {
    const SOME: u64 = 1_000_000;
    let times = (0..10).map(|_| {
        let start = Instant::now();
        spin(SOME);
        start.elapsed().as_secs_f64() / SOME as f64
    });
    (work.as_secs_f64() / times.fold(f64::INFINITY, f64::min)) as u64
}
