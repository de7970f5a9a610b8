//! Compiles in a child process, which is this program with limits on memory and processor time.
//!
//! The parent writes the component to the child's stdin and passes it a file as stdout. The child writes the reason of a
//! failure to stderr. Before it reads a byte that a plugin's author wrote, it limits itself, becomes another user
//! ([`super::privileges`]) and confines itself ([`super::sandbox`]). Its processor time is limited, so it also ends after its
//! parent has died.

use std::{
    fs::File,
    io::{Read, Write},
    os::unix::{fs::MetadataExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use rustix::process::{DumpableBehavior, Resource, Rlimit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
};

use super::{
    LARGE, Worker, bulk, compatibility, priority,
    privileges::{self, User},
    sandbox,
};
use crate::{LoadError, cut, engine};

/// The limits of one compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerLimits {
    /// The maximum address space beyond that of the program itself, in bytes. Nearly all of it is memory.
    pub memory_bytes: u64,
    /// The maximum processor time of all threads together, in seconds.
    pub cpu_seconds: u64,
}

impl Default for WorkerLimits {
    fn default() -> Self {
        Self { memory_bytes: 2 << 30, cpu_seconds: 300 }
    }
}

/// The reason why a worker compiled nothing. [`WorkerError::exit_code`] tells the parent the variant.
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

/// The exit code of [`WorkerError::Component`].
const COMPONENT: u8 = 65;
/// The exit code of [`WorkerError::Host`].
const HOST: u8 = 70;

/// The processor time in seconds for a component under [`LARGE`]. Others of its size wait for it.
const SMALL_CPU_SECONDS: u64 = 60;

/// The variable, and its value, that keeps the allocator (jemalloc) from starting a thread before the worker drops its
/// privileges.
const ALLOCATOR: (&str, &str) = ("_RJEM_MALLOC_CONF", "background_thread:false");

/// The stack of the thread that compiles, in bytes.
const STACK_BYTES: usize = 8 << 20;

/// The number of bytes of a worker's stderr that are read.
const MAX_STDERR: u64 = 16 * 1024;

/// Runs a worker process: compiles the component on stdin to stdout, for an engine whose settings have this hash.
///
/// # Errors
/// Returns a [`WorkerError`] if the component does not compile or the host fails. A signal ends a worker that exceeds
/// its limits.
pub fn compile_worker(limits: &WorkerLimits, expected: &str) -> Result<(), WorkerError> {
    let host = |error: &dyn std::fmt::Display| WorkerError::Host(error.to_string());
    let _user = restrict(limits)?;
    let engine = engine::compiler().map_err(|error| host(&error))?;
    if compatibility(&engine) != expected {
        return Err(WorkerError::Host("this program is not of the same version as the one that started it".to_owned()));
    }
    sandbox::confine().map_err(|error| host(&error))?;
    let mut component = Vec::new();
    std::io::stdin().lock().read_to_end(&mut component).map_err(|error| host(&error))?;
    // The stack of the first thread grows as it is used: at the limit of memory that is a SIGSEGV. A thread's is reserved.
    let compile = || bulk::compiled(&component, |component| engine.precompile_component(component));
    let artefact = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, compile);
        thread.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let artefact = artefact
        .map_err(|error| WorkerError::Host(format!("failed to spawn thread: {error}")))?
        .map_err(|error| WorkerError::Component(format!("{error:#}")))?;
    std::io::stdout().lock().write_all(&artefact).map_err(|error| host(&error))
}

/// Confines this process as [`compile_worker`] does and tries to break out, with these files as bait. Returns the
/// description of the sandbox.
///
/// # Errors
/// Returns [`WorkerError::Host`] with what was still possible.
pub fn check_worker(limits: &WorkerLimits, baits: &[PathBuf]) -> Result<String, WorkerError> {
    let host = |error: &dyn std::fmt::Display| WorkerError::Host(error.to_string());
    let parent = rustix::process::getppid();
    let private: Vec<PathBuf> = baits.iter().filter(|bait| is_private(bait)).cloned().collect();
    let user = restrict(limits)?;
    // Another user cannot do these things even without the sandbox, which the next line applies.
    let mut possible = match user {
        User::Own(_) => [sandbox::break_into_host(&private, parent), privileges::regain()].concat(),
        User::Shared(..) => Vec::new(),
    };
    let description = sandbox::confine().map_err(|error| host(&error))?;
    possible.extend(sandbox::break_out(baits, parent));
    if possible.is_empty() {
        return Ok(format!("{description}, {user}"));
    }
    let possible = possible.join(", ");
    Err(WorkerError::Host(format!("the sandbox of the compile worker is not effective: the worker could {possible}")))
}

/// Limits this process and drops its privileges.
fn restrict(limits: &WorkerLimits) -> Result<User, WorkerError> {
    limit(limits).map_err(|error| WorkerError::Host(error.to_string()))?;
    let user = privileges::drop_for_worker().map_err(|error| WorkerError::Host(error.to_string()))?;
    // Neither a core dump nor another process of this user may read the memory. The change of users resets it.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| WorkerError::Host(error.to_string()))?;
    Ok(user)
}

/// Reports whether the permissions of a file let only its owner open it.
fn is_private(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|metadata| metadata.mode() & 0o077 == 0)
}

