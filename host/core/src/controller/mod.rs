//! Controllers and their workers: a worker takes a key, reconciles it, and applies the outcome.
//!
//! A [`Controller`] gives the guarantees of controller-runtime's, for one controller of a plugin:
//!
//! - a key is never reconciled twice at the same time, however many workers there are;
//! - one place applies the outcome of a reconcile, the `match` in `apply_outcome`;
//! - no key is lost: not to a panicking reconciler (counted as a [`Fault::Trap`]), not by
//!   [`Controller::swap`] or [`Controller::set_workers`]. The key of an aborted reconcile returns
//!   to the queue;
//! - keys of the plugin's other shards stay out of the queue: see [`crate::replicas`];
//! - a key in a hot loop waits without occupying a worker: see [`crate::hot_loop`];
//! - a dropped controller leaves no task behind.
//!
//! It sets no deadline (the sandbox does) and has no metrics, logs or status: an [`Observer`] sees
//! every reconcile.

mod give_way;
mod observer;
pub mod request;

pub use give_way::give_way;
pub use observer::Observer;

use std::{
    hash::{BuildHasher, RandomState},
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::Instant,
};

use crate::{
    controller::request::{Action, Failure, Fault, ReconcileRequest},
    handler::event::Event,
    hot_loop::{Admission, HotLoops, LoopGuard},
    object::ObjectKey,
    panics,
    ports::Reconciler,
    queue::{Priority, WorkQueue},
    recorder::{
        PendingTriggers,
        record::{Cause, Trigger},
    },
    replicas::Shard,
};

/// Mappings add no new keys to a queue of this size, since their keys may be invented. Keys of the
/// controller's own objects are always added: there may be just as many, and initially all of them
/// are in the queue.
pub const MAX_MAPPED: usize = 100_000;

/// One controller of a plugin: a queue of keys and the workers emptying it.
pub struct Controller {
    shared: Arc<Shared>,
    /// Worker tasks started and not yet joined. Dropping the set aborts them.
    tasks: Mutex<JoinSet<()>>,
}

/// State shared with the workers. They don't hold the controller itself, so dropping it ends them.
struct Shared {
    name: String,
    queue: WorkQueue<ObjectKey>,
    /// The queue takes the keys of this shard only.
    shard: Shard,
    reconciler: RwLock<Arc<dyn Reconciler>>,
    observer: Arc<dyn Observer>,
    loops: Arc<HotLoops>,
    guard: Arc<LoopGuard>,
    /// Triggers of the queued keys; None if reconciles are not recorded.
    pending_triggers: Option<PendingTriggers>,
    /// The wanted number of workers: worker `i` runs while `i` is below it.
    wanted: watch::Sender<u32>,
    /// Which indices have a worker. Taking or returning an index and checking `wanted` happen
    /// together under this lock, so no index is taken twice and none below `wanted` stays free.
    taken_indices: Mutex<Vec<bool>>,
    /// Notified whenever a surplus worker leaves.
    left: Notify,
}

impl Controller {
    /// Creates a controller without workers. `name` is the controller's name in the manifest.
    pub fn new(
        name: impl Into<String>,
        queue: WorkQueue<ObjectKey>,
        reconciler: Arc<dyn Reconciler>,
        observer: Arc<dyn Observer>,
    ) -> Arc<Self> {
        Self::of_shard(
            Shard::WHOLE,
            name,
            queue,
            reconciler,
            observer,
            &HotLoops::new(),
        )
    }

    /// Creates one of several controllers in a shard of a plugin, recording its writes in `loops`.
    /// It ignores keys of other shards.
    pub fn of_shard(
        shard: Shard,
        name: impl Into<String>,
        queue: WorkQueue<ObjectKey>,
        reconciler: Arc<dyn Reconciler>,
        observer: Arc<dyn Observer>,
        loops: &Arc<HotLoops>,
    ) -> Arc<Self> {
        let name = name.into();
        let shared = Shared {
            loops: loops.clone(),
            guard: loops.guard(&name, queue.clone()),
            pending_triggers: observer.is_recording().then(PendingTriggers::default),
            name,
            queue,
            shard,
            reconciler: RwLock::new(reconciler),
            observer,
            wanted: watch::Sender::new(0),
            taken_indices: Mutex::default(),
            left: Notify::new(),
        };

        Arc::new(Self {
            shared: Arc::new(shared),
            tasks: Mutex::default(),
        })
    }

