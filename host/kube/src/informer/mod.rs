//! Shared informers: one watch, one store, many handlers.
//!
//! An informer lists and watches the objects of one kind (and selector), stores them in a [`Cache`], and notifies its
//! handlers of changes. Its guarantees follow client-go's shared_informer.go:
//!
//! - the store is updated before any handler is called;
//! - a handler gets the changes of one object in order, and every handler gets every change;
//! - a handler that subscribes late first gets the whole store as additions;
//! - after a gap, the relist is compared with the store: objects that vanished are reported as deleted;
//! - an object that was deleted and created again is reported as deleted and added, never as modified;
//! - changes may be compressed: between two calls an object may have changed many times;
//! - events that repeat the store's state, or are older than it, are not delivered.
//!
//! `PROMISES.md` in this folder names the test of each guarantee. Handlers run on the informer's task, one event at a
//! time: they must only map to keys and enqueue. Dropping the last `Arc<Informer>` closes the watch. The reflector
//! fills the store.

pub mod registry;

pub mod frames;
mod left_out;
pub mod list;
mod listed;
mod pause;
mod reflector;
mod scope;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use operetta_core::{
    handler::event::Event,
    object::{Object, prune::Prune, selector::LabelSelector},
    panics,
    recorder::Recorder,
    status::{ApiError, ErrorKind},
};
use parking_lot::Mutex;
use tokio::{sync::watch, task::AbortHandle, time::Instant};

pub use self::scope::{Scope, Settings, Timing};
use self::{frames::Unreadable, left_out::LeftOut, reflector::Reflector};
use crate::{
    client::wire::Wire,
    discovery::ApiResource,
    store::{Lookup, Relist, Store, Writer, cache::Cache, overlay::Overlay},
};

/// The state of an informer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InformerState {
    /// True once the store has received a full list (client-go's HasSynced).
    pub synced: bool,
    /// The API server's last error, while it persists.
    pub error: Option<String>,
    /// True if the error is that the host lacks the permission.
    pub forbidden: bool,
}

/// The counters of an informer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InformerStats {
    /// The number of watch requests, including streaming lists.
    pub watches: u64,
    /// The number of lists, including the first one.
    pub relists: u64,
    /// The number of delivered changes, without those of the first list.
    pub events: u64,
    /// States of objects that could not be read.
    pub unreadable: u64,
    /// The time of the last event, bookmark or list.
    pub heard: Option<Instant>,
    /// The number of its handlers.
    pub users: usize,
}

/// A handler that receives every event on the informer's task.
pub type Handler = Arc<dyn Fn(&Event) + Send + Sync>;

/// A running watch and its store.
pub struct Informer {
    /// The resource of the watched kind.
    pub resource: Arc<ApiResource>,
    /// The scope that it watches.
    pub scope: Scope,
    /// The cached objects.
    pub cache: Cache,
    dispatch: Mutex<Dispatch>,
    state: watch::Sender<InformerState>,
    watches: AtomicU64,
    relists: AtomicU64,
    task: Mutex<Option<AbortHandle>>,
    left_out: Mutex<LeftOut>,
    /// Records the changes that the watch sees.
    recorder: Option<Arc<Recorder>>,
}

/// The state that changes together on each event. It is under one lock, so that a late handler sees each change once,
/// either in the store or as an event.
struct Dispatch {
    writer: Writer,
    handlers: Vec<(u64, Handler)>,
    next_handler: u64,
    events: u64,
    heard: Option<Instant>,
    /// The resourceVersion of the last list.
    listed: u64,
}

/// The registration of a handler. Dropping it ends the calls.
pub struct Subscription {
    informer: Arc<Informer>,
    id: u64,
    resync: Option<AbortHandle>,
}

