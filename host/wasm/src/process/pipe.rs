//! A byte pipe in memory: what a socket is between a process and the host.
//!
//! Each end reads what the other one writes, as both ends of a TCP connection do. A direction holds
//! at most [`CAPACITY`] bytes, so an end that never reads stops the other one from writing. An idle
//! pipe holds no buffer. tokio's `duplex` would keep each buffer as large as it ever was, for days,
//! and cannot reset a connection.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that wait in one direction.
pub const CAPACITY: usize = 64 << 10;

/// Returns the two ends of a new pipe.
pub fn pipe() -> (Pipe, Pipe) {
    let (one, other) = (Arc::default(), Arc::default());
    (
        Pipe {
            incoming: Arc::clone(&one),
            outgoing: Arc::clone(&other),
        },
        Pipe {
            incoming: other,
            outgoing: one,
        },
    )
}

/// One end of a pipe. Shutting it down ends the other end's reads, after the bytes on their way.
/// Dropping it also makes the other end's writes fail with `BrokenPipe`.
#[derive(Debug)]
pub struct Pipe {
    incoming: Arc<Mutex<Direction>>,
    outgoing: Arc<Mutex<Direction>>,
}

/// The bytes that flow one way.
#[derive(Debug, Default)]
struct Direction {
    bytes: VecDeque<u8>,
    state: State,
    /// Waits for bytes, or for their end.
    reader: Option<Waker>,
    /// Waits for room.
    writer: Option<Waker>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// The writer has ended: after `bytes` comes the end.
    Ended,
    /// The reader is gone: `bytes` is empty, and nothing more is taken.
    Unread,
    /// The connection was reset: both sides fail.
    Reset,
}

impl Direction {
    /// Wakes whoever waits on either side.
    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()]
            .into_iter()
            .flatten()
        {
            waker.wake();
        }
    }

    fn end(&mut self) {
        if self.state == State::Open {
            self.state = State::Ended;
            self.wake();
        }
    }
}

impl Pipe {
    /// Resets the connection: bytes on their way are lost, and the other end's reads and writes
    /// fail with `ConnectionReset`.
    pub fn reset(self) {
        for direction in [&self.incoming, &self.outgoing] {
            let mut direction = direction.lock();
            direction.bytes = VecDeque::new();
            direction.state = State::Reset;
            direction.wake();
        }
    }

    fn take(&self, buffer: &mut ReadBuf<'_>, waker: &Waker) -> Poll<io::Result<()>> {
        let mut direction = self.incoming.lock();

        if direction.bytes.is_empty() && buffer.remaining() > 0 {
            return match direction.state {
                State::Open => {
                    direction.reader = Some(waker.clone());
                    Poll::Pending
                }
                State::Ended | State::Unread => Poll::Ready(Ok(())),
                State::Reset => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            };
        }

        let (front, back) = direction.bytes.as_slices();
        let first = front.len().min(buffer.remaining());
        buffer.put_slice(&front[..first]);
        let second = back.len().min(buffer.remaining());
        buffer.put_slice(&back[..second]);
        direction.bytes.drain(..first + second);

        if direction.bytes.is_empty() {
            direction.bytes = VecDeque::new();
        }
        if let Some(writer) = direction.writer.take() {
            writer.wake();
        }
        Poll::Ready(Ok(()))
    }

    fn put(&self, bytes: &[u8], waker: &Waker) -> Poll<io::Result<usize>> {
        let mut direction = self.outgoing.lock();

        match direction.state {
            State::Open => {}
            State::Ended | State::Unread => {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            State::Reset => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }

        let room = CAPACITY - direction.bytes.len().min(CAPACITY);
        let taken = bytes.len().min(room);
        if taken == 0 && !bytes.is_empty() {
            direction.writer = Some(waker.clone());
            return Poll::Pending;
        }

        direction.bytes.extend(&bytes[..taken]);
        if let Some(reader) = direction.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(taken))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.outgoing.lock().end();

        let mut incoming = self.incoming.lock();
        if incoming.state != State::Reset {
            incoming.bytes = VecDeque::new();
            incoming.state = State::Unread;
            incoming.wake();
        }
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.take(buffer, cx.waker())
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.put(bytes, cx.waker())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.lock().end();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn bytes_arrive_in_order_both_ways() {
        let (mut one, mut other) = pipe();
        let sent: Vec<u8> = (0..4 * CAPACITY).map(|at| (at % 251) as u8).collect();
        let mut received = Vec::new();
        let write = async {
            one.write_all(&sent).await.expect("written");
            one.shutdown().await.expect("shut down");
            let mut answer = Vec::new();
            one.read_to_end(&mut answer).await.expect("read");
            answer
        };
        let read = async {
            other.read_to_end(&mut received).await.expect("read");
            other.write_all(b"answer").await.expect("still open");
            drop(other);
        };
        let (answer, ()) = tokio::join!(write, read);
        assert!(
            received == sent,
            "{} bytes of {}",
            received.len(),
            sent.len()
        );
        assert_eq!(answer, b"answer");
    }

    #[tokio::test]
    async fn peer_that_never_reads_is_bounded() {
        let (mut one, mut other) = pipe();
        let endless = vec![1; 1 << 20];
        assert!(one.write_all(&endless).now_or_never().is_none());
        assert_eq!(one.outgoing.lock().bytes.len(), CAPACITY);
        assert!(one.write(b"x").now_or_never().is_none());

        let mut some = [0; 10];
        other.read_exact(&mut some).await.expect("read");
        assert_eq!(one.write(&endless).await.expect("room"), 10);
    }

    #[tokio::test]
    async fn idle_pipe_holds_no_buffer() {
        let (mut one, mut other) = pipe();
        one.write_all(&[1; CAPACITY]).await.expect("written");
        let mut all = vec![0; CAPACITY];
        other.read_exact(&mut all).await.expect("read");
        assert_eq!(one.outgoing.lock().bytes.capacity(), 0);
    }

    #[tokio::test]
    async fn dropped_end_breaks_the_pipe() {
        let (mut one, other) = pipe();
        one.write_all(b"lost").await.expect("written");
        drop(other);
        let kind = |result: io::Result<usize>| result.map_err(|error| error.kind());
        assert_eq!(kind(one.write(b"x").await), Err(io::ErrorKind::BrokenPipe));
        assert_eq!(kind(one.read(&mut [0; 4]).await), Ok(0));
    }

    #[tokio::test]
    async fn reset_reaches_both_directions() {
        let (mut one, mut other) = pipe();
        other.write_all(b"lost").await.expect("written");
        let waiting = one.write_all(&[1; 1 << 20]).now_or_never();
        assert!(waiting.is_none());
        other.reset();
        let kind = |result: io::Result<usize>| result.map_err(|error| error.kind());
        let reset = Err(io::ErrorKind::ConnectionReset);
        assert_eq!(kind(one.write(b"x").await), reset);
        assert_eq!(kind(one.read(&mut [0; 4]).await), reset);
    }
}
