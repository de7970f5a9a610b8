//! The arguments of `operetta watch`.

use clap::{Args, ValueEnum};

use super::{ClusterArgs, values};

#[derive(Args, Debug)]
pub struct WatchArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The resource, as kubectl takes it: deploy, pods, Pod, deployments.apps,
    /// ingresses.v1.networking.k8s.io
    #[arg(value_name = "KIND")]
    pub kind: String,
    /// The name of one object
    #[arg(value_name = "NAME", conflicts_with_all = ["all_namespaces", "selector", "field_selector"])]
    pub name: Option<String>,
    /// The namespace [default: that of the context]
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Watch all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// The label selector, such as app=web,tier!=db
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = values::label_selector)]
    pub selector: Option<String>,
    /// The field selector, such as status.phase=Running
    #[arg(long, value_name = "SELECTOR")]
    pub field_selector: Option<String>,
    /// The output format [default: text for people]
    #[arg(short, long, value_enum)]
    pub output: Option<WatchOutput>,
    /// Print the type of each event: ADDED, MODIFIED or DELETED
    #[arg(long)]
    pub output_watch_events: bool,
    /// Print changes only, not the objects that exist at the start
    #[arg(long)]
    pub watch_only: bool,
}

/// The output formats of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WatchOutput {
    Json,
    Yaml,
    Name,
    /// A table with more columns
    Wide,
}
