//! How replicas reach each other's endpoints for users.
//!
//! Each replica publishes its address and certificate in its own Lease. Only the host may write the
//! Leases in its namespace. A token sent to that address, over a connection that trusts only this
//! certificate, therefore reaches a replica.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Client, Config};
use operetta_api::annotations::{ADDRESS, CERTIFICATE};
use operetta_kube::client::connect::connect_with;
use rustls::pki_types::{CertificateDer, pem::PemObject};

/// The name in a replica's certificate for the other replicas, which ask for it by this name (SNI).
pub const SERVER_NAME: &str = "replica.operetta.internal";

/// The timeout for connecting.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a response may pause. A followed log has a blank line more often than that.
const SILENT: Duration = Duration::from_secs(60);

/// A replica's address and certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address of the endpoints for users.
    pub address: SocketAddr,
    /// The certificate for [`SERVER_NAME`], in PEM.
    pub certificate: String,
}

impl Endpoint {
    /// Reads the endpoint from a replica's Lease, if it has one.
    pub fn read(lease: &Lease) -> Option<Self> {
        let annotations = lease.metadata.annotations.as_ref()?;
        let address = annotations.get(ADDRESS)?.parse().ok()?;
        Some(Self {
            address,
            certificate: annotations.get(CERTIFICATE)?.clone(),
        })
    }

    /// Writes the endpoint into a replica's Lease, or removes the one of an earlier process.
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

    /// Creates a client for this address. It connects only to a server with the key of this
    /// certificate.
    ///
    /// # Errors
    /// When the certificate can't be parsed.
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