impl Informer {
    /// Starts an informer. [`LabelSelector::parse`] must accept the label selector, and [`Prune::new`] the pruned
    /// fields.
    pub(crate) fn start(
        wire: &Wire,
        resource: Arc<ApiResource>,
        scope: Scope,
        Settings { timing, packing, recorder }: Settings,
    ) -> Arc<Self> {
        let (store, writer) = Store::with(packing, Prune::new(&scope.pruned).unwrap_or_default());
        let selects = LabelSelector::parse(&scope.labels).unwrap_or_default();
        let field_selected = !scope.fields.is_empty() || scope.metadata_only;
        let namespace = scope.namespace.clone();
        let cache = Cache { store, overlay: Overlay::default(), namespace, selects, field_selected };
        let dispatch = Dispatch { writer, handlers: Vec::new(), next_handler: 0, events: 0, heard: None, listed: 0 };
        let informer = Arc::new(Self {
            resource,
            scope,
            cache,
            dispatch: Mutex::new(dispatch),
            state: watch::Sender::new(InformerState::default()),
            watches: AtomicU64::new(0),
            relists: AtomicU64::new(0),
            task: Mutex::default(),
            left_out: Mutex::default(),
            recorder,
        });
        let task = tokio::spawn(Reflector::new(wire.clone(), &informer, timing).run());
        *informer.task.lock() = Some(task.abort_handle());
        informer
    }

    /// Adds a handler. It receives all objects in the store before this returns, then each change. With `resync`, it
    /// receives every object again at this interval, as a change from itself to itself.
    pub fn subscribe(self: &Arc<Self>, handler: Handler, resync: Option<Duration>) -> Subscription {
        let mut dispatch = self.dispatch.lock();
        for object in self.cache.store.list(&Lookup::All, None, None) {
            call(&handler, &Event::Added { object, initial: true });
        }
        let id = dispatch.next_handler;
        dispatch.next_handler += 1;
        dispatch.handlers.push((id, handler.clone()));
        drop(dispatch);
        let resync =
            resync.map(|period| tokio::spawn(resync_every(Arc::downgrade(self), handler, period)).abort_handle());
        Subscription { informer: self.clone(), id, resync }
    }

    /// Returns a receiver of the state and its changes.
    pub fn state(&self) -> watch::Receiver<InformerState> {
        self.state.subscribe()
    }

    /// Waits until the store has received a full list. Cancel it by dropping the future.
    pub async fn synced(&self) {
        // The sender lives in `self`, so it cannot be closed.
        let mut state = self.state.subscribe();
        let _synced = state.wait_for(|state| state.synced).await;
    }

    /// Returns the counters.
    pub fn stats(&self) -> InformerStats {
        let unreadable = self.unreadable_total();
        let dispatch = self.dispatch.lock();
        InformerStats {
            watches: self.watches.load(Ordering::Relaxed),
            relists: self.relists.load(Ordering::Relaxed),
            events: dispatch.events,
            unreadable,
            heard: dispatch.heard,
            users: dispatch.handlers.len(),
        }
    }
}

/// The methods that the reflector calls.
impl Informer {
    fn begins_list(&self) {
        self.relists.fetch_add(1, Ordering::Relaxed);
    }

    fn begins_watch(&self) {
        self.watches.fetch_add(1, Ordering::Relaxed);
    }

    fn begin_relist(&self) -> Relist {
        self.dispatch.lock().writer.begin_relist()
    }

    /// Returns an object without the pruned fields.
    fn kept(&self, object: Object) -> Arc<Object> {
        self.cache.store.pruned(Arc::new(object))
    }

