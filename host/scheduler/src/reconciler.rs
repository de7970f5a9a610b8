//! A reconciler wrapper that polls through the scheduler.

use std::{
    future::{Future, poll_fn},
    panic,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Instant,
};

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio_util::{context::TokioContext, task::AbortOnDropHandle};

use crate::Account;
use operetta_core::{
    controller::request::{Action, Failure, ReconcileRequest},
    ports::Reconciler,
};

/// Runs another reconciler on an account's share of the processors. When the account is demoted,
/// its reconciles in flight move to the background.
pub struct FairReconciler<R: ?Sized> {
    inner: Arc<R>,
    pub(super) account: Arc<Account>,
}

impl<R: Reconciler + ?Sized> FairReconciler<R> {
    /// Charges the polls of `inner` to `account`.
    pub fn new(inner: Arc<R>, account: Arc<Account>) -> Self {
        Self { inner, account }
    }
}

#[async_trait]
impl<R: Reconciler + ?Sized + 'static> Reconciler for FairReconciler<R> {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let permit = self.account.enter().await;
        let Some(background) = self.account.background() else {
            return self
                .account
                .run(measured(request, self.inner.reconcile(request)))
                .await;
        };

        let inner = self.inner.clone();
        let request = request.clone();
        let mut work = Box::pin(async move { measured(&request, inner.reconcile(&request)).await });

        if !self.account.demotion.begin() {
            let in_foreground = poll_fn(|cx| match self.account.demotion.is_demoted() {
                false => work.as_mut().poll(cx).map(Some),
                true => Poll::Ready(None),
            });
            if let Some(result) = self.account.run(in_foreground).await {
                return result;
            }
        }

        let fair = self.account.run_in_background(work);
        let work = async move {
            // Returned only when the reconcile itself is dropped, possibly after this call.
            let _permit = permit;
            fair.await
        };

        // Timers, connections and spawned tasks of the reconcile stay on this runtime.
        let task = background.spawn(TokioContext::new(work, Handle::current()));
        match AbortOnDropHandle::new(task).await {
            Ok(result) => result,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => panic::resume_unwind(panic),
                Err(_cancelled) => Err(Failure::Retry("the host is stopping".to_owned())),
            },
        }
    }
}

/// Runs a reconcile and adds its polled time to its record, if there is one.
async fn measured<T>(request: &ReconcileRequest, reconcile: impl Future<Output = T>) -> T {
    let Some(record) = &request.record else {
        return reconcile.await;
    };

    let mut reconcile = pin!(reconcile);
    poll_fn(|cx| {
        let began = Instant::now();
        let polled = reconcile.as_mut().poll(cx);
        record.used_cpu(began.elapsed());
        polled
    })
    .await
}
