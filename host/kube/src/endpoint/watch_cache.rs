//! Lists and watches of processes from the shared informers, as the API server answers them from its
//! watch cache: ten operators that watch Pods cost the API server one watch.
//!
//! The rule is that a process cannot tell the difference. It sees the API server's own
//! resourceVersions, so whatever the informer does not know exactly is passed on, request by
//! request. docs/decisions/0049-a-watch-cache-for-processes.md has the table. What is answered here
//! has passed the gate, and a review of the account's right. One difference is left: the items of a
//! list name their kind, as only those of custom resources do in the API server's lists.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
    response,
};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use operetta_core::{
    authz::access_review::Access,
    gate::{
        bytes::Bytes as Charge,
        proxied_request::{ProxiedAnswer, RequestInfo},
        raw_request::{ResourcePath, Target},
        verb::Verb,
    },
    nondeterminism,
    object::{Object, kind::GroupVersionKind},
    status::{ApiError, ErrorKind},
};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tower::BoxError;

use super::list_options::{Form, ListOptions, Version};
use crate::{
    client::{
        object_api::PluginApi,
        proxied::{ProxiedResponse, Requested, StreamBody, access},
    },
    discovery::ApiResource,
    informer::{
        Informer, Scope,
        window::{Selection, Start, Told, WATCHER_BYTES, Watch},
    },
    store::{Entry, Store},
};

/// How long to wait for an informer's first list before the API server is asked instead.
const SYNC: Duration = Duration::from_secs(3);

/// How long to wait for an informer to reach a resourceVersion before the API server is asked
/// instead.
const CATCH_UP: Duration = Duration::from_millis(500);

/// How many informers one process may start. One that watches namespace by namespace needs one for
/// each.
const INFORMERS: usize = 100;

/// How long a watch without `timeoutSeconds` lasts: between this and twice as long
/// (kube-apiserver's `--min-request-timeout`).
const LASTS: Duration = Duration::from_secs(1_800);

/// How long before the end of a watch the last bookmark comes, as in the API server.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// How many bytes of a list are sent at once.
const PIECE: usize = 32 << 10;

/// The beginning of an object's metadata as a kind of its own.
const PARTIAL: &str =
    r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;

/// A list or a watch that may be answered from an informer.
struct Read<'a> {
    path: &'a ResourcePath,
    options: ListOptions,
    form: Form,
    access: Access,
    is_watch: bool,
}

/// Answers a request from an informer; None if only the API server can.
///
/// # Errors
/// `Invalid` for a streaming list: clients then list and watch.
pub(super) async fn answer(
    api: &PluginApi,
    info: &RequestInfo,
    requested: &Requested,
    headers: &HeaderMap,
    charge: &mut Option<Charge>,
) -> Result<Option<ProxiedAnswer<ProxiedResponse>>, ApiError> {
    let Some((read, informer)) = find(api, info, requested, headers).await? else {
        return Ok(None);
    };

    let selection = Selection {
        namespace: read.path.namespace.clone(),
        labels: read.options.labels.clone(),
        fields: read.options.fields.clone(),
    };
    let answered = if read.is_watch {
        watch(&informer, selection, &read, charge)
    } else {
        list(&informer, &selection, &read)
    };

    Ok(answered.map(|(head, body)| ProxiedAnswer {
        status: head.status.as_u16(),
        text: None,
        response: ProxiedResponse {
            head,
            read: Bytes::new(),
            rest: Some(body),
            seat: None,
            access: read.is_watch.then_some(read.access),
            charge: charge.take(),
        },
    }))
}

