//! The signals of a process, which it reads as bytes: a core module from a descriptor, a command from
//! connections to [`SIGNALS`].

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use tokio::io::AsyncWrite;

use super::{
    errno::Errno,
    pipe::{Pipe, pipe},
    socket::Ready,
    wake::ProcessWaker,
};

/// Where a command connects for its signals: WASI 0.2 has none, and a connection is what its poll(2)
/// can wait for. Being on loopback, the address leads nowhere in any other runtime.
pub const SIGNALS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 15, 15, 15)), 15);

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
    /// The host's ends of connections to [`SIGNALS`].
    connections: Vec<Pipe>,
    /// True once there was such a connection. As natively with tokio, whoever has waited for a signal
    /// once is not ended by the next one.
    was_connected: bool,
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
            state.connections.retain_mut(|to| deliver(to, signal));
            if state.connections.is_empty() {
                state.pending |= 1 << signal;
            }
        }
        let is_handled = state.is_open || state.was_connected;
        drop(state);
        self.process.wake();
        is_handled
    }

    /// Returns the process's end of a connection from which it reads signals, those that are pending
    /// first.
    pub fn connect(&self) -> Pipe {
        let (mut here, there) = pipe();
        let mut state = self.state.lock();
        let pending = std::mem::take(&mut state.pending);
        for signal in (1..64).filter(|signal| pending & (1 << signal) != 0) {
            deliver(&mut here, signal);
        }
        state.connections.push(here);
        state.was_connected = true;
        there
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

/// Writes a signal to a connection. Returns false if the process has closed it.
fn deliver(to: &mut Pipe, signal: u8) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    // A connection that is full holds signals enough.
    !matches!(
        Pin::new(to).poll_write(&mut context, &[signal]),
        Poll::Ready(Err(_))
    )
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
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn every_connection_gets_the_signal() {
        let signals = Signals::new(&Arc::default());
        assert!(!signals.send(15), "nobody handles it");
        let mut early = signals.connect();
        let mut late = signals.connect();
        assert!(signals.send(2));

        let mut bytes = [0; 2];
        early.read_exact(&mut bytes).await.expect("both");
        assert_eq!(bytes, [15, 2], "the first was pending");
        assert_eq!(late.read_u8().await.expect("one"), 2);

        // Whoever no longer listens has handled it once.
        drop((early, late));
        assert!(signals.send(15) && signals.state.lock().connections.is_empty());
        assert_eq!(signals.connect().read_u8().await.expect("pending"), 15);
    }

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
