//! Server-sent events. Each user gets a limited number of streams, and a stream ends when its
//! user's token expires or permission is revoked.

use std::{convert::Infallible, future::Future, sync::Arc, time::Duration};

use axum::{
    Json,
    http::{HeaderMap, StatusCode, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{Stream, stream};
use operetta_api::reasons;
use serde::Serialize;
use serde_json::json;
use tokio::{
    sync::{
        mpsc::{self, Receiver, Sender},
        watch,
    },
    task::JoinSet,
    time::{Interval, MissedTickBehavior, interval},
};

use super::{
    failure::Failure,
    session::Session,
    state::{PER_USER, Page},
};
use crate::admin::{access::Required, headers::BUFFERING, streams::OpenStream};

/// How many events may wait for a slow reader.
const WAITING: usize = 4;
/// How often the user's token is checked.
const CHECK: Duration = Duration::from_secs(10);
/// How often a comment is sent, so that both ends notice when the other is gone.
const COMMENT: Duration = Duration::from_secs(15);

/// How many refusals after an outage don't count. A newly started API server doesn't serve custom
/// kinds yet, and refuses allowed requests for a moment.
const REFUSED: u32 = 10;

/// The delay between attempts to reach the API server.
const RETRY: Duration = Duration::from_secs(1);

/// The shortest time between two reads of a value that is read again because of a change, however
/// often it changes.
const GAP: Duration = Duration::from_secs(1);

/// When the value of a stream is read again.
pub(super) struct Refresh {
    period: Duration,
    changes: Option<watch::Receiver<u64>>,
}

impl Refresh {
    /// Reads it in each period.
    pub(super) fn every(period: Duration) -> Self {
        Self {
            period,
            changes: None,
        }
    }

    /// Reads it after each of these changes, and in each period.
    pub(super) fn with(period: Duration, changes: watch::Receiver<u64>) -> Self {
        Self {
            period,
            changes: Some(changes),
        }
    }

    /// Waits until the value is to be read again.
    async fn wait(&mut self, ticks: &mut Interval) {
        let Some(changes) = &mut self.changes else {
            ticks.tick().await;
            return;
        };

        tokio::select! {
            _ = ticks.tick() => {}
            changed = changes.changed() => match changed {
                Ok(()) => {
                    tokio::time::sleep(GAP).await;
                    changes.mark_unchanged();
                }
                // Nothing changes any more: the host is stopping.
                Err(_) => self.changes = None,
            },
        }
    }
}

/// The connection to the API server, as a stream's reader sees it.
#[derive(Default)]
pub(super) struct Outage {
    is_lost: bool,
    /// Refusals since the connection was lost.
    refused: u32,
}

impl Outage {
    /// Reports whether this status may come from an API server that has only just started.
    pub(super) fn excuses(&mut self, status: u16) -> bool {
        let is_excused =
            self.is_lost && self.refused < REFUSED && matches!(status, 401 | 403 | 404);
        self.refused += u32::from(is_excused);
        is_excused
    }

    /// Tells the reader, once, that the API server doesn't respond.
    pub(super) async fn begin(&mut self, events: &Events, message: &str) -> Result<(), Gone> {
        if std::mem::replace(&mut self.is_lost, true) {
            return Ok(());
        }
        events.send("lost", &json!({"message": message})).await
    }

    /// Tells the reader that the API server doesn't respond, and waits before the next attempt.
    pub(super) async fn wait(&mut self, events: &Events, message: &str) -> Result<(), Gone> {
        self.begin(events, message).await?;
        tokio::time::sleep(RETRY).await;
        Ok(())
    }

    /// Tells the reader that the API server responds again, if it was lost.
    pub(super) async fn end(&mut self, events: &Events) -> Result<(), Gone> {
        self.refused = 0;
        if std::mem::take(&mut self.is_lost) {
            events.send("back", &json!({})).await
        } else {
            Ok(())
        }
    }
}

/// Sends events to a stream's reader.
#[derive(Clone)]
pub(super) struct Events(Sender<Event>);

/// A request that can be answered as JSON or as a stream.
pub(super) struct Asked {
    pub page: Arc<Page>,
    pub session: Session,
    /// True if the client asks for server-sent events.
    pub is_stream: bool,
    /// The permission the user needs as long as the stream is open.
    pub required: Option<Required>,
}

impl Asked {
    pub(super) fn new(
        page: Arc<Page>,
        session: Session,
        headers: &HeaderMap,
        required: Option<Required>,
    ) -> Self {
        Self {
            page,
            session,
            is_stream: is_wanted(headers),
            required,
        }
    }
}

#[derive(Debug)]
pub(super) struct Gone;

impl Events {
    pub(super) async fn send<T: Serialize>(&self, name: &str, data: &T) -> Result<(), Gone> {
        let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
        self.send_text(name, &data).await
    }

    /// Sends an event with JSON text as its data.
    pub(super) async fn send_text(&self, name: &str, json: &str) -> Result<(), Gone> {
        self.0
            .send(Event::default().event(name).data(json))
            .await
            .map_err(|_| Gone)
    }
}

/// Reports whether a request asks for server-sent events.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    accepted.contains("text/event-stream")
}

/// Responds with the events sent by `produce`, until it returns or fails. After a failure, the last
/// event is `failed`.
pub(super) fn respond<F>(
    page: &Arc<Page>,
    session: &Session,
    required: Option<Required>,
    produce: impl FnOnce(Events) -> F,
) -> Response
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let Some(open) = page.streams.open(&session.user) else {
        let message = format!(
            "the user has {PER_USER} open streams, or the host has too many: close some pages"
        );
        return Failure::new(
            StatusCode::TOO_MANY_REQUESTS,
            reasons::TOO_MANY_STREAMS,
            message,
        )
        .into_response();
    };

    let (sender, events) = mpsc::channel(WAITING);
    let sender = Events(sender);
    let produced = produce(sender.clone());
    let checked = until_refused(page.clone(), session.clone(), required);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let ended = tokio::select! {
            ended = produced => ended,
            failure = checked => Err(failure),
        };
        if let Err(failure) = ended {
            let _nobody_reads = sender.send("failed", &failure).await;
        }
    });

    let response =
        Sse::new(read(events, tasks, open)).keep_alive(KeepAlive::new().interval(COMMENT).text(""));
    ([(BUFFERING, "no")], response).into_response()
}

