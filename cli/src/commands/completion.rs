//! `operetta completion SHELL`: prints the completion script of a shell.

use anyhow::{Context, Result};
use clap::CommandFactory;

use super::print_document;
use crate::args::{Cli, CompletionArgs};

/// Prints the script.
///
/// # Errors
/// Returns an error if stdout cannot be written.
pub fn completion(args: &CompletionArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "operetta", &mut script);
    print_document(&String::from_utf8(script).context("the script is not UTF-8")?)
}
