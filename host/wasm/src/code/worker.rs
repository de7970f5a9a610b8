//! Compiles in a child process with limits on memory and processor time. This is the parent's side;
//! `compiler/worker.rs` is the child's.
//!
//! The parent writes the component to the child's stdin and passes it a file as stdout. The child
//! reports failures on stderr.

use std::{
    fs::File,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{ExitStatus, Stdio},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
};

use super::{LARGE, Worker};
use crate::{LoadError, cut};

/// The limits of one compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerLimits {
    /// The maximum address space in bytes, on top of the program's own. Nearly all of it is memory.
    pub memory_bytes: u64,
    /// The maximum processor time of all threads together, in seconds.
    pub cpu_seconds: u64,
}

impl Default for WorkerLimits {
    fn default() -> Self {
        Self {
            memory_bytes: 2 << 30,
            cpu_seconds: 300,
        }
    }
}

/// The exit code for a component that does not compile.
pub(crate) const COMPONENT: u8 = 65;

/// The processor time in seconds for a component under [`LARGE`]. It is short because others of
/// this size queue behind it.
const SMALL_CPU_SECONDS: u64 = 60;

/// Keeps the allocator from starting a thread before the worker drops its privileges:
/// <https://jemalloc.net/jemalloc.3.html#opt.background_thread>.
const ALLOCATOR: (&str, &str) = ("_RJEM_MALLOC_CONF", "background_thread:false");

/// The worker's name in a list of processes.
const NAME: &str = "operetta-compiler";

/// How much of a worker's stderr is read, in bytes.
const MAX_STDERR: u64 = 16 * 1024;

impl Worker {
    /// The command to start the program with these limits, without the host's environment.
    fn command(&self, limits: &WorkerLimits) -> Command {
        let mut command = Command::new(&self.program);
        command
            // The program may be a path below /proc: meaningless in a list of processes.
            .arg0(NAME)
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

    /// Starts the program to check its sandbox, with these files as bait, and returns its
    /// description.
    ///
    /// # Errors
    /// Returns why the sandbox is not effective or cannot be set up.
    pub(super) async fn check_sandbox(&self, baits: &[PathBuf]) -> Result<String, String> {
        let check = self
            .command(&self.limits)
            .arg("--check-sandbox")
            .args(baits)
            .stdin(Stdio::null())
            .output();
        let output = check
            .await
            .map_err(|error| format!("failed to start the compile worker: {error}"))?;

        let text = |bytes: &[u8]| cut(String::from_utf8_lossy(bytes).trim().to_owned(), 4096);
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(format!(
                "the sandbox check ended with {}: {}",
                output.status,
                text(&output.stderr)
            )),
        }
    }

    /// Compiles a component into `output`.
    pub(super) async fn compile(
        &self,
        bytes: &[u8],
        is_process: bool,
        compatibility: &str,
        output: &File,
    ) -> Result<(), LoadError> {
        let busy = |error: std::io::Error| {
            LoadError::Busy(format!("failed to run the compile worker: {error}"))
        };

        let mut limits = match is_process {
            true => self.process_limits,
            false => self.limits,
        };
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
                // If the worker has already ended, its status has the reason.
                let _written = stdin.write_all(bytes).await;
            }
        };

        let read_stderr = async {
            let mut message = Vec::new();
            if let Some(mut stderr) = stderr {
                let _read = (&mut stderr)
                    .take(MAX_STDERR)
                    .read_to_end(&mut message)
                    .await;
                let _rest = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            }
            String::from_utf8_lossy(&message).trim().to_owned()
        };

        // Both at once: a worker blocked on a full stderr would not read its stdin.
        let ((), message) = tokio::join!(feed, read_stderr);
        let status = child.wait().await.map_err(busy)?;
        outcome(
            limits,
            memory_setting(is_process),
            status,
            message,
            bytes.len(),
        )
    }
}

/// The setting of the host's configuration that limits the memory of a compilation.
fn memory_setting(is_process: bool) -> &'static str {
    match is_process {
        true => "processCompileMemoryMiB",
        false => "compileMemoryMiB",
    }
}

fn outcome(
    limits: WorkerLimits,
    memory_setting: &'static str,
    status: ExitStatus,
    message: String,
    bytes: usize,
) -> Result<(), LoadError> {
    /// The out-of-memory messages of Rust, its thread pool, the allocator, the compiler and the
    /// operating system. The allocator repeats its own so often that other output is lost.
    const NO_MEMORY: [&str; 6] = [
        "memory allocation of",
        // wasmtime, where it handles the failure itself, and I/O errors of std.
        "out of memory",
        "Cannot allocate memory",
        "ThreadPoolBuildError",
        "failed to spawn thread",
        "background thread creation failed",
    ];
    // SIGABRT, SIGXCPU and SIGXFSZ.
    const ABORTED: i32 = 6;
    const OUT_OF_TIME: i32 = 24;
    const OUTPUT_TOO_LARGE: i32 = 25;

    if status.success() {
        return Ok(());
    }

    if NO_MEMORY.iter().any(|text| message.contains(text)) {
        return Err(LoadError::CompileMemoryExceeded {
            bytes,
            limit_bytes: limits.memory_bytes,
            setting: memory_setting,
        });
    }

    match (status.code(), status.signal()) {
        (Some(code), _) if code == i32::from(COMPONENT) => {
            Err(LoadError::CompileFailed(cut(message, 4096)))
        }
        (_, Some(OUTPUT_TOO_LARGE)) => Err(LoadError::CompileMemoryExceeded {
            bytes,
            limit_bytes: limits.memory_bytes,
            setting: memory_setting,
        }),
        (_, Some(OUT_OF_TIME)) => Err(LoadError::CompileTimedOut {
            bytes,
            limit_seconds: limits.cpu_seconds,
            is_fixed: bytes < LARGE && limits.cpu_seconds >= SMALL_CPU_SECONDS,
        }),
        // The compiler panicked, with Rust's exit code 101 or an abort. A retry would not help.
        (Some(101), _) | (_, Some(ABORTED)) => Err(LoadError::CompileFailed(format!(
            "the compiler failed: {}",
            cut(message, 4096)
        ))),
        _ => Err(LoadError::Busy(format!(
            "the compile worker ended with {status}: {}",
            cut(message, 4096)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_setting_of_the_limit_that_was_reached() {
        for (bytes, cpu_seconds, words) in [
            (10, SMALL_CPU_SECONDS, "60 s of processor time (the limit"),
            (
                10,
                30,
                "30 s of processor time (compileSeconds of the host)",
            ),
            (
                LARGE,
                60,
                "60 s of processor time (compileSeconds of the host)",
            ),
        ] {
            let limits = WorkerLimits {
                cpu_seconds,
                ..WorkerLimits::default()
            };
            // SIGXCPU.
            let status = ExitStatus::from_raw(24);
            let ended = outcome(limits, memory_setting(false), status, String::new(), bytes);
            let error = ended.expect_err("out of time").to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
