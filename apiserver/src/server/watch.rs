//! The verb `watch`: a stream of events.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use serde_json::{Value, json};
use tokio::{
    sync::watch::Receiver,
    time::{Instant, sleep_until},
};

use super::{
    call::Call,
    environment::Environment,
    list::{Selection, parse_revision},
    negotiate::Form,
    query::ListOptions,
    registry::WeakResources,
    represent,
    resource::Resource,
    view::View,
};
use crate::{
    apimachinery::{json, status::Status},
    store::{Event, EventKind, ListQuery, StoreError, StoredObject, Watcher},
};

/// The time between two bookmarks.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// The time between the last bookmark of a watch and its end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// The length of a watch without a timeout is between this and twice this.
const MIN_LENGTH: u64 = 1800;
/// The annotation of the bookmark after the objects that exist.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Begins a watch.
///
/// # Errors
///
/// What the client gets, before the stream begins.
pub(super) fn watch(
    call: &Call<'_>,
    name: Option<&str>,
) -> Result<impl Stream<Item = Bytes> + Send + use<>, Status> {
    let options = ListOptions::read(call.query, true)?;
    let selection = Selection::read(call)?;
    let namespace = call.namespace().map(str::to_owned);
    let filter = Filter {
        selection,
        namespace,
        name: name.map(str::to_owned),
    };

    let revision = parse_revision(&options.resource_version).map_err(Status::plain)?;
    let sends_initial = options.send_initial_events.unwrap_or(revision == 0);
    let begun = if sends_initial {
        begin_with_objects(call, &filter)
    } else {
        begin_after(call, revision)
    };

    let random = call.view.now.as_nanosecond().unsigned_abs() as u64 % MIN_LENGTH;
    let length = options.timeout_seconds.unwrap_or(MIN_LENGTH + random);
    let end = Instant::now() + Duration::from_secs(length.min(30 * 24 * 3600));
    let mut removals = call.state.resources.removals();

    // The resource may have gone since the request was routed.
    removals.mark_changed();

    let mut stream = EventStream {
        view: call.view.clone(),
        resources: call.state.resources.downgrade(),
        removals,
        environment: call.state.environment.clone(),
        filter,
        watcher: None,
        pending: VecDeque::new(),
        end,
        bookmark: options
            .allow_bookmarks
            .then(|| next_bookmark(Instant::now(), end))
            .flatten(),
        allow_bookmarks: options.allow_bookmarks,
        is_first: true,
        is_over: false,
    };

    match begun {
        Ok((objects, watcher)) => {
            let revision = watcher.position();
            stream.watcher = Some(watcher);
            objects
                .iter()
                .for_each(|object| stream.push("ADDED", object));

            if options.send_initial_events == Some(true) && options.allow_bookmarks {
                stream.push_bookmark(revision, true);
            }
        }
        Err(error) => stream.push_error(&error),
    }

    Ok(stream::unfold(stream, |mut stream| async move {
        let bytes = stream.next().await?;
        Some((bytes, stream))
    }))
}

/// The objects with which a watch begins, and the watch.
type Begun = (Vec<Arc<StoredObject>>, Watcher);

fn begin_with_objects(call: &Call<'_>, filter: &Filter) -> Result<Begun, Status> {
    let matches = |object: &StoredObject| filter.matches(object);
    let query = ListQuery {
        namespace: filter.namespace.as_deref(),
        filter: Some(&matches),
        ..ListQuery::default()
    };
    let begun = call.state.store.list_and_watch(&call.storage(), &query);

    begun
        .map(|(listing, watcher)| (listing.items, watcher))
        .map_err(|error| call.store_error(error, ""))
}

fn begin_after(call: &Call<'_>, revision: u64) -> Result<Begun, Status> {
    let store = &call.state.store;
    let revision = if revision == 0 {
        store.revision()
    } else {
        revision
    };
    let begun = store.watch(&call.storage(), revision);

    begun
        .map(|watcher| (Vec::new(), watcher))
        .map_err(|error| call.store_error(error, ""))
}

fn next_bookmark(now: Instant, end: Instant) -> Option<Instant> {
    let last = end.checked_sub(BOOKMARK_BEFORE_END)?;
    Some((now + BOOKMARK_PERIOD).min(last)).filter(|next| *next > now)
}

/// The objects that a watch is for.
struct Filter {
    selection: Selection,
    namespace: Option<String>,
    name: Option<String>,
}

impl Filter {
    fn matches(&self, object: &StoredObject) -> bool {
        object.key().is_in(self.namespace.as_deref())
            && self
                .name
                .as_ref()
                .is_none_or(|name| name == object.key().name())
            && self.selection.matches(object)
    }
}

