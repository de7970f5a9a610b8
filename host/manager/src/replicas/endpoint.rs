//! The way to the endpoints of a replica for users, for the other replicas.
//!
//! Each replica writes its address and its certificate into its own Lease. Only the host may write
//! the Leases of its namespace, so a token that is sent there, over a connection that trusts this
//! certificate alone, reaches a replica.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Client, Config};
use operetta_api::annotations::{ADDRESS, CERTIFICATE};
use operetta_kube::client::connect::connect_with;
use rustls::pki_types::{CertificateDer, pem::PemObject};

/// The name in the certificate that a replica has for the others. They ask for it by this name
/// (SNI).
pub const SERVER_NAME: &str = "replica.operetta.internal";

/// The timeout of a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a response may be silent. A followed log has at least a blank line more often.
const SILENT: Duration = Duration::from_secs(60);

/// The address and the certificate of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address of the endpoints for users.
    pub address: SocketAddr,
    /// The certificate for [`SERVER_NAME`], in PEM.
    pub certificate: String,
}

impl Endpoint {
    /// Reads the endpoint in the Lease of a replica; None if it has none.
    pub fn read(lease: &Lease) -> Option<Self> {
        let annotations = lease.metadata.annotations.as_ref()?;
        let address = annotations.get(ADDRESS)?.parse().ok()?;
        Some(Self {
            address,
            certificate: annotations.get(CERTIFICATE)?.clone(),
        })
    }

    /// Writes the endpoint into the Lease of a replica, or removes that of an earlier process.
    pub fn write(endpoint: Option<&Self>, lease: &mut Lease) {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        match endpoint {
            Some(Self {
                address,
                certificate,
            }) => {
                annotations.insert(ADDRESS.to_owned(), address.to_string());
                annotations.insert(CERTIFICATE.to_owned(), certificate.clone());
            }
            None => {
                annotations.remove(ADDRESS);
                annotations.remove(CERTIFICATE);
            }
        }
    }

    /// Creates a client that connects to this address, and to nobody who lacks the key of this
    /// certificate.
    ///
    /// # Errors
    /// When the certificate cannot be parsed.
    pub fn client(&self) -> Result<Client> {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        let certificate = certificate
            .with_context(|| format!("annotation {CERTIFICATE} is no certificate in PEM"))?;
        let mut config = Config::new(format!("https://{}", self.address).parse()?);
        config.root_cert = Some(vec![certificate.to_vec()]);
        config.tls_server_name = Some(SERVER_NAME.to_owned());
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(SILENT);
        config.default_retry = false;

        Ok(connect_with(config)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_has_the_endpoint_of_the_last_process() {
        let mut lease = Lease::default();
        assert_eq!(Endpoint::read(&lease), None);

        let endpoint = Endpoint {
            address: "[2001:db8::1]:8443".parse().expect("an address"),
            certificate: "c".into(),
        };
        Endpoint::write(Some(&endpoint), &mut lease);
        assert_eq!(Endpoint::read(&lease), Some(endpoint.clone()));

        let error = endpoint.client().err().expect("no certificate").to_string();
        assert!(error.contains("operetta.dev/certificate"), "{error}");

        Endpoint::write(None, &mut lease);
        assert_eq!(Endpoint::read(&lease), None);
    }
}
