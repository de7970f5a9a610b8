//! Exports spans over OTLP, with a bounded queue and one thread that sends batches, and reports
//! lost spans.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use http::{Request, Response, Uri, uri::Scheme};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::{Key, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, hyper::HyperClient};
use opentelemetry_otlp::{SpanExporter as OtlpExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor},
};
use operetta_api::reasons::{self, CodedError};
use parking_lot::Mutex;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::runtime::Handle;

use super::config::Settings;

/// How many spans may wait to be exported. Further ones are dropped.
const MAX_QUEUED: usize = 2048;

/// How often failed exports are logged as warnings.
const WARN_EVERY: Duration = Duration::from_secs(600);

/// Where collectors receive OTLP over gRPC, which the host doesn't support.
const GRPC_PORT: u16 = 4317;

/// Counts of spans since the host started.
#[derive(Debug, Default)]
pub struct SpanCounts {
    /// Spans the receiver accepted.
    pub exported: AtomicU64,
    /// Spans dropped because the queue was full.
    pub queue_full: AtomicU64,
    /// Spans dropped because their export failed.
    pub export_failed: AtomicU64,
    /// Spans in the queue now.
    queued: AtomicUsize,
}

/// Starts the export. `instance` identifies this host among all replicas. Must be called within a
/// tokio runtime.
///
/// # Errors
/// When the certificates in `caFile` can't be read.
pub(super) fn start(
    settings: &Settings,
    instance: &str,
    counts: &Arc<SpanCounts>,
) -> Result<Exporter> {
    let client = RuntimeClient {
        client: HyperClient::new(connector(settings)?, settings.timeout, None),
        runtime: Handle::current(),
        cause: Arc::default(),
    };
    let cause = client.cause.clone();
    let exporter = OtlpExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(settings.endpoint.to_string())
        .with_timeout(settings.timeout)
        .build()
        .map_err(|error| invalid(format!("failed to set up traces: {error}")))?;
    let outage = Outage::new(settings.endpoint.clone());

    let exporter = CountingExporter {
        exporter,
        outage,
        cause,
        counts: counts.clone(),
    };
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(MAX_QUEUED)
        .build();
    let mut processor = BatchSpanProcessor::builder(exporter)
        .with_batch_config(batches)
        .build();
    processor.set_resource(&resource(instance));

    Ok(Exporter {
        processor,
        counts: counts.clone(),
    })
}

/// Returns the attributes of this process. Those from `OTEL_RESOURCE_ATTRIBUTES` and
/// `OTEL_SERVICE_NAME` take precedence.
fn resource(instance: &str) -> Resource {
    let detected = Resource::builder().build();
    let own = [
        ("service.name", "operetta"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", instance),
    ];
    let is_set = |name: &'static str| {
        let found = detected.get(&Key::from_static_str(name));
        found.is_some_and(|value| !value.as_str().starts_with("unknown_service"))
    };
    let missing = own.into_iter().filter(|(name, _)| !is_set(name));
    let missing: Vec<_> = missing
        .map(|(name, value)| KeyValue::new(name, value.to_owned()))
        .collect();
    Resource::builder().with_attributes(missing).build()
}

fn connector(settings: &Settings) -> Result<HttpsConnector<HttpConnector>> {
    let builder = HttpsConnectorBuilder::new();
    let is_https = settings.endpoint.scheme() == Some(&Scheme::HTTPS);
    let builder = match &settings.ca_file {
        Some(file) => builder.with_tls_config(tls(authorities(file)?)?),
        None if is_https => {
            let failed = || {
                invalid("failed to read the system's certificate authorities: set traces.caFile")
            };
            builder
                .with_provider_and_native_roots(ring::default_provider())
                .with_context(failed)?
        }
        None => builder.with_tls_config(tls(RootCertStore::empty())?),
    };
    Ok(builder.https_or_http().enable_http1().build())
}

fn tls(roots: RootCertStore) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Reads the certificates of authorities.
fn authorities(file: &Path) -> Result<RootCertStore> {
    let failed = || invalid(format!("failed to read traces.caFile {}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).with_context(failed)? {
        roots
            .add(certificate.with_context(failed)?)
            .with_context(failed)?;
    }

    if roots.is_empty() {
        return Err(invalid(format!(
            "traces.caFile {} has no certificate",
            file.display()
        ))
        .into());
    }

    Ok(roots)
}

fn invalid(message: impl Into<String>) -> CodedError {
    reasons::INVALID_HOST_CONFIG.error(message)
}

/// An HTTP client that sends its requests on the host's runtime, because the SDK's export thread
/// has none.
#[derive(Debug)]
struct RuntimeClient {
    client: HyperClient<HttpsConnector<HttpConnector>>,
    runtime: Handle,
    /// The cause of the last failure; the SDK doesn't pass it on.
    cause: Arc<Mutex<Option<String>>>,
}

#[async_trait]
impl HttpClient for RuntimeClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self
            .runtime
            .spawn(async move { client.send_bytes(request).await })
            .await?;
        *self.cause.lock() = None;
        sent.inspect_err(|error| *self.cause.lock() = Some(chain(&**error)))
    }
}

