//! The certificate of the endpoints for users: that of the configured files, which is read again when they change, or one
//! that the host signs itself at each start, as controller-runtime does for metrics.

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
};
use schemars::JsonSchema;
use serde::Deserialize;

/// The interval between looks at the files.
const INTERVAL: Duration = Duration::from_secs(10);

/// The numbers of reads of the files, under controller-runtime's names.
#[derive(Debug, Default)]
pub struct CertificateReads {
    /// `certwatcher_read_certificate_total`: attempts to read the files, with the one at the start.
    pub total: AtomicU64,
    /// `certwatcher_read_certificate_errors_total`: attempts after which the former certificate stayed.
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

/// Returns the TLS configuration.
///
/// # Errors
/// When a file cannot be read or has no certificate or key; the message names it.
pub fn load(files: Option<&CertificateFiles>) -> Result<RustlsConfig> {
    let config = match files {
        Some(files) => from_files(files)?,
        None => self_signed()?,
    };
    Ok(RustlsConfig::from_config(config))
}

/// Reads the files again when they have changed, until it is cancelled. A certificate that cannot be used is logged, and
/// the former one stays.
pub async fn reload(files: CertificateFiles, config: RustlsConfig, reads: Arc<CertificateReads>) {
    // That of the start.
    reads.total.fetch_add(1, Ordering::Relaxed);
    let mut last = contents(&files);
    loop {
        tokio::time::sleep(INTERVAL).await;
        let now = contents(&files);
        if now == last {
            continue;
        }
        reads.total.fetch_add(1, Ordering::Relaxed);
        match from_files(&files) {
            Ok(changed) => {
                config.reload_from_config(changed);
                tracing::info!(file = %files.cert_file.display(), "certificate reloaded");
            }
            Err(error) => {
                reads.errors.fetch_add(1, Ordering::Relaxed);
                tracing::warn!("failed to reload the certificate, keeping the former one: {error:#}");
            }
        }
        last = now;
    }
}

fn contents(files: &CertificateFiles) -> [Option<Vec<u8>>; 2] {
    [&files.cert_file, &files.key_file].map(|file| std::fs::read(file).ok())
}

fn from_files(files: &CertificateFiles) -> Result<Arc<ServerConfig>> {
    let invalid = |message: String| reasons::INVALID_CERTIFICATE.error(message);
    let failed = |file: &Path| invalid(format!("failed to read {} (secureEndpoints)", file.display()));
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.cert_file)
        .and_then(Iterator::collect)
        .with_context(|| failed(&files.cert_file))?;
    let key = PrivateKeyDer::from_pem_file(&files.key_file).with_context(|| failed(&files.key_file))?;
    server(certificates, key).with_context(|| {
        invalid(format!("failed to use {} with {}", files.cert_file.display(), files.key_file.display()))
    })
}

fn self_signed() -> Result<Arc<ServerConfig>> {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).context("failed to sign a certificate")?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    server(vec![made.cert.der().clone()], key)
}

fn server(certificates: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Arc<ServerConfig>> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = builder.with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
