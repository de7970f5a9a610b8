//! Loops of whole controllers in paused time: events, writes as the gate records them, workers and
//! queues.

use std::sync::atomic::{AtomicBool, AtomicU32};

use async_trait::async_trait;
use tokio::time::sleep;

use super::*;
use crate::{
    controller::{Controller, Observer, request::ReconcileRequest},
    gate::reply::Answer,
    object::{ManagedFields, Object, kind::GroupVersionKind},
    ports::Reconciler,
    queue::{ItemExponentialFailureRateLimiter, Priority},
    replicas::Shard,
};

const SECOND: Duration = Duration::from_secs(1);

/// A stored version of an object.
fn object(name: &str, version: u32, deleting: bool) -> Arc<Object> {
    let deletion = if deleting {
        r#","deletionTimestamp":"2026-01-01T00:00:00Z""#
    } else {
        ""
    };
    let text = format!(
        r#"{{"metadata":{{"namespace":"n","name":"{name}","uid":"u-{name}","resourceVersion":"{version}"{deletion}}}}}"#
    );
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    Arc::new(Object::from_json(&text, &kind, ManagedFields::Drop).expect("an object"))
}

fn changed(name: &str, version: u32) -> Event {
    Event::Modified {
        old: object(name, version - 1, false),
        object: object(name, version, false),
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("n", name)
}

/// A controller `c` of a plugin that acts on each key, and the records of it.
struct Setting {
    loops: Arc<HotLoops>,
    controller: Arc<Controller>,
    plugin: Arc<Plugin>,
}

/// The action of the plugin.
#[derive(Default)]
struct Plugin {
    loops: Mutex<Option<Arc<HotLoops>>>,
    controller: Mutex<Option<std::sync::Weak<Controller>>>,
    version: AtomicU32,
    /// True if the reconcile of `bad` writes to the object.
    writes: AtomicBool,
    /// True if the watch is faster than the response.
    eager: AtomicBool,
    answers: Mutex<Option<Result<Action, Failure>>>,
    reconciled: Mutex<Vec<(String, tokio::time::Instant)>>,
    held: Mutex<Vec<Held>>,
}

/// The calls of the observer.
type Held = (ObjectKey, Looping);

impl Plugin {
    fn tell(&self, event: &Event) {
        let controller = self
            .controller
            .lock()
            .as_ref()
            .and_then(std::sync::Weak::upgrade)
            .expect("it runs");
        controller.enqueue_for(event, event.object().key().clone(), Priority::Normal);
    }

    /// Writes to an object in a reconcile, and delivers the event.
    fn write(&self, request: &ReconcileRequest, name: &str) {
        let loops = self.loops.lock().clone().expect("set");
        let event = changed(name, self.version.fetch_add(1, Ordering::Relaxed) + 2);
        let own = loops.begin(request, None);
        if self.eager.load(Ordering::Relaxed) {
            self.tell(&event);
        }
        own.end(&Answer::Stored(event.object()));
        if !self.eager.load(Ordering::Relaxed) {
            self.tell(&event);
        }
    }

    fn times(&self, name: &str) -> usize {
        self.reconciled
            .lock()
            .iter()
            .filter(|(of, _)| of == name)
            .count()
    }
}

#[async_trait]
impl Reconciler for Plugin {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        self.reconciled
            .lock()
            .push((request.key.name.clone(), tokio::time::Instant::now()));
        sleep(Duration::from_millis(1)).await;
        if request.key.name != "bad" {
            return Ok(Action::Done);
        }
        if self.writes.load(Ordering::Relaxed) {
            self.write(request, "bad");
        }
        self.answers.lock().clone().unwrap_or(Ok(Action::Done))
    }
}

impl Observer for Plugin {
    fn reconciled(&self, _: &ReconcileRequest, _: &Result<Action, Failure>, _: Duration, _: u32) {}

    fn looping(&self, controller: &str, key: &ObjectKey, looping: &Looping) {
        assert_eq!(controller, "c");
        self.held.lock().push((key.clone(), looping.clone()));
    }
}

impl Setting {
    fn new() -> Self {
        let loops = HotLoops::new();
        let plugin = Arc::new(Plugin::default());
        let limiter = ItemExponentialFailureRateLimiter::new(
            Duration::from_millis(5),
            Duration::from_millis(5),
        );
        let queue = WorkQueue::with_rate_limiter(limiter);
        let controller = Controller::of_shard(
            Shard::WHOLE,
            "c",
            queue,
            plugin.clone(),
            plugin.clone(),
            &loops,
        );
        *plugin.loops.lock() = Some(loops.clone());
        *plugin.controller.lock() = Some(Arc::downgrade(&controller));
        controller.set_workers(2);
        Self {
            loops,
            controller,
            plugin,
        }
    }

