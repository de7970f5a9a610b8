//! The bodies of responses.

use std::{
    any::Any,
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
pub struct Body {
    inner: Inner,
    /// Something that is dropped with the body.
    _kept: Option<Box<dyn Any + Send>>,
}

enum Inner {
    Full(Option<Bytes>),
    Stream(Parts),
}

impl Body {
    /// Creates a body from bytes.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self {
            inner: Inner::Full(Some(bytes.into())),
            _kept: None,
        }
    }

    /// Creates a body from its parts.
    pub fn stream(parts: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self {
            inner: Inner::Stream(Box::pin(parts)),
            _kept: None,
        }
    }
}

impl Body {
    /// Keeps a value for as long as the body.
    pub(super) fn keeping(self, kept: impl Any + Send) -> Self {
        Self {
            _kept: Some(Box::new(kept)),
            ..self
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.inner {
            Inner::Full(bytes) => Poll::Ready(
                bytes
                    .take()
                    .filter(|bytes| !bytes.is_empty())
                    .map(Frame::data)
                    .map(Ok),
            ),
            Inner::Stream(parts) => parts
                .as_mut()
                .poll_next(context)
                .map(|part| part.map(Frame::data).map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.inner, Inner::Full(bytes) if bytes.as_ref().is_none_or(Bytes::is_empty))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Inner::Stream(_) => SizeHint::default(),
        }
    }
}
