//! The objects of a kind as they change: a paged list, and then a watch of tables, with the user's
//! token.
//!
//! A lost connection is announced once, and the watch resumes where it stopped. If the API server
//! has compacted that state, the rows start over. The stream ends when the user lacks the
//! permission or the kind is gone.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    object::kind::GroupVersionKind,
    status::{ApiError, ErrorKind},
};
use operetta_kube::client::user_api::{Read, WatchLines};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    failing::{self, Failing},
    failure::Failure,
    session::Session,
    state::Page,
    stream::{Events, Gone, Outage},
    table::{self, Row, Table},
};

/// Rows per page. If a page is too large, we try fewer.
const LIMITS: [&str; 4] = ["500", "50", "5", "1"];
/// The largest page, in bytes.
const MAX_PAGE: usize = 32 << 20;
/// How long rows are collected into one event.
const BATCH: Duration = Duration::from_millis(50);
/// The most rows in one event.
const MAX_BATCH: usize = 500;
/// When the API server ends a watch, in seconds, so that the user's permissions are checked again.
const WATCH_SECONDS: &str = "60";
/// How long a watch may be silent. The API server normally ends it earlier.
const PATIENCE: Duration = Duration::from_secs(90);

/// The kind of a stream's objects.
pub(super) struct About {
    /// The kind, or the plural of one that isn't known.
    pub kind: String,
    pub namespaced: bool,
    /// The kind that plugins may reconcile; None if it isn't known.
    pub reconciled: Option<GroupVersionKind>,
}

/// The objects a stream is about.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    /// The collection's path at the API server.
    pub url: String,
    pub label_selector: String,
}

pub(super) struct TableStream {
    page: Arc<Page>,
    session: Session,
    selection: Selection,
    events: Events,
    about: About,
    /// The failing objects, as the reader knows them.
    failing: Option<Failing>,
    /// When they are looked up again.
    failing_due: Instant,
    /// The resourceVersion of the reader's rows; None before the list is complete.
    revision: Option<String>,
    outage: Outage,
}

/// Why a list or a watch ended.
enum End {
    /// The reader is gone.
    Gone,
    Failed(ApiError),
}

impl From<Gone> for End {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<ApiError> for End {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Rows waiting to be sent. Only one of the two lists is filled at a time, which keeps their order.
#[derive(Default)]
struct Batch {
    rows: Vec<Row>,
    deleted: Vec<String>,
}

/// Reads one page of a list, or a smaller one if it is too large.
///
/// # Errors
/// The API server's error.
pub(super) async fn read_page(
    page: &Page,
    session: &Session,
    selection: &Selection,
    continue_token: &str,
) -> Result<Table, ApiError> {
    let _seat = page.lists.begin(&session.user).await;
    let mut limits = LIMITS.iter().peekable();
    while let Some(limit) = limits.next() {
        let parameters = [
            ("labelSelector", selection.label_selector.as_str()),
            ("limit", limit),
            ("continue", continue_token),
            ("includeObject", "Object"),
        ];
        let read = Read {
            path: &selection.url,
            parameters: &parameters,
            accept: table::ACCEPT,
        };
        match session.api.read(read, MAX_PAGE).await {
            Err(error) if error.status.code == 413 && limits.peek().is_some() => {}
            Err(error) => return Err(error),
            Ok(text) => return Table::read(&text).map_err(|error| undecodable(selection, &error)),
        }
    }

    Err(ApiError::too_large(format!(
        "{}: an object is too large",
        selection.url
    )))
}

fn undecodable(selection: &Selection, error: &serde_json::Error) -> ApiError {
    ApiError::new(
        ErrorKind::Other,
        format!("failed to decode the table of {}: {error}", selection.url),
    )
}

impl TableStream {
    pub(super) fn new(
        page: Arc<Page>,
        session: Session,
        selection: Selection,
        events: Events,
        about: About,
    ) -> Self {
        Self {
            page,
            session,
            selection,
            events,
            about,
            failing: None,
            failing_due: Instant::now(),
            revision: None,
            outage: Outage::default(),
        }
    }

    /// Sends events until the reader is gone.
    ///
    /// # Errors
    /// Why the stream can't go on.
    pub(super) async fn run(mut self) -> Result<(), Failure> {
        loop {
            let error = match self.list_and_watch().await {
                Ok(()) => continue,
                Err(End::Gone) => return Ok(()),
                Err(End::Failed(error)) => error,
            };
            let sent = match error.kind {
                ErrorKind::Expired => self.start_over().await,
                ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::TooManyRequests => {
                    self.outage.wait(&self.events, &error.status.message).await
                }
                _ if self.outage.excuses(error.status.code) => {
                    self.outage.wait(&self.events, &error.status.message).await
                }
                _ => return Err(error.into()),
            };
            if sent.is_err() {
                return Ok(());
            }
        }
    }

    async fn start_over(&mut self) -> Result<(), Gone> {
        self.revision = None;
        self.events.send("reset", &json!({})).await
    }

    /// Lists, unless that is done already, and then watches until the API server ends the watch.
    async fn list_and_watch(&mut self) -> Result<(), End> {
        let revision = match self.revision.clone() {
            Some(revision) => revision,
            None => self.list().await?,
        };
        let parameters = [
            ("labelSelector", self.selection.label_selector.as_str()),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", revision.as_str()),
            ("timeoutSeconds", WATCH_SECONDS),
            ("includeObject", "Object"),
        ];

        let read = Read {
            path: &self.selection.url,
            parameters: &parameters,
            accept: table::ACCEPT,
        };
        let lines = self.session.api.watch(read).await?;
        self.outage.end(&self.events).await?;

        self.watch(lines).await
    }