    /// The controller's name in the manifest.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The queue, e.g. for its counters.
    pub fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.shared.queue
    }

    /// The wanted number of workers (controller-runtime's `workers` metric).
    pub fn workers(&self) -> u32 {
        *self.shared.wanted.borrow()
    }

    /// Adds a key.
    pub fn enqueue(&self, key: ObjectKey, priority: Priority) {
        if self.is_elsewhere(&key) {
            return;
        }
        self.shared.queue.add_with_priority(key, priority);
    }

    /// Whether the key belongs to another shard.
    fn is_elsewhere(&self, key: &ObjectKey) -> bool {
        !self.shared.shard.contains(key)
    }

    /// Adds a key for an event.
    pub fn enqueue_for(&self, event: &Event, key: ObjectKey, priority: Priority) {
        if self.is_elsewhere(&key) {
            return;
        }
        self.shared.triggered(&key, event);
        self.shared.queue.add_with_priority(key, priority);
    }

    /// Adds a key named by an event of another object. Returns false if the queue is full
    /// ([`MAX_MAPPED`]) and the key new.
    pub fn enqueue_named(&self, event: &Event, key: ObjectKey, priority: Priority) -> bool {
        if self.is_elsewhere(&key) {
            return true;
        }
        self.shared.triggered(&key, event);
        self.shared.queue.add_if_room(MAX_MAPPED, key, priority)
    }

    /// Adds a key named by the plugin's own mapping of an event. Returns false if the queue is full
    /// ([`MAX_MAPPED`]) and the key new: a mapping can invent any number of keys. Counts as a
    /// change from outside, because we can't tell who made it.
    pub fn enqueue_mapped(&self, event: &Event, key: ObjectKey, priority: Priority) -> bool {
        if self.is_elsewhere(&key) {
            return true;
        }
        self.shared.note_trigger(&key, || Trigger::of_event(event));
        let _held = self.shared.guard.outside(&key);
        self.shared.queue.add_if_room(MAX_MAPPED, key, priority)
    }

    /// Retries a key now, ending its backoff and any hot-loop delay. Ignores keys of other shards
    /// and returns false for them.
    pub fn retry(&self, key: &ObjectKey) -> bool {
        let is_own = !self.is_elsewhere(key);
        if is_own {
            self.shared
                .note_trigger(key, || Trigger::without_event(Cause::Retry));
            let _held = self.shared.guard.outside(key);
            self.shared.queue.retry(key);
        }
        is_own
    }

    /// Changes the number of workers. Surplus workers finish their current key first. With 0 the
    /// controller pauses, and the queue keeps its keys. Has no effect after [`Self::stop`]. Must be
    /// called within a tokio runtime.
    pub fn set_workers(&self, workers: u32) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        let mut taken_indices = self.shared.taken_indices.lock();
        if self.shared.queue.shutting_down() {
            return;
        }

        self.shared.wanted.send_replace(workers);
        let count = taken_indices.len().max(workers as usize);
        taken_indices.resize(count, false);

        for (index, is_taken) in (0..workers).zip(taken_indices.iter_mut()) {
            if !std::mem::replace(is_taken, true) {
                tasks.spawn(self.shared.clone().work(index));
            }
        }
    }

    /// Waits until all workers have left after [`Self::set_workers`] with 0. No reconcile is in
    /// flight then.
    pub async fn idle(&self) {
        loop {
            let mut left = pin!(self.shared.left.notified());
            left.as_mut().enable();
            if !self.shared.taken_indices.lock().contains(&true) {
                return;
            }
            left.await;
        }
    }

    /// Replaces the reconciler and returns the old one. Reconciles in flight finish on the old one.
    pub fn swap(&self, reconciler: Arc<dyn Reconciler>) -> Arc<dyn Reconciler> {
        let mut current = self.shared.reconciler.write();
        std::mem::replace(&mut current, reconciler)
    }

    /// Shuts the queue down and waits for the reconciles in flight. Keys still in the queue are not
    /// reconciled: the next start lists them again. To reconcile them first, await
    /// `queue().shut_down_with_drain()` beforehand.
    ///
    /// Dropping the future, as a timeout does, aborts the reconciles still in flight.
    pub async fn stop(&self) {
        self.shared.queue.shut_down();
        self.shared.wanted.send_replace(0);
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        while tasks.join_next().await.is_some() {}
    }
}

