//! One watch, one store, many handlers.
//!
//! An informer lists and watches the objects of one kind (and selector), keeps them in a [`Cache`] and tells its
//! handlers what changed. What it promises follows client-go's shared_informer.go:
//!
//! - the store has a change before any handler is told of it;
//! - a handler is told the changes of one object in order, and every handler is told of every change;
//! - a handler that comes late is first told of the whole store, as additions;
//! - after a gap the relist is compared with the store: what vanished meanwhile is told as deleted;
//! - changes may be compressed: between two calls an object may have changed many times.
//!
//! Handlers run on the informer's task, one event at a time: they must only map to keys and enqueue. Dropping the last
//! `Arc<Informer>` ends the watch on the wire.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt};
use kube::{
    Api,
    runtime::{
        utils::{Backoff, StreamBackoff},
        watcher,
    },
};
use operetta_core::{
    event::Event,
    object::{Object, ObjectKey},
    selector::LabelSelector,
};
use tokio::{sync::watch, task::AbortHandle};

use crate::{
    cache::Cache,
    discovery::ApiResource,
    overlay::Overlay,
    store::{Lookup, Store, Writer},
    wire::{Wire, chain},
    wire_object::WireObject,
};

/// The longest pause between two attempts to reach the API server.
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// An error counts as over when none came for this long: a watch that recovered may have nothing to say.
const ERROR_AGE: Duration = Duration::from_secs(15);

/// What an informer watches. Two who ask for the same share one watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// One namespace; None watches all.
    pub namespace: Option<String>,
    /// A label selector for the API server; empty selects all.
    pub labels: String,
    /// A field selector for the API server; empty selects all.
    pub fields: String,
    /// Only apiVersion, kind and metadata (PartialObjectMetadata).
    pub metadata_only: bool,
}

impl Scope {
    /// Every object, whole.
    pub fn everything() -> Self {
        Self { namespace: None, labels: String::new(), fields: String::new(), metadata_only: false }
    }

    /// Whether every object of the kind is in view, whole.
    pub fn is_everything(&self) -> bool {
        *self == Self::everything()
    }
}

/// How an informer is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InformerState {
    /// Whether the store has had a full list (client-go's HasSynced).
    pub synced: bool,
    /// What the API server last said against it, while that is recent.
    pub error: Option<String>,
}

/// Told of every event, on the informer's task.
pub type Handler = Arc<dyn Fn(&Event) + Send + Sync>;

/// A running watch and its store.
pub struct Informer {
    /// The kind's resource.
    pub resource: Arc<ApiResource>,
    /// What it watches.
    pub scope: Scope,
    /// What it holds.
    pub cache: Cache,
    dispatch: Mutex<Dispatch>,
    state: watch::Sender<InformerState>,
    task: Mutex<Option<AbortHandle>>,
}

/// Everything that must change together when an event comes: under one lock, so that a late handler sees each change
/// once, either in the store or as an event.
struct Dispatch {
    writer: Writer,
    handlers: Vec<(u64, Handler)>,
    next_handler: u64,
    /// Set between the start and the end of a list: when it began, and what it has found.
    listing: Option<(Instant, BTreeMap<ObjectKey, Arc<Object>>)>,
}

/// A handler's place at an informer; dropping it ends the calls.
pub struct Subscription {
    informer: Arc<Informer>,
    id: u64,
    resync: Option<AbortHandle>,
}

impl Informer {
    /// Starts to watch. The label selector must be one that [`LabelSelector::parse`] takes.
    pub(crate) fn start(wire: &Wire, resource: Arc<ApiResource>, scope: Scope) -> Arc<Self> {
        let (store, writer) = Store::new();
        let selects = LabelSelector::parse(&scope.labels).unwrap_or_default();
        let field_selected = !scope.fields.is_empty() || scope.namespace.is_some() || scope.metadata_only;
        let cache = Cache { store, overlay: Overlay::default(), selects, field_selected };
        let dispatch = Dispatch { writer, handlers: Vec::new(), next_handler: 0, listing: None };
        let informer = Arc::new(Self {
            resource,
            scope,
            cache,
            dispatch: Mutex::new(dispatch),
            state: watch::Sender::new(InformerState::default()),
            task: Mutex::default(),
        });
        let task = if informer.scope.metadata_only {
            tokio::spawn(run(informer.stream::<true>(wire), Arc::downgrade(&informer)))
        } else {
            tokio::spawn(run(informer.stream::<false>(wire), Arc::downgrade(&informer)))
        };
        *informer.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
        informer
    }

