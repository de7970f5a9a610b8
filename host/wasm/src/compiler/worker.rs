//! The compile worker: compiles one component for the host that started it. `code/worker.rs` is the
//! parent's side.
//!
//! Before the worker reads a byte that a plugin's author wrote, it limits itself, becomes another
//! user ([`super::privileges`]) and confines itself ([`super::sandbox`]). Its processor time is
//! limited, so it ends even if its parent has died.

use std::{
    io::{Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::process::{DumpableBehavior, Resource, Rlimit};

use super::{
    bulk, priority,
    privileges::{self, User},
    sandbox,
};
use crate::{
    EngineConfig,
    code::{WorkerLimits, compatibility::compatibility, worker::COMPONENT},
    engine,
};

/// Why a worker compiled nothing. [`WorkerError::exit_code`] tells the parent the variant.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The component does not compile. Its author must change it.
    #[error("{0}")]
    Component(String),
    /// The host failed. Another try may succeed.
    #[error("{0}")]
    Host(String),
}

impl WorkerError {
    /// Returns the exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Component(_) => COMPONENT,
            Self::Host(_) => HOST,
        }
    }
}

/// The exit code of [`WorkerError::Host`].
const HOST: u8 = 70;

/// The stack of the compiling thread, in bytes.
const STACK_BYTES: usize = 8 << 20;

/// Runs a worker process: compiles the component on stdin to stdout, for an engine with the
/// compatibility hash `expected`.
///
/// # Errors
/// Returns a [`WorkerError`] if the component does not compile or the host fails. A signal ends a
/// worker that exceeds its limits.
pub fn compile_worker(limits: &WorkerLimits, expected: &str) -> Result<(), WorkerError> {
    let host = |error: &dyn std::fmt::Display| WorkerError::Host(error.to_string());
    let _user = restrict(limits)?;

    let config = EngineConfig::default();
    let engine = engine::on_demand(&config).map_err(|error| host(&error))?;
    if compatibility(config.optimize) != expected {
        return Err(WorkerError::Host(
            "this program is not of the same version as the one that started it".to_owned(),
        ));
    }

    // From here on the process can only compute.
    sandbox::confine().map_err(|error| host(&error))?;

    let mut component = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut component)
        .map_err(|error| host(&error))?;

    // The stack of the first thread grows as it is used, which ends in a SIGSEGV when memory runs
    // out. A spawned thread has its stack reserved.
    let compile = || {
        bulk::compiled(&component, |component| {
            engine.precompile_component(component)
        })
    };
    let artefact = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, compile);
        thread.map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    });
    let artefact = artefact
        .map_err(|error| WorkerError::Host(format!("failed to spawn thread: {error}")))?
        .map_err(|error| WorkerError::Component(format!("{error:#}")))?;

    std::io::stdout()
        .lock()
        .write_all(&artefact)
        .map_err(|error| host(&error))
}

/// Confines this process like [`compile_worker`] and tries to break out, with these files as bait.
/// Returns the description of the sandbox.
///
/// # Errors
/// Returns [`WorkerError::Host`] with what was still possible.
pub fn check_worker(limits: &WorkerLimits, baits: &[PathBuf]) -> Result<String, WorkerError> {
    let host = |error: &dyn std::fmt::Display| WorkerError::Host(error.to_string());
    let parent = rustix::process::getppid();
    let private: Vec<PathBuf> = baits
        .iter()
        .filter(|bait| is_private(bait))
        .cloned()
        .collect();

    let user = restrict(limits)?;
    // Another user cannot do these things even without the sandbox, which is applied below.
    let mut possible = match user {
        User::Own(_) => [
            sandbox::break_into_host(&private, parent),
            privileges::regain(),
        ]
        .concat(),
        User::Shared(..) => Vec::new(),
    };

    let description = sandbox::confine().map_err(|error| host(&error))?;
    possible.extend(sandbox::break_out(baits, parent));

    if possible.is_empty() {
        return Ok(format!("{description}, {user}"));
    }

    let possible = possible.join(", ");
    Err(WorkerError::Host(format!(
        "the sandbox of the compile worker is not effective: the worker could {possible}"
    )))
}

/// Limits this process and drops its privileges.
fn restrict(limits: &WorkerLimits) -> Result<User, WorkerError> {
    limit(limits).map_err(|error| WorkerError::Host(error.to_string()))?;
    let user =
        privileges::drop_for_worker().map_err(|error| WorkerError::Host(error.to_string()))?;

    // Neither a core dump nor another process of this user may read the memory. A change of users
    // resets this.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| WorkerError::Host(error.to_string()))?;
    Ok(user)
}

/// Whether only its owner may open a file.
fn is_private(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|metadata| metadata.mode() & 0o077 == 0)
}

fn limit(limits: &WorkerLimits) -> std::io::Result<()> {
    priority::lower()?;

    let set = |resource, soft, hard| {
        rustix::process::setrlimit(
            resource,
            Rlimit {
                current: Some(soft),
                maximum: Some(hard),
            },
        )
    };

    let address_space = own_address_space()?.saturating_add(limits.memory_bytes);
    set(Resource::As, address_space, address_space)?;
    set(
        Resource::Cpu,
        limits.cpu_seconds,
        limits.cpu_seconds.saturating_add(5),
    )?;
    set(Resource::Core, 0, 0)?;
    // The output is a file in memory.
    set(Resource::Fsize, limits.memory_bytes, limits.memory_bytes)?;
    Ok(())
}

/// In bytes.
fn own_address_space() -> std::io::Result<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = pages
        .split(' ')
        .next()
        .and_then(|pages| pages.parse().ok())
        .unwrap_or_default();
    Ok(pages.saturating_mul(rustix::param::page_size() as u64))
}
