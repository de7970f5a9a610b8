//! The `operetta-compiler` binary, which only `operetta-host` starts.

use std::process::ExitCode;

use clap::Parser;
use operetta_compiler::CompilerArgs;

/// Compilation allocates from many threads, for which musl's allocator is slow.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Compiles the component on stdin to stdout; operetta-host starts this process.
#[derive(Debug, Parser)]
#[command(name = "operetta-compiler", version)]
struct Compiler {
    #[command(flatten)]
    args: CompilerArgs,
}

fn main() -> ExitCode {
    operetta_compiler::run(&Compiler::parse().args)
}