impl Shared {
    /// Records an event for a key. Call it before adding the key: the worker taking it must see the
    /// trigger, and whether the event came from outside.
    fn triggered(&self, key: &ObjectKey, event: &Event) {
        self.note_trigger(key, || Trigger::of_event(event));
        self.loops.event(&self.guard, key, event);
    }

    fn note_trigger(&self, key: &ObjectKey, trigger: impl FnOnce() -> Trigger) {
        if let Some(pending) = &self.pending_triggers {
            pending.add(key, trigger());
        }
    }

    async fn work(self: Arc<Self>, index: u32) {
        let mut wanted = self.wanted.subscribe();
        while !self.leaves(index) {
            tokio::select! {
                biased;
                // An error would mean the sender is gone, but `self` holds it.
                _ = wanted.changed() => {}
                key = self.queue.get() => match key {
                    Some(key) => self.reconcile(key).await,
                    None => return,
                },
            }

            // Otherwise a never-empty queue and a reconciler without await points would monopolize
            // the thread.
            give_way().await;
        }
    }

    /// Gives up the worker's index if it is surplus, and reports whether it was.
    fn leaves(&self, index: u32) -> bool {
        let mut taken_indices = self.taken_indices.lock();
        let leaves = index >= *self.wanted.borrow();
        taken_indices[index as usize] = !leaves;
        if leaves {
            self.left.notify_waiters();
        }
        leaves
    }

    /// Reconciles one key, from `get` to `done`.
    async fn reconcile(&self, key: ObjectKey) {
        let mut in_flight = InFlight {
            queue: &self.queue,
            key,
            done: false,
        };

        if let Admission::Hold(delay, begins) = self.guard.admit(&in_flight.key) {
            self.queue.add_after(in_flight.key.clone(), delay);
            in_flight.done = true;
            if let Some(looping) = begins {
                self.notify(&in_flight.key, || {
                    self.observer.looping(&self.name, &in_flight.key, &looping);
                });
            }
            return;
        }

        let mut request = ReconcileRequest {
            controller: self.name.clone(),
            key: in_flight.key.clone(),
            retries: self.queue.num_requeues(&in_flight.key),
            reconcile_id: reconcile_id(),
            record: None,
        };

        if let Some(pending) = &self.pending_triggers {
            let triggers = pending.take(&request.key);
            let begin = || self.observer.begin_record(&request, &self.queue, triggers);
            request.record = self.notify(&request.key, begin).flatten();
        }

        let reconciler = self.reconciler.read().clone();
        let start = Instant::now();
        let result = panics::catch_async(async { reconciler.reconcile(&request).await }).await;
        let result = result.unwrap_or_else(|message| {
            Err(Failure::Fault(Fault::Trap(format!(
                "the reconciler panicked: {message}"
            ))))
        });
        let took = start.elapsed();
        self.guard.ended(&request.key, &result);

        let is_retried =
            matches!(&result, Err(failure) if !matches!(failure, Failure::Terminal(_)));
        if let (Some(pending), Some(record), true) =
            (&self.pending_triggers, &request.record, is_retried)
        {
            // The retry has the same triggers.
            pending.restore(&request.key, record.triggers());
        }

        apply_outcome(&self.queue, &request.key, &result);
        in_flight.done = true;
        let retries_now = self.queue.num_requeues(&request.key);
        self.notify(&request.key, || {
            self.observer
                .reconciled(&request, &result, took, retries_now);
        });
    }

