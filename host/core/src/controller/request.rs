//! Reconcile requests and their results.

use std::{sync::Arc, time::Duration};

use operetta_api::reasons::{self, Reason};

use crate::{
    object::{ObjectKey, kind::GroupVersionKind},
    recorder::{OpenReconcile, PluginRecorder, Trace, Triggers, record::Reconcile},
};

/// A key to reconcile. As in controller-runtime, a request carries a name, never an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconcileRequest {
    /// The controller's name in the manifest.
    pub controller: String,
    /// The object's key, of the controller's `for` kind.
    pub key: ObjectKey,
    /// How often this key failed in a row (client-go's NumRequeues).
    pub retries: u32,
    /// A unique id of the reconcile.
    pub reconcile_id: String,
    /// The record of the reconcile; None if it is not recorded.
    pub record: Option<OpenReconcile>,
}

impl ReconcileRequest {
    /// Begins the record of this reconcile of an object of this kind. `waited` is how long the key was
    /// in the queue.
    pub fn begin_record(
        &self,
        recorder: Arc<PluginRecorder>,
        kind: &GroupVersionKind,
        triggers: Triggers,
        waited: Option<Duration>,
        trace: Option<Trace>,
    ) -> OpenReconcile {
        let reconcile = Reconcile {
            id: self.reconcile_id.clone(),
            controller: self.controller.clone(),
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
            key: self.key.clone(),
            waited,
            retries: self.retries,
            triggers: triggers.first,
            more_triggers: triggers.more,
            ..Reconcile::default()
        };
        OpenReconcile::begin(recorder, reconcile, trace)
    }
}

/// The result of a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The key is done.
    Done,
    /// Requeue the key after the rate limiter's delay.
    Requeue,
    /// Requeue the key after this delay.
    RequeueAfter(Duration),
}

/// The error of a failed reconcile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The reconciler asks to be retried with backoff.
    #[error("{0}")]
    Retry(String),
    /// The reconciler asks to be retried after this delay.
    #[error("{0}")]
    RetryAfter(String, Duration),
    /// The reconciler asks not to be retried until the object changes.
    #[error("{0}")]
    Terminal(String),
    /// The sandbox ended the call. The worker retries with backoff: the next call may succeed.
    #[error("{0}")]
    Fault(Fault),
}

/// Why the sandbox ended a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The guest trapped: unreachable, an out-of-bounds access, a stack overflow or a panic.
    #[error("the plugin trapped: {0}")]
    Trap(String),
    /// The guest ran or waited longer than `limits.timeoutSeconds`.
    #[error("the call did not end within {} s (limits.timeoutSeconds)", .limit.as_secs_f32())]
    DeadlineExceeded {
        /// The limit.
        limit: Duration,
    },
    /// The guest asked for more memory than `limits.memory`.
    #[error("the plugin exceeded its memory limit of {} MiB (limits.memory)", .limit_bytes / (1024 * 1024))]
    MemoryExceeded {
        /// The limit, in bytes.
        limit_bytes: usize,
    },
}

impl Fault {
    /// Returns the reason for conditions, Events and metrics.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Trap(_) => reasons::RECONCILE_TRAPPED,
            Self::DeadlineExceeded { .. } => reasons::DEADLINE_EXCEEDED,
            Self::MemoryExceeded { .. } => reasons::MEMORY_EXCEEDED,
        }
    }
}
