//! The last check before a request leaves: the connection checks its permit before it writes the
//! first byte.
//!
//! Between the check in [`ApiClient`](crate::client::api_client::ApiClient) and the socket, a
//! request may wait for a connection or for new credentials. So its body takes the permit along,
//! and gives it to the [`PermittedConnection`] that hyper has chosen. The body cannot check it
//! alone: over HTTP/1.1, hyper writes the head of a request with an empty body and [never polls
//! that].
//!
//! If a Lease limits the time, a write asks the API server to end it in time (the parameter
//! `timeout`), and is not sent if the Lease ends earlier. So once a replica's Lease has ended, the
//! API server stores nothing for it, unless the request arrives late.
//!
//! A request that took too long to reach the socket was not sent, so it is retried with a new limit
//! for as long as the replica has its Lease. On a busy machine, a replica that renews in time loses
//! no request.
//!
//! [never polls that]: https://github.com/hyperium/hyper/blob/v1.12.0/src/proto/h1/dispatch.rs#L392

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Extensions, Method, Request, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{
    CaptureConnection, Connected, Connection, capture_connection,
};
use kube::client::Body;
use operetta_core::{
    gate::permit::RequestPermit,
    status::{ApiError, ErrorKind},
};
use parking_lot::Mutex;
use tower::BoxError;

use crate::client::{api_client::from_kube, diagnosis::causes};

/// How long a request may take from the check to the socket. Doubled with each retry.
const SLACK: Duration = Duration::from_millis(150);

/// Sends a request, and again if it was not sent in time. Each attempt checks its permit, and
/// attaches it for another check at the socket.
///
/// # Errors
/// Fails like [`RequestPermit::check`], at the socket as well, or with the error of `send`.
pub(crate) async fn send_permitted<T, S>(
    request: Request<Vec<u8>>,
    permit: &Arc<RequestPermit>,
    send: impl Fn(Request<Body>) -> S,
) -> Result<T, ApiError>
where
    S: Future<Output = Result<T, kube::Error>>,
{
    let request = request.map(Bytes::from);
    let mut slack = SLACK;
    loop {
        match send(permitted(&request, permit, slack)?).await {
            Ok(sent) => return Ok(sent),
            Err(error) if is_late(&error) => slack *= 2,
            Err(error) => return Err(refusal(&error).unwrap_or_else(|| from_kube(error))),
        }
    }
}

