//! The `operetta` binary: the host, and the commands around it.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong usage. `rbac --diff` has the exit codes of `kubectl diff`, `test` those of
//! the language's test runner.

mod args;
mod commands;
mod examples;
mod logging;
mod privileges;
#[cfg(test)]
mod reference;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::args::{Cli, Command};

/// Compiling a plugin needs tens of megabytes for a second; glibc's allocator would keep most of them.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // These run before anything else allocates much memory or starts threads.
    match &cli.command {
        Command::CompileWorker(args) => return commands::compile_worker::compile_worker(args),
        Command::Run(_) => {
            logging::start();
            privileges::drop_for_host();
        }
        _ => {}
    }
    // The runtime checks timers, sockets and wake-ups from other threads after each poll: see operetta_scheduler.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime
        .worker_threads(operetta_manager::poll_slots())
        .event_interval(1)
        .global_queue_interval(1)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: failed to start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(run(cli.command));
    match done {
        Ok(code) => code,
        Err(error) => {
            commands::print_error(&error);
            // Reconciles in flight may be polled by threads outside of the runtime. They end with the process; in a runtime
            // that shuts down they would panic.
            std::mem::forget(runtime);
            ExitCode::FAILURE
        }
    }
}

/// Runs a command. Returns its exit code.
async fn run(command: Command) -> Result<ExitCode> {
    let done = match command {
        Command::Run(args) => commands::run::run(args).await,
        Command::Install(args) => commands::install::install(&args).await,
        Command::Uninstall(args) => commands::install::uninstall(&args).await,
        Command::Check(args) => commands::check::check(args).await,
        Command::Bundle(args) => commands::bundle::bundle(&args),
        Command::Component(args) => commands::component::component(&args).await,
        Command::New(args) => commands::new::new(&args),
        Command::Import(args) => commands::import::import(&args),
        Command::Dev(args) => commands::dev::dev(&args).await,
        Command::Test(args) => return commands::test::test(&args).await,
        Command::Build(args) => commands::build::build(&args).await,
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
        Command::CompileWorker(_) => unreachable!("returned above"),
    };
    done.map(|()| ExitCode::SUCCESS)
}
