//! The traits between the core and the rest: the API server on one side, the sandbox on the other.
//!
//! `operetta-kube` implements [`ObjectApi`], [`ObjectLookup`] and [`EventSink`], `operetta-wasm`
//! implements [`Reconciler`] and [`Mapper`], the binary implements [`LogSink`], and whoever records
//! or replays reconciles [`Nondeterminism`]; none of them knows the others.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

pub use crate::nondeterminism::Nondeterminism;
use crate::{
    controller::request::{Action, Failure, ReconcileRequest},
    gate::{
        call::{Call, Resource},
        operation::{Delete, Get, List, Page, Verb, Write, Written},
        raw_request::{RawRequest, RawResponse, Target},
    },
    handler::event::Event,
    object::{Object, ObjectKey, kind::GroupVersionKind},
    status::ApiError,
};

/// Reads and writes objects under one identity. No call is retried: the caller decides.
///
/// # Errors
/// Each call fails with the API server's own error, or with `BadRequest` for anything that cannot
/// be put into a request, `Unavailable` while a cache cannot be filled, and `Forbidden`, in the API
/// server's words, for anything the identity may not do.
#[async_trait]
pub trait ObjectApi: Send + Sync {
    /// Reads one object.
    async fn get(&self, get: Get) -> Result<Arc<Object>, ApiError>;

    /// Reads a page of objects.
    async fn list(&self, list: List) -> Result<Page, ApiError>;

    /// Creates, updates or patches an object.
    async fn write(&self, write: Write) -> Result<Written, ApiError>;

    /// Deletes an object.
    async fn delete(&self, delete: Delete) -> Result<(), ApiError>;

    /// Sends one request parsed by [`RawRequest::target`]. A response from the API server is not an
    /// error here, whatever its status.
    async fn raw(&self, request: RawRequest, target: Target) -> Result<RawResponse, ApiError>;
}

/// The host's own view of objects, for the audit and the hot-loop detector. Never hand it to a
/// guest: it doesn't ask RBAC.
#[async_trait]
pub trait ObjectLookup: Send + Sync {
    /// An object as the host's caches have it now, unpruned; None if they don't have it.
    fn cached(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Option<Arc<Object>>;

    /// A resource's kind, if known without a request.
    fn kind_of(&self, api_version: &str, plural: &str) -> Option<GroupVersionKind>;

    /// The object named by a call; None if it names none, or if a raw request's kind is unknown.
    fn named_by(&self, call: &Call) -> Option<(GroupVersionKind, ObjectKey)> {
        // Deleting a subresource does not delete the object.
        if call.name.is_none() || (call.verb == Verb::Delete && call.subresource.is_some()) {
            return None;
        }

        let kind = match &call.resource {
            Resource::Kind(kind) => kind.clone(),
            Resource::Path {
                api_version,
                plural,
                ..
            } => self.kind_of(api_version, plural)?,
        };
        Some((kind, call.key()))
    }

    /// Reads an object with managedFields from the API server, under the plugin's identity; None if
    /// it may not, or cannot.
    async fn live(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Option<Arc<Object>>;
}

/// Records Events in the background.
pub trait EventSink: Send + Sync {
    /// Takes the note and returns right away. When overfull, drops the note and counts the drop.
    fn emit(&self, note: EventNote);
}

/// Receives the API server's warnings about a plugin's requests.
pub trait WarningSink: Send + Sync {
    /// Takes a warning. `request` is the request's method and path.
    fn warned(&self, request: &str, text: &str);
}

/// Keeps a plugin's log lines.
pub trait LogSink: Send + Sync {
    /// Whether lines of this level are kept.
    fn enabled(&self, level: LogLevel) -> bool;
    /// Keeps one line.
    fn write(&self, record: LogRecord);
}

/// Drops Events and log lines.
pub struct Nowhere;

impl EventSink for Nowhere {
    fn emit(&self, _: EventNote) {}
}

impl LogSink for Nowhere {
    fn enabled(&self, _: LogLevel) -> bool {
        false
    }

    fn write(&self, _: LogRecord) {}
}

/// Takes reports of long-running reconciles.
pub trait LongRunSink: Send + Sync {
    /// Reports that the guest of a reconcile has run for this long, not counting the time it
    /// waited. `stack` lists the functions it is in, innermost first. Runs on the guest's thread:
    /// must not block.
    fn long_run(&self, request: &ReconcileRequest, ran: Duration, stack: &str);
}

/// Brings one key to its desired state.
#[async_trait]
pub trait Reconciler: Send + Sync {
    /// Runs one reconcile to its end, within the sandbox's limits.
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure>;
}

/// Maps events of watched objects to the keys they enqueue.
#[async_trait]
pub trait Mapper: Send + Sync {
    /// Maps one event of an object of `kind`, within the sandbox's limits. Returns the keys as the
    /// plugin gave them. `request` is the watched object's, for the log.
    async fn map(
        &self,
        request: &ReconcileRequest,
        kind: &GroupVersionKind,
        event: &Event,
    ) -> Result<Vec<ObjectKey>, Failure>;
}

/// The type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Information only.
    Normal,
    /// Something needs attention.
    Warning,
}

impl EventType {
    /// The type, as in the Event object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An Event before it is aggregated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventNote {
    /// The kind of the object it is about.
    pub regarding: GroupVersionKind,
    /// The object.
    pub key: ObjectKey,
    /// The object's uid, if known.
    pub uid: Option<String>,
    /// Normal or Warning.
    pub event_type: EventType,
    /// The reason, in CamelCase.
    pub reason: String,
    /// The action, in CamelCase; may be empty.
    pub action: String,
    /// For people.
    pub note: String,
}

/// From most to least important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the levels every logger has")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// One log line of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// The level.
    pub level: LogLevel,
    /// The text.
    pub message: String,
    /// Names and values, in order.
    pub fields: Vec<(String, String)>,
    /// The reconcile that wrote it; None while the host asks for the manifest.
    pub reconcile: Option<ReconcileRequest>,
}
