//! A connection as a command has it: a socket of the house with WASI's two streams.
//!
//! A write of WASI takes all that it was allowed beforehand, and a socket takes what fits. So the
//! rest waits here, 64 KiB at most, and is sent when there is room. The process need not wait for
//! that: it may wait for the answer instead, or drop the connection.

use std::{collections::VecDeque, future::poll_fn, io, sync::Arc, task::Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use wasmtime_wasi::{
    async_trait,
    p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult},
};

use crate::process::{errno::Errno, socket::Socket, wake::ProcessWaker};

/// The most bytes of one read, and of one write.
const MAX_TRANSFER: usize = 64 << 10;

/// A connection, shared by its handle and its streams.
pub(super) struct Connection {
    pub socket: Socket,
    /// What the socket has not taken yet.
    unsent: VecDeque<u8>,
    /// Why nothing more can be sent.
    failed: Option<Errno>,
    /// True if the process has shut its side down while there was something to send.
    shuts: bool,
}

/// A [`Connection`] and whom to wake for it.
#[derive(Clone)]
pub(super) struct Shared {
    pub connection: Arc<Mutex<Connection>>,
    waker: Arc<ProcessWaker>,
    unsent: Unsent,
}

impl Shared {
    pub fn new(socket: Socket, waker: &Arc<ProcessWaker>, unsent: &Unsent) -> Self {
        let connection = Connection {
            socket,
            unsent: VecDeque::new(),
            failed: None,
            shuts: false,
        };
        Self {
            connection: Arc::new(Mutex::new(connection)),
            waker: waker.clone(),
            unsent: unsent.clone(),
        }
    }

    pub fn streams(&self) -> (Box<dyn InputStream>, Box<dyn OutputStream>) {
        (
            Box::new(Incoming(self.clone())),
            Box::new(Outgoing(self.clone())),
        )
    }

    /// Waits until something is true of the connection.
    pub async fn until(&self, is_ready: impl Fn(&mut Connection) -> bool) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            let mut connection = self.connection.lock();
            connection.send();
            if is_ready(&mut connection) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

impl Connection {
    /// Sends what fits of the rest.
    fn send(&mut self) {
        while !self.unsent.is_empty() && self.failed.is_none() {
            let (front, _) = self.unsent.as_slices();
            match self.socket.write(front) {
                Ok(length) => {
                    self.unsent.drain(..length);
                }
                Err(Errno::AGAIN) => return,
                Err(error) => self.failed = Some(error),
            }
        }

        self.unsent = VecDeque::new();
        if std::mem::take(&mut self.shuts) {
            let _best_effort = self.socket.shutdown(false, true);
        }
    }

    fn is_sent(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Ends reading, writing or both. What was written is sent first.
    pub fn shutdown(&mut self, read: bool, write: bool) -> Result<(), Errno> {
        self.send();
        let waits = write && !self.is_sent();
        self.shuts |= waits;
        self.socket.shutdown(read, write && !waits)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        if self.shuts {
            return Err(Errno::PIPE);
        }
        let taken = match self.socket.write(bytes) {
            Ok(taken) => taken,
            Err(Errno::AGAIN) => 0,
            Err(error) => return Err(error),
        };
        self.unsent.extend(&bytes[taken..]);
        self.send();
        self.failed.map_or(Ok(()), Err)
    }
}

/// The connections with something to send, whether or not the process still holds them.
#[derive(Clone, Default)]
pub(super) struct Unsent(Arc<Mutex<Vec<Arc<Mutex<Connection>>>>>);

impl Unsent {
    fn add(&self, connection: &Arc<Mutex<Connection>>) {
        let mut all = self.0.lock();
        if !all.iter().any(|one| Arc::ptr_eq(one, connection)) {
            all.push(connection.clone());
        }
    }