/// Checks a request's permit, and attaches it for another check when the request is sent, at most
/// `slack` later.
fn permitted(
    request: &Request<Bytes>,
    permit: &Arc<RequestPermit>,
    slack: Duration,
) -> Result<Request<Body>, ApiError> {
    let remaining = permit.deadline()?;
    let (mut parts, bytes) = request.clone().into_parts();
    let Some(remaining) = remaining else {
        return Ok(Request::from_parts(parts, Body::from(bytes)));
    };

    // A read changes nothing, however late it arrives.
    let mut within = Duration::ZERO;
    if parts.method != Method::GET && parts.method != Method::HEAD {
        within = remaining.saturating_sub(slack);
        parts.uri = with_timeout(&parts.uri, within)?;
    }

    parts.extensions.insert(PermitWithin {
        within,
        permit: permit.clone(),
    });
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// Adds the parameter `timeout` in front of all others, because the API server takes the [first
/// one].
///
/// [first one]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/endpoints/filters/request_deadline.go#L156
fn with_timeout(uri: &Uri, within: Duration) -> Result<Uri, ApiError> {
    let parameter = format!("timeout={}ms", within.as_millis().max(1));
    let path = uri.path();
    let text = match uri.query() {
        Some(query) => format!("{path}?{parameter}&{query}"),
        None => format!("{path}?{parameter}"),
    };
    text.parse()
        .map_err(|error| ApiError::new(ErrorKind::BadRequest, format!("{text}: {error}")))
}

/// Moves the permit from [`permitted`] into the request's body. This is the last layer before the
/// connection.
pub(crate) fn at_socket(mut request: Request<Body>) -> Request<PermittedBody> {
    let unchecked = request
        .extensions_mut()
        .remove::<PermitWithin>()
        .map(|permit| Unchecked {
            permit,
            connection: capture_connection(&mut request),
        });
    request.map(|body| PermittedBody { body, unchecked })
}

/// A request's permit, and for how long it must still be valid when the request leaves.
#[derive(Clone)]
struct PermitWithin {
    within: Duration,
    permit: Arc<RequestPermit>,
}

impl PermitWithin {
    fn check(&self) -> Result<(), BoxError> {
        match self.permit.deadline()? {
            Some(remaining) if remaining < self.within => Err(Late.into()),
            _ => Ok(()),
        }
    }
}

/// A request was not sent, because it took too long to reach the socket.
#[derive(Debug, thiserror::Error)]
#[error("the Lease of this replica ends before the request would: it was not sent")]
struct Late;

fn is_late(error: &kube::Error) -> bool {
    causes(error).any(|cause| cause.is::<Late>())
}

/// Returns why the permit did not let a request leave, if that is what failed.
fn refusal(error: &kube::Error) -> Option<ApiError> {
    causes(error)
        .find_map(|cause| cause.downcast_ref::<ApiError>())
        .cloned()
}

/// A body sent only while its permit is valid.
pub(crate) struct PermittedBody {
    body: Body,
    /// Present until the body was polled.
    unchecked: Option<Unchecked>,
}

/// A permit that is still to be checked, and where to learn the connection that checks it.
struct Unchecked {
    permit: PermitWithin,
    connection: CaptureConnection,
}

impl HttpBody for PermittedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(Err(error)) = self
            .unchecked
            .take()
            .map(|unchecked| unchecked.permit.check())
        {
            return Poll::Ready(Some(Err(error)));
        }
        Pin::new(&mut self.body)
            .poll_frame(context)
            .map_err(BoxError::from)
    }

    /// hyper asks this of each body directly before it writes the request's head to the buffer of
    /// the connection, in the task of the connection. So this is where the permit gets there.
    fn is_end_stream(&self) -> bool {
        let Some(unchecked) = &self.unchecked else {
            return self.body.is_end_stream();
        };

        if let Some(next) = NextRequest::of(&unchecked.connection) {
            next.begin_with(unchecked.permit.clone());
        }
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The permit of the request that a connection sends next; None for a request without one.
#[derive(Clone, Default)]
struct NextRequest(Arc<Mutex<Option<PermitWithin>>>);

impl NextRequest {
    /// Returns that of the connection which a request was given.
    fn of(connection: &CaptureConnection) -> Option<Self> {
        let mut extras = Extensions::new();
        connection
            .connection_metadata()
            .as_ref()?
            .get_extras(&mut extras);
        extras.remove::<Self>()
    }

    /// Makes this the permit to check before the next byte.
    fn begin_with(&self, permit: PermitWithin) {
        *self.0.lock() = Some(permit);
    }

    fn check(&self) -> io::Result<()> {
        match &*self.0.lock() {
            Some(permit) => permit.check().map_err(io::Error::other),
            None => Ok(()),
        }
    }

    /// Notes that the request is on its way.
    fn begun(&self) {
        *self.0.lock() = None;
    }
}

/// A connection that checks a request's permit before it writes the first byte. If the check fails,
/// so does the connection, without a byte of the request.
pub(crate) struct PermittedConnection<T> {
    io: T,
    next: NextRequest,
}

impl<T> PermittedConnection<T> {
    pub(crate) fn new(io: T) -> Self {
        Self {
            io,
            next: NextRequest::default(),
        }
    }
}

impl<T: Connection> Connection for PermittedConnection<T> {
    fn connected(&self) -> Connected {
        self.io.connected().extra(self.next.clone())
    }
}

impl<T: Read + Unpin> Read for PermittedConnection<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<T: Write + Unpin> Write for PermittedConnection<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.next.check()?;
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        if written.is_ready() {
            self.next.begun();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.next.check()?;
        let written = Pin::new(&mut self.io).poll_write_vectored(context, parts);
        if written.is_ready() {
            self.next.begun();
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicU64, Ordering},
    };

    use http_body_util::BodyExt;
    use hyper_util::{
        client::legacy::{Client as HttpClient, connect::HttpConnector},
        rt::TokioExecutor,
    };
    use operetta_core::replicas::Fence;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        time::timeout,
    };
    use tower::ServiceExt;

    use super::*;
    use crate::client::api_client::chain;

    static NOW: AtomicU64 = AtomicU64::new(10_000);

    fn clock() -> Duration {
        Duration::from_millis(NOW.load(Ordering::Acquire))
    }

    fn write() -> Request<Bytes> {
        Request::post("/api/v1/namespaces/n/pods?fieldManager=m")
            .body(Bytes::from_static(b"{}"))
            .expect("a request")
    }

    fn permitted(
        request: Request<Bytes>,
        permit: &Arc<RequestPermit>,
    ) -> Result<Request<Body>, ApiError> {
        super::permitted(&request, permit, SLACK)
    }

    #[tokio::test]
    async fn write_is_not_given_out_if_the_lease_ends_first() {
        let fence = Fence::new(clock);
        let permit = RequestPermit::fenced(fence.clone()).child();
        assert_eq!(
            permitted(write(), &permit).expect_err("no Lease").kind,
            ErrorKind::Unavailable
        );
        fence.extend(Duration::from_secs(14));
        let sent = permitted(write(), &permit).expect("permitted");
        assert_eq!(
            sent.uri(),
            "/api/v1/namespaces/n/pods?timeout=3850ms&fieldManager=m"
        );
        assert_eq!(
            at_socket(sent)
                .into_body()
                .collect()
                .await
                .expect("a body")
                .to_bytes(),
            "{}"
        );

        let late = permitted(write(), &permit).expect("permitted");
        let renewed = permitted(write(), &permit).expect("permitted");
        NOW.fetch_add(1_000, Ordering::AcqRel);
        let error = at_socket(late)
            .into_body()
            .collect()
            .await
            .expect_err("too late")
            .to_string();
        assert!(error.contains("not sent"), "{error}");
        fence.extend(Duration::from_secs(16));
        assert!(
            at_socket(renewed).into_body().collect().await.is_ok(),
            "the Lease was renewed meanwhile"
        );

        let revoked = permitted(write(), &permit).expect("permitted");
        permit.revoke("no consent");
        let error = at_socket(revoked)
            .into_body()
            .collect()
            .await
            .expect_err("revoked")
            .to_string();
        assert!(error.contains("no consent"), "{error}");
    }

    #[tokio::test]
    async fn reads_and_unfenced_requests_are_sent_as_they_are() {
        let fence = Fence::new(clock);
        fence.extend(Duration::from_secs(1_000));
        let read = Request::get("/api/v1/pods?limit=5")
            .body(Bytes::new())
            .expect("a request");
        let sent = permitted(read, &RequestPermit::fenced(fence)).expect("permitted");
        assert_eq!(sent.uri(), "/api/v1/pods?limit=5");
        let mut body = at_socket(sent).into_body();
        assert!(!body.is_end_stream(), "the permit is still to be checked");
        assert!(body.frame().await.is_none() && body.is_end_stream());
        let sent = permitted(write(), &RequestPermit::new()).expect("permitted");
        assert_eq!(sent.uri(), "/api/v1/namespaces/n/pods?fieldManager=m");
    }

    #[tokio::test]
    async fn request_revoked_on_its_way_to_a_kept_connection_sends_no_byte() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let connector = HttpConnector::new().map_response(PermittedConnection::new);
        let http = HttpClient::builder(TokioExecutor::new()).build(connector);

        let fence = Fence::new(|| Duration::from_secs(1));
        fence.extend(Duration::from_secs(1_000));
        let permit = RequestPermit::fenced(fence).child();
        let read = || {
            let request = Request::get(format!("http://{address}/api/v1/pods"))
                .body(Bytes::new())
                .expect("a request");
            at_socket(permitted(request, &permit).expect("permitted"))
        };

        let serve_first = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let arrived = stream.read(&mut [0; 4096]).await.expect("a request");
            assert!(arrived > 0, "nothing arrived of a permitted request");
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await
                .expect("written");
            stream
        };
        let (first, mut stream) = tokio::join!(http.request(read()), serve_first);
        drop(first.expect("a response"));

        // The connection may return to the pool in a task of its own.
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }

        // The connection has the request, and its task has not run yet.
        let mut second = pin!(http.request(read()));
        assert!(futures::poll!(second.as_mut()).is_pending());
        permit.revoke("no consent");

        let serve_second = async move { stream.read(&mut [0; 4096]).await };
        let serve_second = timeout(Duration::from_secs(10), serve_second);
        let (sent, arrived) = tokio::join!(second, serve_second);
        let arrived = arrived
            .expect("the connection was kept and used")
            .expect("closed in order");
        assert_eq!(arrived, 0, "bytes of a revoked request arrived");
        let error = chain(&sent.expect_err("revoked"));
        assert!(error.contains("no consent"), "{error}");
    }

    #[tokio::test]
    async fn late_request_is_sent_again_while_the_replica_has_its_lease() {
        static TIME: AtomicU64 = AtomicU64::new(1_000);
        let clock = || Duration::from_millis(TIME.load(Ordering::Acquire));
        let fence = Fence::new(clock);
        fence.extend(Duration::from_secs(11));
        let permit = RequestPermit::fenced(fence).child();

        // Each attempt takes this long to the socket.
        let send_after = async |delay: u64| {
            let attempts = AtomicU64::new(0);
            let request = write().map(|bytes| bytes.to_vec());
            let sent = send_permitted(request, &permit, |request| {
                attempts.fetch_add(1, Ordering::AcqRel);
                TIME.fetch_add(delay, Ordering::AcqRel);
                let body = at_socket(request).into_body().collect();
                async {
                    body.await
                        .map(|body| body.to_bytes())
                        .map_err(kube::Error::Service)
                }
            });
            (sent.await, attempts.load(Ordering::Acquire))
        };

        let (sent, attempts) = send_after(0).await;
        assert_eq!((sent.expect("sent"), attempts), ("{}".into(), 1));
        let (sent, attempts) = send_after(500).await;
        assert_eq!((sent.expect("sent"), attempts), ("{}".into(), 3));

        let (sent, _) = send_after(3_000).await;
        let error = sent.expect_err("the Lease has ended").to_string();
        assert!(
            error.contains("has not renewed its Lease in time"),
            "{error}"
        );
    }
}
