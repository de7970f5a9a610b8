//! The endpoints for users: metrics, informers, logs and permissions over TLS, for everybody the
//! API server authenticates and authorizes.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use axum::{
    Router,
    body::{Body, HttpBody},
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use hyper_util::rt::TokioTimer;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;

use super::{
    access::{AccessControl, Asker, Required},
    bind::bind,
    certificate::{self, CertificateFiles, CertificateReads, Tls},
    connections::{BoundedAcceptor, OfConnection},
    shares::Readers,
};
use crate::replicas::endpoint::Endpoint;

/// Timeout for the headers of a request.
const HEADERS: Duration = Duration::from_secs(30);

/// The variable with the Pod's IP address.
const POD_IP: &str = "POD_IP";

/// The configuration of the endpoints for users.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecureEndpoints {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The certificate; if left out, the host signs one itself at each start.
    #[serde(default)]
    pub certificate: Option<CertificateFiles>,
}

/// Who may come in, and how many at once.
#[derive(Clone)]
pub struct Gatekeeper {
    /// Knows users and their permissions.
    pub access: Arc<AccessControl>,
    /// The answers that users read at once.
    pub readers: Arc<Readers>,
}

/// The bound listener of the endpoints for users.
pub struct SecureListener {
    listener: TcpListener,
    tls: Tls,
    files: Option<CertificateFiles>,
    reads: Arc<CertificateReads>,
}

impl SecureListener {
    /// Binds the address.
    ///
    /// # Errors
    /// When the address can't be bound or the certificate can't be used; the message names the
    /// address or the file.
    pub async fn bind(endpoints: &SecureEndpoints) -> Result<Self> {
        let SecureEndpoints {
            address,
            certificate: files,
        } = endpoints;
        let tls = certificate::load(files.as_ref())?;
        let listener = bind(*address, "secureEndpoints.address").await?;
        Ok(Self {
            listener,
            tls,
            files: files.clone(),
            reads: Arc::default(),
        })
    }

    /// Returns the address with its actual port.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn address(&self) -> Result<String> {
        Ok(self.listener.local_addr()?.to_string())
    }

    /// Returns how other replicas reach these endpoints. None if they listen on all interfaces and
    /// `POD_IP` doesn't say which address to use.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn endpoint(&self) -> Result<Option<Endpoint>> {
        let bound = self.listener.local_addr()?;
        let pod = std::env::var(POD_IP)
            .ok()
            .and_then(|text| text.parse().ok());
        Ok(reachable(bound, pod).map(|address| Endpoint {
            address,
            certificate: self.tls.replica_certificate.clone(),
        }))
    }

    /// Returns the counters of certificate reads, or None without certificate files.
    pub fn certificate_reads(&self) -> Option<Arc<CertificateReads>> {
        self.files.as_ref().map(|_| self.reads.clone())
    }

    /// Serves until the process ends: `routes` behind the access control, and `checked`, which
    /// check their users themselves.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(
        self,
        routes: Router,
        gatekeeper: Gatekeeper,
        checked: Router,
    ) -> Result<()> {
        // In this order, a path that nobody serves is checked as well.
        let routes = checked.merge(routes.layer(middleware::from_fn_with_state(gatekeeper, check)));
        let tls = self.tls.clone();
        let reads = self.reads;
        let reload = self
            .files
            .map(|files| tokio::spawn(certificate::reload(files, tls, reads)).abort_handle());
        let listener = self.listener.into_std()?;
        let server = axum_server::from_tcp_rustls(listener, self.tls.config)
            .context("failed to serve TLS")?;
        let mut server = server.map(BoundedAcceptor::new);

        // Also how long a connection may be idle.
        server
            .http_builder()
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS);
        let served = server.serve(routes.into_make_service()).await;
        if let Some(reload) = reload {
            reload.abort();
        }

        served.context("the server of the endpoints for users stopped")
    }
}

/// Ends a streamed body, such as a followed log, when the reader's token expires or its permission
/// is revoked.
fn while_allowed(body: Body, asker: Asker, required: Required) -> Body {
    if body.size_hint().exact().is_some() {
        return body;
    }
    let refused = async move { asker.until_refused(&required).await };
    Body::from_stream(body.into_data_stream().take_until(Box::pin(refused)))
}

async fn check(
    State(Gatekeeper { access, readers }): State<Gatekeeper>,
    mut request: Request,
    next: Next,
) -> Response {
    let required = Required::of(request.uri().path());
    match access.check(request.headers(), &required).await {
        Ok(()) => {
            let asker = Asker::new(access, request.headers());
            let user = asker.user().await;
            if let Some(connection) = request.extensions().get::<OfConnection>() {
                connection.authenticated(&user);
            }
            request.extensions_mut().insert(asker.clone());
            let response = readers.answer(&user, request, next).await;
            response.map(|body| while_allowed(body, asker, required))
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Returns the address that reaches `bound` from other Pods.
fn reachable(bound: SocketAddr, pod: Option<IpAddr>) -> Option<SocketAddr> {
    let ip = if bound.ip().is_unspecified() {
        pod?
    } else {
        bound.ip()
    };
    Some(SocketAddr::new(ip, bound.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_replicas_use_the_address_of_the_pod() {
        let address = |bound: &str, pod: Option<&str>| {
            let pod = pod.map(|ip| ip.parse().expect("an IP address"));
            reachable(bound.parse().expect("an address"), pod).map(|address| address.to_string())
        };
        assert_eq!(
            address("0.0.0.0:8443", Some("192.0.2.7")).as_deref(),
            Some("192.0.2.7:8443")
        );
        assert_eq!(
            address("[::]:8443", Some("2001:db8::7")).as_deref(),
            Some("[2001:db8::7]:8443")
        );
        assert_eq!(
            address("127.0.0.1:8443", Some("192.0.2.7")).as_deref(),
            Some("127.0.0.1:8443")
        );
        assert_eq!(address("0.0.0.0:8443", None), None);
    }
}
