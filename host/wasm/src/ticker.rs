//! The thread that lets guests yield: at each tick of the machine's clock it advances the engine's epoch.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The time that a guest may run before it yields its thread, while no guest has run for a tick lately.
const TICK: Duration = Duration::from_millis(10);
/// The same while guests run for long and others wait for their turn. An idle host wakes less often.
const BUSY_TICK: Duration = Duration::from_millis(1);
/// The number of busy ticks after the last guest that ran for longer than one.
const BUSY_TICKS: u32 = 100;

/// Advances the engine's epoch by one every [`TICK`] or [`BUSY_TICK`]. Dropping it ends the thread.
pub(crate) struct Ticker {
    /// Set by a guest that has run for a tick.
    spinning: Arc<AtomicBool>,
    /// None while dropping, and without a thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Returns one that never ticks.
    pub fn stopped() -> Self {
        Self { spinning: Arc::default(), stop: None, thread: None }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// Fails if the system has no thread left.
    pub fn start(engine: wasmtime::Engine) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let spinning = Arc::new(AtomicBool::new(false));
        let seen = spinning.clone();
        let thread = thread::Builder::new().name("operetta-epoch".into()).spawn(move || {
            let mut busy = 0;
            while stopped.recv_timeout(if busy > 0 { BUSY_TICK } else { TICK }) == Err(RecvTimeoutError::Timeout) {
                engine.increment_epoch();
                busy = if seen.swap(false, Ordering::Relaxed) { BUSY_TICKS } else { u32::saturating_sub(busy, 1) };
            }
        })?;
        Ok(Self { spinning, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the flag that a guest sets when it has run for a tick.
    pub fn spinning(&self) -> &Arc<AtomicBool> {
        &self.spinning
    }

    /// Reports whether it ticks.
    #[cfg(test)]
    pub fn is_running(&self) -> bool {
        self.thread.is_some()
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
