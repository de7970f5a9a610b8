//! The signals of a process, which it reads as bytes.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{errno::Errno, socket::Ready, wake::ProcessWaker};

/// Signals that were sent and not read yet. As in POSIX, a signal that is pending is not queued
/// again.
#[derive(Debug)]
pub(super) struct Signals {
    process: Arc<ProcessWaker>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// One bit for each signal, from 1 to 63.
    pending: u64,
    is_open: bool,
}

impl Signals {
    pub fn new(process: &Arc<ProcessWaker>) -> Arc<Self> {
        Arc::new(Self {
            process: process.clone(),
            state: Mutex::default(),
        })
    }

    /// Sends a signal. Returns false if the process does not handle signals, at least not yet.
    pub fn send(&self, signal: u8) -> bool {
        let mut state = self.state.lock();
        if (1..64).contains(&signal) {
            state.pending |= 1 << signal;
        }
        let is_open = state.is_open;
        drop(state);
        self.process.wake();
        is_open
    }

    /// Opens the only descriptor of the signals.
    ///
    /// # Errors
    /// [`Errno::BUSY`] if it is open.
    pub fn open(self: &Arc<Self>) -> Result<OpenSignals, Errno> {
        let mut state = self.state.lock();
        if state.is_open {
            return Err(Errno::BUSY);
        }
        state.is_open = true;
        Ok(OpenSignals(self.clone()))
    }
}

/// The descriptor of the signals.
#[derive(Debug)]
pub(super) struct OpenSignals(Arc<Signals>);

impl OpenSignals {
    pub fn readable(&self) -> Option<Ready> {
        let pending = self.0.state.lock().pending.count_ones();
        (pending > 0).then_some(Ready {
            bytes: pending.into(),
            has_ended: false,
        })
    }

    /// Reads pending signals, the lowest first.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if there are none.
    pub fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let mut state = self.0.state.lock();
        let mut read = 0;
        for byte in into.iter_mut() {
            if state.pending == 0 {
                break;
            }
            let signal = state.pending.trailing_zeros();
            state.pending &= state.pending - 1;
            *byte = signal as u8;
            read += 1;
        }

        if read == 0 && !into.is_empty() {
            return Err(Errno::AGAIN);
        }
        Ok(read)
    }
}

impl Drop for OpenSignals {
    fn drop(&mut self) {
        self.0.state.lock().is_open = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_signal_is_read_once() {
        let signals = Signals::new(&Arc::default());
        assert!(!signals.send(15), "nobody handles it");
        let open = signals.open().expect("the first");
        assert_eq!(signals.open().err(), Some(Errno::BUSY));
        assert!(signals.send(15) && signals.send(2));
        signals.send(0);
        signals.send(200);

        let mut bytes = [0; 8];
        assert_eq!(open.read(&mut bytes), Ok(2));
        assert_eq!(bytes[..2], [2, 15]);
        assert_eq!(open.read(&mut bytes), Err(Errno::AGAIN));
        drop(open);
        assert!(signals.open().is_ok());
    }
}