/// Responds with a value: as JSON, or as a stream that sends the value again whenever it changes.
pub(super) async fn answer<T, R>(
    asked: Asked,
    event: &'static str,
    refresh: Refresh,
    read: impl Fn(Arc<Page>, Session) -> R + Send + 'static,
) -> Result<Response, Failure>
where
    T: Serialize + Send + 'static,
    R: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let Asked {
        page,
        session,
        is_stream,
        required,
    } = asked;
    if let Some(required) = &required {
        session.check(&page, Some(required)).await?;
    }
    if !is_stream {
        return Ok(Json(read(page, session).await?).into_response());
    }

    let reader = (page.clone(), session.clone());
    Ok(respond(&page, &session, required, |events| {
        repeat(reader, events, event, refresh, read)
    }))
}

async fn repeat<T, R>(
    (page, session): (Arc<Page>, Session),
    events: Events,
    event: &'static str,
    mut refresh: Refresh,
    read: impl Fn(Arc<Page>, Session) -> R,
) -> Result<(), Failure>
where
    T: Serialize,
    R: Future<Output = Result<T, Failure>>,
{
    let mut last = String::new();
    let mut ticks = interval(refresh.period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);

    let mut outage = Outage::default();
    loop {
        refresh.wait(&mut ticks).await;
        let sent = match read(page.clone(), session.clone()).await {
            Ok(value) => {
                let text = serde_json::to_string(&value).unwrap_or_default();
                if outage.end(&events).await.is_err() {
                    return Ok(());
                }
                if text == last {
                    continue;
                }

                last = text;
                events.send_text(event, &last).await
            }
            // The API server doesn't respond: keep showing the last value.
            Err(failure) if failure.status >= 500 => {
                if refresh.period > RETRY {
                    ticks.reset_after(RETRY);
                }
                outage.begin(&events, &failure.message).await
            }
            Err(failure) => return Err(failure),
        };
        if sent.is_err() {
            return Ok(());
        }
    }
}

/// Returns the stream of events. Dropping it ends the task that produces them.
fn read(
    events: Receiver<Event>,
    tasks: JoinSet<()>,
    open: OpenStream,
) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(
        (events, tasks, open),
        |(mut events, tasks, open)| async move {
            let event = events.recv().await?;
            Some((Ok(event), (events, tasks, open)))
        },
    )
}

/// Waits until the user's token expires or the permission is revoked. It takes two refusals in a
/// row, because a newly started API server refuses allowed requests for a moment. An unreachable
/// API server ends nothing.
async fn until_refused(page: Arc<Page>, session: Session, required: Option<Required>) -> Failure {
    let mut is_refused = false;
    loop {
        tokio::time::sleep(CHECK).await;
        match session.check(&page, required.as_ref()).await {
            Err(failure) if failure.status < 500 && is_refused => return failure,
            Err(failure) => is_refused = failure.status < 500,
            Ok(()) => is_refused = false,
        }
    }
}
