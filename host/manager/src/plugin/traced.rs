//! Logs the beginning and the end of each reconcile at level debug, as controller-runtime does. A history of several
//! replicas is checked by these lines.

use std::sync::Arc;

use async_trait::async_trait;
use operetta_core::{
    controller::request::{Action, Failure, ReconcileRequest},
    object::ObjectKey,
    ports::Reconciler,
    replicas::Shard,
};

/// The target of these lines.
pub(super) const TARGET: &str = module_path!();

/// A plugin's reconciler that logs each reconcile.
pub(super) struct TracedReconciler {
    plugin: ObjectKey,
    shard: Shard,
    reconciler: Arc<dyn Reconciler>,
}

impl TracedReconciler {
    /// Puts the log around a reconciler.
    pub(super) fn new(plugin: ObjectKey, shard: Shard, reconciler: Arc<dyn Reconciler>) -> Self {
        Self { plugin, shard, reconciler }
    }
}

/// Logs the end of a reconcile, also of one that is aborted.
struct LoggedEnd<'a> {
    plugin: &'a ObjectKey,
    request: &'a ReconcileRequest,
    /// Empty without one.
    error: String,
}

impl Drop for LoggedEnd<'_> {
    fn drop(&mut self) {
        let ReconcileRequest { key, reconcile_id, .. } = self.request;
        tracing::debug!(
            plugin = %self.plugin, %key, reconcile = reconcile_id, error = self.error, "reconcile ended"
        );
    }
}

#[async_trait]
impl Reconciler for TracedReconciler {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let ReconcileRequest { controller, key, reconcile_id, .. } = request;
        let Self { plugin, shard, .. } = self;
        tracing::debug!(%plugin, %shard, controller, %key, reconcile = reconcile_id, "reconcile began");
        let mut end = LoggedEnd { plugin: &self.plugin, request, error: String::new() };
        let result = self.reconciler.reconcile(request).await;
        if let Err(failure) = &result {
            end.error = failure.to_string();
        }
        result
    }
}
