//! A reconciler whose polls take their turn: where the scheduler meets the controllers.

use std::sync::Arc;

use async_trait::async_trait;

use super::Account;
use crate::{
    ports::Reconciler,
    request::{Action, Failure, ReconcileRequest},
};

/// Runs another reconciler on an account's share of the processors.
pub struct FairReconciler {
    inner: Arc<dyn Reconciler>,
    account: Arc<Account>,
}

impl FairReconciler {
    /// Charges to `account` what `inner` takes.
    pub fn new(inner: Arc<dyn Reconciler>, account: Arc<Account>) -> Self {
        Self { inner, account }
    }
}

#[async_trait]
impl Reconciler for FairReconciler {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let _place = self.account.enter().await;
        self.account.run(self.inner.reconcile(request)).await
    }
}