    async fn list(&mut self) -> Result<String, End> {
        let mut count = 0;
        let mut token = String::new();
        loop {
            let table = read_page(&self.page, &self.session, &self.selection, &token).await;
            let table = match table {
                // The rows sent so far are no longer a consistent list.
                Err(error) if !token.is_empty() => {
                    self.start_over().await?;
                    return Err(error.into());
                }
                other => other?,
            };

            if token.is_empty() {
                self.outage.end(&self.events).await?;
                let columns = json!({
                    "columns": table.columns, "kind": self.about.kind, "namespaced": self.about.namespaced,
                });
                self.events.send("columns", &columns).await?;
                self.send_failing().await?;
            }

            count += table.rows.len();
            for rows in table.rows.chunks(MAX_BATCH) {
                self.events.send("rows", &json!({"rows": rows})).await?;
            }
            token = table.continue_token;

            if token.is_empty() {
                self.revision = Some(table.revision.clone());
                self.events.send("synced", &json!({"count": count})).await?;
                return Ok(table.revision);
            }
        }
    }

    /// Sends the failing objects of the kind, unless the reader knows them. Those of a watched kind
    /// change without the objects.
    async fn send_failing(&mut self) -> Result<(), Gone> {
        self.failing_due = Instant::now() + failing::EVERY;
        let Some(kind) = &self.about.reconciled else {
            return Ok(());
        };
        // After an error the reader keeps what it has. If the session has ended, the list says so.
        let Ok(failing) = failing::of_kind(&self.page, &self.session, kind).await else {
            return Ok(());
        };

        if self.failing.as_ref() != Some(&failing) {
            self.events.send("failing", &failing).await?;
            self.failing = Some(failing);
        }
        Ok(())
    }

    async fn watch(&mut self, mut lines: WatchLines) -> Result<(), End> {
        let mut batch = Batch::default();
        let mut due: Option<Instant> = None;
        let mut heard = Instant::now();
        loop {
            if Instant::now() >= self.failing_due {
                self.send_failing().await?;
            }

            let wake = due.map_or(self.failing_due, |due| due.min(self.failing_due));
            let patience = (heard + PATIENCE).saturating_duration_since(Instant::now());
            let line = match timeout_at(wake, lines.next(patience)).await {
                Ok(line) => {
                    heard = Instant::now();
                    line
                }
                Err(_elapsed) => Ok(Some(String::new())),
            };
            let line = match line {
                Ok(Some(line)) => line,
                ended => {
                    batch.flush(&self.events).await?;
                    ended?;
                    // Pause: the API server may end every watch immediately, and we shouldn't ask
                    // in a tight loop.
                    sleep(BATCH).await;
                    return Ok(());
                }
            };
            if line.is_empty() || batch.len() >= MAX_BATCH {
                batch.flush(&self.events).await?;
                due = None;
            }

            if !line.is_empty() {
                self.event(&line, &mut batch).await?;
                due = due.or_else(|| (batch.len() > 0).then(|| Instant::now() + BATCH));
            }
        }
    }

    async fn event(&mut self, line: &str, batch: &mut Batch) -> Result<(), End> {
        let Line { r#type, object } =
            serde_json::from_str(line).map_err(|error| undecodable(&self.selection, &error))?;
        if r#type == "ERROR" {
            batch.flush(&self.events).await?;
            return Err(End::Failed(status_error(object.get())));
        }

        let table = Table::read_event(object.get())
            .map_err(|error| undecodable(&self.selection, &error))?;
        if !table.reached().is_empty() {
            self.revision = Some(table.reached().to_owned());
        }

        match r#type {
            "DELETED" => {
                batch.flush_rows(&self.events).await?;
                batch
                    .deleted
                    .extend(table.rows.into_iter().map(|row| row.uid));
            }
            "ADDED" | "MODIFIED" => {
                batch.flush_deleted(&self.events).await?;
                batch.rows.extend(table.rows);
            }
            _ => {}
        }

        Ok(())
    }
}

fn status_error(text: &str) -> ApiError {
    let status: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let kind = match status["code"].as_u64() {
        Some(410) => ErrorKind::Expired,
        Some(401 | 403) => ErrorKind::Forbidden,
        _ => ErrorKind::Unavailable,
    };
    ApiError::new(kind, status["message"].as_str().unwrap_or_default())
}

impl Batch {
    fn len(&self) -> usize {
        self.rows.len() + self.deleted.len()
    }

    async fn flush(&mut self, events: &Events) -> Result<(), Gone> {
        self.flush_rows(events).await?;
        self.flush_deleted(events).await
    }

    async fn flush_rows(&mut self, events: &Events) -> Result<(), Gone> {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            Ok(())
        } else {
            events.send("rows", &json!({"rows": rows})).await
        }
    }

    async fn flush_deleted(&mut self, events: &Events) -> Result<(), Gone> {
        let uids = std::mem::take(&mut self.deleted);
        if uids.is_empty() {
            Ok(())
        } else {
            events.send("deleted", &json!({"uids": uids})).await
        }
    }
}
