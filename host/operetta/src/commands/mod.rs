//! One file or folder per command.

pub mod build;
pub mod bundle;
pub mod check;
mod cluster_client;
pub mod compile_worker;
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
pub mod import;
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
pub mod run;
mod snapshot_record;
mod tab_writer;
pub mod test;
pub mod top;
pub mod watch;
pub mod why;

pub use host_address::HostAddress;

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use operetta_api::reasons::CodedError;

/// Prints an error to stderr in one line, which ends with its code if it has one.
pub fn print_error(error: &anyhow::Error) {
    eprintln!("error: {}", describe_with_code(error));
}

/// Describes an error with its code, if it has one.
fn describe_with_code(error: &anyhow::Error) -> String {
    let text = describe(error);
    match error.downcast_ref::<CodedError>() {
        Some(coded) => format!("{text} ({})", coded.reason),
        None => text,
    }
}

/// Writes to stdout. A closed pipe, as after `head`, is not an error.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("failed to write to stdout"),
        _ => Ok(()),
    }
}

/// Describes an error with its causes, each once: kube's errors repeat their cause in their own text.
fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn cause_that_is_repeated_is_described_once() {
        let error = anyhow!("no such file").context("failed to read a: no such file").context("failed to start");
        assert_eq!(describe(&error), "failed to start: failed to read a: no such file");
        assert_eq!(describe(&anyhow!("refused").context("failed to connect")), "failed to connect: refused");
    }
}