/// Finds the informer that may answer a request, and waits until it is as new as it has to be.
async fn find<'a>(
    api: &PluginApi,
    info: &'a RequestInfo,
    requested: &Requested,
    headers: &HeaderMap,
) -> Result<Option<(Read<'a>, Arc<Informer>)>, ApiError> {
    let Target::Resource(path) = &info.target else {
        return Ok(None);
    };
    let is_watch = match info.verb {
        Verb::Watch => true,
        Verb::Get | Verb::List => false,
        _ => return Ok(None),
    };
    if path.name.is_some() || path.subresource.is_some() {
        return Ok(None);
    }
    let (Some(options), Some(form)) = (
        ListOptions::read(&info.parameters),
        Form::accepted(headers, is_watch),
    ) else {
        return Ok(None);
    };
    if options.version == Version::MostRecent && !options.initial_events {
        return Ok(None);
    }

    // The host itself has no account whose rights could be reviewed.
    let Some(grants) = api.grants() else {
        return Ok(None);
    };
    let Requested {
        resource: Some(resource),
        permission: Some(permission),
    } = requested
    else {
        return Ok(None);
    };
    let Some(access) = access(resource, permission).filter(|_| resource.watchable) else {
        return Ok(None);
    };
    // Left to the API server, which refuses in its own words.
    if !grants.allows(&access).await.unwrap_or(false) {
        return Ok(None);
    }

    let namespace = path.namespace.as_deref();
    let Some(informer) = api.shared_informer(resource, namespace).await else {
        return Ok(None);
    };
    if timeout(SYNC, informer.synced()).await.is_err() {
        return Ok(None);
    }
    api.note(permission);

    if options.initial_events {
        let message = "sendInitialEvents: Forbidden: the host has no streaming lists: list with \
                       resourceVersion=0, and watch from there";
        return Err(ApiError::new(ErrorKind::Invalid, message));
    }
    if let Version::From(revision) = options.version
        && timeout(CATCH_UP, informer.reached(revision)).await.is_err()
    {
        return Ok(None);
    }

    let read = Read {
        path,
        options,
        form,
        access,
        is_watch,
    };
    Ok(Some((read, informer)))
}

impl PluginApi {
    /// The informer whose lists and watches processes share, of all namespaces or of one; None if the
    /// host may not watch there, or if the plugin has too many.
    async fn shared_informer(
        &self,
        resource: &Arc<ApiResource>,
        namespace: Option<&str>,
    ) -> Option<Arc<Informer>> {
        let started = self.on_demand(resource, namespace)?;
        if let Some(informer) = started {
            return Some(informer);
        }

        // Watch one namespace only, unless an informer of all of them runs anyway.
        let scope = |namespace: Option<&str>| Scope {
            namespace: namespace.map(str::to_owned),
            for_processes: true,
            ..Scope::everything()
        };
        let (location, scope) = match self.registry.running_of(resource, &scope(None)) {
            Some(_) => (None, scope(None)),
            None => (namespace, scope(namespace)),
        };

        let may_watch = self
            .registry
            .watch_scope
            .may_watch(resource, location, None);
        if !may_watch.await.unwrap_or(false) {
            return None;
        }
        self.start_on_demand(resource, scope, INFORMERS)
    }
}

/// The head and the body of an answer.
type Answer = (response::Parts, StreamBody);

/// A list from the store; None if the informer can't answer exactly now.
fn list(informer: &Arc<Informer>, selection: &Selection, read: &Read<'_>) -> Option<Answer> {
    let (revision, entries) = informer.snapshot(selection)?;
    let kind = &informer.resource.kind;
    let (list_kind, api_version) = match read.form {
        Form::Whole => (format!("{}List", kind.kind), kind.api_version.as_str()),
        Form::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1"),
    };

    // The API server converts a list to its metadata by appending to a slice, and Go writes a slice
    // to which nothing was appended as null.
    let (items, end) = match read.form {
        Form::Metadata if entries.is_empty() => ("null", "}\n"),
        Form::Metadata | Form::Whole => ("[", "]}\n"),
    };

    let head = format!(
        r#"{{"kind":"{list_kind}","apiVersion":"{api_version}","metadata":{{"resourceVersion":"{revision}"}},"items":{items}"#
    );

    let body = ListBody {
        head: Some(head),
        end,
        entries: entries.into_iter(),
        is_first: true,
        store: informer.cache.store.clone(),
        form: read.form,
        has_ended: false,
    };
    Some((in_json(), body.boxed_unsync()))
}

/// A watch of the informer; None if the informer does not reach back so far, or if there is no room
/// for it.
fn watch(
    informer: &Arc<Informer>,
    selection: Selection,
    read: &Read<'_>,
    charge: &mut Option<Charge>,
) -> Option<Answer> {
    let from = match read.options.version {
        Version::From(revision) => Start::After(revision),
        Version::Any | Version::MostRecent => Start::Objects,
    };

    if let Some(charge) = charge {
        charge.take(WATCHER_BYTES).ok()?;
    }
    let watch = informer.watch(selection, from, read.options.bookmarks)?;

    let lasts = read
        .options
        .timeout
        .unwrap_or_else(|| LASTS.mul_f32(1.0 + nondeterminism::random_fraction()));
    let end = Instant::now() + lasts;
    // A short watch needs none.
    let has_last_bookmark = read.options.bookmarks && lasts > 2 * LAST_BOOKMARK;
    let alarm = if has_last_bookmark {
        end - LAST_BOOKMARK
    } else {
        end
    };

    let body = WatchBody {
        watch,
        form: read.form,
        alarm: Box::pin(sleep_until(alarm)),
        end,
        has_last_bookmark,
    };
    Some((in_json(), body.boxed_unsync()))
}

