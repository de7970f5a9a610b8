//! Serves an API server on a loopback address, by HTTP/1.1, with or without TLS.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::state::ApiServer;

/// The delay after a connection could not be accepted.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);
/// The time that a client has for the handshake of TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can be reached from other machines.
    #[error("refusing to serve on {0}: it is not a loopback address")]
    NotLoopback(SocketAddr),
    /// The listener has no address.
    #[error("failed to read the address of the listener: {0}")]
    Address(#[from] io::Error),
}

/// Serves connections until `shutdown` is ready, and then ends all of them, including watches.
///
/// kubectl and client-go send no credentials without TLS: see [`ApiServer::acting_as`].
///
/// # Errors
///
/// [`ServeError`], when the address is not a loopback address.
pub async fn serve(
    listener: TcpListener,
    server: ApiServer,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    accept(listener, server, None, shutdown).await
}

/// Serves connections with TLS until `shutdown` is ready.
///
/// # Errors
///
/// As [`serve`].
pub async fn serve_tls(
    listener: TcpListener,
    server: ApiServer,
    tls: Arc<ServerConfig>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    accept(listener, server, Some(TlsAcceptor::from(tls)), shutdown).await
}

async fn accept(
    listener: TcpListener,
    server: ApiServer,
    tls: Option<TlsAcceptor>,
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
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream, server.clone(), tls.clone()))),
                // Such as too many open files: it passes when connections end.
                Err(error) => {
                    tracing::warn!("failed to accept a connection, retrying: {error}");
                    sleep(ACCEPT_DELAY).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn connection(stream: TcpStream, server: ApiServer, tls: Option<TlsAcceptor>) {
    // Small writes of a watch must not wait for an acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("connection is gone: {error}");
        return;
    }

    match tls {
        None => requests(stream, server).await,
        Some(tls) => match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => requests(stream, server).await,
            Ok(Err(error)) => tracing::debug!("handshake failed: {error}"),
            Err(_) => tracing::debug!("handshake not finished after {HANDSHAKE_TIMEOUT:?}"),
        },
    }
}

async fn requests(stream: impl AsyncRead + AsyncWrite + Unpin, server: ApiServer) {
    let service = TowerToHyperService::new(server);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!("connection ended: {error}");
    }
}
