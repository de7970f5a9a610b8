//! What a server on a socket and its administrator need to trust each other: a certificate and a
//! token.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::{
    ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use serde_json::json;

use crate::authn::user::{AUTHENTICATED, MASTERS, User};

/// The names by which clients on this machine reach a server.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// The bytes of a token.
const TOKEN: usize = 32;

/// Credentials that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A key or a certificate cannot be made.
    #[error("failed to make the certificate of the API server: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS does not accept the certificate.
    #[error("failed to use the certificate of the API server: {0}")]
    Tls(#[from] rustls::Error),
    /// The system has no random numbers.
    #[error("failed to read random bytes for the administrator's token")]
    Random,
}

/// The certificate of a server, the authority that signed it, and the token of the administrator.
/// New ones are made at each start, so they are worth nothing after it.
pub struct Credentials {
    authority: String,
    token: String,
    tls: Arc<ServerConfig>,
}

impl Credentials {
    /// Makes credentials for a server on this machine.
    ///
    /// # Errors
    ///
    /// [`CredentialsError`], when the system has no random numbers.
    pub fn generate() -> Result<Self, CredentialsError> {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name = named("operetta-embedded-api-server");
        let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(NAMES.map(str::to_owned))?;
        parameters.distinguished_name = named("kube-apiserver");
        let certificate = parameters.signed_by(&key, &authority)?;
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder
            .with_safe_default_protocol_versions()?
            .with_no_client_auth();
        let mut tls = builder.with_single_cert(chain, key)?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut token = [0; TOKEN];
        SystemRandom::new()
            .fill(&mut token)
            .map_err(|_| CredentialsError::Random)?;
        let token = token.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            authority: authority.pem(),
            token,
            tls: Arc::new(tls),
        })
    }

    /// Returns the configuration of the server.
    #[must_use]
    pub fn tls(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.tls)
    }

    /// Returns the token with its user, for [`Options::tokens`](super::Options).
    #[must_use]
    pub fn administrator(&self) -> (String, User) {
        (
            self.token.clone(),
            User::new("admin", &[MASTERS, AUTHENTICATED]),
        )
    }

    /// Returns the certificate of the authority, in PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the kubeconfig of the administrator, as JSON, which is YAML.
    #[must_use]
    pub fn kubeconfig(&self, address: SocketAddr, context: &str) -> String {
        use base64::{Engine, prelude::BASE64_STANDARD};
        let authority = BASE64_STANDARD.encode(&self.authority);
        let config = json!({
            "apiVersion": "v1", "kind": "Config",
            "clusters": [{"name": context, "cluster": {
                "server": format!("https://{address}"), "certificate-authority-data": authority,
            }}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": "admin"}}],
            "current-context": context,
        });
        format!("{config:#}\n")
    }

    /// Writes the kubeconfig of the administrator to a file that only this user may read.
    ///
    /// # Errors
    ///
    /// The error of the file system.
    pub fn write_kubeconfig(
        &self,
        file: &Path,
        address: SocketAddr,
        context: &str,
    ) -> io::Result<()> {
        OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(file)?
            .write_all(self.kubeconfig(address, context).as_bytes())
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Credentials")
            .finish_non_exhaustive()
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut found = DistinguishedName::new();
    found.push(DnType::CommonName, name);
    found
}
