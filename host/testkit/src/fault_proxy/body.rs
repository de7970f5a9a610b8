//! The way of an answer's body through the proxy, and what happens to it there.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper::body::{Body, Bytes, Frame, Incoming};
use tokio::sync::{mpsc, watch};

use super::{
    Fault, Line, Mode,
    events::{Template, gone, with_item},
};

/// How long what was sent gets before the connection is closed: closed at once, it might not go out at all.
const FLUSH: Duration = Duration::from_millis(20);

/// The body that the client gets.
pub(super) struct Pipe(mpsc::Receiver<io::Result<Bytes>>);

/// Its other end.
pub(super) struct Out(mpsc::Sender<io::Result<Bytes>>);

/// The client is gone.
pub(super) struct Closed;

/// What is known of an answer from its request.
pub(super) struct Flow {
    pub(super) namespace: Option<String>,
    /// It begins with everything there is, up to a bookmark.
    pub(super) streams_initial_events: bool,
    pub(super) is_watch: bool,
}

impl Pipe {
    pub(super) fn new() -> (Self, Out) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(receiver), Out(sender))
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        let (pipe, out) = Self::new();
        // There is room for one.
        let _sent = out.0.try_send(Ok(bytes));
        pipe
    }
}

impl Body for Pipe {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }
}

impl Out {
    async fn send(&self, bytes: impl Into<Bytes>) -> Result<(), Closed> {
        self.0.send(Ok(bytes.into())).await.map_err(|_| Closed)
    }

    /// Closes the connection in the middle.
    async fn cut(&self) -> Result<(), Closed> {
        tokio::time::sleep(FLUSH).await;
        self.0.send(Err(io::Error::other("cut, as planned"))).await.map_err(|_| Closed)
    }

    /// The next bytes of the API server; None at their end.
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

/// Carries an answer over until one of the two ends.
pub(super) async fn pump(
    upstream: Incoming,
    out: Out,
    fault: Fault,
    flow: Flow,
    line: watch::Receiver<Line>,
) -> Result<(), Closed> {
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
            out.send(text.replacen("\"items\":[]", "\"items\":null", 1)).await
        }
        Fault::Bad { what, .. } if !flow.is_watch => {
            let text = whole(upstream, &out).await?;
            out.send(with_item(&text, what, flow.namespace.as_deref())).await
        }
        Fault::End { .. } | Fault::Gone { .. } | Fault::Duplicate { .. } | Fault::Bad { .. } if flow.is_watch => {
            events(upstream, &out, &fault, &flow).await
        }
        _ => up_to(upstream, &out, usize::MAX).await.map(drop),
    }
}

/// Passes so many bytes on, at most.
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
            out.send(next.split_to(if slow { bytes.min(next.len()) } else { next.len() })).await?;
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

/// Passes events on, line by line, and does what is planned between two of them.
async fn events(mut upstream: Incoming, out: &Out, fault: &Fault, flow: &Flow) -> Result<(), Closed> {
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
                // What comes and goes must not be taken for a part of the whole.
                Fault::Bad { what, after } if !done && count >= *after && !(initial && what.comes_and_goes()) => {
                    done = true;
                    out.send(what.lines(&template)).await?;
                }
                _ => {}
            }
        }
    }
    out.send(rest).await
}