    /// Adds a handler. It is told of everything in the store before this returns, then of each change. With `resync`,
    /// it is told of every object again after each such period, as a change from itself to itself.
    pub fn subscribe(self: &Arc<Self>, handler: Handler, resync: Option<Duration>) -> Subscription {
        let mut dispatch = self.dispatch.lock().unwrap_or_else(PoisonError::into_inner);
        for object in self.cache.store.list(&Lookup::All, None, None) {
            handler(&Event::Added { object, initial: true });
        }
        let id = dispatch.next_handler;
        dispatch.next_handler += 1;
        dispatch.handlers.push((id, handler.clone()));
        drop(dispatch);
        let resync =
            resync.map(|period| tokio::spawn(resync_every(Arc::downgrade(self), handler, period)).abort_handle());
        Subscription { informer: self.clone(), id, resync }
    }

    /// How it is doing, now and later.
    pub fn state(&self) -> watch::Receiver<InformerState> {
        self.state.subscribe()
    }

    /// Waits until the store has had a full list. Cancel by dropping.
    pub async fn synced(&self) {
        // The sender lives in `self`: it cannot be gone.
        let mut state = self.state.subscribe();
        let _synced = state.wait_for(|state| state.synced).await;
    }

    fn stream<const METADATA: bool>(
        &self,
        wire: &Wire,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<WireObject<METADATA>>>> + Send + use<METADATA> {
        let (client, resource) = (wire.client().clone(), self.resource.as_ref());
        let api: Api<WireObject<METADATA>> = match &self.scope.namespace {
            Some(namespace) if resource.namespaced => Api::namespaced_with(client, namespace, resource),
            _ => Api::all_with(client, resource),
        };
        let selector = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let config = watcher::Config {
            label_selector: selector(&self.scope.labels),
            field_selector: selector(&self.scope.fields),
            ..watcher::Config::default()
        };
        StreamBackoff::new(watcher(api, config), Pause::default())
    }

    fn take<const METADATA: bool>(&self, event: watcher::Event<WireObject<METADATA>>) {
        let typed = |object: WireObject<METADATA>| Arc::new(object.into_object().into_typed(&self.resource.kind));
        let mut dispatch = self.dispatch.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            watcher::Event::Init => dispatch.listing = Some((Instant::now(), BTreeMap::new())),
            watcher::Event::InitApply(object) => {
                let object = typed(object);
                if let Some((_, found)) = &mut dispatch.listing {
                    found.insert(object.header.key.clone(), object);
                }
            }
            watcher::Event::InitDone => {
                if let Some((began, found)) = dispatch.listing.take() {
                    self.relist(&mut dispatch, began, found);
                }
                self.state.send_modify(|state| *state = InformerState { synced: true, error: None });
            }
            watcher::Event::Apply(object) => {
                let object = typed(object);
                let old = dispatch.writer.apply(object.clone());
                self.caught_up(&object, false);
                dispatch.tell(&change(old, object, false));
            }
            watcher::Event::Delete(object) => {
                let seen = typed(object);
                let old = dispatch.writer.remove(&seen);
                self.caught_up(&seen, true);
                if old.is_some() {
                    dispatch.tell(&Event::Deleted { object: seen });
                }
            }
        }
    }

