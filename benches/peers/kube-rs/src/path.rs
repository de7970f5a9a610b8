//! A key's way from the watch's event through the reflector's store and the Controller's scheduler
//! to a reconcile that does nothing, or only keeps the processor busy.
//!
//! It is what `Controller::run` puts together, fed by a stream in place of a watch:
//! [`reflector()`], a trigger for each object touched, [`applier`], each reconcile spawned as a
//! task. (`Controller::for_stream` would do, but is behind an unstable feature that the host does
//! not want.)

use std::{
    convert::Infallible,
    future::{pending, ready},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{
    Config, WatchStreamExt, applier,
    controller::Action,
    reflector::{self, ObjectRef, reflector},
    watcher,
};
use serde::Deserialize;
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc,
};

use crate::Outcome;

/// Events that wait to be taken, about what one read of a watch's socket brings. With all of them
/// at once the Controller's cost for each key would grow with their number: it looks for one that
/// it may take among all that wait.
const AT_ONCE: usize = 128;

/// Asks for one round.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Question {
    /// What is measured.
    pub metric: String,
    /// `kube-rs`, on tokio's default runtime, or `kube-rs-one-thread`.
    pub peer: String,
    size: usize,
    /// Processor time of a reconcile.
    work_ns: u64,
}

/// The objects of all rounds, and what a turn of [`spin`] takes.
#[derive(Default)]
pub struct Path {
    objects: Vec<ConfigMap>,
    nanos_each: Option<f64>,
}

impl Path {
    /// Microseconds of a key; of `path.two_workers` how much faster two reconciles at once are than
    /// one at a time.
    pub fn round(&mut self, question: &Question) -> Outcome<f64> {
        match question.metric.as_str() {
            "path.two_workers" => Ok(self.micros(question, 1)? / self.micros(question, 2)?),
            // The Controller's default: without bound.
            metric if metric.starts_with("path.") => self.micros(question, 0),
            other => Err(format!("no metric {other:?}").into()),
        }
    }

    fn micros(&mut self, question: &Question, workers: u16) -> Outcome<f64> {
        let runtime = match question.peer.as_str() {
            "kube-rs" => Builder::new_multi_thread().enable_all().build()?,
            "kube-rs-one-thread" => Builder::new_current_thread().enable_all().build()?,
            other => return Err(format!("{}: no peer {other:?}", question.metric).into()),
        };
        while self.objects.len() < question.size {
            self.objects.push(object(self.objects.len())?);
        }
        let work = self.iterations(question.work_ns);
        // The watch gives its objects away: the copies are made before the clock runs.
        let events: Vec<_> = self.objects[..question.size]
            .iter()
            .cloned()
            .map(watcher::Event::Apply)
            .collect();
        let took = timed(&runtime, events, workers, work);
        runtime.shutdown_background();
        Ok(took.as_secs_f64() * 1e6 / question.size as f64)
    }

    fn iterations(&mut self, work_ns: u64) -> u64 {
        const SOME: u64 = 1_000_000;
        if work_ns == 0 {
            return 0;
        }
        let each = *self.nanos_each.get_or_insert_with(|| {
            let times = (0..10).map(|_| {
                let start = Instant::now();
                spin(SOME);
                start.elapsed().as_secs_f64() * 1e9 / SOME as f64
            });
            times.fold(f64::INFINITY, f64::min)
        });
        (work_ns as f64 / each) as u64
    }
}

fn timed(
    runtime: &Runtime,
    events: Vec<watcher::Event<ConfigMap>>,
    workers: u16,
    work: u64,
) -> Duration {
    let count = events.len();
    let (store, writer) = reflector::store();
    let listed = [watcher::Event::Init, watcher::Event::InitDone];
    let (feed, mut fed) = mpsc::channel(AT_ONCE);
    let events = listed
        .into_iter()
        .chain(events)
        .map(Ok::<_, watcher::Error>);
    let feeder = async move {
        for event in events {
            if feed.send(event).await.is_err() {
                return;
            }
        }
        // A watch does not end.
        pending::<()>().await;
    };
    let triggers = reflector(
        writer,
        stream::poll_fn(move |context| fed.poll_recv(context)),
    )
    .touched_objects()
    .map_ok(|object| ObjectRef::from_obj(&object));
    // As `Controller::run` spawns them.
    let reconcile = move |_: Arc<ConfigMap>, _: Arc<()>| {
        tokio::spawn(async move {
            if work > 0 {
                spin(work);
            }
        })
        .map(|_| Ok::<_, Infallible>(Action::await_change()))
    };
    let never = |_: Arc<ConfigMap>, _: &Infallible, _: Arc<()>| Action::await_change();
    let config = Config::default().concurrency(workers);
    runtime.block_on(async {
        let start = Instant::now();
        tokio::spawn(feeder);
        let controller = applier(reconcile, never, Arc::new(()), store, triggers, config);
        let done = controller
            .take(count)
            .filter(|done| ready(done.is_ok()))
            .count()
            .await;
        assert_eq!(done, count, "every key is reconciled");
        start.elapsed()
    })
}

fn object(at: usize) -> serde_json::Result<ConfigMap> {
    serde_json::from_value(serde_json::json!({
        "metadata": {
            "namespace": format!("team-{}", at % 100), "name": format!("web-{at:07}"), "labels": {"app": "web"},
            "uid": "4ad9c1a6-6d1b-4bb5-8d63-6f1c8a6f2f10", "resourceVersion": (at + 2).to_string(),
        },
        "data": {"key": "value"},
    }))
}

/// Work for the processor and nothing else.
fn spin(iterations: u64) {
    let mut x = iterations | 1;
    for _ in 0..iterations {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    std::hint::black_box(x);
}
