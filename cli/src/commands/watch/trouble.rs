//! Tells temporary errors of a watch from permanent ones: an unreachable API server comes back, but
//! one that keeps refusing will not allow the watch again.

use std::sync::Arc;

use operetta_core::status::{ApiError, ErrorKind};
use operetta_host::terminal;
use operetta_kube::{authz::probe, informer::Informer};
use tokio::time::Instant;

use super::{DEADLINE, PATIENCE, PAUSE, source::Source};

/// Receives the error of a watch, or None when the watch has recovered.
pub type Report<'a> = &'a (dyn Fn(Option<&str>) + Sync);

/// Starts the informer, and returns it after its first list.
///
/// # Errors
/// Returns the API server's refusal.
pub async fn started(source: &Source, report: Report<'_>) -> Result<Arc<Informer>, ApiError> {
    let informer = source.start();
    tokio::select! {
        () = informer.synced() => {}
        error = lasting(source, &informer, report) => return Err(error),
    }

    Ok(informer)
}

/// Reports each error. Returns the API server's refusal when it has lasted for [`PATIENCE`].
pub async fn lasting(source: &Source, informer: &Informer, report: Report<'_>) -> ApiError {
    let mut state = informer.state();
    loop {
        let failed = state.wait_for(|state| state.error.is_some()).await;
        let failed = failed.map(|state| state.error.clone().unwrap_or_default());

        // The informer owns the sender.
        let Ok(error) = failed else {
            return std::future::pending().await;
        };

        report(Some(&format!(
            "watch of {} failed, retrying: {error}",
            source.name()
        )));

        let mut refused: Option<Instant> = None;

        while state.borrow().error.is_some() {
            match probe::watchable(
                &source.api_client,
                &source.resource,
                &source.scope,
                DEADLINE,
            )
            .await
            {
                Err(error) if matches!(error.kind, ErrorKind::Forbidden | ErrorKind::NotFound) => {
                    if refused.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                        return error;
                    }
                }
                _ => refused = None,
            }

            tokio::time::sleep(PAUSE).await;
        }

        report(None);
    }
}

/// Prints an error as a warning on stderr.
pub fn warn(error: Option<&str>) {
    if let Some(error) = error {
        terminal::note(format_args!("warning: {error}"));
    }
}
