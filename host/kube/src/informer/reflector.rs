//! Lists and then watches a kind without missing a change, as client-go's reflector.go does.
//!
//! - A list is consistent (equal to a quorum read; the API server answers it from its own cache). It has a few large pages,
//!   each parsed while it arrives. Alternatively it is a streaming list (KEP-3157, [`Timing::streaming_lists`]): a watch
//!   that first sends all objects. An API server that does not support it sends pages.
//! - A watch continues from the last resourceVersion received, from an event or a bookmark. Its end, a broken connection or
//!   a stall causes no new list.
//! - The reflector relists only when the API server no longer has that resourceVersion (410), or does not have it yet. The
//!   current objects are then compared with the store.
//! - An object that cannot be read is skipped and reported by kind and key; the store keeps its last state. If its key
//!   cannot be read either, the reflector relists.
//! - After a failure the reflector waits with growing, jittered delays, and respects Retry-After.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use http::Request;
use kube::client::Body;
use operetta_core::{
    nondeterminism,
    object::Object,
    panics,
    status::{ApiError, ErrorKind},
};
use tokio::time::Instant;

use super::{
    Informer, Timing,
    frames::{Lines, Unreadable, WatchEvent, managed_fields_in, more, read_item},
    list::{Items, ListMeta},
    pause::Pause,
};
use crate::{
    client::wire::{Wire, query},
    store::Relist,
};

/// The number of objects of a page. With small pages the API server starts over so often that a list takes half as long
/// again. Without pages an old one (before 1.33) holds the whole response in memory.
const PAGE_SIZE: u32 = 10_000;
/// The number of streaming lists in a row that may fall silent. Then they are considered unsupported, and the next list
/// has pages.
const SILENT_STREAMS: u32 = 2;
/// The shortest duration of a watch without events. A shorter one counts as a failure, whatever its status (client-go's
/// VeryShortWatchError).
const VERY_SHORT: Duration = Duration::from_secs(1);

/// A task that fills one informer's store.
pub(super) struct Reflector {
    wire: Wire,
    informer: Weak<Informer>,
    path: String,
    /// The label and field selectors.
    selectors: Vec<(&'static str, String)>,
    metadata_only: bool,
    timing: Timing,
    /// The resourceVersion up to which the store is complete; None before the first list, and after it is lost.
    position: Option<String>,
    lists: Lists,
    pause: Pause,
}

/// The ways of listing.
struct Lists {
    /// True to use streaming lists.
    streams: bool,
    /// The number of streaming lists in a row that fell silent.
    silent_streams: u32,
    /// The page size of other lists; None to list without pages.
    page_size: Option<u32>,
}

/// The reason why a watch ends.
enum Stop {
    /// The informer has no users any more.
    Unused,
    /// A failure. The next attempt follows after a pause.
    Failed(ApiError),
    /// The API server does not support streaming lists.
    NoStreams,
    /// The API server no longer has the position.
    Lost,
}

impl From<ApiError> for Stop {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

/// The state of a list in progress.
struct Listing {
    began: Instant,
    found: Relist,
    unreadable: Vec<Unreadable>,
}

impl Reflector {
    pub(super) fn new(wire: Wire, informer: &Arc<Informer>, timing: Timing) -> Self {
        let resource = &informer.resource;
        let scope = &informer.scope;
        let mut selectors = Vec::new();
        for (name, text) in [("labelSelector", &scope.labels), ("fieldSelector", &scope.fields)] {
            if !text.is_empty() {
                selectors.push((name, text.clone()));
            }
        }
        Self {
            wire,
            informer: Arc::downgrade(informer),
            path: resource.collection_path(scope.namespace.as_deref()),
            selectors,
            metadata_only: scope.metadata_only,
            timing,
            position: None,
            lists: Lists { streams: timing.streaming_lists, silent_streams: 0, page_size: Some(PAGE_SIZE) },
            pause: Pause::new(timing),
        }
    }

