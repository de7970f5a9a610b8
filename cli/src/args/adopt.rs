//! The arguments of `operetta adopt`.

use std::path::PathBuf;

use clap::Args;

use super::{BuildArgs, ProgramArgs, values};

#[derive(Args, Debug)]
#[command(disable_version_flag = true)]
pub struct AdoptArgs {
    /// The folder of the operator's Go module
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// The folder of a kustomization or a Helm chart, or a file or folder of YAML [default:
    /// DIR/config/default, or a chart in a usual place, or DIR/deploy, DIR/manifests or DIR/config]
    #[arg(long, value_name = "PATH")]
    pub manifests: Option<PathBuf>,
    /// A file with values for the chart; may be repeated
    #[arg(long, value_name = "FILE")]
    pub values: Vec<PathBuf>,
    /// A value for the chart, in the syntax of helm --set; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The name of the chart's release [default: the chart's name]
    #[arg(long, value_name = "NAME", value_parser = values::object_name)]
    pub release: Option<String>,
    /// The namespace of the chart's release, and of objects that name none [default: for charts,
    /// "default"]
    #[arg(short, long, value_parser = values::namespace)]
    pub namespace: Option<String>,
    /// Which Deployment or StatefulSet is the operator, if there are several
    #[arg(long, value_name = "NAME")]
    pub deployment: Option<String>,
    /// Which container is the operator, if its Pod has several
    #[arg(long, value_name = "NAME")]
    pub container: Option<String>,
    /// Print the operator's webhook configurations and conversions as well: the host serves no webhooks
    /// yet, and one that fails closed refuses every write of its kinds [default: they are left out,
    /// and kept for --unadopt]
    #[arg(long)]
    pub with_webhooks: bool,
    /// Write the component and the manifests to this folder [default: the component to DIR/build,
    /// the manifests to stdout]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print the manifests without building the component; the Plugin then has no digest
    #[arg(long)]
    pub no_build: bool,
    /// Only report what the operator needs, and whether the host has it
    #[arg(long, conflicts_with_all = ["output", "no_build"])]
    pub check: bool,
    /// Print what the Plugin in this file replaced: the Deployment, and the webhook configurations
    /// that were left out; `-` is stdin
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub unadopt: Option<PathBuf>,
    #[command(flatten)]
    pub program: ProgramArgs,
}

impl AdoptArgs {
    /// The arguments that build the operator into a file.
    pub fn build(&self, output: Option<PathBuf>) -> BuildArgs {
        BuildArgs {
            dir: self.dir.clone(),
            output,
            debug: false,
            no_snapshot: false,
            fast: true,
            process: true,
            program: self.program.clone(),
            compiler_args: Vec::new(),
        }
    }
}
