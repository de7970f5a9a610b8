//! Tests of demoted reconciles, which run in the background without delaying others.

use std::{
    future::poll_fn,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::Poll,
    thread,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
    time::sleep,
};
use tokio_util::context::TokioContext;

use crate::{
    tests::{SECOND, burn},
    *,
};
use operetta_core::{
    controller::request::{Action, Failure, ReconcileRequest},
    object::ObjectKey,
    ports::Reconciler,
};

/// A poll that exceeds the allowed duration by the most that one poll adds.
const LONG: Duration = Duration::from_millis(2);

/// Starts a runtime of one thread with this name, without timers and sockets.
fn background() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("background")
        .build()
        .expect("a thread")
}

fn is_background() -> bool {
    thread::current().name() == Some("background")
}

fn request(name: &str) -> ReconcileRequest {
    let key = ObjectKey {
        namespace: Some("n".to_owned()),
        name: name.to_owned(),
    };
    ReconcileRequest {
        controller: "c".to_owned(),
        key,
        retries: 0,
        reconcile_id: name.to_owned(),
        record: None,
    }
}

/// A reconciler that acts by the key's name, and records on which threads it ran.
#[derive(Default)]
struct Recorder(Mutex<Vec<(String, bool)>>, AtomicUsize);

#[async_trait]
impl Reconciler for Recorder {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let name = request.key.name.as_str();
        self.0.lock().push((name.to_owned(), is_background()));
        match name {
            "long" => burn(LONG),
            "spins" => spin_until_in_background().await,
            "panics" => panic!("as asked"),
            "sleeps" => sleep(Duration::from_millis(2)).await,
            "spawns" => tokio::spawn(async { assert!(!is_background()) })
                .await
                .expect("no panic"),
            "stays" => {
                let _dropped = CountDrop(&self.1);
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        Ok(Action::Done)
    }
}

/// Yields after each poll, as a guest that spins does.
async fn spin_until_in_background() {
    let mut polls = 0;
    poll_fn(|cx| {
        polls += 1;
        assert!(polls <= 100, "it stays in the foreground");
        burn(LONG);
        cx.waker().wake_by_ref();
        if is_background() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

struct CountDrop<'a>(&'a AtomicUsize);

impl Drop for CountDrop<'_> {
    fn drop(&mut self) {
        assert!(is_background());
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Creates a plugin on a scheduler with one slot.
fn new_plugin(
    background: &Runtime,
    concurrency: Option<u32>,
) -> (
    Arc<Recorder>,
    Arc<FairReconciler<Recorder>>,
    Arc<FairScheduler>,
) {
    let scheduler = FairScheduler::with_background(1, background.handle().clone());
    let account = scheduler.group("tenant", Share::default()).account(Share {
        concurrency,
        ..Share::default()
    });
    let recorder = Arc::new(Recorder::default());
    (
        recorder.clone(),
        Arc::new(FairReconciler::new(recorder, account)),
        scheduler,
    )
}

/// Creates a plugin that is demoted.
fn plugin(
    background: &Runtime,
    concurrency: Option<u32>,
) -> (
    Arc<Recorder>,
    Arc<FairReconciler<Recorder>>,
    Arc<FairScheduler>,
) {
    let (recorder, reconciler, scheduler) = new_plugin(background, concurrency);
    (0..10).for_each(|_| reconciler.account.demotion.polled(u64::MAX));
    (recorder, reconciler, scheduler)
}

/// Ends a runtime without waiting for its threads.
fn end(runtime: Runtime) {
    runtime.shutdown_background();
}

#[tokio::test]
async fn background_threads_have_lower_priority() {
    let niceness = || rustix::process::getpriority_process(None).expect("known");
    let background = Background::start(2).expect("threads");
    let there = background
        .handle()
        .spawn(async move { niceness() })
        .await
        .expect("no panic");
    assert!(
        there > niceness(),
        "{there} in the background, {} here",
        niceness()
    );
}

#[tokio::test]
async fn repeated_long_poll_demotes_to_background() {
    let background = background();
    let (recorder, reconciler, _scheduler) = new_plugin(&background, None);
    for (name, times) in [("new", 1), ("long", 10), ("demoted", 3), ("forgiven", 300)] {
        for _ in 0..times {
            reconciler.reconcile(&request(name)).await.expect("done");
        }
    }
    let seen = recorder.0.lock().clone();
    let placed = |name: &'static str| {
        seen.iter()
            .filter(move |run| run.0 == name)
            .map(|run| run.1)
    };
    assert_eq!(placed("new").next(), Some(false));
    assert!(
        !placed("long").next().expect("ten"),
        "demoted after one poll"
    );
    assert!(
        placed("demoted").all(|in_background| in_background),
        "{seen:?}"
    );
    assert!(!placed("forgiven").next_back().expect("many"), "{seen:?}");
    end(background);
}

#[tokio::test]
async fn spinning_reconcile_continues_in_background() {
    let background = background();
    let (recorder, reconciler, scheduler) = new_plugin(&background, Some(1));
    for _ in 0..2 {
        timeout(300 * SECOND, reconciler.reconcile(&request("spins")))
            .await
            .expect("it ends")
            .expect("done");
    }
    let seen: Vec<bool> = recorder.0.lock().iter().map(|seen| seen.1).collect();
    assert_eq!(
        seen,
        [false, true],
        "the second one begins where the first one ended"
    );
    assert_eq!((scheduler.counts().0, scheduler.counts().1), (1, 0));
    end(background);
}

/// The only slot is held by a poll that ends after the quiet account's polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn underserved_tenant_does_not_wait_for_background() {
    let background = background();
    let scheduler = FairScheduler::with_background(1, background.handle().clone());
    let [noisy, quiet] = ["noisy", "quiet"].map(|name| {
        scheduler
            .group(name, Share::default())
            .account(Share::default())
    });
    // So that it has had more time.
    noisy.run(async { burn(Duration::from_millis(20)) }).await;
    let (started, has_started) = oneshot::channel();
    let (release, released) = mpsc::channel();
    let held = background.spawn(TokioContext::new(
        noisy.run_in_background(async move {
            started.send(()).expect("awaited");
            released
                .recv_timeout(300 * SECOND)
                .expect("the quiet account was polled");
        }),
        Handle::current(),
    ));
    has_started.await.expect("it starts");
    assert_eq!(scheduler.counts().0, 0);
    for _ in 0..3 {
        timeout(300 * SECOND, quiet.run(async {}))
            .await
            .expect("it does not wait");
    }
    release.send(()).expect("it waits");
    held.await.expect("no panic");
    assert_eq!(
        (scheduler.counts().0, scheduler.counts().1),
        (1, 0),
        "the slot is free once"
    );
    assert_eq!(quiet.usage().wait, Duration::ZERO);
    let usage = noisy.usage();
    assert_eq!(usage.polls, 2);
    end(background);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn background_charges_thread_time() {
    let background = background();
    let (_, _, scheduler) = plugin(&background, None);
    let account = scheduler
        .group("tenant", Share::default())
        .account(Share::default());
    let stopped = Duration::from_millis(200);
    let work = account.run_in_background(async move {
        thread::sleep(stopped);
        burn(Duration::from_millis(20));
    });
    background
        .spawn(TokioContext::new(work, Handle::current()))
        .await
        .expect("no panic");
    let polled = account.usage().polled;
    assert!(
        polled > Duration::from_millis(1) && polled < stopped,
        "{polled:?}"
    );
    end(background);
}

#[tokio::test]
async fn background_uses_the_callers_runtime() {
    let background = background();
    let (recorder, reconciler, _scheduler) = plugin(&background, None);
    // The background's runtime has no timers.
    reconciler
        .reconcile(&request("sleeps"))
        .await
        .expect("done");
    reconciler
        .reconcile(&request("spawns"))
        .await
        .expect("done");
    assert!(
        recorder
            .0
            .lock()
            .iter()
            .all(|(_, in_background)| *in_background)
    );
    end(background);
}

#[tokio::test]
async fn background_panic_reaches_caller() {
    let background = background();
    let (_, reconciler, scheduler) = plugin(&background, None);
    let panicking = reconciler.clone();
    let ended = tokio::spawn(async move { panicking.reconcile(&request("panics")).await }).await;
    assert_eq!(
        ended.expect_err("a panic").into_panic().downcast_ref(),
        Some(&"as asked")
    );
    reconciler.reconcile(&request("next")).await.expect("done");
    assert_eq!((scheduler.counts().0, scheduler.counts().1), (1, 0));
    end(background);
}

#[tokio::test]
async fn dropped_background_run_frees_its_thread() {
    let background = background();
    let (recorder, reconciler, scheduler) = plugin(&background, Some(1));
    let dropped = timeout(
        Duration::from_millis(20),
        reconciler.reconcile(&request("stays")),
    )
    .await;
    dropped.expect_err("it stays");
    // The plugin may have one reconcile in flight.
    timeout(300 * SECOND, reconciler.reconcile(&request("next")))
        .await
        .expect("a free permit")
        .expect("done");
    assert_eq!(
        recorder.1.load(Ordering::SeqCst),
        1,
        "it is dropped before the next one begins"
    );
    assert_eq!((scheduler.counts().0, scheduler.counts().1), (1, 0));
    end(background);
}

#[tokio::test]
async fn stopping_host_fails_background_reconciles() {
    let background = background();
    let (_, reconciler, _scheduler) = plugin(&background, None);
    end(background);
    let failed = timeout(300 * SECOND, reconciler.reconcile(&request("late")))
        .await
        .expect("it ends");
    assert_eq!(
        failed,
        Err(Failure::Retry("the host is stopping".to_owned()))
    );
}
