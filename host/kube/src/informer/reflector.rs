//! Lists and then watches a kind without missing a change, like client-go's [reflector.go].
//!
//! - A list is consistent (equal to a quorum read; the API server answers it from its own cache).
//!   It has a few large pages, each parsed while it arrives. The alternative is a streaming list
//!   (KEP-3157, [`Timing::streaming_lists`]): a watch that starts by sending all objects. If the
//!   API server doesn't support it, it is asked for pages.
//! - A watch continues from the last resourceVersion received, in an event or a bookmark. When it
//!   ends, breaks or stalls, no new list is needed.
//! - The reflector relists only when the API server no longer has that resourceVersion (410), or
//!   does not have it yet. The current objects are then compared with the store.
//! - An unreadable object is skipped and reported by kind and key; the store keeps its last state.
//!   If not even its key is readable, the reflector relists.
//! - After a failure the reflector waits with growing, jittered delays, and respects Retry-After.
//!
//! [reflector.go]: https://github.com/kubernetes/client-go/blob/v0.36.2/tools/cache/reflector.go

use std::{
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

use http::Request;
use kube::client::Body;
use operetta_core::{
    nondeterminism, panics,
    status::{ApiError, ErrorKind},
};
use tokio::time::Instant;

use super::{
    Informer,
    backoff::Backoff,
    frames::{Lines, Unreadable, WatchEvent, managed_fields_in, more, read_item},
    list::{Items, ListMeta},
    scope::{Scope, Settings, Timing},
};
use crate::{
    client::api_client::{ApiClient, query},
    discovery::ApiResource,
    store::Relist,
};

/// Objects per page. With small pages the API server starts over so often that a list takes half as
/// long again. Without pages, API servers before 1.33 build the full response in memory
/// ([KEP-5116](https://github.com/kubernetes/enhancements/issues/5116)).
const PAGE_SIZE: u32 = 10_000;
/// After this many silent streaming lists in a row we consider them unsupported, and the next list
/// has pages.
const SILENT_STREAMS: u32 = 2;
/// The shortest watch without events. Anything shorter counts as a failure, whatever its status
/// (client-go's [`VeryShortWatchError`]).
///
/// [`VeryShortWatchError`]: https://github.com/kubernetes/client-go/blob/v0.36.2/tools/cache/reflector.go#L1296
const VERY_SHORT: Duration = Duration::from_secs(1);

/// Starts an informer, with the task that fills its store. [`LabelSelector::parse`] must accept the
/// label selector, and [`Prune::new`] the pruned fields.
///
/// [`LabelSelector::parse`]: operetta_core::object::selector::LabelSelector::parse
/// [`Prune::new`]: operetta_core::object::prune::Prune::new
pub(super) fn start(
    api_client: &ApiClient,
    resource: Arc<ApiResource>,
    scope: Scope,
    settings: Settings,
) -> Arc<Informer> {
    let timing = settings.timing;
    let informer = Informer::new(resource, scope, settings);
    let reflector = Reflector::new(api_client.clone(), &informer, timing);
    informer.ends_with(tokio::spawn(reflector.run()).abort_handle());
    informer
}

/// The task that fills one informer's store.
struct Reflector {
    api_client: ApiClient,
    informer: Weak<Informer>,
    path: String,
    /// The label and field selectors.
    selectors: Vec<(&'static str, String)>,
    metadata_only: bool,
    timing: Timing,
    state: State,
    lists: Lists,
    backoff: Backoff,
}

/// How much of the kind the store has, and so what to do next.
#[derive(Default)]
enum State {
    /// Something may be missing: nothing was listed yet, the API server no longer has the
    /// resourceVersion, or an event was unreadable. The next step lists.
    #[default]
    Empty,
    /// The store is complete up to this resourceVersion. The next step opens a watch from there.
    Listed { resource_version: String },
    /// Like [`State::Listed`], with an open watch continuing from there.
    Watching {
        resource_version: String,
        watch: Lines,
    },
}

/// How to list.
struct Lists {
    /// Whether to use streaming lists.
    streams: bool,
    /// How many streaming lists in a row fell silent.
    silent_streams: u32,
    /// Page size of other lists; None to list without pages.
    page_size: Option<u32>,
}

/// Why a step did not succeed.
enum Stop {
    /// The informer has no users left.
    Unused,
    /// A failure. The next attempt follows after a pause.
    Failed(ApiError),
    /// The API server does not support streaming lists.
    NoStreams,
    /// The API server no longer has the resourceVersion.
    Expired,
}

impl From<ApiError> for Stop {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

struct Listing {
    began: Instant,
    relist: Relist,
    unreadable: Vec<Unreadable>,
}

impl Reflector {
    fn new(api_client: ApiClient, informer: &Arc<Informer>, timing: Timing) -> Self {
        let resource = &informer.resource;
        let scope = &informer.scope;
        let mut selectors = Vec::new();
        for (name, text) in [
            ("labelSelector", &scope.labels),
            ("fieldSelector", &scope.fields),
        ] {
            if !text.is_empty() {
                selectors.push((name, text.clone()));
            }
        }

        Self {
            api_client,
            informer: Arc::downgrade(informer),
            path: resource.collection_path(scope.namespace.as_deref()),
            selectors,
            metadata_only: scope.metadata_only,
            timing,
            state: State::Empty,
            lists: Lists {
                streams: timing.streaming_lists,
                silent_streams: 0,
                page_size: Some(PAGE_SIZE),
            },
            backoff: Backoff::new(timing),
        }
    }

    /// Runs until the informer is dropped.
    async fn run(mut self) {
        loop {
            let done = panics::catch_async(self.step())
                .await
                .unwrap_or_else(|message| {
                    // The task must go on, or the store would be stale forever. A relist repairs
                    // anything the step has left half changed.
                    self.state = State::Empty;
                    Err(ApiError::new(
                        ErrorKind::Other,
                        format!("the informer panicked: {message}"),
                    )
                    .into())
                });

            let wait = match done {
                Ok(()) => continue,
                Err(Stop::Unused) => return,
                Err(Stop::NoStreams) => {
                    self.lists.streams = false;
                    continue;
                }
                Err(Stop::Expired) => {
                    self.state = State::Empty;
                    self.backoff.next(None)
                }
                Err(Stop::Failed(error)) => {
                    let Some(informer) = self.informer.upgrade() else {
                        return;
                    };
                    let wait = self.backoff.next(error.status.retry_after_seconds);
                    informer.set_error(Some(&error));
                    wait
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Lists, opens a watch, or reads a watch to its end.
    async fn step(&mut self) -> Result<(), Stop> {
        match mem::take(&mut self.state) {
            State::Empty => self.list().await,
            State::Listed { resource_version } => self.watch(resource_version).await,
            State::Watching {
                resource_version,
                watch,
            } => self.follow(resource_version, watch).await,
        }
    }

    fn informer(&self) -> Result<Arc<Informer>, Stop> {
        self.informer.upgrade().ok_or(Stop::Unused)
    }

    async fn list(&mut self) -> Result<(), Stop> {
        let informer = self.informer()?;
        informer.count_list();
        let listing = Listing {
            began: Instant::now(),
            relist: informer.begin_relist(),
            unreadable: vec![],
        };
        drop(informer);

        let streams = self.lists.streams && self.lists.silent_streams < SILENT_STREAMS;
        self.state = if streams {
            self.stream(listing).await?
        } else {
            self.pages(listing).await?
        };
        Ok(())
    }

    /// Reads a streaming list, and keeps its watch going.
    async fn stream(&mut self, mut listing: Listing) -> Result<State, Stop> {
        let parameters = [
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
        ];
        let mut lines = match self.open_watch(&parameters).await {
            // The error differs by version. A list in pages will show whether there is another
            // cause.
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
                    // A server treating this as a plain watch also sends all objects, but no
                    // bookmark.
                    self.lists.silent_streams += 1;
                    return Err(error.into());
                }
                Err(error) => return Err(error.into()),
            }

            let informer = self.informer()?;
            while let Some(line) = lines.next_line() {
                match WatchEvent::parse(line, &informer.resource.kind, &informer.cache.prune) {
                    WatchEvent::Applied(object) => listing.relist.add(Arc::new(object)),
                    WatchEvent::Deleted(object) => listing.relist.remove(object.key()),
                    WatchEvent::Bookmark {
                        resource_version,
                        initial_events_end: true,
                    } => {
                        self.listed(&informer, listing, &resource_version);
                        return Ok(State::Watching {
                            resource_version,
                            watch: lines,
                        });
                    }
                    WatchEvent::Bookmark { .. } => {}
                    WatchEvent::Unreadable(object) => listing.keep(object),
                    WatchEvent::Error(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Reads a list in pages, all of one resourceVersion.
    async fn pages(&mut self, mut listing: Listing) -> Result<State, Stop> {
        let mut next = String::new();
        loop {
            let page = self.page(&next, &mut listing).await;
            if let Err(Stop::Failed(error)) = &page
                && error.kind == ErrorKind::Expired
                && !next.is_empty()
            {
                // The rest has expired. The next list has no pages, so it can't expire halfway.
                self.lists.page_size = None;
            }

            let ListMeta {
                resource_version,
                r#continue,
            } = page?;
            if r#continue.is_empty() {
                self.listed(&*self.informer()?, listing, &resource_version);
                return Ok(State::Listed { resource_version });
            }

            next = r#continue;
        }
    }

    /// Reads one page while it arrives.
    async fn page(&mut self, next: &str, listing: &mut Listing) -> Result<ListMeta, Stop> {
        let size = self.lists.page_size.map(|size| size.to_string());
        let mut parameters: Vec<(&str, &str)> =
            size.iter().map(|size| ("limit", size.as_str())).collect();
        if !next.is_empty() {
            parameters.push(("continue", next));
        }

        let mut body = self.open(&parameters, "PartialObjectMetadataList").await?;
        let mut items = Items::default();
        while let Some(bytes) = more(&mut body, self.timing.answer).await? {
            let informer = self.informer()?;
            let prune = &informer.cache.prune;
            items.feed(&bytes, |item| {
                match read_item(item, &informer.resource.kind, prune) {
                    Ok(object) => listing.relist.add(Arc::new(object)),
                    Err(object) => listing.keep(object),
                }
            })?;
        }

        Ok(items.end()?)
    }

    fn listed(&mut self, informer: &Informer, listing: Listing, resource_version: &str) {
        informer.relisted(listing.began, listing.relist, resource_version);
        self.lists.streams &= self.lists.silent_streams < SILENT_STREAMS;
        self.lists.silent_streams = 0;
        informer.listed_without(&listing.unreadable);
        informer.set_error(None);
    }

    /// Opens a watch from this resourceVersion.
    async fn watch(&mut self, resource_version: String) -> Result<(), Stop> {
        let opened = self
            .open_watch(&[("resourceVersion", &resource_version)])
            .await;

        match opened {
            Ok(watch) => {
                self.informer()?.set_error(None);
                self.state = State::Watching {
                    resource_version,
                    watch,
                };
                Ok(())
            }
            Err(error) if is_expired(&error) => Err(Stop::Expired),
            // The kind was removed. If it is installed again, its objects are new.
            Err(error) if error.kind == ErrorKind::NotFound => Err(error.into()),
            Err(error) => {
                self.state = State::Listed { resource_version };
                Err(error.into())
            }
        }
    }

    /// Reads a watch to its end.
    async fn follow(&mut self, resource_version: String, mut lines: Lines) -> Result<(), Stop> {
        // However this watch ends, the next one continues after its last event.
        self.state = State::Listed { resource_version };
        let began = Instant::now();
        let mut received_any = false;

        loop {
            let informer = self.informer()?;
            while let Some(line) = lines.next_line() {
                received_any = true;
                match WatchEvent::parse(line, &informer.resource.kind, &informer.cache.prune) {
                    WatchEvent::Applied(object) => {
                        self.received(object.resource_version());
                        informer.can_read(object.key());
                        let managed_fields =
                            informer.recorder().and_then(|_| managed_fields_in(line));
                        informer.applied(object, managed_fields);
                    }
                    WatchEvent::Deleted(object) => {
                        self.received(object.resource_version());
                        informer.can_read(object.key());
                        informer.deleted(object);
                    }
                    WatchEvent::Bookmark {
                        resource_version, ..
                    } => {
                        informer.bookmarked(&resource_version);
                        self.received(&resource_version);
                    }
                    WatchEvent::Unreadable(object) => {
                        let Some(identity) = &object.identity else {
                            // Any object may have changed, so we need a relist.
                            self.state = State::Empty;
                            return Err(informer.decode_error(&object).into());
                        };
                        informer.skipped(&object, identity);
                        self.received(&identity.resource_version);
                    }
                    WatchEvent::Error(error) if is_expired(&error) => return Err(Stop::Expired),
                    WatchEvent::Error(error) => return Err(error.into()),
                }
            }

            drop(informer);
            match lines.fill(self.timing.stall).await {
                Ok(true) => {}
                Ok(false) if !received_any && began.elapsed() < VERY_SHORT => {
                    return Err(ended_early("the watch"));
                }
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

    /// Records that the store is complete up to this resourceVersion.
    fn received(&mut self, resource_version: &str) {
        self.state = State::Listed {
            resource_version: resource_version.to_owned(),
        };
        self.backoff.reset();
    }

    async fn open_watch(&mut self, parameters: &[(&str, &str)]) -> Result<Lines, ApiError> {
        if let Some(informer) = self.informer.upgrade() {
            informer.count_watch();
        }

        let seconds = (self.timing.watch.as_secs_f32() * (1.0 + nondeterminism::random_fraction()))
            .ceil()
            .to_string();
        let mut all = vec![
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", &seconds),
        ];
        all.extend_from_slice(parameters);

        Ok(Lines::new(self.open(&all, "PartialObjectMetadata").await?))
    }

    async fn open(
        &mut self,
        parameters: &[(&str, &str)],
        metadata: &str,
    ) -> Result<Body, ApiError> {
        let answer = self.api_client.open(self.request(parameters, metadata)?);
        tokio::time::timeout(self.timing.answer, answer)
            .await
            .map_err(|_elapsed| no_answer(self.timing.answer))?
    }

    fn request(
        &self,
        parameters: &[(&str, &str)],
        metadata: &str,
    ) -> Result<Request<Vec<u8>>, ApiError> {
        let mut all = parameters.to_vec();
        all.extend(
            self.selectors
                .iter()
                .map(|(name, text)| (*name, text.as_str())),
        );
        let accept = match self.metadata_only {
            true => format!("application/json;as={metadata};g=meta.k8s.io;v=v1"),
            false => "application/json".to_owned(),
        };
        let request =
            Request::get(self.path.clone() + &query(&all)).header(http::header::ACCEPT, accept);

        request
            .body(Vec::new())
            .map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))
    }
}

impl Listing {
    /// Keeps the store's state of an unreadable object.
    fn keep(&mut self, object: Unreadable) {
        if let Some(key) = &object.key {
            self.relist.keep(key);
        }
        self.unreadable.push(object);
    }
}

/// Whether the API server no longer has a resourceVersion, or does not have it yet, as after a
/// restore from a backup.
fn is_expired(error: &ApiError) -> bool {
    // A list or a watch from the future fails with code 504 and this cause, as checked in
    // client-go:
    // https://github.com/kubernetes/client-go/blob/v0.36.2/tools/cache/reflector.go#L1162
    let too_large =
        |cause: &operetta_core::status::Cause| cause.reason == "ResourceVersionTooLarge";
    error.kind == ErrorKind::Expired || error.status.causes.iter().any(too_large)
}

fn no_answer(limit: Duration) -> ApiError {
    let message = format!(
        "no response from the API server for {} s",
        limit.as_secs_f32()
    );
    ApiError::new(ErrorKind::TimedOut, message)
}

fn ended_early(what: &str) -> Stop {
    ApiError::new(
        ErrorKind::Unavailable,
        format!("the API server closed {what} early"),
    )
    .into()
}
