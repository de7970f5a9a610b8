//! The connection to the API server: by a kubeconfig, as in kubectl, or as the ServiceAccount of the Pod.

use std::{path::Path, sync::Arc};

use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt},
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{BoxError, ServiceBuilder};

use crate::client::{
    observed::{Observed, RequestObserver},
    own_token::with_own_token,
    permitted::at_socket,
};

/// The error of connecting. The operator must fix the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read, or does not contain the context.
    #[error("failed to load the kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// Neither a kubeconfig nor a Pod's ServiceAccount was found.
    #[error("no API server configured: use --kubeconfig, set KUBECONFIG, or run in a Pod with a ServiceAccount ({0})")]
    NotConfigured(#[from] kube::config::InferConfigError),
    /// The configuration was found, but no client can be built from it.
    #[error("failed to create a client for {url}: {source}")]
    Client {
        /// The API server.
        url: String,
        /// The cause.
        source: Box<kube::Error>,
    },
}

/// Creates a client without connecting yet. `kubeconfig` and `context` override KUBECONFIG and the file's
/// current-context.
///
/// # Errors
/// [`ConnectError`], naming the file or the alternatives.
pub async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, ConnectError> {
    create(kubeconfig, context, None).await
}

/// Creates a client as [`connect`] does, whose requests are reported to `observer`.
///
/// # Errors
/// [`ConnectError`], naming the file or the alternatives.
pub async fn connect_observed(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    observer: Arc<dyn RequestObserver>,
) -> Result<Client, ConnectError> {
    create(kubeconfig, context, Some(observer)).await
}

/// Creates a client for a configuration that comes from no kubeconfig.
///
/// # Errors
/// [`ConnectError::Client`].
pub fn connect_with(config: Config) -> Result<Client, ConnectError> {
    let url = config.cluster_url.to_string();
    client(config, None).map_err(|source| ConnectError::Client { url, source: Box::new(source) })
}

async fn create(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    observer: Option<Arc<dyn RequestObserver>>,
) -> Result<Client, ConnectError> {
    let options = KubeConfigOptions { context: context.map(Into::into), ..KubeConfigOptions::default() };
    let mut config = match kubeconfig {
        Some(path) => Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?,
        None if context.is_some() => Config::from_kubeconfig(&options).await?,
        None => Config::infer().await?,
    };
    // Callers decide about retries: a plugin receives a 429 with its Retry-After, and an informer has its own backoff.
    config.default_retry = false;
    let url = config.cluster_url.to_string();
    let observed = observer.map(|observer| Observed { host: host(&config).into(), observer });
    client(config, observed).map_err(|source| ConnectError::Client { url, source: Box::new(source) })
}

/// Returns the host and port of the API server.
fn host(config: &Config) -> String {
    let url = &config.cluster_url;
    url.authority().map_or_else(|| url.to_string(), ToString::to_string)
}

/// Builds a client as `Client::try_from` does, but with TCP_NODELAY, as in client-go. kube keeps Nagle's algorithm
/// (github.com/kube-rs/kube/issues/2056), which delays some requests by 40 ms until a delayed acknowledgement.
fn client(config: Config, observed: Option<Observed>) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        let builder = ClientBuilder::try_from(config)?;
        return Ok(match observed {
            Some(observed) => builder.with_layer(&observed).build(),
            None => builder.build(),
        });
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let service = ServiceBuilder::new()
        .option_layer(observed)
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .map_request(with_own_token::<Body>)
        .map_request(at_socket)
        .service(HttpClient::builder(TokioExecutor::new()).build(connector));
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}
