//! How a process ends.

use std::{fmt, time::Duration};

use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::state::Life;
use crate::{
    call::trap_text,
    cut,
    store::{long_run, trap_message::TrapMessage},
};

/// The longest message of an exit, in bytes.
const MAX_MESSAGE: usize = 4096;

/// Why a process ended, in the words of a container's status where it has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// It ended with code 0.
    Completed,
    /// It ended with another code.
    Error,
    /// It was refused memory, and ended.
    OutOfMemory,
    /// WebAssembly trapped: a bug of the program or its compiler, or a stack overflow.
    Trap,
    /// It ran for too long without waiting.
    Unresponsive,
    /// [`Process::kill`](super::Process::kill) ended it, or the host stopped polling it.
    Killed,
    /// It could not start. The host may try again.
    StartError,
}

impl ExitReason {
    /// The name, as in a container's `state.terminated.reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "Completed",
            // A container that was killed has this reason, too, and code 137.
            Self::Error | Self::Killed => "Error",
            Self::OutOfMemory => "OOMKilled",
            Self::Trap => "Trap",
            Self::Unresponsive => "Unresponsive",
            Self::StartError => "StartError",
        }
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The reason.
    pub reason: ExitReason,
    /// The exit code. If the process did not choose it, that of a container: 128 plus the signal
    /// that would have ended it.
    pub code: i32,
    /// What explains it, at most 4096 bytes: the sentence with which the program's runtime
    /// announced its crash, its last line on stderr or else stdout, or the functions on its stack. May
    /// be empty.
    pub message: String,
}

/// The codes of containers that ended by SIGABRT and SIGKILL, or did not start.
const ABORTED: i32 = 134;
const KILLED: i32 = 137;
const NOT_STARTED: i32 = 128;

impl Exit {
    fn new(reason: ExitReason, code: i32, message: impl Into<String>) -> Self {
        Self {
            reason,
            code,
            message: cut(message.into(), MAX_MESSAGE),
        }
    }

    pub(super) fn killed(message: &str) -> Self {
        Self::new(ExitReason::Killed, KILLED, message)
    }

    /// The exit of a process that could not start.
    pub fn not_started(message: impl Into<String>) -> Self {
        Self::new(ExitReason::StartError, NOT_STARTED, message)
    }

    /// The exit of a guest that returned, exited or trapped.
    pub(super) fn of(life: &Life, outcome: Result<(), wasmtime::Error>) -> Self {
        let printed = {
            let mut output = life.output.lock();
            output.end();
            match output.lines.take_message() {
                Some(TrapMessage::Reason(text) | TrapMessage::LastLine(text)) => text,
                None => std::mem::take(&mut output.last),
            }
        };

        let error = match outcome {
            Ok(()) => return Self::new(ExitReason::Completed, 0, ""),
            Err(error) => error,
        };
        let code = error.downcast_ref().map(|I32Exit(code)| *code);
        if code == Some(0) {
            return Self::new(ExitReason::Completed, 0, "");
        }

        if error.is::<PoolConcurrencyLimitError>() {
            return Self::not_started(format!("the host has no free instance slot: {error:#}"));
        }
        if let Some(unresponsive) = error.downcast_ref::<Unresponsive>() {
            return Self::new(ExitReason::Unresponsive, KILLED, unresponsive.to_string());
        }

        // Go's runtime asks for memory, prints that there is none, and exits with 2. The exit code
        // alone would not tell.
        let refused = match life.limiter.no_room() {
            Some(no_room) => Some(no_room.to_string()),
            None if life.limiter.refused() => Some(format!(
                "the memory limit of {} MiB was reached",
                life.limiter.limit_bytes() >> 20
            )),
            None => None,
        };
        if let Some(refused) = refused {
            let message = [refused, printed].join(": ");
            let message = message.trim_end_matches(": ");
            return Self::new(ExitReason::OutOfMemory, KILLED, message);
        }

        match code {
            Some(code) => Self::new(ExitReason::Error, code, printed),
            None => Self::new(ExitReason::Trap, ABORTED, trap(&error, &printed)),
        }
    }
}

/// Describes a trap: what the program said, what trapped, and where.
fn trap(error: &wasmtime::Error, printed: &str) -> String {
    let what = match error.downcast_ref::<Trap>() {
        Some(trap) => trap_text(*trap),
        None => error.root_cause().to_string(),
    };
    let mut text = match printed {
        "" => what,
        printed => format!("{printed} ({what})"),
    };
    if let Some(trace) = error.downcast_ref::<WasmBacktrace>() {
        text = format!("{text}; stack: {}", long_run::functions(trace));
    }
    text
}

/// A process ran for too long without waiting.
#[derive(Debug, thiserror::Error)]
#[error("the process ran for {} s without waiting ({waits}); stack: {stack}", .limit.as_secs_f32())]
pub(super) struct Unresponsive {
    pub limit: Duration,
    /// The call in which it would have waited.
    pub waits: &'static str,
    pub stack: String,
}
