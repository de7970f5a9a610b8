//! The client of the API server that the arguments select.

use std::sync::Arc;

use anyhow::Result;
use operetta_api::reasons;
use operetta_kube::client::{
    connect::{self, ConnectError},
    observed::RequestObserver,
};

use crate::args::ClusterArgs;

/// Connects to the cluster that the arguments select.
///
/// # Errors
/// Returns an error if the kubeconfig cannot be read or is incomplete.
pub async fn connect(args: &ClusterArgs) -> Result<kube::Client> {
    connect::connect(args.kubeconfig.as_deref(), args.context.as_deref())
        .await
        .map_err(coded)
}

/// Connects as [`connect()`] does, and reports the requests to `observer`.
///
/// # Errors
/// Fails as [`connect()`] does.
pub async fn connect_observed(
    args: &ClusterArgs,
    observer: Arc<dyn RequestObserver>,
) -> Result<kube::Client> {
    let ClusterArgs {
        kubeconfig,
        context,
    } = args;
    connect::connect_observed(kubeconfig.as_deref(), context.as_deref(), observer)
        .await
        .map_err(coded)
}

/// Connects as [`connect_observed`] does, without credentials: each request brings its user's
/// token.
///
/// # Errors
/// Fails as [`connect()`] does.
pub async fn connect_for_users(
    args: &ClusterArgs,
    observer: Arc<dyn RequestObserver>,
) -> Result<kube::Client> {
    let ClusterArgs {
        kubeconfig,
        context,
    } = args;
    let connected =
        connect::connect_without_credentials(kubeconfig.as_deref(), context.as_deref(), observer)
            .await;
    connected.map_err(coded)
}

fn coded(error: ConnectError) -> anyhow::Error {
    match error {
        ConnectError::Client { .. } => error.into(),
        ConnectError::Kubeconfig(_) | ConnectError::NotConfigured(_) => {
            reasons::INVALID_KUBECONFIG.error(error.to_string()).into()
        }
    }
}
