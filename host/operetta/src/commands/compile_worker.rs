//! `operetta compile-worker`: compiles one component for the host that started it, within limits.

use std::process::ExitCode;

use operetta_wasm::{WorkerLimits, code};

use crate::args::CompileWorkerArgs;

/// Compiles stdin to stdout; errors go to stderr.
pub fn compile_worker(args: &CompileWorkerArgs) -> ExitCode {
    let limits = WorkerLimits { memory_bytes: args.memory_bytes, cpu_seconds: args.cpu_seconds };
    match code::compile_worker(&limits, &args.compatibility) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}
