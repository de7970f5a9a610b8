//! What the status shows of a process.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use operetta_kube::clock;
use operetta_wasm::process::Exit;
use tokio::sync::watch;

use super::probes::ProbeFailure;
use crate::plugin::crd::{ProcessStatus, Termination};

/// The state of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessState {
    /// When it started; None while it does not run.
    started: Option<Timestamp>,
    /// Why it is not ready although it runs.
    unready: Option<String>,
    /// How long it waits before it starts again; None if it does not wait.
    delay: Option<Duration>,
    restarts: u32,
    last: Option<Termination>,
}

impl ProcessState {
    /// Reports whether it runs.
    pub fn is_running(&self) -> bool {
        self.started.is_some()
    }

    /// Why it is not ready, while it runs; None if it is.
    pub fn unready(&self) -> Option<&str> {
        self.unready.as_deref()
    }

    /// Why it does not run, if it waits to be started again.
    pub fn waits(&self) -> Option<String> {
        let delay = self.delay.filter(|delay| !delay.is_zero())?;
        let ended = describe(self.last.as_ref()?);
        let seconds = delay.as_secs();
        Some(format!("{ended}; it starts again after {seconds} s"))
    }

    /// The state as the Plugin's status has it.
    pub fn status(&self) -> ProcessStatus {
        ProcessStatus {
            started_at: self.started.map(|started| started.to_string()),
            ready: self.is_running() && self.unready.is_none(),
            restart_count: i32::try_from(self.restarts).unwrap_or(i32::MAX),
            last_termination: self.last.clone(),
        }
    }
}

/// Publishes the state of a process.
pub(super) struct StateSender {
    state: watch::Sender<ProcessState>,
    changed: Box<dyn Fn() + Send + Sync>,
}

pub(super) fn channel(
    changed: impl Fn() + Send + Sync + 'static,
) -> (StateSender, watch::Receiver<ProcessState>) {
    let (state, follow) = watch::channel(ProcessState::default());
    let sender = StateSender {
        state,
        changed: Box::new(changed),
    };
    (sender, follow)
}

impl StateSender {
    /// It starts. `unready` is why it is not ready yet, if a probe decides about that.
    pub fn started(&self, unready: Option<&str>) {
        self.change(|state| {
            state.unready = unready.map(str::to_owned);
            if state.delay.take().is_some() {
                state.restarts = state.restarts.saturating_add(1);
            }
            state.started = Some(clock::now());
        });
    }

    /// A probe has decided whether it is ready.
    pub fn set_unready(&self, unready: Option<String>) {
        if self.state.borrow().unready != unready {
            self.change(|state| state.unready = unready);
        }
    }

    /// Nothing is wanted.
    pub fn idle(&self) {
        self.change(|state| {
            state.started = None;
            state.delay = None;
        });
    }

    /// It ended by itself, and starts again after a delay.
    pub fn ended(&self, end: Termination, delay: Duration) {
        self.change(|state| {
            state.started = None;
            state.delay = Some(delay);
            state.last = Some(end);
        });
    }

    /// It was asked to end.
    pub fn stopped(&self, end: Termination) {
        self.change(|state| {
            state.started = None;
            state.delay = None;
            state.last = Some(end);
        });
    }

    fn change(&self, change: impl FnOnce(&mut ProcessState)) {
        self.state.send_modify(change);
        (self.changed)();
    }
}

/// Describes how a process ended, in one sentence.
pub(super) fn describe(end: &Termination) -> String {
    let message = match end.message.as_str() {
        "" => String::new(),
        message => format!(": {message}"),
    };
    format!(
        "the process ended with {} (exit code {}){message}",
        end.reason, end.exit_code
    )
}

/// How a process ended just now, as the status has it. `failed` is the probe for which it was asked
/// to end.
pub(super) fn termination(exit: &Exit, failed: Option<&ProbeFailure>) -> Termination {
    let (reason, message) = match failed {
        Some(failed) if exit.message.is_empty() => ("ProbeFailed", failed.to_string()),
        Some(failed) => ("ProbeFailed", format!("{failed}; {}", exit.message)),
        None => (exit.reason.as_str(), exit.message.clone()),
    };
    Termination {
        reason: reason.to_owned(),
        exit_code: exit.code,
        message,
        finished_at: clock::now().to_string(),
    }
}
