//! Reconcilers in `cargo test`, without a cluster.
//!
//! A [`Cluster`] is an API server of its own, without controllers: the embedded one of `operetta`,
//! with the API server's validation, defaults and server-side apply, and the host's reads and
//! errors. It runs reconcilers as the host does, and records their writes, Events and log lines.
//!
//! `operetta test` runs the tests of a project and starts the server, with the project's crd.yaml.
//! Plain `cargo test` works as well: the test program then starts `operetta test --serve`, using
//! the program that the variable `OPERETTA` names or else the one on PATH. When a test panics, its
//! clusters print their objects and the calls made so far.
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
//! It runs no controllers: nothing is garbage collected, no Pod becomes ready, and a test changes
//! objects itself through [`Cluster::context`]. RBAC is not checked. Namespaces are created for the
//! objects in them. A kind of a group without definitions in crd.yaml gets one without a schema
//! with its first object. Lines of the `log` crate are not recorded.

mod backend;
mod client;
mod raw;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Serialize;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::json::encode;
use crate::logging::{Forward, Level, Pair, Sink};
use crate::options::Read;
use crate::{
    Action, ApiError, Context, Error, EventType, GroupVersionKind, Kind, Object, ObjectKey, Plugin,
    Request,
};

use client::Client;

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

/// A write that the API server accepted, even if it changed nothing. It displays as `Update
/// Deployment ns/name`.
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
    /// The connection to the server, from the first call on.
    client: OnceLock<Client>,
    config: Mutex<Option<String>>,
    /// The manifest of the plugin of the last reconcile.
    manifest: Mutex<String>,
    /// The kinds that the test has defined.
    definitions: Mutex<BTreeMap<GroupVersionKind, Definition>>,
    faults: Mutex<VecDeque<(Verb, ApiError)>>,
    writes: Mutex<Vec<Write>>,
    events: Mutex<Vec<RecordedEvent>>,
    logs: Arc<Mutex<Vec<LogLine>>>,
    /// The failures that reconciles have reported besides their action.
    #[cfg(feature = "kube")]
    failures: Mutex<Vec<String>>,
    reconciles: AtomicU32,
}

/// The definition of a kind, besides what follows from its name.
#[derive(Clone, Default)]
struct Definition {
    plural: Option<String>,
    has_no_status: bool,
}

impl State {
    fn client(&self) -> &Client {
        self.client.get_or_init(Client::open)
    }

    /// Sends the definition of a kind.
    #[track_caller]
    fn define(&self, kind: &GroupVersionKind, change: impl FnOnce(&mut Definition)) {
        let mut definitions = locked(&self.definitions);
        let definition = definitions.entry(kind.clone()).or_default();
        change(definition);

        let request = json!({
            "call": "define", "kind": backend::kind_value(kind), "plural": definition.plural,
            "status": !definition.has_no_status,
        });

        if let Err(error) = self.client().call(&request) {
            panic!("define {kind}: {error}");
        }
    }
}

/// Prints the cluster of a test that fails.
impl Drop for State {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(dump) = self.client.get().and_then(Client::dump)
        {
            eprintln!("{dump}");
        }
    }
}

