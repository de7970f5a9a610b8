//! One file or folder per command.

pub mod build;
pub mod bundle;
pub mod check;
mod cluster_client;
pub mod compile_worker;
pub mod completion;
pub mod component;
pub mod explain;
pub mod generate;
pub mod grant;
mod host_address;
mod host_client;
pub mod informers;
pub mod logs;
pub mod names;
pub mod new;
mod output_file;
pub mod rbac;
mod roles;
pub mod run;
mod snapshot_record;
mod tab_writer;
pub mod watch;

pub use host_address::HostAddress;

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use operetta_api::reasons::CodedError;

/// Prints an error to stderr in one line, which ends with its code if it has one.
pub fn print_error(error: &anyhow::Error) {
    match error.downcast_ref::<CodedError>() {
        Some(coded) => eprintln!("error: {error:#} ({})", coded.reason),
        None => eprintln!("error: {error:#}"),
    }
}

/// Writes to stdout. A closed pipe, as after `head`, is not an error.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("failed to write to stdout"),
        _ => Ok(()),
    }
}
