//! `operetta compile-worker`: compiles one component for the host that started it, within limits and a sandbox.

use std::process::ExitCode;

use operetta_wasm::{WorkerLimits, code};

use crate::args::CompileWorkerArgs;

/// Compiles stdin to stdout, or checks the sandbox; errors go to stderr.
pub fn compile_worker(args: &CompileWorkerArgs) -> ExitCode {
    let limits = WorkerLimits { memory_bytes: args.memory_bytes, cpu_seconds: args.cpu_seconds };
    let done = match &args.check_sandbox {
        Some(baits) => code::check_worker(&limits, baits).map(|description| println!("{description}")),
        None => code::compile_worker(&limits, &args.compatibility),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}
