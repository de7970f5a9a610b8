//! What is read for people at once: shared among them as the requests of plugins are shared among
//! namespaces ([`Seats`]), so that nobody's requests keep others waiting or fill the memory.
//!
//! An answer keeps its seat until it is written. It is written in small pieces, and a reader who
//! takes longer than 30 seconds loses the rest: otherwise a thousand connections that do not read
//! would each keep an answer of megabytes.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody, to_bytes},
    extract::Request,
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};
use http_body::{Frame, SizeHint};
use operetta_core::gate::in_flight::{Flow, Seat, Seats};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::headers::FORWARDED_BY;

/// The number of answers that are in memory at once: an object of megabytes takes ten times that
/// while it is shown.
const READERS: u32 = 6;

/// The number of answers of one user that are in memory at once.
const OF_USER: u32 = 2;

/// How long a reader may take for an answer.
const LONGEST: Duration = Duration::from_secs(30);

/// The size of the pieces of an answer in bytes. The connection has a few of them in its buffer.
const PIECE: usize = 64 << 10;

/// The number of users beyond which those without requests are forgotten.
const MAX_USERS: usize = 1_000;

/// The prefix of the name of a ServiceAccount's user.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The seats of requests of users. The ServiceAccounts of a namespace are one user: whoever may
/// create one may create many.
pub struct Shares {
    seats: Arc<Seats>,
    /// The number of seats that one user may have.
    of_user: u32,
    flows: Mutex<HashMap<String, Weak<Flow>>>,
}

impl Shares {
    /// Creates this many seats, of which one user has at most `of_user`.
    pub fn new(seats: u32, of_user: u32) -> Self {
        Self {
            seats: Seats::new(seats),
            of_user,
            flows: Mutex::default(),
        }
    }

    /// Waits for a seat.
    pub async fn begin(&self, user: &str) -> Option<Seat> {
        self.flow(user).begin().await.0
    }

    fn flow(&self, user: &str) -> Arc<Flow> {
        let owner = owner(user);
        let mut flows = self.flows.lock();
        if flows.len() >= MAX_USERS {
            flows.retain(|_, flow| flow.strong_count() > 0);
        }

        let kept = flows.entry(owner.to_owned()).or_default();
        kept.upgrade().unwrap_or_else(|| {
            let flow = self.seats.flow(1, self.of_user);
            *kept = Arc::downgrade(&flow);
            flow
        })
    }
}

/// Returns whose share a user's requests count towards: all ServiceAccounts of a namespace have one.
pub fn owner(user: &str) -> &str {
    match user.strip_prefix(SERVICE_ACCOUNT) {
        Some(account) => {
            let namespace = account.find(':').unwrap_or(account.len());
            &user[..SERVICE_ACCOUNT.len() + namespace]
        }
        None => user,
    }
}

/// The answers that users read at once.
pub struct Readers {
    own: Shares,
    /// Those for other replicas. They have seats of their own: otherwise two replicas could wait
    /// for each other.
    forwarded: Shares,
}

impl Default for Readers {
    fn default() -> Self {
        Self {
            own: Shares::new(READERS, OF_USER),
            forwarded: Shares::new(READERS, OF_USER),
        }
    }
}

impl Readers {
    /// Answers a request of a user once there is a seat. Metrics, logs and the user's own name need
    /// none: the first must be there when all is busy, the second are sent as they are kept, and
    /// the last is short, and other replicas wait for it.
    pub async fn answer(&self, user: &str, request: Request, next: Next) -> Response {
        let path = request.uri().path();
        if matches!(path, "/metrics" | "/page/api/me") || path.starts_with("/logs/") {
            return next.run(request).await;
        }

        let is_forwarded =
            request.headers().contains_key(FORWARDED_BY) || path.starts_with("/facts/");
        let shares = if is_forwarded {
            &self.forwarded
        } else {
            &self.own
        };
        let seat = shares.begin(user).await;
        written_with(seat, next.run(request).await).await
    }
}

