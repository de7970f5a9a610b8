//! The `operetta` binary: the host, and the commands around it.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong usage. `rbac --diff` has the exit codes of `kubectl
//! diff`, `test` those of the language's test runner.

mod args;
mod commands;
mod examples;
#[cfg(test)]
mod reference;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use operetta_host::Compiler;

use crate::args::{Cli, Command};

/// Compiling a plugin needs tens of megabytes for a second; glibc's allocator would keep most of
/// them.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        // These two run before anything else allocates much memory or starts threads.
        Command::CompileWorker(args) => operetta_compiler::run(&args),
        Command::Run(args) => operetta_host::main(args, Compiler::this_program()),
        command => operetta_host::block_on(run(command)),
    }
}

/// Runs a command. Returns its exit code.
async fn run(command: Command) -> Result<ExitCode> {
    let done = match command {
        Command::Install(args) => commands::install::install(&args).await,
        Command::Uninstall(args) => commands::install::uninstall(&args).await,
        Command::Check(args) => commands::check::check(args).await,
        Command::Bundle(args) => commands::bundle::bundle(&args),
        Command::Component(args) => commands::component::component(&args).await,
        Command::New(args) => commands::new::new(&args),
        Command::Dev(args) => commands::dev::dev(&args).await,
        Command::Test(args) => return commands::test::test(&args).await,
        Command::Build(args) => commands::build::build(&args).await,
        Command::Adopt(args) => commands::adopt::adopt(&args).await,
        Command::Generate(args) => commands::generate::generate(args).await,
        Command::Explain(args) => commands::explain::explain(&args),
        Command::Completion(args) => commands::completion::completion(&args),
        Command::Manual(args) => commands::manual::manual(&args),
        Command::Logs(args) => commands::logs::logs(args).await,
        Command::Retry(args) => commands::retry::retry(args).await,
        Command::Why(args) => commands::why::why(args).await,
        Command::Rbac(args) => return commands::rbac::rbac(&args).await,
        Command::Grant(args) => commands::grant::grant(&args).await,
        Command::Top(args) => commands::top::top(args).await,
        Command::Watch(args) => commands::watch::watch(args).await,
        Command::Informers(args) => commands::informers::informers(args).await,
        Command::Run(_) | Command::CompileWorker(_) => unreachable!("`main` runs them"),
    };
    done.map(|()| ExitCode::SUCCESS)
}
