//! The arguments of `operetta retry`.

use clap::Args;

use super::{PluginArgs, values};

#[derive(Args, Debug)]
pub struct RetryArgs {
    #[command(flatten)]
    pub plugin: PluginArgs,
    /// The objects to reconcile now, NAMESPACE/NAME or NAME [default: all whose last reconcile
    /// failed]
    #[arg(value_name = "KEY", value_parser = values::key)]
    pub keys: Vec<String>,
}
