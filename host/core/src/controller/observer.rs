//! What a controller reports about its reconciles.

use std::time::Duration;

use super::request::{Action, Failure, ReconcileRequest};
use crate::{
    hot_loop::Looping,
    object::ObjectKey,
    queue::WorkQueue,
    recorder::{OpenReconcile, Triggers},
};

/// An observer of every reconcile.
pub trait Observer: Send + Sync {
    /// Reports whether reconciles are recorded. Asked once.
    fn is_recording(&self) -> bool {
        false
    }

    /// Called before a reconcile, if reconciles are recorded. Returns its record. `queue` knows how
    /// long the key waited ([`WorkQueue::queue_duration`]). Runs on the worker: it must not block.
    fn begin_record(
        &self,
        _request: &ReconcileRequest,
        _queue: &WorkQueue<ObjectKey>,
        _triggers: Triggers,
    ) -> Option<OpenReconcile> {
        None
    }

    /// Called when a reconcile has ended and its outcome was applied. `took` is its wall time,
    /// `retries_now` the key's number of failures in a row including this one. Runs on the worker,
    /// before the key can be reconciled again: it must not block.
    fn reconciled(
        &self,
        request: &ReconcileRequest,
        result: &Result<Action, Failure>,
        took: Duration,
        retries_now: u32,
    );

    /// Called when a key in a hot loop is first held, or held longer. Runs on the worker: it must
    /// not block.
    fn looping(&self, _controller: &str, _key: &ObjectKey, _looping: &Looping) {}
}
