//! The arguments of `operetta dev`.

use std::path::PathBuf;

use clap::Args;

use super::{ClusterArgs, values};

#[derive(Args, Debug)]
#[command(disable_version_flag = true)]
pub struct DevArgs {
    /// The project's folder
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// The folder of crd.yaml, rbac.yaml and object.yaml [default: DIR]
    #[arg(long, value_name = "DIR")]
    pub manifests: Option<PathBuf>,
    /// The namespace of the plugin and the sample object
    #[arg(short, long, default_value = "default", value_parser = values::namespace)]
    pub namespace: String,
    /// The port of the API server on 127.0.0.1 [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub port: u16,
    /// The file that keeps the objects from one run to the next [default: none]
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Use this kubeconfig context's cluster instead of an API server in this process
    #[arg(long, value_name = "NAME", conflicts_with_all = ["port", "data"])]
    pub context: Option<String>,
    /// Use this kubeconfig's cluster; the variable KUBECONFIG alone selects none
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "data"])]
    pub kubeconfig: Option<PathBuf>,
    /// With --context or --kubeconfig, take over fields of the project's objects that others have
    /// set
    #[arg(long)]
    pub force_conflicts: bool,
    /// Arguments for the language's compiler
    #[arg(last = true, value_name = "COMPILER ARGUMENTS")]
    pub compiler_args: Vec<String>,
}

impl DevArgs {
    /// The kubeconfig's cluster to use; None for an API server in this process.
    pub fn cluster(&self) -> Option<ClusterArgs> {
        let selected = self.context.is_some() || self.kubeconfig.is_some();
        selected.then(|| ClusterArgs {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        })
    }
}