    /// Calls the observer. If it panics, the key and the worker survive and the result is None.
    fn notify<T>(&self, key: &ObjectKey, call: impl FnOnce() -> T) -> Option<T> {
        let log = |message: &String| tracing::error!(controller = self.name, %key, "observer panicked: {message}");
        panics::catch(call).inspect_err(log).ok()
    }
}

/// Applies the outcome of a reconcile to its key. The policy is controller-runtime's
/// [`reconcileHandler`], except that a terminal failure also resets the failure count.
///
/// [`reconcileHandler`]: https://github.com/kubernetes-sigs/controller-runtime/blob/v0.24.1/pkg/internal/controller/controller.go#L461
fn apply_outcome(queue: &WorkQueue<ObjectKey>, key: &ObjectKey, result: &Result<Action, Failure>) {
    match result {
        Ok(Action::Done) | Err(Failure::Terminal(_)) => queue.forget(key),
        // Like controller-runtime, we requeue only after a positive delay.
        Ok(Action::RequeueAfter(Duration::ZERO)) => queue.forget(key),
        Ok(Action::RequeueAfter(delay)) => {
            queue.forget(key);
            queue.add_after(key.clone(), *delay);
        }
        Err(Failure::RetryAfter(_, delay)) => queue.add_failed_after(key.clone(), *delay),
        Ok(Action::Requeue) | Err(Failure::Retry(_) | Failure::Fault(_)) => {
            queue.add_rate_limited(key.clone());
        }
    }
}

/// A key between `get` and `done`. If dropped before it is done, say by an abort, the key returns
/// to the queue.
struct InFlight<'a> {
    queue: &'a WorkQueue<ObjectKey>,
    key: ObjectKey,
    done: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.queue.add(self.key.clone());
        }
        self.queue.done(&self.key);
    }
}

