//! The arguments of `operetta top`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{ClusterArgs, HostArgs, values};

#[derive(Args, Clone, Debug)]
pub struct TopArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The resource, as kubectl takes it: deploy, pods, Pod, deployments.apps [default: plugins,
    /// with their use of the host]
    #[arg(value_name = "KIND")]
    pub kind: Option<String>,
    /// The namespace [default: that of the context]
    #[arg(short, long, value_parser = values::namespace)]
    pub namespace: Option<String>,
    /// Show all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// The label selector, such as app=web,tier!=db
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = values::label_selector)]
    pub selector: Option<String>,
    /// The time between two scrapes of the host's metrics
    #[arg(short, long, value_name = "SECONDS", default_value = "2", value_parser = values::seconds)]
    pub delay: Duration,
    /// Print one table and exit, as when stdout is not a terminal
    #[arg(long)]
    pub once: bool,
    /// The output format, printed once [default: text for people]
    #[arg(short, long, value_enum)]
    pub output: Option<TopOutput>,
    #[command(flatten)]
    pub host: HostArgs,
}

/// The output formats of `operetta top`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopOutput {
    Json,
}