struct EventStream {
    view: View,
    resources: WeakResources,
    removals: Receiver<()>,
    environment: Environment,
    filter: Filter,
    watcher: Option<Watcher>,
    /// Events that were encoded and not yet sent.
    pending: VecDeque<Bytes>,
    end: Instant,
    /// The time of the next bookmark.
    bookmark: Option<Instant>,
    allow_bookmarks: bool,
    is_first: bool,
    is_over: bool,
}

impl EventStream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.take_pending() {
                return Some(bytes);
            }
            if self.is_over {
                return None;
            }

            let bookmark = self.bookmark.unwrap_or(self.end).min(self.end);
            let watcher = self.watcher.as_mut()?;
            tokio::select! {
                batch = watcher.next() => match batch {
                    Ok(batch) => batch.events.iter().for_each(|event| self.push_event(event)),
                    Err(StoreError::Compacted { requested, oldest }) => {
                        self.push_error(&Status::too_old_revision(requested, oldest));
                    }
                    Err(error) => self.push_error(&Status::internal(error)),
                },
                Ok(()) = self.removals.changed() => self.end_if_removed(),
                () = sleep_until(bookmark) => {
                    if bookmark >= self.end {
                        return None;
                    }
                    self.push_due_bookmark();
                }
            }
        }
    }

    /// Takes the encoded events as one chunk of the body.
    fn take_pending(&mut self) -> Option<Bytes> {
        let first = self.pending.pop_front()?;
        if self.pending.is_empty() {
            return Some(first);
        }

        let mut joined = first.to_vec();
        self.pending
            .drain(..)
            .for_each(|bytes| joined.extend_from_slice(&bytes));

        Some(joined.into())
    }

    /// Ends the watch after its last events once its resource is no longer served.
    fn end_if_removed(&mut self) {
        let Resource {
            group,
            version,
            names,
            ..
        } = &*self.view.resource;

        if self
            .resources
            .get()
            .get(group, version, &names.plural)
            .is_none()
        {
            self.push_new_events();
            self.is_over = true;
        }
    }

    /// Adds the events since the last call, and returns the revision that they reach.
    fn push_new_events(&mut self) -> Option<u64> {
        let batch = self.watcher.as_mut()?.poll().ok()?;
        batch.events.iter().for_each(|event| self.push_event(event));
        Some(batch.revision)
    }

    fn push_due_bookmark(&mut self) {
        if let Some(revision) = self.push_new_events() {
            self.push_bookmark(revision, false);
        }
        self.bookmark = next_bookmark(Instant::now(), self.end).filter(|_| self.allow_bookmarks);
    }

    /// Adds an event as the selection sees it: an object that starts to match is added, one that
    /// stops is deleted.
    fn push_event(&mut self, event: &Event) {
        let matched = event
            .previous
            .as_ref()
            .is_some_and(|previous| self.filter.matches(previous));
        let matches = event.kind != EventKind::Deleted && self.filter.matches(&event.object);
        match (matched, matches) {
            (false, true) => self.push("ADDED", &event.object),
            (true, true) => self.push("MODIFIED", &event.object),
            (true, false) => {
                let last = event.previous.as_ref().unwrap_or(&event.object);
                self.push("DELETED", &Arc::new(last.at_revision(event.revision())));
            }
            (false, false) => {}
        }
    }

    fn push(&mut self, kind: &str, object: &Arc<StoredObject>) {
        if self.view.takes_stored_bytes(object) {
            let mut out = Vec::with_capacity(object.size() + 160);
            out.extend_from_slice(format!(r#"{{"type":"{kind}","object":"#).as_bytes());
            object.write_json(&mut out, &self.view.resource.type_meta());
            out.extend_from_slice(b"}\n");
            self.pending.push_back(out.into());
            return;
        }

        match self.view.open(object) {
            Ok(object) => self.push_value(kind, &object),
            Err(error) => self.push_error(&error),
        }
    }

    fn push_value(&mut self, kind: &str, object: &Value) {
        // Tables show the age of an object at the time of the event.
        self.view.now = self.environment.now();
        match represent::event_object(&self.view, object, self.is_first) {
            Ok(object) => self.push_raw(kind, &object),
            Err(error) => self.push_error(&error),
        }

        self.is_first = false;
    }

    fn push_bookmark(&mut self, revision: u64, ends_initial_events: bool) {
        let mut object = json!({"metadata": {"resourceVersion": revision.to_string()}});
        if ends_initial_events {
            object["metadata"]["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }

        if self.view.accepted.form == Form::Object {
            self.view.add_type(&mut object);
            self.push_raw("BOOKMARK", &object);
        } else {
            self.push_value("BOOKMARK", &object);
        }
    }

    fn push_error(&mut self, error: &Status) {
        self.push_raw("ERROR", &error.to_value());
        self.is_over = true;
    }

    fn push_raw(&mut self, kind: &str, object: &Value) {
        let mut line = json::to_vec(&json!({"type": kind, "object": object}));
        line.push(b'\n');
        self.pending.push_back(line.into());
    }
}
