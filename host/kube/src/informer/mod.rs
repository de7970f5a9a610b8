//! Shared informers: one watch, one store, many handlers.
//!
//! An informer lists and watches the objects of one kind (and selector), stores them in a
//! [`Cache`], and notifies its handlers of changes. Its guarantees follow client-go's
//! [`SharedInformer`]:
//!
//! - the store is updated before any handler is called;
//! - a handler gets the changes of one object in order, and every handler gets every change;
//! - a handler that subscribes late first gets everything in the store as additions;
//! - after a gap, the relist is compared with the store, and vanished objects are reported as
//!   deleted;
//! - an object deleted and created again is reported as deleted and added, never as modified;
//! - changes may be compressed: between two calls an object may have changed many times;
//! - events that repeat the store's state, or are older, are not delivered.
//!
//! `PROMISES.md` in this folder names the test of each guarantee. Handlers run on the informer's
//! task, one event at a time: all they may do is map to keys and enqueue. Dropping the last
//! `Arc<Informer>` closes the watch.
//!
//! The reflector fills the store. It knows the informer, but not vice versa; the registry starts
//! both.
//!
//! [`SharedInformer`]: https://github.com/kubernetes/client-go/blob/v0.36.2/tools/cache/shared_informer.go#L144

pub mod registry;

mod backoff;
pub mod frames;
pub mod list;
pub(crate) mod own_writes;
mod reflector;
mod scope;
mod unreadable;
pub(crate) mod window;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use operetta_core::{
    handler::event::Event,
    object::{Object, ObjectKey, kind::GroupVersionKind, selector::LabelSelector},
    panics,
    recorder::Recorder,
    status::{ApiError, ErrorKind},
};
use parking_lot::Mutex;
use tokio::{sync::watch, task::AbortHandle, time::Instant};

pub use self::scope::{Scope, Settings, Timing};
use self::{
    frames::{Identity, Unreadable},
    own_writes::Effect,
    unreadable::UnreadableObjects,
    window::Window,
};
use crate::{
    discovery::ApiResource,
    store::{
        Lookup, Relist, Relisted, Store, Writer,
        cache::Cache,
        overlay::{Author, Overlay, Seen, Until},
    },
};

/// The state of an informer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InformerState {
    /// Whether the store has received a full list (client-go's HasSynced).
    pub synced: bool,
    /// The API server's last error, while it persists.
    pub error: Option<String>,
    /// Whether the error is a missing permission of the host.
    pub forbidden: bool,
    /// Whether the error is a resource the API server doesn't serve.
    pub not_served: bool,
    /// Whether the error is the API server asking us to wait (code 429). It does so while a kind's
    /// storage initializes: nothing is broken.
    pub throttled: bool,
}

/// An informer's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InformerStats {
    /// Watch requests, including streaming lists.
    pub watches: u64,
    /// Lists, including the first one.
    pub relists: u64,
    /// Delivered changes, except those of the first list.
    pub events: u64,
    /// Unreadable states of objects.
    pub unreadable: u64,
    /// When the last event, bookmark or list arrived.
    pub last_event: Option<Instant>,
    /// How many handlers it has, and watches of processes.
    pub users: usize,
}

/// A handler, called with every event on the informer's task.
pub type Handler = Arc<dyn Fn(&Event) + Send + Sync>;

/// A running watch and its store.
pub struct Informer {
    /// The resource of the watched kind.
    pub resource: Arc<ApiResource>,
    /// Which objects it watches.
    pub scope: Scope,
    /// The cached objects.
    pub cache: Cache,
    dispatch: Mutex<Dispatch>,
    state: watch::Sender<InformerState>,
    watches: AtomicU64,
    relists: AtomicU64,
    task: Mutex<Option<AbortHandle>>,
    unreadable: Mutex<UnreadableObjects>,
    recorder: Option<Arc<Recorder>>,
}