    fn writing(eager: bool) -> Self {
        let stage = Self::new();
        stage.plugin.writes.store(true, Ordering::Relaxed);
        stage.plugin.eager.store(eager, Ordering::Relaxed);
        stage
    }

    fn answering(answer: Result<Action, Failure>) -> Self {
        let stage = Self::new();
        *stage.plugin.answers.lock() = Some(answer);
        stage
    }

    fn outside(&self, name: &str) {
        self.plugin.tell(&changed(
            name,
            self.plugin.version.fetch_add(1, Ordering::Relaxed) + 2,
        ));
    }

    fn held(&self) -> Vec<Held> {
        self.plugin.held.lock().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn quarantines_self_writer_whichever_answer_is_first() {
    for eager in [false, true] {
        let stage = Setting::writing(eager);
        stage.outside("bad");
        sleep(SECOND / 2).await;
        let first = stage.plugin.times("bad");
        assert_eq!(first, (1 + CHAIN + BURST) as usize, "eager: {eager}");
        for _ in 0..30 {
            stage.outside("good");
            sleep(SECOND / 100).await;
        }
        assert_eq!(stage.plugin.times("good"), 30, "others go on");
        sleep(320 * SECOND).await;
        assert_eq!(stage.plugin.times("bad"), first + ROUNDS as usize);
        let summary = stage.loops.summary("c");
        assert_eq!((summary.slowed, summary.quarantined), (0, 1));
        assert_eq!(
            summary.worst.map(|(key, looping)| (key, looping.stage)),
            Some((key("bad"), Stage::Quarantined))
        );
        let stages: Vec<_> = stage
            .held()
            .into_iter()
            .map(|(_, looping)| looping.stage)
            .collect();
        let rounds = (1..=ROUNDS)
            .map(|round| Stage::Slowed { round })
            .chain([Stage::Quarantined]);
        assert!(stages.into_iter().eq(rounds), "each is reported once");
        sleep(500 * SECOND).await;
        assert_eq!(stage.plugin.times("bad"), first + ROUNDS as usize);
        sleep(101 * SECOND).await;
        assert_eq!(
            stage.plugin.times("bad"),
            first + ROUNDS as usize + 1,
            "it is tried once"
        );
        assert_eq!(stage.loops.summary("c").quarantined, 1, "and loops on");
    }
}

#[tokio::test(start_paused = true)]
async fn outside_change_or_new_code_ends_quarantine() {
    let stage = Setting::writing(false);
    stage.outside("bad");
    sleep(400 * SECOND).await;
    assert_eq!(stage.loops.summary("c").quarantined, 1);
    let before = stage.plugin.times("bad");
    let same = object("bad", 1, false);
    stage.plugin.tell(&Event::Modified {
        old: same.clone(),
        object: same.clone(),
    });
    stage.plugin.tell(&Event::Added {
        object: same.clone(),
        initial: true,
    });
    sleep(SECOND).await;
    assert_eq!(
        (
            stage.plugin.times("bad"),
            stage.loops.summary("c").quarantined
        ),
        (before, 1)
    );
    stage.plugin.writes.store(false, Ordering::Relaxed);
    stage.outside("bad");
    sleep(SECOND).await;
    assert_eq!(
        (
            stage.plugin.times("bad"),
            stage.loops.summary("c").quarantined
        ),
        (before + 1, 0)
    );

    stage.plugin.writes.store(true, Ordering::Relaxed);
    stage.outside("bad");
    sleep(400 * SECOND).await;
    assert_eq!(stage.loops.summary("c").quarantined, 1);
    stage.plugin.writes.store(false, Ordering::Relaxed);
    let before = stage.plugin.times("bad");
    stage.loops.reset();
    stage.plugin.tell(&Event::Added {
        object: same,
        initial: true,
    });
    sleep(SECOND).await;
    assert_eq!(
        (
            stage.plugin.times("bad"),
            stage.loops.summary("c").quarantined
        ),
        (before + 1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn holds_immediate_requeues_but_not_polls() {
    let soon = Duration::from_millis(10);
    for (answer, loops) in [
        (Ok(Action::RequeueAfter(soon)), true),
        (Ok(Action::Requeue), true),
        (Ok(Action::RequeueAfter(SOON)), false),
        // The backoff of this queue is always 5 ms.
        (Err(Failure::Retry("no".into())), false),
    ] {
        let stage = Setting::answering(answer.clone());
        stage.outside("bad");
        sleep(100 * SECOND).await;
        assert_eq!(!stage.held().is_empty(), loops, "{answer:?}");
        assert!(
            stage.plugin.times("bad") >= if loops { 30 } else { 100 },
            "{answer:?}"
        );
    }
    let stage = Setting::new();
    let same = object("good", 1, false);
    for _ in 0..1000 {
        stage.plugin.tell(&Event::Modified {
            old: same.clone(),
            object: same.clone(),
        });
        sleep(SECOND / 100).await;
    }
    assert_eq!((stage.plugin.times("good"), stage.held()), (1000, vec![]));
}

#[tokio::test(start_paused = true)]
async fn detects_loop_of_failing_reconciles_that_write() {
    let stage = Setting::writing(false);
    *stage.plugin.answers.lock() = Some(Err(Failure::Retry("conflict".into())));
    stage.outside("bad");
    sleep(SECOND).await;
    assert!(!stage.held().is_empty());
}

#[tokio::test(start_paused = true)]
async fn initial_list_with_status_writes_holds_nothing() {
    let stage = Setting::new();
    let request = |name: &str| ReconcileRequest {
        controller: "c".into(),
        key: key(name),
        retries: 0,
        reconcile_id: String::new(),
        record: None,
    };
    for at in 0..5000 {
        let name = format!("k{at}");
        stage.plugin.tell(&Event::Added {
            object: object(&name, 1, false),
            initial: true,
        });
        stage.plugin.write(&request(&name), &name);
    }
    sleep(60 * SECOND).await;
    assert_eq!(
        (stage.held(), stage.loops.summary("c")),
        (vec![], Summary::default())
    );
    assert_eq!(stage.controller.queue().stats().depth, 0);
    assert!(stage.loops.guards.lock()["c"].is_idle());
}

#[tokio::test(start_paused = true)]
async fn counts_own_deletions_as_own_writes() {
    let stage = Setting::new();
    let request = ReconcileRequest {
        controller: "c".into(),
        key: key("good"),
        retries: 0,
        reconcile_id: String::new(),
        record: None,
    };
    let guard = stage.loops.guards.lock()["c"].clone();
    let own = |event: &Event| {
        guard.with(State::reset);
        stage.loops.event(&guard, &key("good"), event);
        !guard.is_idle()
    };
    stage
        .loops
        .begin(&request, Some("u-child"))
        .end(&Answer::Deleted);
    let there = object("child", 1, false);
    let deleting = object("child", 2, true);
    assert!(
        own(&Event::Modified {
            old: there.clone(),
            object: deleting.clone()
        }),
        "it waits for finalizers"
    );
    assert!(own(&Event::deleted(deleting)));
    assert!(!own(&Event::Modified {
        old: there,
        object: object("child", 3, false)
    }));
    assert!(!own(&Event::deleted(object("other", 2, false))));
    stage
        .loops
        .begin(&request, Some("u-other"))
        .end(&Answer::Failed {
            code: 403,
            reason: "Forbidden",
        });
    assert!(
        !own(&Event::deleted(object("other", 2, false))),
        "it was refused"
    );
}

#[tokio::test(start_paused = true)]
async fn releases_key_when_event_proves_foreign() {
    let stage = Setting::writing(false);
    stage.outside("bad");
    sleep(400 * SECOND).await;
    assert_eq!(stage.loops.summary("c").quarantined, 1);
    stage.plugin.writes.store(false, Ordering::Relaxed);
    let before = stage.plugin.times("bad");
    let request = ReconcileRequest {
        controller: "c".into(),
        key: key("good"),
        retries: 0,
        reconcile_id: String::new(),
        record: None,
    };
    let under_way = stage.loops.begin(&request, None);
    stage.outside("bad");
    sleep(SECOND).await;
    assert_eq!(stage.plugin.times("bad"), before, "nobody knows yet");
    under_way.end(&Answer::Stored(&object("else", 77, false)));
    sleep(SECOND).await;
    assert_eq!(
        (
            stage.plugin.times("bad"),
            stage.loops.summary("c").quarantined
        ),
        (before + 1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn controller_with_held_keys_stops_cleanly() {
    let stage = Setting::writing(false);
    stage.outside("bad");
    sleep(SECOND / 2).await;
    assert_eq!(stage.loops.summary("c").slowed, 1);
    stage.controller.set_workers(0);
    sleep(5 * SECOND).await;
    stage.controller.set_workers(1);
    sleep(SECOND).await;
    assert_eq!(
        stage.plugin.times("bad"),
        (1 + CHAIN + BURST + 1) as usize,
        "it waited in the queue"
    );
    stage.controller.stop().await;
    stage.loops.reset();
    assert_eq!(stage.loops.summary("c"), Summary::default());
    assert!(stage.loops.guards.lock().is_empty());
}
