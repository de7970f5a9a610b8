//! Connects to the API server: by a kubeconfig, as kubectl does, or as the ServiceAccount of the Pod it runs in.

use std::path::Path;

use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{ClientBuilder, ConfigExt},
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{BoxError, ServiceBuilder};

/// The error of connecting. The person who started the program must fix it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read, or names no such context.
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// Neither a kubeconfig nor a Pod's ServiceAccount was found.
    #[error("no API server: give --kubeconfig, set KUBECONFIG, or run in a Pod with a ServiceAccount ({0})")]
    NotConfigured(#[from] kube::config::InferConfigError),
    /// The configuration was found, but no client can be made of it.
    #[error("the configuration for {url} cannot be used: {source}")]
    Client {
        /// The API server.
        url: String,
        /// The cause.
        source: Box<kube::Error>,
    },
}

/// Makes a client. `kubeconfig` and `context` override what KUBECONFIG and the file's current-context say. Does not
/// connect yet.
///
/// # Errors
/// [`ConnectError`], with the file or the choices named.
pub async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, ConnectError> {
    let options = KubeConfigOptions { context: context.map(Into::into), ..KubeConfigOptions::default() };
    let mut config = match kubeconfig {
        Some(path) => Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?,
        None if context.is_some() => Config::from_kubeconfig(&options).await?,
        None => Config::infer().await?,
    };
    // Who asks decides: a plugin gets to see a 429 with its Retry-After, and an informer has a backoff of its own.
    config.default_retry = false;
    let url = config.cluster_url.to_string();
    client(config).map_err(|source| ConnectError::Client { url, source: Box::new(source) })
}

/// Builds a client as `Client::try_from` does, with TCP_NODELAY as client-go has it. kube leaves Nagle's algorithm on
/// (github.com/kube-rs/kube/issues/2056): then some requests wait 40 ms for an acknowledgement that the server delays.
fn client(config: Config) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        return Client::try_from(config);
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
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(HttpClient::builder(TokioExecutor::new()).build(connector));
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}
