//! One file or folder per command.

pub mod adopt;
pub mod build;
pub mod bundle;
pub mod check;
pub mod completion;
pub mod component;
pub mod dev;
pub mod explain;
pub mod generate;
pub mod grant;
mod host_address;
mod host_client;
mod host_response;
mod host_service;
pub mod informers;
pub mod install;
pub mod logs;
pub mod manual;
pub mod names;
pub mod new;
mod objects;
mod output_file;
mod packed;
pub mod rbac;
pub mod retry;
mod roles;
mod snapshot_record;
mod tab_writer;
pub mod test;
pub mod top;
pub mod watch;
pub mod why;

pub use host_address::HostAddress;

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use operetta_host::terminal;

/// Writes text for people to stdout, with what a terminal would obey escaped.
fn print(text: &str) -> Result<()> {
    print_document(&terminal::lines(text))
}

/// Writes a document for programs (JSON, YAML, a script) to stdout as it is. A closed pipe, as
/// after `head`, is not an error.
fn print_document(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("failed to write to stdout")
        }
        _ => Ok(()),
    }
}