/// Keeps the seat until the response is written. A stream, such as a followed log, has bounds of its
/// own and gives the seat back now.
async fn written_with(seat: Option<Seat>, response: Response) -> Response {
    let Some(seat) = seat.filter(|_| response.body().size_hint().exact().is_some()) else {
        return response;
    };
    let (parts, body) = response.into_parts();
    match to_bytes(body, usize::MAX).await {
        Ok(bytes) => Response::from_parts(parts, Body::new(Pieces::new(bytes, seat))),
        // Our own answers are in memory; that of another replica may end early.
        Err(error) => (
            StatusCode::BAD_GATEWAY,
            format!("failed to read the answer: {error}"),
        )
            .into_response(),
    }
}

/// An answer that is being written.
struct Pieces {
    /// None once it took too long.
    rest: Arc<Mutex<Option<(Bytes, Seat)>>>,
    left: usize,
    /// Drops the rest when it is late.
    deadline: AbortHandle,
}

impl Pieces {
    fn new(bytes: Bytes, seat: Seat) -> Self {
        let left = bytes.len();
        let rest = Arc::new(Mutex::new(Some((bytes, seat))));
        let late = Arc::downgrade(&rest);
        let deadline = tokio::spawn(async move {
            tokio::time::sleep(LONGEST).await;
            if let Some(rest) = late.upgrade() {
                drop(rest.lock().take());
            }
        });

        Self {
            rest,
            left,
            deadline: deadline.abort_handle(),
        }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.deadline.abort();
    }
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }

        let piece = {
            let mut rest = self.rest.lock();
            let Some((bytes, seat)) = rest.take() else {
                let late = format!("the reader took longer than {LONGEST:?}");
                return Poll::Ready(Some(Err(std::io::Error::other(late))));
            };
            let end = bytes.len().min(PIECE);
            // A slice would keep the whole answer in memory.
            let piece = Bytes::copy_from_slice(&bytes[..end]);
            if end < bytes.len() {
                *rest = Some((bytes.slice(end..), seat));
            }
            piece
        };
        self.left -= piece.len();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use http_body_util::BodyExt;

    use super::*;

    async fn seat(shares: &Shares, user: &str) -> Seat {
        shares.begin(user).await.expect("a seat")
    }

    fn is_free(shares: &Shares, user: &str) -> bool {
        shares.begin(user).now_or_never().is_some()
    }

    #[tokio::test]
    async fn accounts_of_a_namespace_are_one_user() {
        let shares = Shares::new(4, 2);
        let one = seat(&shares, "system:serviceaccount:team:a").await;
        let _two = seat(&shares, "system:serviceaccount:team:b").await;
        assert!(!is_free(&shares, "system:serviceaccount:team:c"));
        assert!(is_free(&shares, "system:serviceaccount:other:c"));
        assert!(is_free(&shares, "team"), "a user of that name");

        drop(one);
        assert!(is_free(&shares, "system:serviceaccount:team:c"));
    }

    #[tokio::test(start_paused = true)]
    async fn answer_has_its_seat_until_it_is_written_or_late() {
        let shares = Shares::new(1, 1);
        let text = "x".repeat(PIECE * 2 + 1);
        let answer = async || {
            let response = Response::new(Body::from(text.clone()));
            written_with(Some(seat(&shares, "a").await), response).await
        };

        let response = answer().await;
        assert_eq!(
            response.body().size_hint().exact(),
            Some(text.len() as u64),
            "its length is known"
        );
        assert!(!is_free(&shares, "b"));
        let read = response.into_body().collect().await.expect("written");
        assert_eq!(read.to_bytes(), text);
        assert!(is_free(&shares, "b"));

        let mut slow = answer().await.into_body();
        assert!(slow.frame().await.is_some_and(|frame| frame.is_ok()));
        assert!(!is_free(&shares, "b"));
        tokio::time::sleep(LONGEST + Duration::from_secs(1)).await;
        assert!(is_free(&shares, "b"));
        assert!(slow.frame().await.is_some_and(|frame| frame.is_err()));
    }

    #[tokio::test]
    async fn stream_gives_the_seat_back() {
        let shares = Shares::new(1, 1);
        let body = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        let response = written_with(Some(seat(&shares, "a").await), Response::new(body)).await;
        assert!(is_free(&shares, "b"));
        drop(response);
    }
}
