//! Forwards the body of a response to the client, and applies the fault of the request to it.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::body::{Body, Bytes, Frame, Incoming};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    Fault, Line, Mode,
    events::{Template, gone, with_item},
};

/// The pause between the last bytes and the close of the connection: without it, the bytes might
/// not be sent.
const FLUSH: Duration = Duration::from_millis(20);

/// The body that the client receives.
pub(super) struct Pipe(mpsc::Receiver<io::Result<Bytes>>);

/// The sender of a [`Pipe`]'s bytes.
pub(super) struct Out(mpsc::Sender<io::Result<Bytes>>, Option<Arc<AtomicU64>>);

/// The error of a client that has disconnected.
pub(super) struct Closed;

/// The properties of a response that follow from its request.
pub(super) struct Flow {
    pub(super) namespace: Option<String>,
    /// The response begins with all existing objects, up to a bookmark (`sendInitialEvents`).
    pub(super) streams_initial_events: bool,
    pub(super) is_watch: bool,
}

impl Pipe {
    /// Makes a body and its sender. `count` counts the bytes.
    pub(super) fn new(count: Option<Arc<AtomicU64>>) -> (Self, Out) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(receiver), Out(sender, count))
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        let (pipe, out) = Self::new(None);
        // The channel has room for one message.
        let _sent = out.0.try_send(Ok(bytes));
        pipe
    }
}

impl Body for Pipe {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0
            .poll_recv(context)
            .map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }
}

impl Out {
    async fn send(&self, bytes: impl Into<Bytes>) -> Result<(), Closed> {
        let bytes = bytes.into();
        if let Some(count) = &self.1 {
            count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        self.0.send(Ok(bytes)).await.map_err(|_| Closed)
    }

    /// Closes the connection before the end of the body.
    async fn cut(&self) -> Result<(), Closed> {
        tokio::time::sleep(FLUSH).await;
        self.0
            .send(Err(io::Error::other("cut, as planned")))
            .await
            .map_err(|_| Closed)
    }

    /// Returns the next bytes of the API server's response, or None at its end.
    async fn next(&self, upstream: &mut Incoming) -> Result<Option<Bytes>, Closed> {
        loop {
            let frame = tokio::select! {
                frame = std::future::poll_fn(|context| Pin::new(&mut *upstream).poll_frame(context)) => frame,
                () = self.0.closed() => return Err(Closed),
            };

            match frame {
                None => return Ok(None),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_trailers) => {}
                },
                Some(Err(_)) => {
                    self.cut().await?;
                    return Ok(None);
                }
            }
        }
    }
}

/// Forwards a response until it ends or the client disconnects.
pub(super) async fn pump(
    upstream: Incoming,
    out: Out,
    fault: Fault,
    flow: Flow,
    line: watch::Receiver<Line>,
) -> Result<(), Closed> {
    let lag = line.borrow().lag;
    if flow.is_watch && !lag.is_zero() {
        return late(upstream, &out, lag).await;
    }

    match fault {
        Fault::CloseAfterHead => out.cut().await,
        Fault::Stall { after } => {
            up_to(upstream, &out, after).await?;
            out.0.closed().await;
            Ok(())
        }
        Fault::Cut { after } => {
            up_to(upstream, &out, after).await?;
            out.cut().await
        }
        Fault::Slow { bytes, every } => slowly(upstream, &out, bytes, every, &line).await,
        Fault::NullItems if !flow.is_watch => {
            let text = whole(upstream, &out).await?;
            out.send(text.replacen("\"items\":[]", "\"items\":null", 1))
                .await
        }
        Fault::Bad { what, .. } if !flow.is_watch => {
            let text = whole(upstream, &out).await?;
            out.send(with_item(&text, what, flow.namespace.as_deref()))
                .await
        }
        Fault::End { .. } | Fault::Gone { .. } | Fault::Duplicate { .. } | Fault::Bad { .. }
            if flow.is_watch =>
        {
            events(upstream, &out, &fault, &flow).await
        }
        _ => up_to(upstream, &out, usize::MAX).await.map(drop),
    }
}

/// Forwards at most `bytes` bytes.
async fn up_to(mut upstream: Incoming, out: &Out, bytes: usize) -> Result<(), Closed> {
    let mut left = bytes;

    while let Some(next) = out.next(&mut upstream).await? {
        let now = next.len().min(left);
        out.send(next.slice(..now)).await?;
        left -= now;
        if left == 0 {
            break;
        }
    }

    Ok(())
}

/// Forwards everything, each piece so much later than it arrives.
async fn late(mut upstream: Incoming, out: &Out, lag: Duration) -> Result<(), Closed> {
    let (sender, mut waiting) = mpsc::unbounded_channel();
    let receive = async {
        while let Some(next) = out.next(&mut upstream).await? {
            // The receiver lives as long as this.
            let _sent = sender.send((Instant::now() + lag, next));
        }
        drop(sender);
        Ok(())
    };
    let forward = async {
        while let Some((due, bytes)) = waiting.recv().await {
            tokio::time::sleep_until(due).await;
            out.send(bytes).await?;
        }
        Ok(())
    };
    tokio::try_join!(receive, forward).map(drop)
}

async fn slowly(
    mut upstream: Incoming,
    out: &Out,
    bytes: usize,
    every: Duration,
    line: &watch::Receiver<Line>,
) -> Result<(), Closed> {
    while let Some(mut next) = out.next(&mut upstream).await? {
        while !next.is_empty() {
            let slow = line.borrow().mode == Mode::Faulty;
            out.send(next.split_to(if slow {
                bytes.min(next.len())
            } else {
                next.len()
            }))
            .await?;
            if slow {
                tokio::time::sleep(every).await;
            }
        }
    }

    Ok(())
}

async fn whole(mut upstream: Incoming, out: &Out) -> Result<String, Closed> {
    let mut all = Vec::new();
    while let Some(next) = out.next(&mut upstream).await? {
        all.extend_from_slice(&next);
    }
    Ok(String::from_utf8_lossy(&all).into_owned())
}

/// Forwards the events of a watch line by line, and applies the fault between two of them.
async fn events(
    mut upstream: Incoming,
    out: &Out,
    fault: &Fault,
    flow: &Flow,
) -> Result<(), Closed> {
    let mut rest: Vec<u8> = Vec::new();
    let mut count = 0;
    let mut initial = flow.streams_initial_events;
    let mut done = false;

    if *fault == (Fault::Gone { after: 0 }) {
        return out.send(gone()).await;
    }

    while let Some(next) = out.next(&mut upstream).await? {
        rest.extend_from_slice(&next);

        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();

            let template = Template::of(&line, flow.namespace.as_deref());
            initial &= !template.ends_initial_events;
            out.send(line.clone()).await?;
            count += usize::from(!template.is_bookmark);

            match fault {
                Fault::End { after } if count >= *after => return Ok(()),
                Fault::Gone { after } if count >= *after => return out.send(gone()).await,
                Fault::Duplicate { line: which } if !template.is_bookmark && count == which + 1 => {
                    out.send(line).await?;
                }
                // A transient object must not become part of the initial state.
                Fault::Bad { what, after }
                    if !done && count >= *after && !(initial && what.comes_and_goes()) =>
                {
                    done = true;
                    out.send(what.lines(&template)).await?;
                }
                _ => {}
            }
        }
    }

    out.send(rest).await
}
