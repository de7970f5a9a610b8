//! Distinguishes temporary errors of a watch from permanent ones: an unreachable API server comes back, but one that
//! refuses for long will not allow the watch again.

use operetta_core::status::{ApiError, ErrorKind};
use operetta_kube::{authz::probe, informer::Informer};
use tokio::time::Instant;

use super::{DEADLINE, PATIENCE, PAUSE, Source};

/// Prints each error as a warning on stderr. Returns the API server's refusal when it has lasted for [`PATIENCE`].
pub async fn lasting(source: &Source, informer: &Informer) -> ApiError {
    let mut state = informer.state();
    loop {
        let error = match state.wait_for(|state| state.error.is_some()).await {
            Ok(state) => state.error.clone().unwrap_or_default(),
            // The informer owns the sender.
            Err(_) => return std::future::pending().await,
        };
        eprintln!("warning: watch of {} failed, retrying: {error}", source.name());
        let mut refused: Option<Instant> = None;
        while state.borrow().error.is_some() {
            match probe::watchable(&source.wire, &source.resource, &source.scope, DEADLINE).await {
                Err(error) if matches!(error.kind, ErrorKind::Forbidden | ErrorKind::NotFound) => {
                    if refused.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                        return error;
                    }
                }
                _ => refused = None,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
