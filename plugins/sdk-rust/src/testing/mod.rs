//! Reconcilers in `cargo test`, without a cluster.
//!
//! A [`Cluster`] is an API server in memory with the semantics that reconcilers rely on: resourceVersions and
//! conflicts, already-exists, uids, generations, the status subresource, finalizers and deletionTimestamps, label
//! selectors, owners and declared indexes, merge and JSON patches, server-side apply. It runs reconcilers as the host
//! does, and records their Events and log lines:
//!
//! ```
//! use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
//! use operetta_sdk::testing::Cluster;
//! use operetta_sdk::{Action, Context, Controller, Error, Object, Plugin, object_meta};
//!
//! fn reconcile(ctx: &Context, mut map: ConfigMap) -> Result<Action, Error> {
//!     map.data.get_or_insert_default().insert("seen".to_owned(), "yes".to_owned());
//!     ctx.update(&map)?;
//!     operetta_sdk::tracing::info!("{} was seen", map.name());
//!     Ok(Action::done())
//! }
//!
//! let plugin = Plugin::new().controller(Controller::new("see", reconcile));
//! let map = ConfigMap { metadata: object_meta(("ns", "a")), ..ConfigMap::default() };
//! let cluster = Cluster::new().with(map);
//!
//! assert_eq!(cluster.reconcile(&plugin, "see", ("ns", "a")).unwrap(), Action::done());
//! assert_eq!(cluster.get::<ConfigMap>(("ns", "a")).unwrap().data.unwrap()["seen"], "yes");
//! assert_eq!(cluster.logs()[0].message, "a was seen");
//! ```
//!
//! # Limits
//! The kit has no schemas: it neither validates, defaults nor prunes fields. It runs no controllers: nothing is garbage
//! collected, no Pod becomes ready, and a test changes objects itself through [`Cluster::context`]. It has no RBAC. It
//! rejects with an error: strict validation, generateName, foreground and orphan deletion, the `scale` subresource, and
//! an apply that merges a list of a built-in kind. In a custom resource an apply replaces a list as a whole. Objects
//! have no managedFields. Lines of the `log` crate are not recorded.

mod apply;
mod backend;
mod document;
mod errors;
mod raw;
mod resources;
mod selector;
mod store;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use operetta_api::manifest::Index;
use serde::Serialize;

use crate::backend::Backend;
use crate::json::encode;
use crate::logging::{Forward, Level, Pair, Sink};
use crate::{Action, ApiError, Context, Error, EventType, GroupVersionKind, Kind, Object, ObjectKey, Plugin, Request};

use store::Store;

/// A kind of call, for [`Cluster::fail_next`] and [`Cluster::writes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads one page of a list.
    List,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Replaces an object's status.
    UpdateStatus,
    /// Patches an object.
    Patch,
    /// Deletes an object.
    Delete,
}

/// A write that the API server accepted, also one that changed nothing. It displays as `Update Deployment ns/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The kind of write.
    pub verb: Verb,
    /// The object's kind.
    pub kind: GroupVersionKind,
    /// The object's key.
    pub key: ObjectKey,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} {}", self.verb, self.kind.kind, self.key)
    }
}

/// An Event that a reconciler recorded. The kit does not aggregate Events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The object's kind.
    pub regarding: GroupVersionKind,
    /// The object's key.
    pub key: ObjectKey,
    /// The object's uid.
    pub uid: Option<String>,
    /// Normal or Warning.
    pub kind: EventType,
    /// The reason, a CamelCase word.
    pub reason: String,
    /// The action, a CamelCase word; may be empty.
    pub action: String,
    /// The human-readable message.
    pub note: String,
}

/// A line that a reconciler logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The level.
    pub level: Level,
    /// The message.
    pub message: String,
    /// Names and values; those of the surrounding spans come first.
    pub fields: Vec<(String, String)>,
}

/// An API server in memory. Cheap to clone: every clone is the same cluster.
#[derive(Clone, Default)]
pub struct Cluster(Arc<State>);

#[derive(Default)]
struct State {
    store: Mutex<Store>,
    config: Mutex<Option<String>>,
    /// The indexes that the plugin of the last reconcile declares.
    indexes: Mutex<Vec<Index>>,
    /// The kinds that the test has named, by apiVersion and plural: `widgets` of `e.dev/v1`.
    resources: Mutex<BTreeMap<(String, String), GroupVersionKind>>,
    faults: Mutex<VecDeque<(Verb, ApiError)>>,
    writes: Mutex<Vec<Write>>,
    events: Mutex<Vec<RecordedEvent>>,
    logs: Arc<Mutex<Vec<LogLine>>>,
    /// The failures that reconciles have reported beside their action.
    #[cfg(feature = "kube")]
    failures: Mutex<Vec<String>>,
    reconciles: AtomicU32,
}

