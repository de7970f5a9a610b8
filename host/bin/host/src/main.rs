//! The `operetta-host` binary: what the container image runs.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong usage.

use std::process::ExitCode;

use clap::Parser;
use operetta_host::{RunArgs, print_error};

/// Loading a plugin takes megabytes for a moment; glibc's allocator would keep most of them.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Runs the host, which runs the plugins of a cluster
///
/// Runs the host, which runs the plugins of a cluster, until SIGINT or SIGTERM. It then waits for
/// the reconciles in flight: 20 s at most, or shutdownSeconds of the configuration. The program
/// operetta-compiler must be in the same folder.
#[derive(Debug, Parser)]
#[command(name = "operetta-host", version)]
struct Host {
    #[command(flatten)]
    args: RunArgs,
}

fn main() -> ExitCode {
    let args = Host::parse().args;
    match operetta_host::compiler_beside() {
        Ok(compiler) => operetta_host::main(args, compiler),
        Err(error) => {
            print_error(&error);
            ExitCode::FAILURE
        }
    }
}
