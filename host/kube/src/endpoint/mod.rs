//! The API server that an operator's process sees.
//!
//! A process finds an API server at the address of `kubernetes.default.svc`, and speaks HTTP/1.1 or
//! HTTP/2 to it, with TLS or without. What answers is an [`Endpoint`]: it takes a request, passes
//! it through the [gate](operetta_core::gate::proxied_request), and sends it to the real API server
//! as the plugin's ServiceAccount. So the process needs no credentials, and none that it sends are
//! passed on.
//!
//! Lists and watches are answered from the shared informers where these know the answer exactly.
//! Everything else is passed on as it is: bodies byte for byte, in whatever media type, status
//! codes, and the headers that are not about the connection. (A denial of the host's own
//! impersonation is the exception: it is reworded.) Responses are streams, so a slow process slows
//! only its own down, and a stalled one loses it. A watch ends once the plugin loses the right to
//! it, which the API server itself checks only at the beginning.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use operetta_core::gate::Gate;
//! # use operetta_kube::client::object_api::PluginApi;
//! # async fn example(
//! #     gate: Arc<Gate>, api: Arc<PluginApi>, stream: tokio::io::DuplexStream,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use operetta_kube::endpoint::{Endpoint, EndpointLimits, certificate::Authority};
//!
//! let authority = Authority::generate()?;
//! let tls = authority.tls("10.96.0.1".parse()?)?;
//! let endpoint = Endpoint::new(gate, api, tls, EndpointLimits::default());
//! println!("mounted as ca.crt: {}", authority.pem());
//! tokio::spawn(endpoint.serve(stream));
//! # Ok(())
//! # }
//! ```
//!
//! The module, file by file: [`certificate`] makes the certificate; `connection` tells TLS from
//! plain HTTP, bounds connections and ends idle ones; `request` checks a request's form and sends
//! it; `watch_cache` answers lists and watches from the shared informers, and `list_options` says
//! which ones; `headers` is the table of headers that pass; `response` streams the response, and
//! ends it.

pub mod certificate;
mod connection;
mod headers;
mod list_options;
mod request;
mod response;
mod watch_cache;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use operetta_core::{
    gate::{Gate, bytes::Bytes as Charge},
    status::{ApiError, ErrorKind},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    task::AbortHandle,
    time::{MissedTickBehavior, interval},
};

use self::certificate::EndpointTls;
use crate::client::object_api::PluginApi;

/// How often the permit is checked, so that streams end with it. A fence closes when a Lease runs
/// out, and no event announces that.
const PERMIT_CHECKS: Duration = Duration::from_millis(500);

/// The names of the API server's Service, by which a process reaches its endpoint. The host doesn't
/// know the cluster's domain, and takes the usual one.
pub const SERVICE_NAMES: [&str; 4] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// What a process may use of its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointLimits {
    /// The maximum number of connections at once.
    pub connections: usize,
    /// The maximum number of requests at once, watches included.
    pub requests: usize,
    /// How long a client may take to send the head of a request, or the whole TLS handshake: the
    /// API server's [`ReadHeaderTimeout`]. Checked at intervals of this length.
    ///
    /// [`ReadHeaderTimeout`]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/server/secure_serving.go#L168
    pub head: Duration,
    /// How long a client may take to send the body of a request.
    pub body: Duration,
    /// How long a connection may be idle, as in the API server.
    pub idle: Duration,
    /// How long a client may leave a response unread.
    pub stall: Duration,
}

impl Default for EndpointLimits {
    fn default() -> Self {
        Self {
            connections: 256,
            requests: 1024,
            head: Duration::from_secs(32),
            body: Duration::from_secs(60),
            idle: Duration::from_secs(90),
            stall: Duration::from_secs(30),
        }
    }
}

/// The API server that one process sees. Dropping it ends the streams of its connections.
pub struct Endpoint {
    state: Arc<State>,
    checks: AbortHandle,
}

/// What the connections of an endpoint share.
struct State {
    gate: Arc<Gate>,
    api: Arc<PluginApi>,
    tls: EndpointTls,
    limits: EndpointLimits,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    /// Whether the permit was valid when it was last checked.
    permitted: watch::Receiver<bool>,
}

impl Endpoint {
    /// Creates an endpoint whose requests pass this gate and are sent by this API. Must be called
    /// within a tokio runtime.
    pub fn new(
        gate: Arc<Gate>,
        api: Arc<PluginApi>,
        tls: EndpointTls,
        limits: EndpointLimits,
    ) -> Self {
        let (permits, permitted) = watch::channel(true);
        let checks = tokio::spawn(check_permit(gate.clone(), permits)).abort_handle();

        let state = State {
            gate,
            api,
            tls,
            limits,
            connections: Arc::default(),
            requests: Arc::default(),
            permitted,
        };
        Self {
            state: Arc::new(state),
            checks,
        }
    }

    /// Serves a connection until it ends. Dropping the future closes it.
    pub fn serve<S>(&self, stream: S) -> impl Future<Output = ()> + Send + use<S>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        connection::serve(self.state.clone(), stream)
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Acquire)
    }

    /// The number of requests at once now, watches included.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::Acquire)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.checks.abort();
    }
}

/// Publishes whether the permit is valid.
async fn check_permit(gate: Arc<Gate>, permits: watch::Sender<bool>) {
    let mut checks = interval(PERMIT_CHECKS);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        checks.tick().await;
        let is_valid = gate.permit().check().is_ok();
        permits.send_if_modified(|before| std::mem::replace(before, is_valid) != is_valid);
    }
}

/// A place within a limit. Dropping it frees the place.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// Takes a place; None if all are taken.
    fn take(taken: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let next = |taken: usize| Some(taken + 1).filter(|taken| *taken <= limit);
        taken
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
            .ok()?;
        Some(Self(taken.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl State {
    /// Takes a place for a connection, and charges its buffers.
    fn connect(&self) -> Result<(Place, Option<Charge>), ApiError> {
        let limit = self.limits.connections;
        let place = Place::take(&self.connections, limit).ok_or_else(|| {
            too_many(format!(
                "there are {limit} connections to the API server already"
            ))
        })?;
        Ok((place, self.charge(connection::BUFFERS)?))
    }

    /// Takes a place for a request, and charges the buffers of its response.
    fn begin(&self) -> Result<(Place, Option<Charge>), ApiError> {
        let limit = self.limits.requests;
        let place = Place::take(&self.requests, limit).ok_or_else(|| {
            too_many(format!(
                "there are {limit} requests at once already, watches included"
            ))
        })?;
        Ok((place, self.charge(response::BUFFERS)?))
    }

    fn charge(&self, bytes: u64) -> Result<Option<Charge>, ApiError> {
        let mut charge = self.gate.memory();
        if let Some(charge) = &mut charge {
            charge.take(bytes)?;
        }
        Ok(charge)
    }
}

fn too_many(message: String) -> ApiError {
    ApiError::new(ErrorKind::TooManyRequests, message)
}

fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}