    /// Runs until the informer is dropped.
    pub(super) async fn run(mut self) {
        let mut open = None;
        loop {
            // A panic would leave a stale store. The relist mends what it has left half changed.
            let done = panics::catch_async(self.step(&mut open)).await.unwrap_or_else(|message| {
                self.position = None;
                Err(ApiError::new(ErrorKind::Other, format!("the informer panicked: {message}")).into())
            });
            let wait = match done {
                Ok(()) => continue,
                Err(Stop::Unused) => return,
                Err(Stop::NoStreams) => {
                    self.lists.streams = false;
                    continue;
                }
                Err(Stop::Lost) => {
                    self.position = None;
                    self.pause.next(None)
                }
                Err(Stop::Failed(error)) => {
                    let Some(informer) = self.informer.upgrade() else { return };
                    let wait = self.pause.next(error.status.retry_after_seconds);
                    informer.failed(&error);
                    wait
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Lists, or watches until the watch ends. `open` is a watch that a list has opened.
    async fn step(&mut self, open: &mut Option<Lines>) -> Result<(), Stop> {
        match (&self.position, open.take()) {
            (Some(_), Some(watch)) => self.follow(watch).await,
            (Some(_), None) => self.watch().await,
            (None, _) => self.list().await.map(|watch| *open = watch),
        }
    }

    fn informer(&self) -> Result<Arc<Informer>, Stop> {
        self.informer.upgrade().ok_or(Stop::Unused)
    }

    /// Lists all objects into the store. Returns the watch that continues from there, if a streaming list has opened
    /// it.
    async fn list(&mut self) -> Result<Option<Lines>, Stop> {
        let informer = self.informer()?;
        informer.begins_list();
        let listing = Listing { began: Instant::now(), found: informer.begin_relist(), unreadable: vec![] };
        drop(informer);
        let streams = self.lists.streams && self.lists.silent_streams < SILENT_STREAMS;
        if streams { self.stream(listing).await.map(Some) } else { self.pages(listing).await.map(|()| None) }
    }

    /// Reads a streaming list.
    async fn stream(&mut self, mut listing: Listing) -> Result<Lines, Stop> {
        let parameters = [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")];
        let mut lines = match self.open_watch(&parameters).await {
            // The error differs by version. A list in pages shows whether there is another cause.
            Err(error) if matches!(error.kind, ErrorKind::Invalid | ErrorKind::BadRequest) => {
                return Err(Stop::NoStreams);
            }
            other => other?,
        };
        loop {
            match lines.fill(self.timing.answer).await {
                Ok(true) => {}
                Ok(false) => return Err(ended_early("the list")),
                Err(error) if error.kind == ErrorKind::TimedOut => {
                    // A server that treats it as a plain watch also sends all objects, but no bookmark.
                    self.lists.silent_streams += 1;
                    return Err(error.into());
                }
                Err(error) => return Err(error.into()),
            }
            let informer = self.informer()?;
            while let Some(line) = lines.next_line() {
                match WatchEvent::parse(line, &informer.resource.kind) {
                    WatchEvent::Applied(object) => listing.add(&informer, object),
                    WatchEvent::Deleted(object) => listing.found.lost(object.key()),
                    WatchEvent::Bookmark { resource_version, initial_events_end: true } => {
                        self.listed(&informer, listing, resource_version);
                        return Ok(lines);
                    }
                    WatchEvent::Bookmark { .. } => {}
                    WatchEvent::Unreadable(what) => listing.keep(what),
                    WatchEvent::Error(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Reads a list in pages, all of one resourceVersion.
    async fn pages(&mut self, mut listing: Listing) -> Result<(), Stop> {
        let mut next = String::new();
        loop {
            let page = self.page(&next, &mut listing).await;
            if let Err(Stop::Failed(error)) = &page
                && error.kind == ErrorKind::Expired
                && !next.is_empty()
            {
                // The rest has expired. The next list has no pages, so that it cannot expire.
                self.lists.page_size = None;
            }
            let ListMeta { resource_version, r#continue } = page?;
            if r#continue.is_empty() {
                self.listed(&*self.informer()?, listing, resource_version);
                return Ok(());
            }
            next = r#continue;
        }
    }

    /// Reads one page while it arrives.
    async fn page(&self, next: &str, listing: &mut Listing) -> Result<ListMeta, Stop> {
        let size = self.lists.page_size.map(|size| size.to_string());
        let mut parameters: Vec<(&str, &str)> = size.iter().map(|size| ("limit", size.as_str())).collect();
        if !next.is_empty() {
            parameters.push(("continue", next));
        }
        let mut body = self.open(&parameters, "PartialObjectMetadataList").await?;
        let mut items = Items::default();
        while let Some(bytes) = more(&mut body, self.timing.answer).await? {
            let informer = self.informer()?;
            items.feed(&bytes, |item| match read_item(item, &informer.resource.kind) {
                Ok(object) => listing.add(&informer, object),
                Err(what) => listing.keep(what),
            })?;
        }
        Ok(items.end()?)
    }

    fn listed(&mut self, informer: &Informer, listing: Listing, resource_version: String) {
        informer.relisted(listing.began, listing.found, &resource_version);
        self.position = Some(resource_version);
        self.lists.streams &= self.lists.silent_streams < SILENT_STREAMS;
        self.lists.silent_streams = 0;
        informer.listed_without(&listing.unreadable);
        informer.well(None);
    }

    /// Watches from the position.
    async fn watch(&mut self) -> Result<(), Stop> {
        let from = self.position.clone().unwrap_or_default();
        match self.open_watch(&[("resourceVersion", &from)]).await {
            Ok(lines) => {
                self.informer()?.well(None);
                self.follow(lines).await
            }
            Err(error) if is_lost(&error) => Err(Stop::Lost),
            Err(error) => {
                if error.kind == ErrorKind::NotFound {
                    // The kind was removed. If it is installed again, its objects are new.
                    self.position = None;
                }
                Err(error.into())
            }
        }
    }

    /// Reads a watch to its end.
    async fn follow(&mut self, mut lines: Lines) -> Result<(), Stop> {
        let began = Instant::now();
        let mut received_any = false;
        loop {
            let informer = self.informer()?;
            while let Some(line) = lines.next_line() {
                received_any = true;
                match WatchEvent::parse(line, &informer.resource.kind) {
                    WatchEvent::Applied(object) => {
                        self.received(&informer, &object);
                        let managed_fields = informer.recorder().and_then(|_| managed_fields_in(line));
                        informer.applied(object, managed_fields);
                    }
                    WatchEvent::Deleted(object) => {
                        self.received(&informer, &object);
                        informer.deleted(object);
                    }
                    WatchEvent::Bookmark { resource_version, .. } => {
                        informer.bookmarked(&resource_version);
                        self.position = Some(resource_version);
                        self.pause.reset();
                    }
                    WatchEvent::Unreadable(what) => {
                        let Some(identity) = &what.identity else {
                            // Any object may have changed, so a relist is needed.
                            self.position = None;
                            return Err(informer.unreadable(&what).into());
                        };
                        informer.skipped(&what, identity);
                        self.position = Some(identity.resource_version.clone());
                        self.pause.reset();
                    }
                    WatchEvent::Error(error) if is_lost(&error) => return Err(Stop::Lost),
                    WatchEvent::Error(error) => return Err(error.into()),
                }
            }
            drop(informer);
            match lines.fill(self.timing.stall).await {
                Ok(true) => {}
                Ok(false) if !received_any && began.elapsed() < VERY_SHORT => return Err(ended_early("the watch")),
                Ok(false) => return Ok(()),
                Err(error) if error.kind == ErrorKind::TimedOut => {
                    tracing::debug!(path = self.path, "watch stalled, restarting it");
                    return Ok(());
                }
                Err(error) if error.kind == ErrorKind::Unavailable && received_any => {
                    tracing::debug!(path = self.path, %error, "watch connection lost, resuming");
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn received(&mut self, informer: &Informer, object: &Object) {
        self.position = Some(object.resource_version().to_owned());
        self.pause.reset();
        informer.read_again(object.key());
    }

    async fn open_watch(&self, parameters: &[(&str, &str)]) -> Result<Lines, ApiError> {
        if let Some(informer) = self.informer.upgrade() {
            informer.begins_watch();
        }
        let seconds = (self.timing.watch.as_secs_f32() * (1.0 + nondeterminism::random_fraction())).ceil().to_string();
        let mut all = vec![("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", &seconds)];
        all.extend_from_slice(parameters);
        Ok(Lines::new(self.open(&all, "PartialObjectMetadata").await?))
    }

    async fn open(&self, parameters: &[(&str, &str)], metadata: &str) -> Result<Body, ApiError> {
        let answer = self.wire.open(self.request(parameters, metadata)?);
        tokio::time::timeout(self.timing.answer, answer).await.map_err(|_elapsed| no_answer(self.timing.answer))?
    }

    fn request(&self, parameters: &[(&str, &str)], metadata: &str) -> Result<Request<Vec<u8>>, ApiError> {
        let mut all = parameters.to_vec();
        all.extend(self.selectors.iter().map(|(name, text)| (*name, text.as_str())));
        let accept = match self.metadata_only {
            true => format!("application/json;as={metadata};g=meta.k8s.io;v=v1"),
            false => "application/json".to_owned(),
        };
        let request = Request::get(self.path.clone() + &query(&all)).header(http::header::ACCEPT, accept);
        request.body(Vec::new()).map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))
    }
}

impl Listing {
    fn add(&mut self, informer: &Informer, object: Object) {
        self.found.found(informer.kept(object));
    }

    /// Keeps what the store has of an object that cannot be read.
    fn keep(&mut self, what: Unreadable) {
        if let Some(key) = &what.key {
            self.found.keep(key);
        }
        self.unreadable.push(what);
    }
}

/// Reports whether the API server no longer has a resourceVersion, or does not have it yet, as after a restore from a
/// backup.
fn is_lost(error: &ApiError) -> bool {
    let too_large = |cause: &operetta_core::status::Cause| cause.reason == "ResourceVersionTooLarge";
    error.kind == ErrorKind::Expired || error.status.causes.iter().any(too_large)
}

fn no_answer(limit: Duration) -> ApiError {
    let message = format!("no response from the API server for {} s", limit.as_secs_f32());
    ApiError::new(ErrorKind::TimedOut, message)
}

fn ended_early(what: &str) -> Stop {
    ApiError::new(ErrorKind::Unavailable, format!("the API server closed {what} early")).into()
}
