//! Limits the connections to the endpoints for users, since anybody can connect to them.

use std::{
    io,
    sync::Arc,
    task::{Context, Poll},
};

use axum_server::{accept::Accept, tls_rustls::RustlsAcceptor};
use futures::{FutureExt, future::BoxFuture};
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tower::Service;

/// The maximum number of connections. One more is closed immediately.
const AT_ONCE: usize = 1_024;

/// Accepts TLS connections up to the limit.
#[derive(Clone)]
pub struct BoundedAcceptor {
    tls: RustlsAcceptor,
    free: Arc<Semaphore>,
}

impl BoundedAcceptor {
    /// Wraps an acceptor.
    pub fn new(tls: RustlsAcceptor) -> Self {
        Self {
            tls,
            free: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

impl<S: Send + 'static> Accept<TcpStream, S> for BoundedAcceptor {
    type Stream = <RustlsAcceptor as Accept<TcpStream, S>>::Stream;
    type Service = Counted<S>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let Ok(permit) = self.free.clone().try_acquire_owned() else {
            return std::future::ready(Err(io::Error::other("too many connections"))).boxed();
        };
        let accepted = self.tls.accept(stream, service);
        let counted = async move {
            let (stream, service) = accepted.await?;
            Ok((
                stream,
                Counted {
                    service,
                    _permit: Arc::new(permit),
                },
            ))
        };
        counted.boxed()
    }
}

/// The service of a connection, which counts towards the limit until this is dropped.
#[derive(Clone)]
pub struct Counted<S> {
    service: S,
    _permit: Arc<OwnedSemaphorePermit>,
}

impl<S: Service<R>, R> Service<R> for Counted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.service.call(request)
    }
}
