//! The certificate of the API server that a process sees, by a certificate authority of the host's
//! own. Both are made anew for each host process, so they are worth nothing after it.

use std::{fmt, net::IpAddr, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer},
};

use super::SERVICE_NAMES;

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A key or a certificate cannot be made.
    #[error("failed to make the certificate of the processes' API server: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS does not accept the certificate.
    #[error("failed to use the certificate of the processes' API server: {0}")]
    Tls(#[from] rustls::Error),
}

/// A certificate authority that only the processes of this host trust.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// The TLS side of an endpoint.
#[derive(Clone)]
pub struct EndpointTls(pub(super) Arc<ServerConfig>);

impl Authority {
    /// Makes an authority.
    ///
    /// # Errors
    /// [`CertificateError`], when the system has no random numbers.
    pub fn generate() -> Result<Self, CertificateError> {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        parameters.distinguished_name = named("operetta-processes");
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
        Ok(Self(issuer))
    }

    /// The authority's certificate in PEM, for `ca.crt`.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Makes the TLS side of endpoints at this address, with a certificate of this authority. Clients
    /// are not asked for certificates.
    ///
    /// # Errors
    /// [`CertificateError`], when the system has no random numbers.
    pub fn tls(&self, address: IpAddr) -> Result<EndpointTls, CertificateError> {
        let names = SERVICE_NAMES.map(str::to_owned).into_iter();
        let others = ["localhost".to_owned(), address.to_string()];
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(names.chain(others).collect::<Vec<_>>())?;
        parameters.distinguished_name = named("kubernetes");
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = parameters.signed_by(&key, &self.0)?;

        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(EndpointTls(Arc::new(config)))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut found = DistinguishedName::new();
    found.push(DnType::CommonName, name);
    found
}
