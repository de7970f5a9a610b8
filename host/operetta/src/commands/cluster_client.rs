//! The client of the API server that the arguments select.

use anyhow::Result;
use operetta_api::reasons;
use operetta_kube::client::connect::{self, ConnectError};

use crate::args::ClusterArgs;

/// Connects to the cluster that the arguments select.
///
/// # Errors
/// Returns an error if the kubeconfig cannot be read or is incomplete.
pub async fn connect(args: &ClusterArgs) -> Result<kube::Client> {
    let connected = connect::connect(args.kubeconfig.as_deref(), args.context.as_deref()).await;
    connected.map_err(|error| match error {
        ConnectError::Client { .. } => error.into(),
        ConnectError::Kubeconfig(_) | ConnectError::NotConfigured(_) => {
            reasons::INVALID_KUBECONFIG.error(error.to_string()).into()
        }
    })
}