/// A unique id: a random prefix per process and a counter.
fn reconcile_id() -> String {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let process = PROCESS.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    format!("{process:016x}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{HashMap, HashSet},
        sync::{Weak, atomic::AtomicBool},
    };

    use async_trait::async_trait;
    use rand::{Rng, SeedableRng, rngs::StdRng};
    use tokio::{
        sync::Semaphore,
        time::{sleep, timeout},
    };

    use super::*;
    use crate::queue::{ItemExponentialFailureRateLimiter, Stats};

    const SECOND: Duration = Duration::from_secs(1);

    type Outcome = Result<Action, Failure>;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("default", name)
    }

    fn queue() -> WorkQueue<ObjectKey> {
        WorkQueue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(SECOND, 100 * SECOND))
    }

    /// A reconciler that answers with a function of the request.
    struct Answer<F>(F);

    #[async_trait]
    impl<F: Fn(&ReconcileRequest) -> Outcome + Send + Sync> Reconciler for Answer<F> {
        async fn reconcile(&self, request: &ReconcileRequest) -> Outcome {
            self.0(request)
        }
    }

    /// A reconciler that takes a permit for each reconcile, then returns Done.
    struct Gated {
        permits: Arc<Semaphore>,
    }

    #[async_trait]
    impl Reconciler for Gated {
        async fn reconcile(&self, _: &ReconcileRequest) -> Outcome {
            self.permits.acquire().await.expect("open").forget();
            Ok(Action::Done)
        }
    }

    /// The arguments and the time of a call of an observer.
    #[derive(Clone, Debug)]
    struct Observed {
        request: ReconcileRequest,
        result: Outcome,
        took: Duration,
        retries_now: u32,
        at: Instant,
    }

    #[derive(Default)]
    struct Recorder(Mutex<Vec<Observed>>);

    impl Recorder {
        fn all(&self) -> Vec<Observed> {
            self.0.lock().clone()
        }

        fn names(&self) -> Vec<String> {
            self.all()
                .into_iter()
                .map(|seen| seen.request.key.name)
                .collect()
        }
    }

    impl Observer for Recorder {
        fn reconciled(
            &self,
            request: &ReconcileRequest,
            result: &Outcome,
            took: Duration,
            retries_now: u32,
        ) {
            let request = request.clone();
            let result = result.clone();
            self.0.lock().push(Observed {
                request,
                result,
                took,
                retries_now,
                at: Instant::now(),
            });
        }
    }

    fn controller(reconciler: impl Reconciler + 'static) -> (Arc<Controller>, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::default());
        (
            Controller::new("c", queue(), Arc::new(reconciler), recorder.clone()),
            recorder,
        )
    }

    /// Runs one key for ten seconds. The reconciler returns `first`, and Done from the second time
    /// on. Returns the seconds at which the key was reconciled, the failures counted before each
    /// reconcile, and those counted after the first.
    async fn times_after(first: Outcome) -> (Vec<u64>, Vec<u32>, u32) {
        let count = AtomicU64::new(0);
        let (controller, recorder) = controller(Answer(move |_: &ReconcileRequest| {
            if count.fetch_add(1, Ordering::Relaxed) == 0 {
                first.clone()
            } else {
                Ok(Action::Done)
            }
        }));
        let start = Instant::now();
        controller.set_workers(2);
        controller.enqueue(key("a"), Priority::Normal);
        sleep(10 * SECOND).await;
        let seen = recorder.all();
        assert!(
            seen.iter()
                .all(|seen| seen.request.controller == "c" && seen.request.key == key("a"))
        );
        let times = seen
            .iter()
            .map(|seen| (seen.at - start).as_secs())
            .collect();
        let retries = seen.iter().map(|seen| seen.request.retries).collect();
        assert_eq!(controller.queue().stats().processing, 0);
        (times, retries, seen[0].retries_now)
    }

    #[tokio::test(start_paused = true)]
    async fn each_outcome_has_its_policy() {
        let fault = Failure::Fault(Fault::Trap("unreachable".into()));
        for (outcome, times, retries, retries_now) in [
            (Ok(Action::Done), vec![0], vec![0], 0),
            (Ok(Action::Requeue), vec![0, 1], vec![0, 1], 1),
            (
                Ok(Action::RequeueAfter(5 * SECOND)),
                vec![0, 5],
                vec![0, 0],
                0,
            ),
            (
                Ok(Action::RequeueAfter(Duration::ZERO)),
                vec![0],
                vec![0],
                0,
            ),
            (
                Err(Failure::Retry("later".into())),
                vec![0, 1],
                vec![0, 1],
                1,
            ),
            (
                Err(Failure::RetryAfter("then".into(), 5 * SECOND)),
                vec![0, 5],
                vec![0, 1],
                1,
            ),
            (Err(Failure::Terminal("never".into())), vec![0], vec![0], 0),
            (Err(fault), vec![0, 1], vec![0, 1], 1),
        ] {
            assert_eq!(
                times_after(outcome.clone()).await,
                (times, retries, retries_now),
                "{outcome:?}"
            );
        }
    }

    /// Reconciles one key of a queue with client-go's limits, which fails for as long as an outage
    /// lasts, with events meanwhile. Returns how long after the outage it was reconciled.
    async fn recovery(outage: Duration, events: Option<Duration>) -> Duration {
        let end = Instant::now() + outage;
        let recorder = Arc::new(Recorder::default());
        let reconciler = Answer(move |_: &ReconcileRequest| {
            if Instant::now() < end {
                Err(Failure::Retry("no route to host".into()))
            } else {
                Ok(Action::Done)
            }
        });
        let controller = Controller::new(
            "c",
            WorkQueue::new(),
            Arc::new(reconciler),
            recorder.clone(),
        );
        controller.set_workers(1);

        controller.enqueue(key("a"), Priority::Normal);
        if let Some(every) = events {
            while Instant::now() + every < end {
                sleep(every).await;
                controller.enqueue(key("a"), Priority::Normal);
            }
        }

        sleep(2000 * SECOND).await;
        let seen = recorder.all();
        let recovered = seen.iter().find(|seen| seen.result.is_ok());
        recovered.expect("reconciled").at - end
    }

    #[tokio::test(start_paused = true)]
    async fn key_recovers_within_the_length_of_an_outage() {
        let events = [
            None,
            Some(Duration::from_millis(50)),
            Some(SECOND),
            Some(4 * SECOND),
        ];
        for outage in [5, 13, 30, 600] {
            let outage = SECOND * outage;
            for events in events {
                let took = recovery(outage, events).await;
                assert!(
                    took <= outage + SECOND,
                    "{took:?} after {outage:?} with events every {events:?}"
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn counts_consecutive_failures_not_events() {
        let count = AtomicU64::new(0);
        let (controller, recorder) = controller(Answer(move |_: &ReconcileRequest| {
            match count.fetch_add(1, Ordering::Relaxed) {
                3 => Ok(Action::RequeueAfter(SECOND)),
                _ => Err(Failure::Retry("no".into())),
            }
        }));
        controller.set_workers(1);
        controller.enqueue(key("a"), Priority::Normal);
        for _ in 0..3 {
            controller.enqueue(key("a"), Priority::Normal);
        }
        sleep(10 * SECOND).await;
        let retries: Vec<_> = recorder
            .all()
            .iter()
            .map(|seen| seen.request.retries)
            .collect();
        assert_eq!(retries, [0, 1, 2, 3, 0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn panic_loses_neither_key_nor_worker() {
        let count = AtomicU64::new(0);
        let (controller, recorder) = controller(Answer(move |request: &ReconcileRequest| {
            if request.key.name == "bad" && count.fetch_add(1, Ordering::Relaxed) == 0 {
                panic!("by {}", request.key.name);
            }
            Ok(Action::Done)
        }));
        controller.set_workers(1);
        controller.enqueue(key("bad"), Priority::Normal);
        controller.enqueue(key("good"), Priority::Normal);
        sleep(2 * SECOND).await;
        assert_eq!(recorder.names(), ["bad", "good", "bad"]);
        let panicked = Failure::Fault(Fault::Trap("the reconciler panicked: by bad".into()));
        assert_eq!(recorder.all()[0].result, Err(panicked));
    }

    #[tokio::test(start_paused = true)]
    async fn panicking_observer_loses_neither_key_nor_worker() {
        struct Panicking;
        impl Observer for Panicking {
            fn reconciled(&self, _: &ReconcileRequest, _: &Outcome, _: Duration, _: u32) {
                panic!("observer");
            }
        }
        let answer = Arc::new(Answer(|_: &ReconcileRequest| Ok(Action::Done)));
        let controller = Controller::new("c", queue(), answer, Arc::new(Panicking));
        controller.set_workers(1);
        controller.enqueue(key("a"), Priority::Normal);
        controller.enqueue(key("b"), Priority::Normal);
        sleep(SECOND).await;
        let stats = controller.queue().stats();
        assert_eq!((stats.depth, stats.processing, stats.adds_total), (0, 0, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn swap_finishes_in_flight_reconciles_and_loses_no_key() {
        let permits = Arc::new(Semaphore::new(0));
        let (controller, recorder) = controller(Gated {
            permits: permits.clone(),
        });
        controller.set_workers(1);
        for name in ["a", "b", "c"] {
            controller.enqueue(key(name), Priority::Normal);
        }
        sleep(SECOND).await;
        let answer = Answer(|_: &ReconcileRequest| Err(Failure::Terminal("new".into())));
        let old: Weak<dyn Reconciler> = Arc::downgrade(&controller.swap(Arc::new(answer)));
        assert!(old.upgrade().is_some(), "it is in flight");
        controller.enqueue(key("a"), Priority::Normal);
        permits.add_permits(1);
        sleep(SECOND).await;
        assert!(old.upgrade().is_none(), "it is dropped");
        assert_eq!(recorder.names(), ["a", "b", "c", "a"]);
        let seen = recorder.all();
        assert_eq!(
            (seen[0].result.clone(), seen[0].took),
            (Ok(Action::Done), SECOND)
        );
        assert!(
            seen[1..]
                .iter()
                .all(|seen| seen.result == Err(Failure::Terminal("new".into())))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn stop_waits_for_in_flight_and_starts_nothing() {
        let permits = Arc::new(Semaphore::new(0));
        let (controller, recorder) = controller(Gated {
            permits: permits.clone(),
        });
        controller.set_workers(2);
        for name in ["a", "b", "c"] {
            controller.enqueue(key(name), Priority::Normal);
        }
        sleep(SECOND).await;
        let mut stop = Box::pin(controller.stop());
        assert!(timeout(SECOND, &mut stop).await.is_err());
        controller.enqueue(key("d"), Priority::Normal);
        permits.add_permits(10);
        timeout(SECOND, stop).await.expect("stopped");
        assert_eq!(recorder.names(), ["a", "b"]);
        controller.set_workers(1);
        sleep(SECOND).await;
        assert_eq!(
            recorder.names(),
            ["a", "b"],
            "a stopped controller stays stopped"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_stop_aborts_and_returns_the_key() {
        for give_up_stop in [true, false] {
            let (controller, recorder) = controller(Gated {
                permits: Arc::new(Semaphore::new(0)),
            });
            let queue = controller.queue().clone();
            let shared = Arc::downgrade(&controller.shared);
            controller.set_workers(2);
            controller.enqueue(key("a"), Priority::Normal);
            sleep(SECOND).await;
            assert_eq!(queue.stats().processing, 1);
            if give_up_stop {
                assert!(timeout(SECOND, controller.stop()).await.is_err());
            }
            drop(controller);
            sleep(SECOND).await;
            assert!(shared.upgrade().is_none(), "no task is left");
            assert_eq!(queue.stats().processing, 0);
            // A queue that shuts down takes no keys back.
            assert_eq!(
                (queue.len(), recorder.names().len()),
                (usize::from(!give_up_stop), 0)
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn workers_grow_at_once_and_shrink_when_idle() {
        let permits = Arc::new(Semaphore::new(0));
        let (controller, recorder) = controller(Gated {
            permits: permits.clone(),
        });
        let busy = || async {
            sleep(SECOND).await;
            controller.queue().stats().processing
        };
        for at in 0..20 {
            controller.enqueue(key(&at.to_string()), Priority::Normal);
        }
        assert_eq!(busy().await, 0);
        controller.set_workers(2);
        assert_eq!(busy().await, 2);
        controller.set_workers(5);
        assert_eq!((busy().await, controller.workers()), (5, 5));
        controller.set_workers(1);
        assert_eq!(busy().await, 5, "no reconcile is aborted");
        controller.set_workers(3);
        assert_eq!(busy().await, 5, "three workers stay, and none is started");
        permits.add_permits(5);
        assert_eq!(busy().await, 3);
        controller.set_workers(0);
        permits.add_permits(3);
        assert_eq!((busy().await, recorder.names().len()), (0, 8));
        controller.set_workers(4);
        assert_eq!(busy().await, 4);
        permits.add_permits(20);
        sleep(SECOND).await;
        let mut names: Vec<usize> = recorder
            .names()
            .iter()
            .map(|name| name.parse().expect("a number"))
            .collect();
        names.sort_unstable();
        assert!(names.into_iter().eq(0..20), "every key is reconciled once");
    }

    #[tokio::test(start_paused = true)]
    async fn reconcile_ids_are_unique() {
        let (controller, recorder) = controller(Answer(|_: &ReconcileRequest| Ok(Action::Requeue)));
        controller.set_workers(3);
        (0..20).for_each(|at| controller.enqueue(key(&at.to_string()), Priority::Low));
        sleep(60 * SECOND).await;
        let mut ids: Vec<_> = recorder
            .all()
            .into_iter()
            .map(|seen| seen.request.reconcile_id)
            .collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert!(count > 100 && ids.len() == count);
    }

    /// The state that all [`Chaos`] reconcilers of a run share.
    struct Disorder {
        random: Mutex<StdRng>,
        busy: Mutex<HashSet<ObjectKey>>,
        calm: AtomicBool,
        twice: AtomicBool,
    }

    /// A reconciler that sleeps and answers at random, and records whether a key is reconciled
    /// twice at once.
    struct Chaos(Arc<Disorder>);

    #[async_trait]
    impl Reconciler for Chaos {
        async fn reconcile(&self, request: &ReconcileRequest) -> Outcome {
            let Disorder {
                random,
                busy,
                calm,
                twice,
            } = &*self.0;
            if !busy.lock().insert(request.key.clone()) {
                twice.store(true, Ordering::SeqCst);
            }
            let (pause, answer) = {
                let mut random = random.lock();
                (random.random_range(0..50), random.random_range(0..8))
            };
            sleep(Duration::from_millis(pause)).await;
            busy.lock().remove(&request.key);
            match answer {
                _ if calm.load(Ordering::SeqCst) => Ok(Action::Done),
                0 => Ok(Action::Requeue),
                1 => Ok(Action::RequeueAfter(Duration::from_millis(pause))),
                2 => Err(Failure::Retry("r".into())),
                3 => Err(Failure::Terminal("t".into())),
                4 => panic!("chaos"),
                _ => Ok(Action::Done),
            }
        }
    }

    /// Invariants: no key is reconciled twice at once, each key is reconciled after its last add,
    /// and no key is left at the end.
    #[tokio::test(start_paused = true)]
    async fn random_adds_and_swaps_lose_no_key() {
        let seed = std::env::var("OPERETTA_SEED")
            .ok()
            .map(|text| text.parse().expect("OPERETTA_SEED is a number"));
        let seed: u64 = seed.unwrap_or_else(rand::random);
        println!("OPERETTA_SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let disorder = Arc::new(Disorder {
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            busy: Mutex::default(),
            calm: AtomicBool::new(false),
            twice: AtomicBool::new(false),
        });
        let (controller, recorder) = controller(Chaos(disorder.clone()));
        controller.set_workers(8);
        let mut added = HashMap::new();
        for _ in 0..4000 {
            let key = key(&random.random_range(0..30).to_string());
            let priority = if random.random() {
                Priority::Normal
            } else {
                Priority::Low
            };
            controller.enqueue(key.clone(), priority);
            added.insert(key, Instant::now());
            match random.random_range(0..100) {
                0 => controller.set_workers(random.random_range(0..9)),
                1 => drop(controller.swap(Arc::new(Chaos(disorder.clone())))),
                2..20 => sleep(Duration::from_millis(random.random_range(0..20))).await,
                _ => {}
            }
        }
        disorder.calm.store(true, Ordering::SeqCst);
        controller.set_workers(8);
        sleep(1000 * SECOND).await;
        let Stats {
            depth,
            waiting,
            processing,
            ..
        } = controller.queue().stats();
        assert_eq!((depth, waiting, processing), (0, 0, 0));
        assert!(
            !disorder.twice.load(Ordering::SeqCst),
            "a key was reconciled twice at once"
        );
        let seen = recorder.all();
        for (key, at) in added {
            let last = seen
                .iter()
                .rev()
                .find(|seen| seen.request.key == key)
                .expect("reconciled");
            assert!(
                last.at - last.took >= at,
                "{key} was not reconciled after it was added"
            );
        }
    }
}
