//! The flags of `operetta-host` and `operetta run`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

/// The flags that select an API server.
#[derive(Args, Clone, Debug)]
pub struct ClusterArgs {
    /// The kubeconfig file [default: ~/.kube/config, or the Pod's ServiceAccount]
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// The flags of a host.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The cluster whose plugins it runs.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The host's configuration, a YAML file [default: every field has a default]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The address of /healthz, /readyz, /metrics and the logs; overrides adminAddress in the
    /// configuration
    #[arg(long, value_name = "IP:PORT")]
    pub admin_address: Option<SocketAddr>,
    /// The address of the probes alone, /healthz, /livez and /readyz; overrides healthAddress in
    /// the configuration
    #[arg(long, value_name = "IP:PORT")]
    pub health_address: Option<SocketAddr>,
    /// The address of metrics and logs with TLS and authentication; overrides
    /// secureEndpoints.address in the configuration
    #[arg(long, value_name = "IP:PORT")]
    pub secure_address: Option<SocketAddr>,
    /// Stop when the parent process has ended; for tests and demos
    #[arg(long, hide = true)]
    pub exit_with_parent: bool,
}
