//! The client of the API server that the arguments select.

use std::{path::Path, sync::Arc};

use anyhow::Result;
use operetta_api::reasons;
use operetta_kube::client::{
    connect::{self, ConnectError, Connector},
    observed::RequestObserver,
};

use crate::{args::ClusterArgs, terminal::note};

/// Connects to the cluster that the arguments select.
///
/// # Errors
/// Returns an error if the kubeconfig cannot be read or is incomplete.
pub async fn connect(args: &ClusterArgs) -> Result<kube::Client> {
    let (kubeconfig, context) = named(args);
    connect::connect(kubeconfig, context).await.map_err(coded)
}

/// Connects as [`connect()`] does, for a command that writes what somebody has written: prints the
/// API server's warnings on stderr as kubectl does, each once.
///
/// # Errors
/// Fails as [`connect()`] does.
pub async fn connect_to_apply(args: &ClusterArgs) -> Result<kube::Client> {
    let (kubeconfig, context) = named(args);
    connect::connect_warned(kubeconfig, context, |text| note(format!("Warning: {text}")))
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
    let (kubeconfig, context) = named(args);
    connect::connect_observed(kubeconfig, context, observer)
        .await
        .map_err(coded)
}

/// Returns what [`connect_observed`] connects with, for the renewal of the host's Lease.
///
/// # Errors
/// Fails as [`connect()`] does.
pub async fn connector(
    args: &ClusterArgs,
    observer: Arc<dyn RequestObserver>,
) -> Result<Connector> {
    let (kubeconfig, context) = named(args);
    connect::connector(kubeconfig, context, observer)
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
    let (kubeconfig, context) = named(args);
    connect::connect_without_credentials(kubeconfig, context, observer)
        .await
        .map_err(coded)
}

/// Connects as [`connect_observed`] does, for the requests of processes, whose streams may be silent
/// for long.
///
/// # Errors
/// Fails as [`connect()`] does.
pub async fn connect_for_processes(
    args: &ClusterArgs,
    observer: Arc<dyn RequestObserver>,
) -> Result<kube::Client> {
    let (kubeconfig, context) = named(args);
    connect::connect_for_processes(kubeconfig, context, observer)
        .await
        .map_err(coded)
}

/// Returns the kubeconfig and the context that the user named.
fn named(args: &ClusterArgs) -> (Option<&Path>, Option<&str>) {
    (args.kubeconfig.as_deref(), args.context.as_deref())
}

fn coded(error: ConnectError) -> anyhow::Error {
    match error {
        ConnectError::Client { .. } => error.into(),
        ConnectError::Kubeconfig(_) | ConnectError::NotConfigured(_) => {
            reasons::INVALID_KUBECONFIG.error(error.to_string()).into()
        }
    }
}
