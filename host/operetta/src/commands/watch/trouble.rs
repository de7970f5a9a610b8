//! Decides whether a watch's error is temporary: an API server that does not answer is; a lasting refusal is not.

use operetta_core::status::{ApiError, ErrorKind};
use operetta_kube::{authz::probe, informer::Informer};
use tokio::time::Instant;

use super::{DEADLINE, PATIENCE, PAUSE, Source};

/// Tells people of each trouble on stderr; returns what the API server refuses when it has done so for [`PATIENCE`].
pub async fn lasting(source: &Source, informer: &Informer) -> ApiError {
    let mut state = informer.state();
    loop {
        let error = match state.wait_for(|state| state.error.is_some()).await {
            Ok(state) => state.error.clone().unwrap_or_default(),
            // The sender lives in the informer.
            Err(_) => return std::future::pending().await,
        };
        eprintln!("warning: the watch of {} is interrupted and will go on: {error}", source.name());
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
