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
    /// The manifests: the folder of a kustomization or a Helm chart, or a file or folder of YAML
    /// [default: DIR/config/default, a chart in a usual place, or DIR/deploy, manifests or config]
    #[arg(long, value_name = "PATH")]
    pub manifests: Option<PathBuf>,
    /// A file with values of the chart; may be repeated
    #[arg(long, value_name = "FILE")]
    pub values: Vec<PathBuf>,
    /// A value of the chart, as helm --set takes it; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The name of the chart's release [default: the chart's name]
    #[arg(long, value_name = "NAME", value_parser = values::object_name)]
    pub release: Option<String>,
    /// The namespace of the chart's release, and of objects that name none [default: for charts,
    /// "default"]
    #[arg(short, long, value_parser = values::namespace)]
    pub namespace: Option<String>,
    /// The Deployment or StatefulSet that is the operator, if there are several
    #[arg(long, value_name = "NAME")]
    pub deployment: Option<String>,
    /// The container that is the operator, if its Pod has several
    #[arg(long, value_name = "NAME")]
    pub container: Option<String>,
    /// Print the operator's webhook configurations as well: the host serves no webhooks yet, and one
    /// that fails closed refuses every write of its kinds [default: they are left out, and kept for
    /// --unadopt]
    #[arg(long)]
    pub with_webhooks: bool,
    /// Write the component and the manifests to this folder [default: the component to DIR/build,
    /// the manifests to stdout]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print the manifests without building; the Plugin then has no digest
    #[arg(long)]
    pub no_build: bool,
    /// Only report what the operator needs, and what of it works
    #[arg(long, conflicts_with_all = ["output", "no_build"])]
    pub check: bool,
    /// Print back the Deployment that the Plugin in this file has replaced, and the webhook
    /// configurations that were left out; `-` is stdin
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub unadopt: Option<PathBuf>,
    #[command(flatten)]
    pub program: ProgramArgs,
}

impl AdoptArgs {
    /// The arguments of the operator's build, to a file.
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
