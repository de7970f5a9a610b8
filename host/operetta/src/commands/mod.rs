//! One file or folder per command.

pub mod build;
pub mod bundle;
pub mod check;
pub mod compile_worker;
pub mod completion;
pub mod component;
pub mod generate;
pub mod grant;
mod host_address;
mod host_client;
pub mod informers;
pub mod install;
pub mod logs;
pub mod manual;
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

/// Writes to stdout. A closed pipe, as after `head`, is not an error.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("failed to write to stdout"),
        _ => Ok(()),
    }
}
