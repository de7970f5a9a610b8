//! Fails closed: while the host can't watch Plugins, namespaces or ServiceAccounts, it wouldn't
//! notice withdrawn consent, so all plugins are paused.

use std::{sync::Arc, time::Duration};

use futures::future;
use operetta_core::gate::permit::RequestPermit;
use operetta_kube::informer::Informer;
use tokio::time::Instant;

/// How long a watch may fail before plugins are paused. Reconnecting after a lost connection is
/// faster.
pub const MAX_STALE: Duration = Duration::from_secs(10);

/// Pauses `consent`, the parent of all plugins' permits, while one of these informers has been
/// failing for longer than [`MAX_STALE`]. Never returns.
pub async fn pause_while_stale(consent: Arc<RequestPermit>, informers: [Arc<Informer>; 3]) {
    let mut states = informers.each_ref().map(|informer| informer.state());
    let mut failing_since: Option<Instant> = None;

    loop {
        let failed = states
            .iter_mut()
            .zip(&informers)
            .find_map(|(state, informer)| {
                let error = state.borrow_and_update().error.clone()?;
                Some(format!("{}: {error}", informer.resource.kind.kind))
            });
        let Some(failed) = failed else {
            if failing_since
                .take()
                .is_some_and(|since| since.elapsed() >= MAX_STALE)
            {
                tracing::info!("watches of consent recovered, resuming all plugins");
                consent.resume();
            }

            wait_for_change(&mut states).await;
            continue;
        };

        let since = *failing_since.get_or_insert_with(Instant::now);
        if since.elapsed() < MAX_STALE {
            let _changed_or_over =
                tokio::time::timeout_at(since + MAX_STALE, wait_for_change(&mut states)).await;
            continue;
        }

        if !consent.is_own_revoked() {
            tracing::warn!(failed, "failed to watch consent, pausing all plugins");
            consent.pause(&format!(
                "all plugins are paused, because the host cannot watch consent: {failed}"
            ));
        }

        wait_for_change(&mut states).await;
    }
}

/// Waits until one informer's state changes.
async fn wait_for_change<T>(states: &mut [tokio::sync::watch::Receiver<T>; 3]) {
    let changes = states.iter_mut().map(|state| Box::pin(state.changed()));
    // The informers live as long as the manager, so a closed channel means the host is ending.
    if future::select_all(changes).await.0.is_err() {
        future::pending::<()>().await;
    }
}