/// Locks a mutex. Poisoning is ignored: a test that panics while it holds one leaves the state
/// consistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster {
    /// Returns an empty cluster.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an object as if it had always been there: the API server validates it and sets
    /// defaults. It keeps its status and, if set, its uid, creationTimestamp, generation and (with
    /// finalizers) deletionTimestamp. Its namespace is created if it is missing.
    ///
    /// # Panics
    /// Panics if the object has no name or already exists, or the API server refuses it.
    #[must_use]
    #[track_caller]
    pub fn with(self, object: impl Object) -> Self {
        let kind = object.group_version_kind();
        let text = encode(&object).unwrap_or_else(|error| panic!("{error}"));

        let object: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{kind}: {error}"));

        match self
            .0
            .client()
            .call(&json!({"call": "add", "object": object}))
        {
            Ok(_) => self,
            Err(error) => panic!("add {kind}: {error}"),
        }
    }

    /// Sets the Plugin object's `spec.config`.
    ///
    /// # Panics
    /// Panics if the config cannot be written as JSON.
    #[must_use]
    pub fn with_config(self, config: impl Serialize) -> Self {
        let text =
            serde_json::to_string(&config).unwrap_or_else(|error| panic!("the config: {error}"));
        *locked(&self.0.config) = Some(text);
        self
    }

    /// Removes the status subresource of a kind, so that its status is an ordinary field. Custom
    /// resources without a definition in crd.yaml have one by default. Call it before objects of
    /// the kind are added.
    #[must_use]
    #[track_caller]
    pub fn without_status_subresource<T: Kind>(self) -> Self {
        self.0
            .define(&T::gvk(), |definition| definition.has_no_status = true);
        self
    }

    /// Sets the plural of a custom resource without a definition in crd.yaml, e.g. `widgets`, where
    /// it is irregular. Call it before objects of the kind are added.
    #[must_use]
    #[track_caller]
    pub fn with_resource(self, kind: &GroupVersionKind, plural: impl Into<String>) -> Self {
        self.0
            .define(kind, |definition| definition.plural = Some(plural.into()));
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
    #[track_caller]
    pub fn reconcile(
        &self,
        plugin: &Plugin,
        controller: &str,
        key: impl Into<ObjectKey>,
    ) -> Result<Action, Error> {
        self.reconcile_request(plugin, Request::new(controller, key))
    }

    /// Reconciles a request, e.g. one with retries.
    ///
    /// # Errors
    /// Returns the reconciler's error.
    ///
    /// # Panics
    /// Panics if [`Plugin::manifest`] does: the host would reject such a plugin.
    #[track_caller]
    pub fn reconcile_request(
        &self,
        plugin: &Plugin,
        mut request: Request,
    ) -> Result<Action, Error> {
        let manifest = plugin.manifest();
        let mut declared = locked(&self.0.manifest);

        if *declared != manifest {
            if let Err(error) = self
                .0
                .client()
                .call(&json!({"call": "manifest", "manifest": manifest}))
            {
                panic!("manifest: {error}");
            }
            *declared = manifest;
        }
        drop(declared);

        // Those of earlier calls are not about this reconcile.
        self.0.client().take_warnings();

        let count = self.0.reconciles.fetch_add(1, Ordering::Relaxed) + 1;
        if request.reconcile_id.is_empty() {
            request.reconcile_id = format!("test-{count}");
        }

        let ctx = Context {
            backend: self.backend(),
            request,
        };

        let logs = Forward::new(Logs(Arc::clone(&self.0.logs)));
        tracing::subscriber::with_default(logs, || plugin.reconcile(&ctx))
    }

    /// Returns a client of this cluster, to read and change objects as a user would. Its writes are
    /// recorded as well.
    pub fn context(&self) -> Context {
        Context {
            backend: self.backend(),
            request: Request::default(),
        }
    }

    /// Returns the object of a key, if it exists.
    ///
    /// # Panics
    /// Panics if the object does not fit the type, or the server fails.
    pub fn get<T: Kind>(&self, key: impl Into<ObjectKey>) -> Option<T> {
        let kind = T::gvk();
        let key = key.into();

        let text = match self.0.read(&kind, &key, Read::Cached) {
            Ok(text) => text,
            Err(error) if error.is_not_found() => return None,
            Err(error) => panic!("getting {kind} {key}: {error}"),
        };

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

    /// Returns the failures since the last call of this function whose retry an error policy of
    /// [`Controller::kube`] has chosen, in order. Such a reconcile returns the action of the
    /// policy, and the host counts it as failed.
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
        f.debug_struct("Cluster")
            .field("reconciles", &self.0.reconciles)
            .finish_non_exhaustive()
    }
}

struct Logs(Arc<Mutex<Vec<LogLine>>>);

impl Sink for Logs {
    fn enabled(&self, _: Level) -> bool {
        true
    }

    fn write(&self, level: Level, message: &str, fields: Vec<Pair>) {
        let line = LogLine {
            level,
            message: message.to_owned(),
            fields,
        };

        locked(&self.0).push(line);
    }
}

#[cfg(test)]
mod tests;
