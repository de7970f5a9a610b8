//! The last check before a request leaves: its permit is checked when the connection takes the
//! body.
//!
//! Between the check in [`ApiClient`](crate::client::api_client::ApiClient) and the socket, a
//! request may wait for a connection or for new credentials. So the body checks the permit again
//! when hyper takes it, immediately before writing it.
//!
//! If a Lease limits the time, a write asks the API server to end it in time (the parameter
//! `timeout`), and is not sent if the Lease ends earlier. So once a replica's Lease has ended, the
//! API server stores nothing for it, unless the request arrives late.
//!
//! A request that took too long to reach the socket was not sent, so it is retried with a new limit
//! for as long as the replica has its Lease. On a busy machine, a replica that renews in time loses
//! no request.

use std::{
    error::Error,
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
    gate::permit::RequestPermit,
    status::{ApiError, ErrorKind},
};
use tower::BoxError;

use crate::client::api_client::from_kube;

/// How long a request may take from the check to the socket. Doubled with each retry.
const SLACK: Duration = Duration::from_millis(150);

/// Sends a request, and again if it was not sent in time. Each attempt checks its permit, and
/// attaches it for another check at the socket.
///
/// # Errors
/// Fails like [`RequestPermit::check`], or with the error of `send`.
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
            Err(error) if is_late(&error) => slack *= 2,
            result => return result.map_err(from_kube),
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

    let within = remaining.saturating_sub(slack);
    if parts.method != Method::GET && parts.method != Method::HEAD {
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

/// Attaches the permit from [`permitted`] to the request's body. This is the last layer before the
/// connection.
pub(crate) fn at_socket(mut request: Request<Body>) -> Request<PermittedBody> {
    let permit = request.extensions_mut().remove::<PermitWithin>();
    request.map(|body| PermittedBody { body, permit })
}

/// A request's permit, and how long the request may take.
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
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<Late>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A body sent only while its permit is valid.
pub(crate) struct PermittedBody {
    body: Body,
    /// Present until it was checked.
    permit: Option<PermitWithin>,
}

impl HttpBody for PermittedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(Err(error)) = self.permit.take().map(|permit| permit.check()) {
            return Poll::Ready(Some(Err(error)));
        }
        Pin::new(&mut self.body)
            .poll_frame(context)
            .map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        // Even an empty body must be taken, for the check.
        self.permit.is_none() && self.body.is_end_stream()
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