/// Everything that changes together on each event. One lock guards it all, so that a late handler
/// sees each change once, either in the store or as an event.
struct Dispatch {
    writer: Writer,
    handlers: Vec<(u64, Handler)>,
    next_handler: u64,
    events: u64,
    last_event: Option<Instant>,
    /// The last list's resourceVersion.
    listed: u64,
    /// The watches of processes; None if the objects are not for them.
    window: Option<Window>,
}

/// A registered handler. Dropping this stops its calls.
pub struct Subscription {
    informer: Arc<Informer>,
    id: u64,
    resync: Option<AbortHandle>,
}

impl Informer {
    fn new(
        resource: Arc<ApiResource>,
        scope: Scope,
        Settings {
            timing: _,
            packing,
            recorder,
        }: Settings,
    ) -> Arc<Self> {
        let (store, writer) = Store::with(packing);
        let cache = Cache {
            store,
            overlay: Overlay::of(!scope.labels.is_empty() || !scope.fields.is_empty()),
            namespace: scope.namespace.clone(),
            selects: LabelSelector::parse(&scope.labels).unwrap_or_default(),
            metadata_only: scope.metadata_only,
            prune: scope.prune(),
        };

        let dispatch = Dispatch {
            writer,
            handlers: Vec::new(),
            next_handler: 0,
            events: 0,
            last_event: None,
            listed: 0,
            window: scope.for_processes.then(Window::new),
        };

        let is_for_processes = scope.for_processes;
        Arc::new(Self {
            resource,
            scope,
            cache,
            dispatch: Mutex::new(dispatch),
            state: watch::Sender::new(InformerState::default()),
            watches: AtomicU64::new(0),
            relists: AtomicU64::new(0),
            task: Mutex::default(),
            unreadable: Mutex::default(),
            // What happens to an object is recorded once, without managedFields.
            recorder: recorder.filter(|_| !is_for_processes),
        })
    }

    /// Ends this task together with the informer.
    fn ends_with(&self, task: AbortHandle) {
        *self.task.lock() = Some(task);
    }

    /// Adds a handler. It receives all objects in the store before this returns, then each change.
    /// With `resync`, it also receives every object again at this interval, as a change from itself
    /// to itself.
    pub fn subscribe(self: &Arc<Self>, handler: Handler, resync: Option<Duration>) -> Subscription {
        let mut dispatch = self.dispatch.lock();
        for object in self.cache.store.list(&Lookup::All, None, None) {
            call(
                &handler,
                &Event::Added {
                    object,
                    initial: true,
                },
            );
        }

        let id = dispatch.next_handler;
        dispatch.next_handler += 1;
        dispatch.handlers.push((id, handler.clone()));
        drop(dispatch);
        let resync = resync.map(|period| {
            tokio::spawn(resync_every(Arc::downgrade(self), handler, period)).abort_handle()
        });

        Subscription {
            informer: self.clone(),
            id,
            resync,
        }
    }