fn limit(limits: &WorkerLimits) -> std::io::Result<()> {
    priority::lower()?;
    let set = |resource, soft, hard| {
        rustix::process::setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) })
    };
    let address_space = own_address_space()?.saturating_add(limits.memory_bytes);
    set(Resource::As, address_space, address_space)?;
    set(Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds.saturating_add(5))?;
    set(Resource::Core, 0, 0)?;
    // The output is a file in memory.
    set(Resource::Fsize, limits.memory_bytes, limits.memory_bytes)?;
    Ok(())
}

/// Returns the address space of this process in bytes.
fn own_address_space() -> std::io::Result<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = pages.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or_default();
    Ok(pages.saturating_mul(rustix::param::page_size() as u64))
}

impl Worker {
    /// Returns the command that starts the program with these limits, without the host's environment.
    fn command(&self, limits: &WorkerLimits) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .args(["--memory-bytes", &limits.memory_bytes.to_string()])
            .args(["--cpu-seconds", &limits.cpu_seconds.to_string()])
            // The environment may have credentials of the host, and the worker needs none.
            .env_clear()
            .env("RUST_BACKTRACE", "0")
            .env(ALLOCATOR.0, ALLOCATOR.1);
        // A confined process cannot read the number of processors of its control group.
        if let Ok(processors) = std::thread::available_parallelism() {
            command.env("RAYON_NUM_THREADS", processors.to_string());
        }
        command
    }

    /// Starts the program to check its sandbox, with these files as bait. Returns the description of the sandbox.
    ///
    /// # Errors
    /// Returns the reason why the sandbox is not effective or cannot be set up.
    pub(super) async fn check_sandbox(&self, baits: &[PathBuf]) -> Result<String, String> {
        let check = self.command(&self.limits).arg("--check-sandbox").args(baits).stdin(Stdio::null()).output();
        let output = check.await.map_err(|error| format!("failed to start the compile worker: {error}"))?;
        let text = |bytes: &[u8]| cut(String::from_utf8_lossy(bytes).trim().to_owned(), 4096);
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(format!("the sandbox check ended with {}: {}", output.status, text(&output.stderr))),
        }
    }

    /// Compiles a component into a file.
    ///
    /// # Errors
    /// Returns a [`LoadError`] if the component does not compile within the limits, or the worker fails.
    pub(super) async fn compile(&self, bytes: &[u8], compatibility: &str, output: &File) -> Result<(), LoadError> {
        let busy = |error: std::io::Error| LoadError::Busy(format!("failed to run the compile worker: {error}"));
        let mut limits = self.limits;
        if bytes.len() < LARGE {
            limits.cpu_seconds = limits.cpu_seconds.min(SMALL_CPU_SECONDS);
        }
        let mut child = self
            .command(&limits)
            .args(["--compatibility", compatibility])
            .stdin(Stdio::piped())
            .stdout(Stdio::from(output.try_clone().map_err(busy)?))
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(busy)?;
        let stdin = child.stdin.take();
        let stderr = child.stderr.take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // The worker may have ended already. Its status then has the reason.
                let _written = stdin.write_all(bytes).await;
            }
        };
        let read_stderr = async {
            let mut message = Vec::new();
            if let Some(mut stderr) = stderr {
                let _read = (&mut stderr).take(MAX_STDERR).read_to_end(&mut message).await;
                let _rest = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            }
            String::from_utf8_lossy(&message).trim().to_owned()
        };
        let ((), message) = tokio::join!(feed, read_stderr);
        let status = child.wait().await.map_err(busy)?;
        outcome(limits, status, message, bytes.len())
    }
}

fn outcome(limits: WorkerLimits, status: ExitStatus, message: String, bytes: usize) -> Result<(), LoadError> {
    /// The messages of Rust, its thread pool, the allocator, the compiler and the operating system for a lack of
    /// memory. The allocator repeats its message so often that other output is lost.
    const NO_MEMORY: [&str; 6] = [
        "memory allocation of",
        // wasmtime, where it handles the failure itself, and std's I/O errors.
        "out of memory",
        "Cannot allocate memory",
        "ThreadPoolBuildError",
        "failed to spawn thread",
        "background thread creation failed",
    ];
    const ABORTED: i32 = 6;
    const OUT_OF_TIME: i32 = 24;
    const OUTPUT_TOO_LARGE: i32 = 25;
    if status.success() {
        return Ok(());
    }
    if NO_MEMORY.iter().any(|text| message.contains(text)) {
        return Err(LoadError::CompileMemoryExceeded { bytes, limit_bytes: limits.memory_bytes });
    }
    match (status.code(), status.signal()) {
        (Some(code), _) if code == i32::from(COMPONENT) => Err(LoadError::CompileFailed(cut(message, 4096))),
        (_, Some(OUTPUT_TOO_LARGE)) => {
            Err(LoadError::CompileMemoryExceeded { bytes, limit_bytes: limits.memory_bytes })
        }
        (_, Some(OUT_OF_TIME)) => Err(LoadError::CompileTimedOut { bytes, limit_seconds: limits.cpu_seconds }),
        // The compiler panicked. A retry would not help.
        (Some(101), _) | (_, Some(ABORTED)) => {
            Err(LoadError::CompileFailed(format!("the compiler failed: {}", cut(message, 4096))))
        }
        _ => Err(LoadError::Busy(format!("the compile worker ended with {status}: {}", cut(message, 4096)))),
    }
}
