//! The host as a program: flags, log, privileges and runtime around
//! [`Manager`](operetta_manager::manager::Manager). `operetta-host` and `operetta run` are both
//! [`main`], and differ in the [`Compiler`] that they pass.

mod args;
pub mod cluster;
mod compiler;
mod confine;
mod error;
mod logging;
mod privileges;
mod run;
pub mod terminal;

use std::process::ExitCode;

use anyhow::Result;

pub use args::{ClusterArgs, RunArgs};
pub use compiler::compiler_beside;
pub use error::{describe, describe_with_code, print_error};
pub use operetta_manager::config::Compiler;

/// Runs the host until a signal ends it. Call it before anything else allocates much memory or
/// starts threads: the host gives up its privileges and confines itself first, and may execute the
/// program again for that.
pub fn main(args: RunArgs, compiler: Compiler) -> ExitCode {
    logging::start();
    privileges::drop_for_host();
    let confinement = match confine::confine_host(&args, &compiler) {
        Ok(confinement) => confinement,
        Err(error) => {
            print_error(&error);
            return ExitCode::FAILURE;
        }
    };
    block_on(async {
        run::run(args, compiler, confinement)
            .await
            .map(|()| ExitCode::SUCCESS)
    })
}

/// Runs a future to its end in the runtime that a host needs, and prints its error.
pub fn block_on(work: impl Future<Output = Result<ExitCode>>) -> ExitCode {
    // The runtime checks timers, sockets and wake-ups from other threads after each poll: see
    // operetta_scheduler.
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

    match runtime.block_on(work) {
        Ok(code) => code,
        Err(error) => {
            print_error(&error);
            // Reconciles in flight may be polled by threads outside of the runtime. They end with
            // the process; in a runtime that shuts down they would panic.
            std::mem::forget(runtime);
            ExitCode::FAILURE
        }
    }
}