/// Formats an error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// Counts exported spans, and reports an outage of the receiver.
#[derive(Debug)]
struct CountingExporter {
    exporter: OtlpExporter,
    outage: Outage,
    cause: Arc<Mutex<Option<String>>>,
    counts: Arc<SpanCounts>,
}

impl SpanExporter for CountingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.counts.queued.fetch_sub(spans, Ordering::Relaxed);
        let result = self.exporter.export(batch).await;
        let count = match &result {
            Ok(()) => &self.counts.exported,
            Err(_) => &self.counts.export_failed,
        };
        count.fetch_add(spans as u64, Ordering::Relaxed);

        match &result {
            Ok(()) => self.outage.ended(),
            Err(error) => {
                let cause = self
                    .cause
                    .lock()
                    .take()
                    .unwrap_or_else(|| error.to_string());
                self.outage.failed(spans, &cause, Instant::now());
            }
        }

        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Logs failed exports: one warning per outage, repeated after [`WARN_EVERY`].
#[derive(Debug)]
struct Outage {
    endpoint: Uri,
    /// When the last warning was logged.
    warned: Mutex<Option<Instant>>,
    /// True while exports fail.
    lasts: Mutex<bool>,
}

impl Outage {
    fn new(endpoint: Uri) -> Self {
        Self {
            endpoint,
            warned: Mutex::default(),
            lasts: Mutex::default(),
        }
    }

    /// Records a failed export and logs it, unless that was done recently. Reports whether it was
    /// logged.
    fn failed(&self, spans: usize, cause: &str, now: Instant) -> bool {
        *self.lasts.lock() = true;
        let mut warned = self.warned.lock();
        if warned.is_some_and(|at| now.saturating_duration_since(at) < WARN_EVERY) {
            return false;
        }

        *warned = Some(now);
        let hint = match self.endpoint.port_u16() {
            Some(GRPC_PORT) => "; port 4317 is that of gRPC, use that of HTTP: 4318",
            _ => "",
        };
        tracing::warn!(
            "failed to export {spans} spans to {}, dropped: {cause}{hint}",
            self.endpoint
        );
        true
    }

    /// Records a successful export.
    fn ended(&self) {
        if std::mem::take(&mut *self.lasts.lock()) {
            tracing::info!("exporting spans to {} again", self.endpoint);
        }
    }
}

/// The queue of spans to export. Spans that don't fit are dropped and counted.
#[derive(Debug)]
pub(super) struct Exporter {
    processor: BatchSpanProcessor,
    counts: Arc<SpanCounts>,
}

impl Exporter {
    /// Queues a finished span.
    pub(super) fn export(&self, span: SpanData) {
        if self.counts.queued.fetch_add(1, Ordering::Relaxed) < MAX_QUEUED {
            return self.processor.on_end(span);
        }
        self.counts.queued.fetch_sub(1, Ordering::Relaxed);
        self.counts.queue_full.fetch_add(1, Ordering::Relaxed);
    }

    /// Exports the queued spans. Later ones are dropped.
    pub(super) fn stop(&self, timeout: Duration) -> OTelSdkResult {
        self.processor.shutdown_with_timeout(timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_is_logged_once_in_ten_minutes() {
        let outage = Outage::new(Uri::from_static("http://c:4317/v1/traces"));
        let start = Instant::now();
        let logged =
            |seconds: u64| outage.failed(5, "refused", start + Duration::from_secs(seconds));
        assert_eq!(
            [0, 5, 599, 600, 700].map(logged),
            [true, false, false, true, false]
        );

        outage.ended();
        assert!(!logged(800), "a receiver that comes and goes");
        assert!(logged(1200));
    }

    #[test]
    fn resource_names_the_service_and_the_replica() {
        let resource = resource("host_1");
        let value = |name| {
            resource
                .get(&Key::from_static_str(name))
                .map(|value| value.as_str().into_owned())
        };
        assert_eq!(value("service.name").as_deref(), Some("operetta"));
        assert_eq!(value("service.instance.id").as_deref(), Some("host_1"));
        assert_eq!(
            value("service.version").as_deref(),
            Some(env!("CARGO_PKG_VERSION"))
        );
    }
}
