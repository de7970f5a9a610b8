//! The arguments of `operetta dev`.

use std::path::PathBuf;

use clap::Args;

use super::values;

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
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// The file that keeps the objects from one run to the next [default: none]
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
}
