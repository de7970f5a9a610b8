//! The arguments of `operetta why`.

use clap::{Args, ValueEnum};

use super::{ClusterArgs, HostArgs, values};

#[derive(Args, Debug)]
pub struct WhyArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The object, KIND/NAME with a kind as kubectl takes it: deploy/web, foos.example.com/a. Or a
    /// Plugin's name
    #[arg(value_name = "KIND/NAME|PLUGIN")]
    pub target: String,
    /// A key of the Plugin, NAMESPACE/NAME or NAME: why it was reconciled, and why it is not
    /// reconciled now
    #[arg(value_name = "KEY", value_parser = values::key)]
    pub key: Option<String>,
    /// The namespace [default: that of the context]
    #[arg(short, long, value_parser = values::namespace)]
    pub namespace: Option<String>,
    /// Only changes of this field, its parents and its children, such as .spec.replicas
    #[arg(long, value_name = "PATH", value_parser = values::field)]
    pub field: Option<String>,
    /// How many changes or reconciles to print, newest first
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// The output format [default: text for people]
    #[arg(short, long, value_enum)]
    pub output: Option<WhyOutput>,
    #[command(flatten)]
    pub host: HostArgs,
}

/// The output format of `operetta why`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhyOutput {
    /// The host's answer.
    Json,
    /// A sequence diagram as Mermaid text.
    Mermaid,
}