/// Locks a mutex. Poisoning is ignored: a test that panics while it holds one leaves the state consistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster {
    /// Returns an empty cluster.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an object as it is, with its status and deletionTimestamp. Fields of the API server (uid, resourceVersion,
    /// creationTimestamp, generation) are set if they are missing.
    ///
    /// # Panics
    /// Panics if the object has no name or already exists.
    #[must_use]
    pub fn with(self, object: impl Object) -> Self {
        let kind = object.group_version_kind();
        let text = encode(&object).unwrap_or_else(|error| panic!("{error}"));
        let added = locked(&self.0.store).seed(&kind, &object.key(), &text);
        added.unwrap_or_else(|error| panic!("adding {kind} {}: {error}", object.key()));
        self
    }

    /// Sets the Plugin object's `spec.config`.
    ///
    /// # Panics
    /// Panics if the config cannot be written as JSON.
    #[must_use]
    pub fn with_config(self, config: impl Serialize) -> Self {
        let text = serde_json::to_string(&config).unwrap_or_else(|error| panic!("the config: {error}"));
        *locked(&self.0.config) = Some(text);
        self
    }

    /// Removes the status subresource of a kind, so that its status is an ordinary field. By default all kinds have
    /// one, except built-in kinds without a status.
    #[must_use]
    pub fn without_status_subresource<T: Kind>(self) -> Self {
        locked(&self.0.store).set_no_status(T::gvk());
        self
    }

    /// Sets the plural of a kind, e.g. `widgets`, for the paths of raw requests and of the kube client. The built-in
    /// kinds have theirs, and kinds with an object in the cluster have the regular one.
    #[must_use]
    pub fn with_resource(self, kind: &GroupVersionKind, plural: impl Into<String>) -> Self {
        locked(&self.0.resources).insert((kind.api_version.clone(), plural.into()), kind.clone());
        self
    }

    /// Makes the next call of this verb fail with this error. Several errors are used in order.
    pub fn fail_next(&self, verb: Verb, error: ApiError) {
        locked(&self.0.faults).push_back((verb, error));
    }

    /// Reconciles a key for the first time.
    ///
    /// # Errors
    /// Returns the reconciler's error.
    pub fn reconcile(&self, plugin: &Plugin, controller: &str, key: impl Into<ObjectKey>) -> Result<Action, Error> {
        self.reconcile_request(plugin, Request::new(controller, key))
    }

    /// Reconciles a request, e.g. one with retries.
    ///
    /// # Errors
    /// Returns the reconciler's error.
    ///
    /// # Panics
    /// Panics if [`Plugin::manifest`] does: the host would reject such a plugin.
    pub fn reconcile_request(&self, plugin: &Plugin, mut request: Request) -> Result<Action, Error> {
        plugin.manifest();
        plugin.indexes().clone_into(&mut locked(&self.0.indexes));
        let count = self.0.reconciles.fetch_add(1, Ordering::Relaxed) + 1;
        if request.reconcile_id.is_empty() {
            request.reconcile_id = format!("test-{count}");
        }
        let ctx = Context { backend: self.backend(), request };
        let logs = Forward::new(Logs(Arc::clone(&self.0.logs)));
        tracing::subscriber::with_default(logs, || plugin.reconcile(&ctx))
    }

    /// Returns a client of this cluster, to read and change objects as a user would. Its writes are recorded, too.
    pub fn context(&self) -> Context {
        Context { backend: self.backend(), request: Request::default() }
    }

    /// Returns the object of a key, if it exists.
    ///
    /// # Panics
    /// Panics if the object does not fit the type.
    pub fn get<T: Kind>(&self, key: impl Into<ObjectKey>) -> Option<T> {
        let store = locked(&self.0.store);
        let text = store.get(&T::gvk(), &key.into()).ok()?.to_string();
        Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    /// Returns the writes since the last call of this function, in order.
    pub fn writes(&self) -> Vec<Write> {
        std::mem::take(&mut *locked(&self.0.writes))
    }

    /// Returns the events since the last call of this function, in order.
    pub fn events(&self) -> Vec<RecordedEvent> {
        std::mem::take(&mut *locked(&self.0.events))
    }

    /// Returns the log lines of every level since the last call of this function, in order.
    pub fn logs(&self) -> Vec<LogLine> {
        std::mem::take(&mut *locked(&self.0.logs))
    }

    /// Returns the failures since the last call of this function whose retry an error policy of [`Controller::kube`] has chosen, in
    /// order. Such a reconcile returns the action of the policy, and the host counts it as failed.
    ///
    /// [`Controller::kube`]: crate::Controller::kube
    #[cfg(feature = "kube")]
    pub fn failures(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.0.failures))
    }

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::<State>::clone(&self.0)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("store", &locked(&self.0.store)).finish_non_exhaustive()
    }
}

struct Logs(Arc<Mutex<Vec<LogLine>>>);

impl Sink for Logs {
    fn enabled(&self, _: Level) -> bool {
        true
    }

    fn write(&self, level: Level, message: &str, fields: Vec<Pair>) {
        let line = LogLine { level, message: message.to_owned(), fields };
        locked(&self.0).push(line);
    }
}

#[cfg(test)]
mod tests;
