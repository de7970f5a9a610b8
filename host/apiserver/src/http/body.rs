//! The bodies of responses.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::Stream;
use http_body::{Frame, SizeHint};

/// A stream of the parts of a body.
type Parts = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of a response: bytes, or a stream without an end.
pub struct Body(Inner);

enum Inner {
    Full(Option<Bytes>),
    Stream(Parts),
}

impl Body {
    /// Creates a body from bytes.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Full(Some(bytes.into())))
    }

    /// Creates a body from its parts.
    pub fn stream(parts: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Inner::Stream(Box::pin(parts)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Inner::Full(bytes) => Poll::Ready(bytes.take().filter(|bytes| !bytes.is_empty()).map(Frame::data).map(Ok)),
            Inner::Stream(parts) => parts.as_mut().poll_next(context).map(|part| part.map(Frame::data).map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Inner::Full(bytes) if bytes.as_ref().is_none_or(Bytes::is_empty))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Inner::Stream(_) => SizeHint::default(),
        }
    }
}