    /// Returns the recorder of changes, if there is one.
    fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.recorder.as_ref().filter(|recorder| recorder.is_on())
    }

    /// Records a change that the watch has seen, before its handlers run.
    fn record(&self, event: &Event, managed_fields: Option<&str>) {
        if let Some(recorder) = self.recorder() {
            recorder.change(event, managed_fields);
        }
    }

    /// Handles an added or changed object of the watch. `managed_fields` is the text of its managedFields.
    fn applied(&self, object: Object, managed_fields: Option<&str>) {
        let object = self.kept(object);
        let mut dispatch = self.dispatch.lock();
        dispatch.heard = Some(Instant::now());
        if self.cache.store.is_past(&object) {
            return;
        }
        let old = dispatch.writer.apply(object.clone());
        self.caught_up(&object, false);
        match old {
            Some(old) if old.uid() != object.uid() => dispatch.replaced(old, object, false),
            old => {
                let event = change(old, object, false);
                self.record(&event, managed_fields);
                dispatch.tell(&event);
            }
        }
    }

    /// Handles a deleted object of the watch.
    fn deleted(&self, object: Object) {
        let object = self.kept(object);
        let mut dispatch = self.dispatch.lock();
        dispatch.heard = Some(Instant::now());
        if self.cache.store.is_of_another(&object) {
            return;
        }
        let old = dispatch.writer.remove(&object);
        self.caught_up(&object, true);
        if old.is_some() {
            let event = Event::Deleted { object };
            self.record(&event, None);
            dispatch.tell(&event);
        }
    }

    /// Handles a bookmark: the watch has sent everything up to this resourceVersion.
    fn bookmarked(&self, resource_version: &str) {
        let mut dispatch = self.dispatch.lock();
        dispatch.hear(resource_version);
        if let Ok(revision) = resource_version.parse() {
            self.cache.overlay.passed(revision);
        }
    }

    /// Records a failure that interrupts the list or the watch.
    fn failed(&self, error: &ApiError) {
        self.well(Some(error));
    }

    /// Records that the watch works; `despite` is an error that remains.
    fn well(&self, despite: Option<&ApiError>) {
        let error = despite.map(|error| error.status.message.clone());
        let forbidden = despite.is_some_and(|error| error.kind == ErrorKind::Forbidden);
        let changed = |state: &mut InformerState| {
            state.forbidden = forbidden;
            std::mem::replace(&mut state.error, error.clone()) != error
        };
        if self.state.send_if_modified(changed)
            && let Some(error) = &error
        {
            tracing::warn!(kind = %self.resource.kind, error, "watch failed, retrying");
        }
    }

    /// Returns the error of an unreadable object.
    fn unreadable(&self, what: &Unreadable) -> ApiError {
        let kind = &self.resource.kind.kind;
        let subject = what.key.as_ref().map_or_else(|| format!("a {kind}"), |key| format!("{kind} {key}"));
        ApiError::new(ErrorKind::Other, format!("failed to decode {subject}: {}", what.why))
    }

    fn caught_up(&self, object: &Object, deleted: bool) {
        if let Some(revision) = object.revision() {
            self.cache.overlay.watched(object.key(), object.uid(), revision, deleted);
        }
    }
}

impl Drop for Informer {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut() {
            task.abort();
        }
    }
}

impl Subscription {
    /// Waits until the handler has received all objects of the first list (client-go's per-handler HasSynced).
    pub async fn synced(&self) {
        // Handlers are called before the informer is marked as synced, and a late handler before `subscribe` returns.
        self.informer.synced().await;
    }

    /// Returns the informer.
    pub fn informer(&self) -> &Arc<Informer> {
        &self.informer
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut dispatch = self.informer.dispatch.lock();
        dispatch.handlers.retain(|(id, _)| *id != self.id);
        if let Some(resync) = &self.resync {
            resync.abort();
        }
    }
}

impl Dispatch {
    /// Records that the store is complete up to this resourceVersion. Returns it as a number.
    fn hear(&mut self, resource_version: &str) -> u64 {
        let revision = resource_version.parse().unwrap_or_default();
        self.heard = Some(Instant::now());
        self.writer.reached(revision);
        revision
    }

    /// Delivers a deletion and an addition, because the object was deleted and created again in between.
    fn replaced(&mut self, old: Arc<Object>, object: Arc<Object>, initial: bool) {
        self.tell(&Event::Deleted { object: old });
        self.tell(&Event::Added { object, initial });
    }

    fn tell(&mut self, event: &Event) {
        self.events += 1;
        for (_, handler) in &self.handlers {
            call(handler, event);
        }
    }
}

/// Calls a handler. A panic in it is logged; the informer and the other handlers go on.
fn call(handler: &Handler, event: &Event) {
    if let Err(message) = panics::catch(|| handler(event)) {
        tracing::error!(key = %event.object().key(), "event handler panicked: {message}");
    }
}

fn change(old: Option<Arc<Object>>, object: Arc<Object>, initial: bool) -> Event {
    match old {
        Some(old) => Event::Modified { old, object },
        None => Event::Added { object, initial },
    }
}

async fn resync_every(informer: Weak<Informer>, handler: Handler, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        let Some(informer) = informer.upgrade() else { return };
        // Under the lock, so that a change is never delivered before an older state of the same object.
        let _order = informer.dispatch.lock();
        for object in informer.cache.store.list(&Lookup::All, None, None) {
            call(&handler, &Event::Modified { old: object.clone(), object });
        }
    }
}
