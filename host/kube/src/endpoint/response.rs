//! The response to a process: a stream of what the API server sends, as fast as the process reads.
//!
//! A task moves each response, because somebody has to notice when the plugin loses a right or the
//! process stops reading, and the connection itself waits for the process then. The task holds at
//! most two pieces of the response. When the plugin loses the right to a watch or a log, it ends
//! cleanly, as after the API server's own timeout. Any other early end is an error, so that nobody
//! takes a part for the whole.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use operetta_core::{
    authz::access_review::{Access, Grants, SubjectGrants},
    gate::{bytes::Bytes as Charge, in_flight::Seat, raw_request::RawResponse, throttle::Throttle},
    status::ApiError,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout},
};
use tower::BoxError;

use super::{Place, State, connection::Active, headers::pass_back};
use crate::client::proxied::{ProxiedResponse, StreamBody};

/// How much is charged for a response, in bytes: the pieces that are on their way.
pub(super) const BUFFERS: u64 = 64 << 10;

/// How long after a failed review the next one is made.
const RETRY: Duration = Duration::from_secs(1);

/// The content of a response.
pub(super) enum Content {
    Whole(
        Bytes,
        #[expect(dead_code, reason = "it is charged while it is held")] Option<Charge>,
    ),
    Stream(Receiver),
}

/// The receiving end of a stream.
pub(super) struct Receiver {
    frames: mpsc::Receiver<Frame<Bytes>>,
    /// Whether the stream has ended as it should.
    is_complete: Arc<AtomicBool>,
}

/// What a response holds until it has ended.
pub(super) struct Held {
    #[expect(dead_code, reason = "it counts while it is held")]
    pub active: Active,
    #[expect(dead_code, reason = "it counts while it is held")]
    pub place: Option<Place>,
}

/// The body of a response.
pub(super) struct EndpointBody {
    content: Content,
    _held: Held,
}

/// Why a stream is moved no further.
enum End {
    /// The API server has ended it.
    Ended,
    /// It has broken off.
    Broken(String),
    /// The process has read nothing for too long.
    Stalled,
    /// The process does not want it any more.
    Unwanted,
    /// The plugin may not read it any more.
    Revoked,
}

/// A response on its way to the process.
struct Transfer {
    first: Bytes,
    body: StreamBody,
    frames: mpsc::Sender<Frame<Bytes>>,
    stall: Duration,
}

/// Tells when the plugin may no longer read a response.
struct Revocation {
    permitted: watch::Receiver<bool>,
    /// The reading right of a long-running request, and changes of the plugin's rights.
    reading: Option<(SubjectGrants, Access, watch::Receiver<u64>)>,
}

