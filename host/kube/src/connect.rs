//! How the host finds its API server: a kubeconfig, as kubectl does, or the ServiceAccount of the Pod it runs in.

use std::path::Path;

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Why there is no connection. The person who started the program has to fix it.
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
        /// Why.
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
    Client::try_from(config).map_err(|source| ConnectError::Client { url, source: Box::new(source) })
}