    fn relist(&self, dispatch: &mut Dispatch, began: Instant, found: BTreeMap<ObjectKey, Arc<Object>>) {
        let first = !self.state.borrow().synced;
        let (found, gone) = dispatch.writer.replace(found);
        self.cache.overlay.relisted(began);
        for object in gone {
            dispatch.tell(&Event::Deleted { object });
        }
        for (old, object) in found {
            let same = old.as_ref().is_some_and(|old| old.header.resource_version == object.header.resource_version);
            match old {
                // An object of that name was deleted and made again while nobody looked.
                Some(old) if old.header.uid != object.header.uid => {
                    dispatch.tell(&Event::Deleted { object: old });
                    dispatch.tell(&Event::Added { object, initial: first });
                }
                old if !same => dispatch.tell(&change(old, object, first)),
                _ => {}
            }
        }
    }

    fn caught_up(&self, object: &Object, deleted: bool) {
        if let Some(revision) = object.header.revision() {
            self.cache.overlay.watched(&object.header.key, &object.header.uid, revision, deleted);
        }
    }
}

impl Drop for Informer {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner) {
            task.abort();
        }
    }
}

impl Subscription {
    /// The informer it is a subscription of.
    pub fn informer(&self) -> &Arc<Informer> {
        &self.informer
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut dispatch = self.informer.dispatch.lock().unwrap_or_else(PoisonError::into_inner);
        dispatch.handlers.retain(|(id, _)| *id != self.id);
        if let Some(resync) = &self.resync {
            resync.abort();
        }
    }
}

impl Dispatch {
    fn tell(&self, event: &Event) {
        for (_, handler) in &self.handlers {
            handler(event);
        }
    }
}

fn change(old: Option<Arc<Object>>, object: Arc<Object>, initial: bool) -> Event {
    match old {
        Some(old) => Event::Modified { old, object },
        None => Event::Added { object, initial },
    }
}

async fn run<const METADATA: bool>(
    stream: impl Stream<Item = watcher::Result<watcher::Event<WireObject<METADATA>>>> + Send,
    informer: Weak<Informer>,
) {
    let mut stream = std::pin::pin!(stream);
    let mut failing = false;
    loop {
        let next = if failing { tokio::time::timeout(ERROR_AGE, stream.next()).await } else { Ok(stream.next().await) };
        let Some(informer) = informer.upgrade() else { return };
        failing = match next {
            Ok(None) => return,
            Ok(Some(Ok(event))) => {
                informer.take(event);
                false
            }
            Ok(Some(Err(error))) => {
                let error = chain(&error);
                tracing::warn!(kind = %informer.resource.kind, %error, "watch interrupted");
                informer.state.send_if_modified(|state| state.error.replace(error.clone()) != Some(error));
                true
            }
            Err(_elapsed) => false,
        };
        if !failing {
            informer.state.send_if_modified(|state| state.error.take().is_some());
        }
    }
}

async fn resync_every(informer: Weak<Informer>, handler: Handler, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        let Some(informer) = informer.upgrade() else { return };
        // Under the lock, so that a change is never told before an older state of the same object.
        let _order = informer.dispatch.lock().unwrap_or_else(PoisonError::into_inner);
        for object in informer.cache.store.list(&Lookup::All, None, None) {
            handler(&Event::Modified { old: object.clone(), object });
        }
    }
}

/// 200 ms, doubled up to [`MAX_BACKOFF`], each with up to half of it added by chance; from the start after a success.
#[derive(Default)]
struct Pause {
    failures: u32,
}

impl Iterator for Pause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = Duration::from_millis(200 << self.failures.min(6)).min(MAX_BACKOFF);
        self.failures += 1;
        Some(pause.mul_f32(1.0 + rand::random::<f32>() / 2.0).min(MAX_BACKOFF))
    }
}

impl Backoff for Pause {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_start_anew_after_a_success() {
        let mut pause = Pause::default();
        let pauses: Vec<Duration> = (0..40).filter_map(|_| pause.next()).collect();
        assert!(pauses[0] >= Duration::from_millis(200) && pauses[0] <= Duration::from_millis(300), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= MAX_BACKOFF));
        assert_eq!(pauses[39], MAX_BACKOFF);
        pause.reset();
        assert!(pause.next().expect("endless") <= Duration::from_millis(300));
    }
}
