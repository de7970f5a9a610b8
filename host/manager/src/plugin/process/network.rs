//! Where a process may connect: to the API server that it sees, which is an endpoint of the host.

use std::{
    collections::HashSet,
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use async_trait::async_trait;
use operetta_core::ports::LogLevel;
use operetta_kube::endpoint::{
    Endpoint, SERVICE_NAMES,
    certificate::{Authority, CertificateError, EndpointTls},
};
use operetta_wasm::process::{Destination, Host, Network, Stream, pipe};
use parking_lot::Mutex;

use crate::logs::store::PluginLog;

/// The address of the API server that a process sees. It is in a network for benchmarks (RFC 2544),
/// which no cluster uses, so it hides nothing.
pub const API_SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
/// The address of a process itself.
pub const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2));
/// The port of the API server.
pub const PORT: u16 = 443;

/// The most refused destinations that are logged.
const LOGGED: usize = 100;

/// The certificate of the API server that the processes of this host see.
pub struct ApiServerTls {
    /// The authority's certificate in PEM.
    pub ca: String,
    /// The server's side.
    pub tls: EndpointTls,
}

impl ApiServerTls {
    /// Makes the certificate, and an authority for it.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn generate() -> Result<Self, CertificateError> {
        let authority = Authority::generate()?;
        Ok(Self {
            ca: authority.pem(),
            tls: authority.tls(API_SERVER)?,
        })
    }
}

/// The connections of a process.
pub struct ApiServerOnly {
    endpoint: Endpoint,
    log: Arc<PluginLog>,
    /// Those that the log has already.
    refused: Mutex<HashSet<String>>,
}

impl ApiServerOnly {
    /// Lets a process reach this endpoint.
    pub fn new(endpoint: Endpoint, log: Arc<PluginLog>) -> Arc<Self> {
        Arc::new(Self {
            endpoint,
            log,
            refused: Mutex::default(),
        })
    }

    /// Logs a refused destination once.
    fn note_refused(&self, what: String) {
        let mut refused = self.refused.lock();
        if refused.len() < LOGGED && refused.insert(what.clone()) {
            let line = format!("{what} was refused: a process may reach the API server only");
            self.log.write_host_line(LogLevel::Warn, line);
        }
    }
}

#[async_trait]
impl Network for ApiServerOnly {
    async fn connect(&self, to: &Destination) -> io::Result<Box<dyn Stream>> {
        let is_api_server = match &to.host {
            Host::Name(name) => is_api_server(name),
            Host::Address(address) => *address == API_SERVER,
        };
        if !is_api_server {
            self.note_refused(format!("a connection to {to}"));
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if to.port != PORT {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }

        let (ours, theirs) = pipe();
        tokio::spawn(self.endpoint.serve(ours));
        Ok(Box::new(theirs))
    }

    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if is_api_server(name) {
            return Ok(vec![API_SERVER]);
        }
        self.note_refused(format!("the look-up of {name}"));
        Err(io::ErrorKind::NotFound.into())
    }
}

fn is_api_server(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    SERVICE_NAMES
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}