    /// Holds back events until the returned guard is dropped. Don't hold it for long, nor subscribe
    /// meanwhile.
    pub(crate) fn pause(&self) -> impl Sized + '_ {
        self.dispatch.lock()
    }

    /// Follows the state.
    pub fn state(&self) -> watch::Receiver<InformerState> {
        self.state.subscribe()
    }

    /// Waits until the store has received a full list. To cancel, drop the future.
    pub async fn synced(&self) {
        // The sender lives in `self`, so it cannot be closed.
        let mut state = self.state.subscribe();
        let _synced = state.wait_for(|state| state.synced).await;
    }

    /// The counters.
    pub fn stats(&self) -> InformerStats {
        let unreadable = self.unreadable.lock().total();
        let dispatch = self.dispatch.lock();
        InformerStats {
            watches: self.watches.load(Ordering::Relaxed),
            relists: self.relists.load(Ordering::Relaxed),
            events: dispatch.events,
            unreadable,
            last_event: dispatch.last_event,
            users: dispatch.handlers.len() + dispatch.window.as_ref().map_or(0, Window::watchers),
        }
    }

    /// Describes the currently unreadable objects: the first one, and the number of others.
    pub fn unreadable(&self) -> Option<String> {
        self.unreadable.lock().describe(&self.resource.kind.kind)
    }

    /// Adds an own write of objects of `kind` to the overlay, as far as it affects this
    /// informer's view.
    pub(crate) fn note(&self, kind: &GroupVersionKind, effect: &Effect, author: Author) {
        let Cache { overlay, store, .. } = &self.cache;
        let is_anywhere = matches!(
            effect,
            Effect::Collection {
                namespace: None,
                ..
            }
        );
        // A process knows its own writes, and sees what the API server's watch cache shows.
        if self.scope.for_processes
            || !(is_anywhere || self.scope.is_within_reach(effect.namespace()))
        {
            return;
        }

        match effect {
            Effect::Stored(object) => {
                // The answer shows neither the object in another version of its API, nor whether a
                // field selector matches.
                if self.resource.kind == *kind && self.scope.fields.is_empty() {
                    self.wrote(object, author);
                } else if let Some(revision) = object.revision() {
                    overlay.changed(object.key(), Until::Reached(revision), author, store);
                }
            }
            Effect::Deleted {
                key,
                uid,
                existed,
                sent,
            } => {
                overlay.deleted(key, uid, *existed, *sent, author, store);
            }
            Effect::Changed { key, until } => {
                overlay.changed(key, until.clone(), author, store);
            }
            Effect::Collection { namespace, certain } => {
                overlay.changed_some(namespace.as_deref(), *certain, author);
            }
        }
    }

    /// Adds the response to a write to the overlay. A list may have overtaken the response: if the
    /// object was deleted before the list, no event of the watch will tell, so its deletion is
    /// reported here.
    pub fn wrote(&self, object: &Arc<Object>, author: Author) {
        let store = &self.cache.store;
        let Some(revision) = object.revision() else {
            return;
        };
        if !self.cache.wrote(object, author) || revision > store.revision() || store.has(object) {
            return;
        }

        let mut dispatch = self.dispatch.lock();
        if revision <= dispatch.listed && !store.has(object) {
            dispatch.deliver(&Event::deleted(self.cache.pruned(object)));
        }
    }
}

/// For the reflector.
impl Informer {
    fn count_list(&self) {
        self.relists.fetch_add(1, Ordering::Relaxed);
    }

    fn count_watch(&self) {
        self.watches.fetch_add(1, Ordering::Relaxed);
    }

    fn begin_relist(&self) -> Relist {
        self.dispatch.lock().writer.begin_relist()
    }

    /// Completes a list started at `began`: the store takes over its content.
    fn relisted(&self, began: Instant, relist: Relist, resource_version: &str) {
        let mut dispatch = self.dispatch.lock();
        let is_first = !self.state.borrow().synced;
        let Relisted { changed, gone } = dispatch.writer.finish(relist);
        let revision = dispatch.complete_to(resource_version);
        dispatch.listed = revision;
        if let Some(window) = &mut dispatch.window {
            window.begin_anew(Some(revision).filter(|revision| *revision > 0));
        }

        // A list does not show an object created and deleted before it. If the host created it
        // while the watch was interrupted, only the overlay knows of it. All other deletions are
        // reported below.
        let unseen = self
            .cache
            .overlay
            .relisted(began, revision, &self.cache.store);
        let unseen = unseen.into_iter().filter(|written| {
            let key = written.key();
            let in_gone = gone
                .binary_search_by(|object| object.key().cmp(key))
                .ok()
                .map(|at| &gone[at]);
            let in_changed = changed
                .binary_search_by(|(_, object)| object.key().cmp(key))
                .ok();
            let replaced = in_changed.and_then(|at| changed[at].0.as_ref());
            in_gone
                .or(replaced)
                .is_none_or(|known| known.uid() != written.uid())
        });

        for object in unseen {
            dispatch.deliver(&Event::deleted(object));
        }
        for object in gone {
            dispatch.deliver(&Event::deleted(object));
        }
        for (old, object) in changed {
            match old {
                Some(old) if old.uid() != object.uid() => {
                    dispatch.deliver_replacement(old, object, is_first);
                }
                old => dispatch.deliver(&change(old, object, is_first)),
            }
        }
        self.state.send_modify(|state| state.synced = true);
    }

