//! Signals of a process in Operetta, in the place of tokio's: WASI 0.2 has none, so the host writes
//! each as a byte to connections to an address of its own.
//!
//! Where nobody answers at that address, in another runtime, no signal ever comes.
#![allow(missing_docs, unreachable_pub)]

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use crate::{
    io::{AsyncRead, ReadBuf},
    net::TcpStream,
};

const ADDRESS: ([u8; 4], u16) = ([127, 15, 15, 15], 15);

const SIGINT: u8 = 2;
const SIGTERM: u8 = 15;

/// The signals from now on.
#[derive(Debug)]
struct Signals(Option<TcpStream>);

impl Signals {
    fn listen() -> Self {
        // The host answers at once.
        let connect = || {
            let stream = std::net::TcpStream::connect(SocketAddr::from(ADDRESS))?;
            stream.set_nonblocking(true)?;
            TcpStream::from_std(stream)
        };
        Self(connect().ok())
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<u8> {
        let Some(stream) = &mut self.0 else {
            return Poll::Pending;
        };
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let read = ready!(Pin::new(stream).poll_read(context, &mut buffer));
        match (read, buffer.filled()) {
            (Ok(()), [signal]) => Poll::Ready(*signal),
            _ => {
                self.0 = None;
                Poll::Pending
            }
        }
    }
}

/// Completes at the first SIGINT or SIGTERM: a program that does not know this system waits for
/// nothing else, and what ends it here is SIGTERM.
pub async fn ctrl_c() -> io::Result<()> {
    let mut signals = Signals::listen();
    loop {
        if let SIGINT | SIGTERM = poll_fn(|context| signals.poll_next(context)).await {
            return Ok(());
        }
    }
}

pub mod unix {
    use super::*;

    #[derive(Debug, Clone, Copy, Hash, PartialEq, Eq)]
    pub struct SignalKind(u8);

    impl SignalKind {
        pub const fn from_raw(number: i32) -> Self {
            Self(number as u8)
        }
        pub const fn as_raw_value(&self) -> i32 {
            self.0 as i32
        }
        pub const fn alarm() -> Self {
            Self(14)
        }
        pub const fn child() -> Self {
            Self(17)
        }
        pub const fn hangup() -> Self {
            Self(1)
        }
        pub const fn interrupt() -> Self {
            Self(SIGINT)
        }
        pub const fn io() -> Self {
            Self(29)
        }
        pub const fn pipe() -> Self {
            Self(13)
        }
        pub const fn quit() -> Self {
            Self(3)
        }
        pub const fn terminate() -> Self {
            Self(SIGTERM)
        }
        pub const fn user_defined1() -> Self {
            Self(10)
        }
        pub const fn user_defined2() -> Self {
            Self(12)
        }
        pub const fn window_change() -> Self {
            Self(28)
        }
    }

    /// A listener for one kind of signal.
    #[derive(Debug)]
    pub struct Signal {
        kind: SignalKind,
        signals: Signals,
    }

    pub fn signal(kind: SignalKind) -> io::Result<Signal> {
        Ok(Signal {
            kind,
            signals: Signals::listen(),
        })
    }

    impl Signal {
        pub async fn recv(&mut self) -> Option<()> {
            poll_fn(|context| self.poll_recv(context)).await
        }

        pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<()>> {
            loop {
                if ready!(self.signals.poll_next(context)) == self.kind.0 {
                    return Poll::Ready(Some(()));
                }
            }
        }
    }
}
