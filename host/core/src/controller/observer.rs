//! What a controller reports about its reconciles.

use std::time::Duration;

use super::request::{Action, Failure, ReconcileRequest};
use crate::{
    hot_loop::Looping,
    object::ObjectKey,
    queue::WorkQueue,
    recorder::{OpenReconcile, Triggers},
};

/// Observes every reconcile.
pub trait Observer: Send + Sync {
    /// Whether to record reconciles. Asked once.
    fn is_recording(&self) -> bool {
        false
    }

    /// Called before a reconcile, if reconciles are recorded, to create its record. `queue` knows
    /// how long the key waited ([`WorkQueue::queue_duration`]). Runs on the worker: must not block.
    fn begin_record(
        &self,
        _request: &ReconcileRequest,
        _queue: &WorkQueue<ObjectKey>,
        _triggers: Triggers,
    ) -> Option<OpenReconcile> {
        None
    }

    /// Called after a reconcile has ended and its outcome was applied. `took` is its wall time,
    /// `retries_now` the key's number of consecutive failures, including this one. Runs on the
    /// worker before the key can be reconciled again: must not block.
    fn reconciled(
        &self,
        request: &ReconcileRequest,
        result: &Result<Action, Failure>,
        took: Duration,
        retries_now: u32,
    );

    /// Called when a key is held back because of a hot loop, and again when its delay grows. Runs
    /// on the worker: must not block.
    fn looping(&self, _controller: &str, _key: &ObjectKey, _looping: &Looping) {}
}
