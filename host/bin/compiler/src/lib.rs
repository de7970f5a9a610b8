//! The compile worker: compiles one component for the host that started it, within limits and a
//! sandbox. `operetta-host` starts the program `operetta-compiler`; `operetta run` starts itself,
//! with a hidden command.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use operetta_wasm::{WorkerLimits, compiler};

/// The arguments that a host passes to its compile worker.
#[derive(Args, Debug)]
pub struct CompilerArgs {
    /// The limit on memory, in bytes
    #[arg(long)]
    pub memory_bytes: u64,
    /// The limit on processor time, in seconds
    #[arg(long)]
    pub cpu_seconds: u64,
    /// The hash of the engine settings that the code must match
    #[arg(long, default_value_t)]
    pub compatibility: String,
    /// Compile nothing: try to leave the sandbox, with these files as bait, and print its
    /// description if that fails
    #[arg(long, num_args = 0.., value_name = "FILE")]
    pub check_sandbox: Option<Vec<PathBuf>>,
}

/// Compiles stdin to stdout, or checks the sandbox; errors go to stderr. Call it before anything
/// starts a thread: the worker gives up its privileges only as long as it has one.
pub fn run(args: &CompilerArgs) -> ExitCode {
    let limits = WorkerLimits {
        memory_bytes: args.memory_bytes,
        cpu_seconds: args.cpu_seconds,
    };
    let done = match &args.check_sandbox {
        Some(baits) => {
            compiler::check_worker(&limits, baits).map(|description| println!("{description}"))
        }
        None => compiler::compile_worker(&limits, &args.compatibility),
    };

    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}
