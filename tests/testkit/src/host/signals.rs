//! Signals to a host, for tests of how it ends.

use std::{process::ExitStatus, time::Duration};

use crate::{
    controlplane::signal,
    host::{Host, Process},
};

/// The time between two checks of a process.
const POLL: Duration = Duration::from_millis(5);

impl Host {
    /// Sends a signal by its name, for example `STOP`. Blocks for a moment.
    ///
    /// # Panics
    /// Panics if the process has ended, or if tests share it.
    pub fn signal(&self, name: &str) {
        assert!(self.try_signal(name), "the host has ended");
    }

    /// Sends a signal as [`Host::signal`] does. Returns false if the process has ended.
    ///
    /// # Panics
    /// Panics if tests share it.
    pub fn try_signal(&self, name: &str) -> bool {
        let Process::Own { child, .. } = &self.process else {
            panic!("other tests use this host")
        };

        let mut child = child.lock();

        // The id of an ended process may already belong to another one.
        let has_ended = child.try_wait().expect("a process").is_some();
        !has_ended && signal(&format!("-{name}"), child.id())
    }

    /// Returns the status of the process if it has ended.
    ///
    /// # Panics
    /// Panics if tests share it.
    pub fn status(&self) -> Option<ExitStatus> {
        let Process::Own { child, .. } = &self.process else {
            panic!("other tests use this host")
        };
        child.lock().try_wait().expect("a process")
    }

    /// Waits until the process has ended.
    ///
    /// # Panics
    /// Panics if tests share it.
    pub async fn ended(&self) -> ExitStatus {
        loop {
            if let Some(status) = self.status() {
                return status;
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
