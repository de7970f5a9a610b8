//! The last check before a request leaves: its token permits it when the connection takes its body.
//!
//! Between the check in [`Wire`](crate::client::wire::Wire) and the socket, a request may wait for a connection or for
//! new credentials. So the body asks the token again when hyper takes it, which is immediately before it is written.
//!
//! If a Lease limits the time, a write asks the API server to end it in time (the parameter `timeout`), and is not sent if
//! the Lease ends earlier. The API server then stores nothing for a replica whose Lease has ended meanwhile, unless
//! the request reaches it late.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;
use operetta_core::{
    gate::revocation::Revocation,
    status::{ApiError, ErrorKind},
};
use tower::BoxError;

/// The time that a request has from the check to the socket.
const SLACK: Duration = Duration::from_millis(150);

/// Checks that the token permits a request, and makes it one that is checked again when it is sent.
///
/// # Errors
/// Fails as [`Revocation::check`] does.
pub(crate) fn permitted(request: Request<Vec<u8>>, token: &Arc<Revocation>) -> Result<Request<Body>, ApiError> {
    let Some(remaining) = token.deadline()? else { return Ok(request.map(Body::from)) };
    let (mut parts, bytes) = request.into_parts();
    let within = remaining.saturating_sub(SLACK);
    if parts.method != Method::GET && parts.method != Method::HEAD {
        parts.uri = with_timeout(&parts.uri, within)?;
    }
    parts.extensions.insert(Permit { within, token: token.clone() });
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// Adds the parameter `timeout` in front of others: the API server takes the first one.
fn with_timeout(uri: &Uri, within: Duration) -> Result<Uri, ApiError> {
    let parameter = format!("timeout={}ms", within.as_millis().max(1));
    let path = uri.path();
    let text = match uri.query() {
        Some(query) => format!("{path}?{parameter}&{query}"),
        None => format!("{path}?{parameter}"),
    };
    text.parse().map_err(|error| ApiError::new(ErrorKind::BadRequest, format!("{text}: {error}")))
}

/// Ties the body of a request that [`permitted`] made to its token. The last layer before the connection.
pub(crate) fn at_socket(mut request: Request<Body>) -> Request<PermittedBody> {
    let permit = request.extensions_mut().remove::<Permit>();
    request.map(|body| PermittedBody { body, permit })
}

/// The token of a request, and the time in which it must end.
#[derive(Clone)]
struct Permit {
    within: Duration,
    token: Arc<Revocation>,
}

impl Permit {
    fn check(&self) -> Result<(), ApiError> {
        match self.token.deadline()? {
            Some(remaining) if remaining < self.within => {
                let message = "the Lease of this replica ends before the request would: it was not sent";
                Err(ApiError::new(ErrorKind::Unavailable, message))
            }
            _ => Ok(()),
        }
    }
}

/// A body that is given out only if its token still permits the request.
pub(crate) struct PermittedBody {
    body: Body,
    /// The permit, until it was checked.
    permit: Option<Permit>,
}

impl HttpBody for PermittedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(Err(error)) = self.permit.take().map(|permit| permit.check()) {
            return Poll::Ready(Some(Err(error.into())));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use http_body_util::BodyExt;
    use operetta_core::replicas::Fence;

    use super::*;

    static NOW: AtomicU64 = AtomicU64::new(10_000);

    fn clock() -> Duration {
        Duration::from_millis(NOW.load(Ordering::Acquire))
    }

    fn write() -> Request<Vec<u8>> {
        Request::post("/api/v1/namespaces/n/pods?fieldManager=m").body(b"{}".to_vec()).expect("a request")
    }

    #[tokio::test]
    async fn write_is_not_given_out_if_the_lease_ends_first() {
        let fence = Fence::new(clock);
        let token = Revocation::fenced(fence.clone()).child();
        assert_eq!(permitted(write(), &token).expect_err("no Lease").kind, ErrorKind::Unavailable);
        fence.extend(Duration::from_secs(14));
        let sent = permitted(write(), &token).expect("permitted");
        assert_eq!(sent.uri(), "/api/v1/namespaces/n/pods?timeout=3850ms&fieldManager=m");
        assert_eq!(at_socket(sent).into_body().collect().await.expect("a body").to_bytes(), "{}");

        let late = permitted(write(), &token).expect("permitted");
        let renewed = permitted(write(), &token).expect("permitted");
        NOW.fetch_add(1_000, Ordering::AcqRel);
        let error = at_socket(late).into_body().collect().await.expect_err("too late").to_string();
        assert!(error.contains("not sent"), "{error}");
        fence.extend(Duration::from_secs(16));
        assert!(at_socket(renewed).into_body().collect().await.is_ok(), "the Lease was renewed meanwhile");

        let revoked = permitted(write(), &token).expect("permitted");
        token.revoke("no consent");
        let error = at_socket(revoked).into_body().collect().await.expect_err("revoked").to_string();
        assert!(error.contains("no consent"), "{error}");
    }

    #[tokio::test]
    async fn reads_and_unfenced_requests_are_sent_as_they_are() {
        let fence = Fence::new(clock);
        fence.extend(Duration::from_secs(1_000));
        let read = Request::get("/api/v1/pods?limit=5").body(Vec::new()).expect("a request");
        let sent = permitted(read, &Revocation::fenced(fence)).expect("permitted");
        assert_eq!(sent.uri(), "/api/v1/pods?limit=5");
        assert!(at_socket(sent).into_body().is_end_stream());
        let sent = permitted(write(), &Revocation::new()).expect("permitted");
        assert_eq!(sent.uri(), "/api/v1/namespaces/n/pods?fieldManager=m");
    }
}