    /// The recorder of changes, if it is on.
    fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.recorder.as_ref().filter(|recorder| recorder.is_on())
    }

    /// Records a change seen by the watch, before its handlers run.
    fn record(&self, event: &Event, managed_fields: Option<&str>) {
        if let Some(recorder) = self.recorder() {
            recorder.change(event, managed_fields);
        }
    }

    /// Handles an object added or changed in the watch. `managed_fields` is the text of its
    /// managedFields.
    fn applied(&self, object: Object, managed_fields: Option<&str>) {
        let object = Arc::new(object);
        let mut dispatch = self.dispatch.lock();
        dispatch.last_event = Some(Instant::now());
        if self.cache.store.is_past(&object) {
            return;
        }

        let old = dispatch.writer.apply(object.clone());
        self.caught_up(&object, Seen::of(&object));
        dispatch.show(old.as_ref(), &object);
        match old {
            Some(old) if old.uid() != object.uid() => {
                dispatch.deliver_replacement(old, object, false);
            }
            old => {
                let event = change(old, object, false);
                self.record(&event, managed_fields);
                dispatch.deliver(&event);
            }
        }
    }

    fn deleted(&self, object: Object) {
        let object = Arc::new(object);
        let mut dispatch = self.dispatch.lock();
        dispatch.last_event = Some(Instant::now());
        if self.cache.store.is_of_another(&object) {
            return;
        }

        let old = dispatch.writer.remove(&object);
        self.caught_up(&object, Seen::Gone);
        if old.is_some() {
            if let Some(window) = &mut dispatch.window {
                window.changed(Some(&object), None);
            }
            let event = Event::deleted(object);
            self.record(&event, None);
            dispatch.deliver(&event);
        }
    }

    /// Handles a bookmark: the watch has sent everything up to this resourceVersion.
    fn bookmarked(&self, resource_version: &str) {
        let mut dispatch = self.dispatch.lock();
        dispatch.complete_to(resource_version);
        if let Ok(revision) = resource_version.parse() {
            self.cache.overlay.passed(revision);
            if let Some(window) = &mut dispatch.window {
                window.passed(revision);
            }
        }
    }

    /// Sets the error interrupting the list or the watch; None if they work.
    fn set_error(&self, error: Option<&ApiError>) {
        let is = |kind: ErrorKind| error.is_some_and(|error| error.kind == kind);
        let message = error.map(|error| error.status.message.clone());
        let has_changed = self.state.send_if_modified(|state| {
            state.forbidden = is(ErrorKind::Forbidden);
            state.not_served = is(ErrorKind::NotFound);
            state.throttled = is(ErrorKind::TooManyRequests);
            std::mem::replace(&mut state.error, message.clone()) != message
        });

        let is_lost = is(ErrorKind::Forbidden) || is(ErrorKind::NotFound);
        if has_changed
            && is_lost
            && let Some(window) = &mut self.dispatch.lock().window
        {
            window.interrupt();
        }
        if has_changed && let Some(error) = &message {
            tracing::warn!(kind = %self.resource.kind, error, "watch failed, retrying");
        }
    }

    /// Records that a list is complete except for these objects.
    fn listed_without(&self, unreadable: &[Unreadable]) {
        self.unreadable.lock().clear();
        for object in unreadable {
            self.cannot_read(object);
        }
    }

    /// Handles a watch event with an unreadable object. The store keeps the object's last state; a
    /// deletion is delivered all the same.
    fn skipped(&self, object: &Unreadable, identity: &Identity) {
        if identity.deleted {
            self.can_read(&identity.key);
            self.deleted_unread(identity);
        } else {
            self.cannot_read(object);
        }
        if let Some(window) = &mut self.dispatch.lock().window {
            window.begin_anew(identity.resource_version.parse().ok());
        }
        self.bookmarked(&identity.resource_version);
    }

    /// Records that the object of this key is readable again, or deleted.
    fn can_read(&self, key: &ObjectKey) {
        self.unreadable.lock().remove(key);
    }

    fn cannot_read(&self, object: &Unreadable) {
        let is_new = match &object.key {
            Some(key) => self.unreadable.lock().add(key, &object.why),
            None => true,
        };
        if is_new {
            let error = self.decode_error(object);
            tracing::warn!(kind = %self.resource.kind, %error, "skipped unreadable object");
        }
    }

    fn decode_error(&self, object: &Unreadable) -> ApiError {
        let kind = &self.resource.kind.kind;
        let subject = object
            .key
            .as_ref()
            .map_or_else(|| format!("a {kind}"), |key| format!("{kind} {key}"));
        ApiError::new(
            ErrorKind::Other,
            format!("failed to decode {subject}: {}", object.why),
        )
    }

    fn deleted_unread(&self, identity: &Identity) {
        let mut dispatch = self.dispatch.lock();
        let last = self
            .cache
            .store
            .get(&identity.key)
            .filter(|last| last.uid() == identity.uid);
        let Some(last) = last else { return };

        dispatch.writer.remove(&last);
        if let Ok(revision) = identity.resource_version.parse() {
            self.cache
                .overlay
                .watched(&identity.key, &identity.uid, revision, Seen::Gone);
        }
        dispatch.deliver(&Event::deleted(last));
    }

    fn caught_up(&self, object: &Object, seen: Seen) {
        if let Some(revision) = object.revision() {
            self.cache
                .overlay
                .watched(object.key(), object.uid(), revision, seen);
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
    /// Waits until the handler has received all objects of the first list (client-go's per-handler
    /// HasSynced).
    pub async fn synced(&self) {
        // Handlers are called before the informer is marked as synced, and a late handler before
        // `subscribe` returns.
        self.informer.synced().await;
    }

    /// The informer.
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
    fn complete_to(&mut self, resource_version: &str) -> u64 {
        let revision = resource_version.parse().unwrap_or_default();
        self.last_event = Some(Instant::now());
        self.writer.reached(revision);
        revision
    }

    /// Shows a change to the watches of processes.
    fn show(&mut self, old: Option<&Arc<Object>>, object: &Arc<Object>) {
        let Some(window) = &mut self.window else {
            return;
        };
        match old {
            // The deletion in between was missed.
            Some(old) if old.uid() != object.uid() => window.begin_anew(object.revision()),
            old => window.changed(old, Some(object)),
        }
    }

    /// Delivers a deletion and an addition, for an object deleted and created again in between.
    fn deliver_replacement(&mut self, old: Arc<Object>, object: Arc<Object>, initial: bool) {
        self.deliver(&Event::deleted(old));
        self.deliver(&Event::Added { object, initial });
    }

    fn deliver(&mut self, event: &Event) {
        self.events += 1;
        for (_, handler) in &self.handlers {
            call(handler, event);
        }
    }
}

/// Calls a handler. If it panics, that is logged, and the informer and the other handlers go on.
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
        let Some(informer) = informer.upgrade() else {
            return;
        };

        // Under the lock: a change must never be delivered before an older state of the same
        // object.
        let _order = informer.dispatch.lock();

        for object in informer.cache.store.list(&Lookup::All, None, None) {
            call(
                &handler,
                &Event::Modified {
                    old: object.clone(),
                    object,
                },
            );
        }
    }
}