/// The head of an answer: in JSON, whatever form the objects have.
fn in_json() -> response::Parts {
    let (mut head, ()) = Response::new(()).into_parts();
    head.status = StatusCode::OK;
    let json = HeaderValue::from_static("application/json");
    head.headers.insert(CONTENT_TYPE, json);
    head.headers
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    head
}

/// A list, made piece by piece as it is taken.
struct ListBody {
    head: Option<String>,
    end: &'static str,
    entries: std::vec::IntoIter<Entry>,
    is_first: bool,
    store: Arc<Store>,
    form: Form,
    has_ended: bool,
}

impl Body for ListBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }

        let mut piece = self.head.take().unwrap_or_default();
        while piece.len() < PIECE {
            let Some(entry) = self.entries.next() else {
                piece.push_str(self.end);
                self.has_ended = true;
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                piece.push(',');
            }
            write_object(&mut piece, &self.store.open(&entry), self.form, None);
        }
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended
    }
}

/// A watch, until its time is over.
struct WatchBody {
    watch: Watch,
    form: Form,
    /// Goes off for the last bookmark, and at the end.
    alarm: Pin<Box<Sleep>>,
    end: Instant,
    has_last_bookmark: bool,
}

impl Body for WatchBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut piece = String::new();
        let mut has_ended = false;
        while piece.len() < PIECE {
            match self.watch.poll_next(context) {
                Poll::Ready(Some(told)) => {
                    let kind = &self.watch.informer().resource.kind;
                    write_event(&mut piece, &told, kind, self.form);
                }
                Poll::Ready(None) => {
                    has_ended = true;
                    break;
                }
                Poll::Pending => break,
            }
        }

        if !piece.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(piece.into()))));
        }
        if has_ended {
            return Poll::Ready(None);
        }

        while self.alarm.as_mut().poll(context).is_ready() {
            if !std::mem::take(&mut self.has_last_bookmark) {
                return Poll::Ready(None);
            }
            let end = self.end;
            self.alarm.as_mut().reset(end);
            if let Some(revision) = self.watch.reached() {
                let kind = &self.watch.informer().resource.kind;
                write_event(&mut piece, &Told::Bookmark(revision), kind, self.form);
                return Poll::Ready(Some(Ok(Frame::data(piece.into()))));
            }
        }
        Poll::Pending
    }
}

/// Writes a line of a watch.
fn write_event(text: &mut String, told: &Told, kind: &GroupVersionKind, form: Form) {
    let (name, object, revision) = match told {
        Told::Added(object) => ("ADDED", object, None),
        Told::Modified(object) => ("MODIFIED", object, None),
        Told::Deleted { object, revision } => ("DELETED", object, Some(*revision)),
        Told::Bookmark(revision) => {
            let (kind, api_version) = match form {
                Form::Whole => (kind.kind.as_str(), kind.api_version.as_str()),
                Form::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1"),
            };
            text.push_str(&format!(
                r#"{{"type":"BOOKMARK","object":{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{"resourceVersion":"{revision}"}}}}}}"#
            ));
            text.push('\n');
            return;
        }
    };

    text.push_str(r#"{"type":""#);
    text.push_str(name);
    text.push_str(r#"","object":"#);
    write_object(text, object, form, revision);
    text.push_str("}\n");
}

/// Writes an object, with its own resourceVersion or with this one.
fn write_object(text: &mut String, object: &Object, form: Form, revision: Option<u64>) {
    let json = match form {
        Form::Whole => object.json(),
        Form::Metadata => object.at("metadata").unwrap_or("{}"),
    };
    if form == Form::Metadata {
        text.push_str(PARTIAL);
    }

    // The place is searched for in the text, and most objects have their own resourceVersion.
    let replaced = revision.and_then(|revision| {
        let version = object.at("metadata.resourceVersion")?;
        Some((revision, place(json, version)?))
    });
    match replaced {
        Some((revision, place)) => {
            text.push_str(&json[..place.start]);
            text.push_str(&format!("\"{revision}\""));
            text.push_str(&json[place.end..]);
        }
        None => text.push_str(json),
    }
    if form == Form::Metadata {
        text.push('}');
    }
}

/// The range of a slice within the text that it was cut from.
fn place(text: &str, part: &str) -> Option<std::ops::Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let place = start..start + part.len();
    (text.get(place.clone()) == Some(part)).then_some(place)
}
