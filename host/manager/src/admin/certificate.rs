//! The certificates of the endpoints for users: from configured files, which are reloaded when they
//! change, or self-signed at each start, as controller-runtime does for metrics.
//!
//! Other replicas ask for the server name [`SERVER_NAME`] and always get the self-signed
//! certificate. It stays the same for the life of the process, so they can pin it.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use axum_server::tls_rustls::RustlsConfig;
use operetta_api::reasons;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::replicas::endpoint::SERVER_NAME;

/// How often the files are checked for changes.
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts reads of the files, under controller-runtime's names.
#[derive(Debug, Default)]
pub struct CertificateReads {
    /// `certwatcher_read_certificate_total`: attempts to read the files, including the first one.
    pub total: AtomicU64,
    /// `certwatcher_read_certificate_errors_total`: failed attempts, which leave the old
    /// certificate in use.
    pub errors: AtomicU64,
}

/// The files of a certificate in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CertificateFiles {
    /// The certificate, followed by those of its issuers.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
}

/// The TLS of the endpoints for users.
#[derive(Clone)]
pub struct Tls {
    /// The server's configuration.
    pub config: RustlsConfig,
    /// The certificate for the other replicas, in PEM.
    pub replica_certificate: String,
    /// The same certificate, with its key.
    own: Arc<CertifiedKey>,
}

/// Returns the TLS setup of the endpoints.
///
/// # Errors
/// When a file can't be read or has no certificate or key; the message names it.
pub fn load(files: Option<&CertificateFiles>) -> Result<Tls> {
    let names = ["localhost", "127.0.0.1", SERVER_NAME].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).context("failed to sign a certificate")?;
    let key =
        PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let own = Arc::new(CertifiedKey::from_der(
        vec![made.cert.der().clone()],
        key,
        &ring::default_provider(),
    )?);

    let config = match files {
        Some(files) => from_files(files, &own)?,
        None => server(own.clone(), own.clone())?,
    };
    Ok(Tls {
        config: RustlsConfig::from_config(config),
        replica_certificate: made.cert.pem(),
        own,
    })
}

/// Reloads the files whenever they change, until it is cancelled. An unusable certificate is logged
/// and the old one kept.
pub async fn reload(files: CertificateFiles, tls: Tls, reads: Arc<CertificateReads>) {
    // The read at startup.
    reads.total.fetch_add(1, Ordering::Relaxed);
    let mut last = contents(&files);

    loop {
        tokio::time::sleep(INTERVAL).await;
        let now = contents(&files);
        if now == last {
            continue;
        }

        reads.total.fetch_add(1, Ordering::Relaxed);
        match from_files(&files, &tls.own) {
            Ok(changed) => {
                tls.config.reload_from_config(changed);
                tracing::info!(file = %files.cert_file.display(), "certificate reloaded");
            }
            Err(error) => {
                reads.errors.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    "failed to reload the certificate, keeping the former one: {error:#}"
                );
            }
        }

        last = now;
    }
}

fn contents(files: &CertificateFiles) -> [Option<Vec<u8>>; 2] {
    [&files.cert_file, &files.key_file].map(|file| std::fs::read(file).ok())
}

fn from_files(files: &CertificateFiles, own: &Arc<CertifiedKey>) -> Result<Arc<ServerConfig>> {
    let invalid = |message: String| reasons::INVALID_CERTIFICATE.error(message);
    let failed = |file: &Path| {
        invalid(format!(
            "failed to read {} (secureEndpoints)",
            file.display()
        ))
    };
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(&files.cert_file)
            .and_then(Iterator::collect)
            .with_context(|| failed(&files.cert_file))?;
    let key =
        PrivateKeyDer::from_pem_file(&files.key_file).with_context(|| failed(&files.key_file))?;

    let configured = CertifiedKey::from_der(certificates, key, &ring::default_provider())
        .with_context(|| {
            invalid(format!(
                "failed to use {} with {}",
                files.cert_file.display(),
                files.key_file.display()
            ))
        })?;
    server(Arc::new(configured), own.clone())
}

/// The certificates by server name (SNI).
#[derive(Debug)]
struct ByName {
    users: Arc<CertifiedKey>,
    replicas: Arc<CertifiedKey>,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_replica = hello.server_name() == Some(SERVER_NAME);
        let certificate = if is_replica {
            &self.replicas
        } else {
            &self.users
        };
        Some(certificate.clone())
    }
}

fn server(users: Arc<CertifiedKey>, replicas: Arc<CertifiedKey>) -> Result<Arc<ServerConfig>> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(ByName { users, replicas }));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
