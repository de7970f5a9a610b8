//! A connection of a process: TLS or not, HTTP/1.1 or HTTP/2, idle or not.

use std::{
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use operetta_core::{gate::raw_request::RawResponse, status::ApiError};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::{Instant, Sleep, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::{EndpointLimits, State, request::answer};

/// The first byte of TLS: a record of the type handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 0x16;

/// The maximum size of a request's head, in bytes. HTTP/1.1 reads a body in pieces of this size.
const MAX_HEAD: usize = 64 << 10;

/// The maximum number of a request's headers.
const MAX_HEADERS: usize = 100;

/// The maximum number of requests at once over HTTP/2, as in the API server
/// (`--http2-max-streams-per-connection`).
const MAX_STREAMS: u32 = 250;

/// How much is charged for a connection, in bytes.
pub(super) const BUFFERS: u64 = MAX_HEAD as u64;

/// How long a client that is refused may take to send something and to read the refusal.
const REFUSAL: Duration = Duration::from_secs(1);

/// Serves a connection until it ends.
pub(super) async fn serve<S>(state: Arc<State>, stream: S)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let _place = match state.connect() {
        Ok(place) => place,
        Err(error) => return refuse(stream, &error).await,
    };

    let EndpointLimits {
        idle, head, stall, ..
    } = state.limits;
    let traffic = Arc::new(Traffic::new());
    let mut stream = Guarded {
        stream,
        traffic: traffic.clone(),
        stall,
        stalled: None,
    };

    let first = match timeout(idle, stream.read_u8()).await {
        Ok(Ok(first)) => first,
        Ok(Err(error)) => return tracing::debug!("connection ended: {error}"),
        Err(_) => return tracing::debug!("nothing was sent for {idle:?}"),
    };
    let stream = Prefixed {
        first: Some(first),
        stream,
    };
    if first != HANDSHAKE {
        return http(state, traffic, stream).await;
    }

    let tls = TlsAcceptor::from(state.tls.0.clone());
    match timeout(head, tls.accept(stream)).await {
        Ok(Ok(stream)) => http(state, traffic, stream).await,
        Ok(Err(error)) => tracing::debug!("TLS handshake failed: {error}"),
        Err(_) => tracing::debug!("TLS handshake took longer than {head:?}"),
    }
}

/// Serves HTTP until the connection ends, or has been idle for too long.
async fn http<S>(state: Arc<State>, traffic: Arc<Traffic>, stream: S)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let EndpointLimits { idle, head, .. } = state.limits;
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // hyper's timer would also run while a connection is idle. `Traffic` tells the two apart.
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS);

    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        .max_send_buf_size(MAX_HEAD);

    let requests = traffic.clone();
    let service =
        service_fn(move |request| answer(state.clone(), Active::begin(&requests), request));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut is_closing = false;

    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!("connection ended: {error}");
                }
                return;
            }
            () = sleep(head.min(idle)) => {
                let is_over = match traffic.wait() {
                    Wait::Nothing => false,
                    // Over HTTP/2, what has begun may just be a ping.
                    Wait::Head(since) => since.elapsed() >= head.min(idle),
                    Wait::Idle(since) => since.elapsed() >= idle,
                };
                match (is_over, is_closing) {
                    (false, _) => {}
                    (true, false) => connection.as_mut().graceful_shutdown(),
                    (true, true) => return,
                }
                is_closing |= is_over;
            }
        }
    }
}

/// Answers whatever a client asks with an error, and closes the connection. A TLS client sees only
/// that it is closed.
async fn refuse<S>(mut stream: S, error: &ApiError)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let RawResponse {
        status,
        content_type,
        body,
        ..
    } = RawResponse::of_error(error);
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status} \r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nretry-after: 1\r\nconnection: close\r\n\r\n{body}"
    );

    let exchange = async {
        let mut asked = [0; 1024];
        let read = stream.read(&mut asked).await?;
        if read > 0 && asked[0] != HANDSHAKE {
            stream.write_all(response.as_bytes()).await?;
        }
        stream.shutdown().await
    };

    if let Ok(Err(error)) = timeout(REFUSAL, exchange).await {
        tracing::debug!("connection ended: {error}");
    }
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug)]
enum Wait {
    /// A request is being answered.
    Nothing,
    /// The rest of a request's head, since its first byte.
    Head(Instant),
    /// A request, since then.
    Idle(Instant),
}

/// How many requests of a connection are being answered, and what it waits for.
struct Traffic(Mutex<(usize, Wait)>);

impl Traffic {
    fn new() -> Self {
        Self(Mutex::new((0, Wait::Idle(Instant::now()))))
    }

    fn wait(&self) -> Wait {
        self.0.lock().1
    }

    /// Notes that something was read.
    fn read(&self) {
        let (_, wait) = &mut *self.0.lock();
        if let Wait::Idle(_) = wait {
            *wait = Wait::Head(Instant::now());
        }
    }
}

/// A request that is being answered, until its response has ended.
pub(super) struct Active(Arc<Traffic>);

impl Active {
    fn begin(traffic: &Arc<Traffic>) -> Self {
        let (requests, wait) = &mut *traffic.0.lock();
        *requests += 1;
        *wait = Wait::Nothing;
        Self(traffic.clone())
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let (requests, wait) = &mut *self.0.0.lock();
        *requests -= 1;
        if *requests == 0 {
            *wait = Wait::Idle(Instant::now());
        }
    }
}

/// A connection that ends if its client reads nothing for too long.
struct Guarded<S> {
    stream: S,
    traffic: Arc<Traffic>,
    stall: Duration,
    /// Fires when the client has read nothing for too long; None while it reads.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Guarded<S> {
    /// Limits how long a write may be pending.
    fn guard<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }

        let stall = self.stall;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(stall)));
        stalled.as_mut().poll(context).map(|()| {
            let message = format!("the client has read nothing for {stall:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, message))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.traffic.read();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.guard(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.guard(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.guard(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = Pin::new(&mut self.stream).poll_shutdown(context);
        self.guard(context, shut_down)
    }
}

/// A connection whose first byte has already been read, to see what it is.
struct Prefixed<S> {
    first: Option<u8>,
    stream: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() > 0
            && let Some(first) = self.first.take()
        {
            buffer.put_slice(&[first]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
