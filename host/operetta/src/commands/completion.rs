//! `operetta completion SHELL`: the script that makes a shell complete the command line.

use anyhow::{Context, Result};
use clap::CommandFactory;

use super::print;
use crate::args::{Cli, CompletionArgs};

/// Prints the script.
pub fn completion(args: &CompletionArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "operetta", &mut script);
    print(&String::from_utf8(script).context("the script is no text")?)
}