/// The response to a request that failed here.
pub(super) fn of_error(error: &ApiError) -> Response<Content> {
    let RawResponse {
        status,
        retry_after_seconds,
        body,
        ..
    } = RawResponse::of_error(error);

    let mut response = Response::new(Content::Whole(body.into(), None));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // client-go retries a 429 only if it is told when.
    let retry_after = match retry_after_seconds {
        None if status == StatusCode::TOO_MANY_REQUESTS => Some(1),
        given => given,
    };
    if let Some(seconds) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The response of the API server, as it is.
pub(super) fn of_response(
    state: &State,
    response: ProxiedResponse,
    is_long_running: bool,
    changes: Option<watch::Receiver<u64>>,
) -> Response<Content> {
    let ProxiedResponse {
        mut head,
        read,
        rest,
        seat,
        access,
        charge,
    } = response;
    pass_back(&mut head.headers);

    let Some(body) = rest.filter(|rest| !rest.is_end_stream()) else {
        if matches!(
            head.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        ) {
            head.headers.remove(CONTENT_LENGTH);
        }
        return Response::from_parts(head, Content::Whole(read, charge));
    };

    let (frames, received) = mpsc::channel(1);
    let is_complete = Arc::new(AtomicBool::new(false));
    let transfer = Transfer {
        first: read,
        body,
        frames,
        stall: state.limits.stall,
    };
    let grants = state.api.grants().cloned();
    let revocation = Revocation {
        permitted: state.permitted.clone(),
        reading: grants
            .zip(access)
            .zip(changes)
            .map(|((grants, access), changes)| (grants, access, changes)),
    };
    let throttle = state.api.api_client().throttle().clone();
    let what = (is_long_running, is_complete.clone());
    tokio::spawn(transfer_until(
        transfer,
        revocation,
        throttle,
        what,
        (seat, charge),
    ));

    let receiver = Receiver {
        frames: received,
        is_complete,
    };
    Response::from_parts(head, Content::Stream(receiver))
}

/// Moves a response to its end.
async fn transfer_until(
    transfer: Transfer,
    revocation: Revocation,
    throttle: Throttle,
    (is_long_running, is_complete): (bool, Arc<AtomicBool>),
    _held: (Option<Seat>, Option<Charge>),
) {
    // Dropped last: whoever sees the channel end must already know which end it is.
    let frames = transfer.frames.clone();
    let mut bytes = 0;
    let end = tokio::select! {
        end = transfer.run(&mut bytes) => end,
        () = revocation.happens() => End::Revoked,
    };

    if !is_long_running {
        throttle.charge_answer(bytes);
    }

    match end {
        End::Ended => is_complete.store(true, Ordering::Release),
        End::Revoked => is_complete.store(is_long_running, Ordering::Release),
        End::Broken(error) => tracing::debug!("response of the API server broke off: {error}"),
        End::Stalled => tracing::debug!("response was ended: nothing was read of it"),
        End::Unwanted => {}
    }
    drop(frames);
}

impl Transfer {
    /// Moves frames for as long as there are any, and adds their size to `bytes`.
    async fn run(self, bytes: &mut usize) -> End {
        let Self {
            first,
            mut body,
            frames,
            stall,
        } = self;

        let mut next = Some(Frame::data(first))
            .filter(|first| first.data_ref().is_some_and(|first| !first.is_empty()));
        loop {
            let frame = match next.take() {
                Some(frame) => frame,
                None => {
                    let frame = tokio::select! {
                        frame = body.frame() => frame,
                        () = frames.closed() => return End::Unwanted,
                    };
                    match frame {
                        None => return End::Ended,
                        Some(Err(error)) => return End::Broken(error.to_string()),
                        Some(Ok(frame)) => frame,
                    }
                }
            };

            *bytes += frame.data_ref().map_or(0, Bytes::len);
            match timeout(stall, frames.send(frame)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return End::Unwanted,
                Err(_) => return End::Stalled,
            }
        }
    }
}

impl Revocation {
    /// Waits until the plugin may not read the response any more.
    async fn happens(self) {
        let Self {
            mut permitted,
            reading,
        } = self;
        // `wait_for` fails once the endpoint is gone, which ends the response as well.
        let closed = async { drop(permitted.wait_for(|permitted| !permitted).await) };
        match reading {
            None => closed.await,
            Some((grants, access, changes)) => tokio::select! {
                () = closed => {}
                () = denied(grants, access, changes) => {}
            },
        }
    }
}

/// Waits until the API server would refuse a request that it has allowed. Reviews it after each
/// change of the plugin's rights, and when a review has expired.
async fn denied(grants: SubjectGrants, access: Access, mut changes: watch::Receiver<u64>) {
    let mut watched = grants.watched();
    // The API server has just allowed it, so the first review can wait that long.
    let keep = if *watched.borrow() {
        Grants::KEEP_WATCHED_EXACT
    } else {
        Grants::KEEP
    };
    let mut until = Instant::now() + keep;
    loop {
        tokio::select! {
            Ok(()) = changes.changed() => {}
            Ok(()) = watched.changed() => {}
            () = sleep_until(until) => {}
        }

        match grants.allows_events(&access).await {
            Ok(decision) if !decision.allowed => return,
            Ok(decision) => until = decision.until,
            Err(_) => until = Instant::now() + RETRY,
        }
    }
}

impl EndpointBody {
    pub fn new(content: Content, held: Held) -> Self {
        Self {
            content,
            _held: held,
        }
    }
}

impl HttpBody for EndpointBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.content {
            Content::Whole(bytes, _) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes, _) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Content::Stream(receiver) => {
                let frame = ready!(receiver.frames.poll_recv(context));
                Poll::Ready(match frame {
                    Some(frame) => Some(Ok(frame)),
                    None if receiver.is_complete.load(Ordering::Acquire) => None,
                    None => Some(Err("the response has broken off".into())),
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole(bytes, _) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes, _) => SizeHint::with_exact(bytes.len() as u64),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}