    /// Sends what fits.
    pub fn send(&self) {
        self.0.lock().retain(|connection| {
            let mut connection = connection.lock();
            connection.send();
            !connection.is_sent()
        });
    }
}

/// The stream's error for one of a socket.
fn stream_error(error: Errno) -> StreamError {
    match error {
        Errno::PIPE => StreamError::Closed,
        Errno::CONNRESET => {
            StreamError::LastOperationFailed(io::Error::from(io::ErrorKind::ConnectionReset).into())
        }
        error => StreamError::LastOperationFailed(wasmtime::format_err!("{error:?}")),
    }
}

struct Incoming(Shared);

#[async_trait]
impl Pollable for Incoming {
    async fn ready(&mut self) {
        let is_readable = |connection: &mut Connection| connection.socket.readable().is_some();
        self.0.until(is_readable).await;
    }
}

#[async_trait]
impl InputStream for Incoming {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }

        let mut bytes = vec![0; size.min(MAX_TRANSFER)];
        match self.0.connection.lock().socket.read(&mut bytes) {
            Ok(0) => Err(StreamError::Closed),
            Ok(length) => {
                bytes.truncate(length);
                Ok(bytes.into())
            }
            Err(Errno::AGAIN) => Ok(Bytes::new()),
            Err(error) => Err(stream_error(error)),
        }
    }
}

struct Outgoing(Shared);

#[async_trait]
impl Pollable for Outgoing {
    async fn ready(&mut self) {
        self.0.until(|connection| connection.is_sent()).await;
    }
}

#[async_trait]
impl OutputStream for Outgoing {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let mut connection = self.0.connection.lock();
        if bytes.len() > MAX_TRANSFER || !connection.is_sent() {
            return Err(StreamError::trap(
                "the process wrote more to a connection than check-write allowed",
            ));
        }

        connection.write(&bytes).map_err(stream_error)?;
        if !connection.is_sent() {
            self.0.unsent.add(&self.0.connection);
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        let mut connection = self.0.connection.lock();
        connection.send();
        match connection.failed {
            Some(error) => Err(stream_error(error)),
            None if connection.is_sent() => Ok(MAX_TRANSFER),
            None => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::process::pipe::{CAPACITY, pipe};

    fn connected() -> (Shared, crate::process::Pipe, Unsent) {
        let (near, far) = pipe();
        let (waker, unsent) = (Arc::default(), Unsent::default());
        let address = ([127, 0, 0, 1], 1).into();
        let socket = Socket::connected(Box::new(near), address, address, &waker);
        (Shared::new(socket, &waker, &unsent), far, unsent)
    }

    fn write(to: &mut dyn OutputStream, length: usize) {
        assert_eq!(to.check_write().expect("open"), MAX_TRANSFER);
        to.write(vec![7; length].into()).expect("taken");
    }

    #[tokio::test]
    async fn what_does_not_fit_is_sent_later() {
        let (shared, mut far, unsent) = connected();
        let (input, mut output) = shared.streams();
        write(&mut *output, CAPACITY);
        write(&mut *output, MAX_TRANSFER);
        assert_eq!(output.check_write().expect("open"), 0);
        assert!(output.ready().now_or_never().is_none());

        // The process drops the connection, which ends once all has been sent.
        shared
            .connection
            .lock()
            .shutdown(false, true)
            .expect("open");
        drop((shared, input, output));
        let mut received = vec![0; CAPACITY];
        far.read_exact(&mut received).await.expect("the first part");
        unsent.send();
        assert!(unsent.0.lock().is_empty());
        received.clear();
        far.read_to_end(&mut received).await.expect("to the end");
        assert_eq!(received.len(), MAX_TRANSFER);
    }

    #[tokio::test]
    async fn peer_that_is_gone_is_an_error() {
        let (shared, far, _) = connected();
        let (mut input, mut output) = shared.streams();
        write(&mut *output, CAPACITY);
        write(&mut *output, 1);
        drop(far);
        assert!(matches!(output.check_write(), Err(StreamError::Closed)));
        assert!(matches!(input.read(1), Err(StreamError::Closed)));
        assert!(input.ready().now_or_never().is_some());
    }

    #[tokio::test]
    async fn write_beyond_what_was_allowed_traps() {
        let (shared, _far, _) = connected();
        let (_, mut output) = shared.streams();
        let too_much = output.write(vec![0; MAX_TRANSFER + 1].into());
        assert!(matches!(too_much, Err(StreamError::Trap(_))));
    }
}
