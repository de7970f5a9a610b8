//! The arguments of `operetta install` and `operetta uninstall`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use operetta_api::Class;

use super::{ClusterArgs, Output, values};

#[derive(Args, Debug)]
pub struct InstallArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Install hosts of a trust class beside those without one: they run the plugins of namespaces
    /// with the label operetta.dev/class=NAME
    #[arg(long, value_name = "NAME")]
    pub class: Option<Class>,
    /// The host's image [default: operetta, with the version of this program as its tag]
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// The number of replicas, which share the plugins [default: 2]
    #[arg(long, value_name = "N")]
    pub replicas: Option<u32>,
    /// Optional parts to install as well; may be repeated
    #[arg(
        long = "with",
        value_enum,
        value_name = "COMPONENT",
        value_delimiter = ','
    )]
    pub components: Vec<Component>,
    /// Send nothing (client), or let the API server check the objects and store nothing (server)
    #[arg(long, value_enum, value_name = "STRATEGY", default_value = "none")]
    pub dry_run: DryRun,
    /// Print the objects; needs --dry-run=client
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    /// Take over fields that another field manager has set
    #[arg(long)]
    pub force_conflicts: bool,
    /// Wait until all replicas are available
    #[arg(long)]
    pub wait: bool,
    /// The longest time to wait, such as 90s or 5m
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = values::duration)]
    pub timeout: Duration,
}

#[derive(Args, Debug)]
pub struct UninstallArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Uninstall the hosts of a trust class, and nothing else
    #[arg(long, value_name = "NAME")]
    pub class: Option<Class>,
    /// Also delete the CustomResourceDefinition, and with it all Plugins in the cluster
    #[arg(long, conflicts_with = "class")]
    pub delete_plugins: bool,
    /// The longest time to wait until the host has stopped, such as 90s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = values::duration)]
    pub timeout: Duration,
}

/// The optional parts of an installation: the folders of `deploy/components`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Component {
    /// Nearly the permissions of cluster-admin, so that no grant is needed
    Unrestricted,
    /// A ServiceMonitor for the Prometheus Operator
    Monitoring,
}

/// The strategies of a dry run, as kubectl has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    None,
    Client,
    Server,
}
