//! What surrounds each of a plugin's reconciles: [`ShardReconciler`].

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use operetta_core::{
    controller::request::{Action, Failure, ReconcileRequest},
    gate::permit::RequestPermit,
    object::ObjectKey,
    ports::Reconciler,
    replicas::Shard,
};
use operetta_scheduler::FairReconciler;
use operetta_wasm::PluginReconciler;
use tokio::time::{Sleep, sleep};

/// How often a reconcile waiting for the Lease checks it.
const LEASE_POLL: Duration = Duration::from_millis(50);

/// The log target of each reconcile. It is this module's former path: people filter by it
/// (`RUST_LOG=operetta_manager::plugin::traced=debug`), and tests check the replicas' history with
/// these lines.
const TARGET: &str = "operetta_manager::plugin::traced";

/// Runs the reconciles of one shard, in the sandbox, logged, within the plugin's share of the
/// processors and only while this replica holds its Lease.
pub(super) struct ShardReconciler {
    pub(super) plugin: ObjectKey,
    pub(super) shard: Shard,
    /// The shard's permit; it knows the Lease.
    pub(super) token: Arc<RequestPermit>,
    pub(super) sandbox: FairReconciler<PluginReconciler>,
}

#[async_trait]
impl Reconciler for ShardReconciler {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        // Once the Lease has ended, another replica may reconcile the key.
        within_lease(&self.token, request, async {
            let Self { plugin, shard, .. } = self;
            let ReconcileRequest {
                controller,
                key,
                reconcile_id,
                ..
            } = request;
            tracing::debug!(
                target: TARGET, %plugin, %shard, controller, %key, reconcile = reconcile_id,
                "reconcile began"
            );
            // Logs on drop, because a reconcile may be aborted.
            let mut end = LoggedEnd {
                plugin,
                request,
                error: String::new(),
            };

            let result = self.sandbox.reconcile(request).await;
            if let Err(failure) = &result {
                end.error = failure.to_string();
            }
            result
        })
        .await
    }
}

struct LoggedEnd<'a> {
    plugin: &'a ObjectKey,
    request: &'a ReconcileRequest,
    /// Empty if there was none.
    error: String,
}

impl Drop for LoggedEnd<'_> {
    fn drop(&mut self) {
        let Self {
            plugin,
            request,
            error,
        } = self;
        let ReconcileRequest {
            key, reconcile_id, ..
        } = request;
        tracing::debug!(
            target: TARGET, %plugin, %key, reconcile = reconcile_id, error = error.as_str(),
            "reconcile ended"
        );
    }
}

/// Runs a reconcile as soon as the Lease is valid, and fails it when the Lease ends.
async fn within_lease(
    token: &RequestPermit,
    request: &ReconcileRequest,
    reconcile: impl Future<Output = Result<Action, Failure>>,
) -> Result<Action, Failure> {
    let has_ended = || token.lease().is_some_and(|remaining| remaining.is_zero());
    // Don't wait with a revoked permit: the gate refuses everything, and somebody is waiting for
    // this reconcile to end.
    while has_ended() && !token.is_revoked() {
        sleep(LEASE_POLL).await;
    }

    let mut reconcile = pin!(reconcile);
    let mut alarm = Alarm::default();
    poll_fn(|context| {
        let remaining = token.lease();
        if remaining.is_some_and(|remaining| remaining.is_zero()) {
            // If the process was starved, this is late. No request was sent in the meantime: the
            // fence is checked again before each request is written to the socket.
            let overdue_ms = u64::try_from(token.overdue().as_millis()).unwrap_or(u64::MAX);
            tracing::debug!(
                target: TARGET, reconcile = request.reconcile_id, overdue_ms,
                "the Lease has ended during a reconcile"
            );
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

/// Wakes a reconcile when the Lease ends. Most reconciles finish without waiting, so we create the
/// timer only when one waits.
#[derive(Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Makes sure the task is woken after this time or earlier.
    fn set(&mut self, remaining: Duration, context: &mut Context<'_>) {
        let alarm = self.0.get_or_insert_with(|| Box::pin(sleep(remaining)));
        if alarm.as_mut().poll(context).is_ready() {
            // The Lease was renewed in the meantime.
            *alarm = Box::pin(sleep(remaining));
            let _pending = alarm.as_mut().poll(context);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use operetta_core::replicas::Fence;

    use super::*;

    static NOW: AtomicU64 = AtomicU64::new(1_000);

    fn clock() -> Duration {
        Duration::from_millis(NOW.load(Ordering::Acquire))
    }

    #[tokio::test]
    async fn reconcile_waits_for_the_lease_and_ends_before_it() {
        let fence = Fence::new(clock);
        let token = RequestPermit::fenced(fence.clone()).child();
        let begun = AtomicUsize::new(0);
        let slow = || async {
            begun.fetch_add(1, Ordering::AcqRel);
            sleep(2 * LEASE_POLL).await;
            Ok(Action::Done)
        };
        let request = ReconcileRequest {
            controller: "c".into(),
            key: ObjectKey::cluster_scoped("a"),
            retries: 0,
            reconcile_id: "1".into(),
            record: None,
        };

        let reconcile = within_lease(&token, &request, slow());
        let waiting = tokio::time::timeout(3 * LEASE_POLL, reconcile).await;
        assert!(
            waiting.is_err() && begun.load(Ordering::Acquire) == 0,
            "it began without a Lease"
        );

        fence.extend(clock() + Duration::from_secs(4));
        let reconciled = within_lease(&token, &request, slow()).await;
        assert_eq!(reconciled, Ok(Action::Done));

        // As when the process was stopped for longer than the Lease: the timer fires, and the clock
        // shows it.
        let stopped = async {
            sleep(LEASE_POLL).await;
            NOW.fetch_add(60_000, Ordering::AcqRel);
        };
        let (ended, ()) = tokio::join!(within_lease(&token, &request, slow()), stopped);
        assert!(ended.expect_err("ended").to_string().contains("Lease"));
        assert_eq!(begun.load(Ordering::Acquire), 2);
    }
}
