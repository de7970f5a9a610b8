//! Serves an API server on a loopback address, by HTTP/1.1.

use std::{io, net::SocketAddr, time::Duration};

use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, task::JoinSet, time::sleep};

use super::server::ApiServer;

/// The delay after a connection could not be accepted.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

/// A server that cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can be reached from other machines. This server has no TLS.
    #[error("refusing to serve on {0}: it is not a loopback address")]
    NotLoopback(SocketAddr),
    /// The listener has no address.
    #[error("failed to read the address of the listener: {0}")]
    Address(#[from] io::Error),
}

/// Serves connections until `shutdown` is ready; then all connections end, watches too.
///
/// # Errors
///
/// [`ServeError`], when the address is not a loopback address.
pub async fn serve(
    listener: TcpListener,
    server: ApiServer,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        return Err(ServeError::NotLoopback(address));
    }
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            accepted = listener.accept() => {
                let (stream, _) = match accepted {
                    Ok(accepted) => accepted,
                    // Such as too many open files: it passes when connections end.
                    Err(error) => {
                        tracing::warn!("failed to accept a connection, retrying: {error}");
                        sleep(ACCEPT_DELAY).await;
                        continue;
                    }
                };
                // Small writes of a watch must not wait for an acknowledgement.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!("connection is gone: {error}");
                    continue;
                }
                let service = TowerToHyperService::new(server.clone());
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .serve_connection(TokioIo::new(stream), service);
                connections.spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!("connection ended: {error}");
                    }
                });
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}
