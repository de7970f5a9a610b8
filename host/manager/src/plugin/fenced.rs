//! Reconciles only while the replica holds its Lease. A reconcile waits until the Lease is renewed, and one in flight ends
//! before the Lease does: another replica may reconcile the key then.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use operetta_core::{
    controller::request::{Action, Failure, ReconcileRequest},
    gate::revocation::Revocation,
    ports::Reconciler,
};
use tokio::time::{Sleep, sleep};

use crate::plugin::traced;

/// The time between two checks whether the Lease is renewed.
const POLL: Duration = Duration::from_millis(50);

/// A plugin's reconciler that stops with the Lease.
pub(super) struct FencedReconciler {
    token: Arc<Revocation>,
    reconciler: Arc<dyn Reconciler>,
}

impl FencedReconciler {
    /// Puts the fence of the plugin's token around a reconciler.
    pub(super) fn new(token: Arc<Revocation>, reconciler: Arc<dyn Reconciler>) -> Self {
        Self { token, reconciler }
    }
}

/// Wakes a reconcile when the Lease ends.
#[derive(Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Arranges that the task is woken after this time, or before.
    fn set(&mut self, remaining: Duration, context: &mut Context<'_>) {
        // Most reconciles end without waiting.
        let alarm = self.0.get_or_insert_with(|| Box::pin(sleep(remaining)));
        if alarm.as_mut().poll(context).is_ready() {
            // The Lease was renewed meanwhile.
            *alarm = Box::pin(sleep(remaining));
            let _pending = alarm.as_mut().poll(context);
        }
    }
}

#[async_trait]
impl Reconciler for FencedReconciler {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        // One whose token is revoked ends at once: somebody waits for it.
        while self.token.lease().is_some_and(|remaining| remaining.is_zero()) && !self.token.is_revoked() {
            sleep(POLL).await;
        }
        let mut reconcile = self.reconciler.reconcile(request);
        let mut alarm = Alarm::default();
        poll_fn(|context| {
            let remaining = self.token.lease();
            if remaining.is_some_and(|remaining| remaining.is_zero()) {
                // Late if the process did not get the processor. It has sent nothing since: the fence is asked at the socket.
                let overdue_ms = u64::try_from(self.token.overdue().as_millis()).unwrap_or(u64::MAX);
                let reconcile = &request.reconcile_id;
                tracing::debug!(target: traced::TARGET, reconcile, overdue_ms, "the Lease has ended during a reconcile");
                let message = "this replica has not renewed its Lease in time: the reconcile was ended";
                return Poll::Ready(Err(Failure::Retry(message.to_owned())));
            }
            let polled = reconcile.as_mut().poll(context);
            if let Some(remaining) = remaining.filter(|_| polled.is_pending()) {
                alarm.set(remaining, context);
            }
            polled
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use operetta_core::{object::ObjectKey, replicas::Fence};

    use super::*;

    static NOW: AtomicU64 = AtomicU64::new(1_000);

    fn clock() -> Duration {
        Duration::from_millis(NOW.load(Ordering::Acquire))
    }

    /// Counts its reconciles, each of which takes some time.
    #[derive(Default)]
    struct Slow(AtomicUsize);

    #[async_trait]
    impl Reconciler for Slow {
        async fn reconcile(&self, _: &ReconcileRequest) -> Result<Action, Failure> {
            self.0.fetch_add(1, Ordering::AcqRel);
            sleep(2 * POLL).await;
            Ok(Action::Done)
        }
    }

    #[tokio::test]
    async fn reconcile_waits_for_the_lease_and_ends_before_it() {
        let fence = Fence::new(clock);
        let slow = Arc::new(Slow::default());
        let fenced = FencedReconciler::new(Revocation::fenced(fence.clone()).child(), slow.clone());
        let key = ObjectKey::cluster_scoped("a");
        let request =
            ReconcileRequest { controller: "c".into(), key, retries: 0, reconcile_id: "1".into(), record: None };
        let waiting = tokio::time::timeout(3 * POLL, fenced.reconcile(&request)).await;
        assert!(waiting.is_err() && slow.0.load(Ordering::Acquire) == 0, "it began without a Lease");

        fence.extend(clock() + Duration::from_secs(4));
        assert_eq!(fenced.reconcile(&request).await, Ok(Action::Done));

        // As when the process was stopped for longer than the Lease: the timer fires, and the clock shows it.
        let stopped = async {
            sleep(POLL).await;
            NOW.fetch_add(60_000, Ordering::AcqRel);
        };
        let (ended, ()) = tokio::join!(fenced.reconcile(&request), stopped);
        assert!(ended.expect_err("ended").to_string().contains("Lease"));
        assert_eq!(slow.0.load(Ordering::Acquire), 2);
    }
}
