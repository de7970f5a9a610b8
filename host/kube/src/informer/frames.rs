//! Decodes the API server's responses to an informer: the lines of a watch, and the objects in them
//! and in lists.
//!
//! Chunks have arbitrary boundaries; a line is complete only with its end. An unreadable object is
//! reported with the reason, and with its key if at least that is readable, so that one bad object
//! never hides others.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use operetta_core::{
    object::{
        Object, ObjectKey, field_managers::managed_fields, kind::GroupVersionKind, prune::Prune,
    },
    status::{ApiError, ErrorKind},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::api_client::{chain, from_body};

/// The longest line we accept. The API server accepts no request of over 3 MiB, and etcd no value
/// of over 1.5 MiB (<https://etcd.io/docs/v3.5/dev-guide/limits/>).
const MAX_LINE: usize = 32 << 20;
/// How many bytes of buffer are kept between two chunks.
const MAX_KEPT: usize = 64 << 10;
/// The annotation on the bookmark at the end of a streaming list's initial events ([KEP-3157]).
///
/// [KEP-3157]: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/3157-watch-list
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The lines of a response arriving in chunks.
pub struct Lines<B = kube::client::Body> {
    body: B,
    buffer: Vec<u8>,
    /// Bytes of `buffer` already returned.
    taken: usize,
    /// Bytes of `buffer` already returned, or known to contain no end of line.
    scanned: usize,
}

impl<B: Body<Data = Bytes, Error: std::error::Error> + Unpin> Lines<B> {
    /// Creates the lines of an unread response.
    pub fn new(body: B) -> Self {
        Self {
            body,
            buffer: Vec::new(),
            taken: 0,
            scanned: 0,
        }
    }

    /// Waits at most `patience` for the next chunk. Returns false at the end of the response; any
    /// remaining bytes are not a complete line then.
    ///
    /// # Errors
    /// `TimedOut` if nothing arrived, `Unavailable` if the connection broke, `Other` for a line
    /// that is too long.
    pub async fn fill(&mut self, patience: Duration) -> Result<bool, ApiError> {
        let Some(bytes) = more(&mut self.body, patience).await? else {
            return Ok(false);
        };

        self.forget_taken();
        self.buffer.extend_from_slice(&bytes);
        if self.buffer.len() > MAX_LINE && !self.buffer[self.scanned..].contains(&b'\n') {
            return Err(ApiError::new(
                ErrorKind::Other,
                format!("an event has more than {MAX_LINE} bytes"),
            ));
        }

        Ok(true)
    }

    /// The next complete line.
    pub fn next_line(&mut self) -> Option<&[u8]> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
                self.scanned = self.buffer.len();
                return None;
            };

            let line = self.taken..self.scanned + end;
            self.taken = line.end + 1;
            self.scanned = self.taken;

            if !self.buffer[line.clone()]
                .iter()
                .all(u8::is_ascii_whitespace)
            {
                return Some(&self.buffer[line]);
            }
        }
    }

    fn forget_taken(&mut self) {
        self.buffer.drain(..self.taken);
        self.scanned -= self.taken;
        self.taken = 0;
        if self.buffer.capacity() > MAX_KEPT && self.buffer.len() < MAX_KEPT / 2 {
            // Give back the memory of a long list: a watch is mostly silent.
            self.buffer.shrink_to(MAX_KEPT);
        }
    }
}

/// The next bytes of a response; None at its end.
///
/// # Errors
/// `TimedOut` if nothing arrived in time, `Unavailable` if the connection broke.
pub(super) async fn more<B>(body: &mut B, patience: Duration) -> Result<Option<Bytes>, ApiError>
where
    B: Body<Data = Bytes, Error: std::error::Error> + Unpin,
{
    loop {
        let frame = tokio::time::timeout(patience, body.frame())
            .await
            .map_err(|_elapsed| {
                ApiError::new(
                    ErrorKind::TimedOut,
                    format!(
                        "no data from the API server for {} s",
                        patience.as_secs_f32()
                    ),
                )
            })?;

        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|error| {
            ApiError::new(
                ErrorKind::Unavailable,
                format!("connection to the API server lost: {}", chain(&error)),
            )
        })?;

        // Ignore trailers.
        if let Ok(bytes) = frame.into_data() {
            return Ok(Some(bytes));
        }
    }
}

/// One event of a watch (apimachinery's [`metav1.WatchEvent`]).
///
/// [`metav1.WatchEvent`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/apis/meta/v1/watch.go#L31
#[derive(Debug)]
pub enum WatchEvent {
    /// ADDED or MODIFIED. Only the store knows whether the object is new to it.
    Applied(Object),
    /// DELETED, or no longer selected.
    Deleted(Object),
    /// No event up to this resourceVersion is missing.
    Bookmark {
        /// The resourceVersion.
        resource_version: String,
        /// Whether all objects existing at the start have been sent.
        initial_events_end: bool,
    },
    /// The API server's error, ending the watch.
    Error(ApiError),
    /// An unreadable object.
    Unreadable(Unreadable),
}

/// An unreadable object or event.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The object's key, if at least that is readable.
    pub key: Option<ObjectKey>,
    /// The reason.
    pub why: String,
    /// The object's identity, if it is unambiguous. The watch can then go on after the object.
    pub identity: Option<Box<Identity>>,
}

/// The identity of an unreadable object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its key.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// Whether this is the last state of a deleted object.
    pub deleted: bool,
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

impl WatchEvent {
    /// Parses one line, reading the object once and without the pruned fields.
    pub fn parse(line: &[u8], of: &GroupVersionKind, prune: &Prune) -> Self {
        let Ok(text) = std::str::from_utf8(line) else {
            return Self::Unreadable(unreadable(
                &String::from_utf8_lossy(line),
                "it is not UTF-8",
            ));
        };

        // The API server's usual order. Any other valid JSON takes another scan.
        if let Some((kind, object)) = split(text)
            && let Some(Ok(event)) = applied_or_deleted(kind, object, of, prune)
        {
            return event;
        }

        match serde_json::from_str::<Line<'_>>(text) {
            Err(error) => Self::Unreadable(unreadable(text, &error.to_string())),
            Ok(Line { r#type, object }) => Self::read(&r#type, object.get(), of, prune),
        }
    }

    fn read(kind: &str, object: &str, of: &GroupVersionKind, prune: &Prune) -> Self {
        if let Some(event) = applied_or_deleted(kind, object, of, prune) {
            return event.unwrap_or_else(Self::Unreadable);
        }

        match kind {
            "BOOKMARK" => match serde_json::from_str::<Bookmark>(object) {
                Ok(Bookmark {
                    metadata:
                        BookmarkMeta {
                            resource_version,
                            annotations,
                        },
                }) => Self::Bookmark {
                    resource_version,
                    initial_events_end: annotations
                        .get(INITIAL_EVENTS_END)
                        .is_some_and(|value| value == "true"),
                },
                Err(error) => {
                    let why = format!("failed to decode bookmark: {error}");
                    Self::Unreadable(Unreadable {
                        key: None,
                        why,
                        identity: None,
                    })
                }
            },
            "ERROR" => Self::Error(of_status(object)),
            other => {
                let shown: String = other.chars().take(32).collect();
                let unknown = unreadable(object, &format!("unknown watch event type {shown:?}"));
                Self::Unreadable(Unreadable {
                    identity: None,
                    ..unknown
                })
            }
        }
    }
}

/// Splits a line in the API server's usual form into its type and the object's text.
fn split(line: &str) -> Option<(&str, &str)> {
    let (kind, rest) = line
        .strip_prefix("{\"type\":\"")?
        .split_once("\",\"object\":")?;
    Some((kind, rest.trim_end().strip_suffix('}')?))
}

/// The text of managedFields in a watch line's object; None if it has none, or if the line is not
/// in the API server's usual form.
pub(super) fn managed_fields_in(line: &[u8]) -> Option<&str> {
    let (_, object) = std::str::from_utf8(line).ok().and_then(split)?;
    managed_fields(object)
}

/// Reads the object of an ADDED, MODIFIED or DELETED event; None for other types.
fn applied_or_deleted(
    kind: &str,
    object: &str,
    of: &GroupVersionKind,
    prune: &Prune,
) -> Option<Result<WatchEvent, Unreadable>> {
    match kind {
        "ADDED" | "MODIFIED" => Some(read(object, of, prune).map(WatchEvent::Applied)),
        "DELETED" => Some(
            read(object, of, prune)
                .map(WatchEvent::Deleted)
                .map_err(Unreadable::deleted),
        ),
        _ => None,
    }
}

impl Unreadable {
    fn deleted(mut self) -> Self {
        if let Some(identity) = &mut self.identity {
            identity.deleted = true;
        }
        self
    }
}

fn of_status(object: &str) -> ApiError {
    #[derive(Deserialize)]
    struct Code {
        #[serde(default)]
        code: u16,
    }
    let code = serde_json::from_str::<Code>(object).map_or(500, |status| status.code);
    from_body(code, object.as_bytes(), None)
}

/// Reads an item of a list, without the pruned fields.
///
/// # Errors
/// [`Unreadable`], with the reason, and with the key if at least that is readable.
pub fn read_item(item: &[u8], of: &GroupVersionKind, prune: &Prune) -> Result<Object, Unreadable> {
    match std::str::from_utf8(item) {
        Ok(text) => read(text, of, prune),
        Err(_) => Err(unreadable(
            &String::from_utf8_lossy(item),
            "it is not UTF-8",
        )),
    }
}

/// Reads an object in the store's form.
fn read(text: &str, of: &GroupVersionKind, prune: &Prune) -> Result<Object, Unreadable> {
    let object = Object::from_json_pruned(text, of, prune);
    let object = object.map_err(|error| unreadable(text, &error.to_string()))?;
    if object.resource_version().is_empty() {
        let why = "it has no metadata.resourceVersion".to_owned();
        return Err(Unreadable {
            key: Some(object.key().clone()),
            why,
            identity: None,
        });
    }

    Ok(object)
}

fn unreadable(text: &str, why: &str) -> Unreadable {
    let identity = identity_of(text).map(Box::new);
    let key = identity
        .as_ref()
        .map(|identity| identity.key.clone())
        .or_else(|| key_of(text));
    Unreadable {
        key,
        why: why.to_owned(),
        identity,
    }
}

/// An object's identity: its own metadata, whatever is in its other fields. They may be nested
/// deeper than any stack, so we go over them without recursion.
fn identity_of(text: &str) -> Option<Identity> {
    #[derive(Deserialize)]
    struct Top<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        name: String,
        #[serde(default)]
        namespace: String,
        uid: String,
        resource_version: String,
    }

    let Top { metadata } = serde_json::from_str(text).ok()?;
    let Meta {
        name,
        namespace,
        uid,
        resource_version,
    } = serde_json::from_str(metadata.get()).ok()?;

    if name.is_empty() || resource_version.parse::<u64>().is_err() {
        return None;
    }

    let key = ObjectKey {
        namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
        name,
    };

    Some(Identity {
        key,
        uid,
        resource_version,
        deleted: false,
    })
}

/// The key in a text that is not an object, or in a line with one. Used only for messages, never
/// for requests.
fn key_of(text: &str) -> Option<ObjectKey> {
    #[derive(Deserialize)]
    struct Meta {
        name: String,
        namespace: Option<String>,
    }

    let metadata = text.split_once("\"metadata\":")?.1.trim_start();
    let mut values = serde_json::Deserializer::from_str(metadata).into_iter::<Meta>();
    let Meta { name, namespace } = values.next()?.ok()?;
    Some(ObjectKey {
        namespace: namespace.filter(|namespace| !namespace.is_empty()),
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","resourceVersion":"7","managedFields":[]},"data":{"k":"}\n"}}"#;

    fn parse(line: &str) -> WatchEvent {
        let kind = GroupVersionKind::new("v1", "ConfigMap");
        WatchEvent::parse(line.as_bytes(), &kind, &Prune::managed_fields())
    }

    async fn lines_of(chunks: &[&str]) -> Vec<String> {
        let chunks: Vec<_> = chunks
            .iter()
            .map(|chunk| {
                Ok::<_, std::convert::Infallible>(http_body::Frame::data(
                    chunk.as_bytes().to_vec().into(),
                ))
            })
            .collect();
        let mut lines = Lines::new(http_body_util::StreamBody::new(futures::stream::iter(
            chunks,
        )));
        let mut found = Vec::new();
        loop {
            let more = lines.fill(Duration::from_secs(1)).await.expect("reads");
            while let Some(line) = lines.next_line() {
                found.push(String::from_utf8_lossy(line).into_owned());
            }
            if !more {
                return found;
            }
        }
    }

    #[tokio::test]
    async fn lines_survive_any_chunk_boundary() {
        assert_eq!(
            lines_of(&["a\nb", "c", "\n\n\r\nd\n", "e"]).await,
            ["a", "bc", "d"],
            "the last has no end"
        );
        assert!(lines_of(&[]).await.is_empty());
    }

    #[test]
    fn reads_event_fields_in_any_order() {
        for line in [
            format!(r#"{{"type":"ADDED","object":{A}}}"#),
            format!(r#" {{ "object": {A}, "type" : "MODIFIED", "x":1}} "#),
        ] {
            let WatchEvent::Applied(object) = parse(&line) else {
                panic!("{line}")
            };
            assert_eq!(*object.key(), ObjectKey::namespaced("n", "a"));
            assert!(!object.json().contains("managedFields"));
        }
        let WatchEvent::Deleted(_) = parse(&format!(r#"{{"type":"DELETED","object":{A}}}"#)) else {
            panic!("deleted")
        };
    }

    #[test]
    fn bookmark_reports_position_and_end_of_list() {
        let mark = |annotations: &str| {
            let line = format!(
                r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","metadata":{{"resourceVersion":"9"{annotations}}}}}}}"#
            );
            match parse(&line) {
                WatchEvent::Bookmark {
                    resource_version,
                    initial_events_end,
                } => (resource_version, initial_events_end),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(mark(""), ("9".to_owned(), false));
        assert_eq!(
            mark(r#","annotations":{"k8s.io/initial-events-end":"true"}"#),
            ("9".to_owned(), true)
        );
    }

    #[test]
    fn error_event_has_api_server_status() {
        let line = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 1 (9)"}}"#;
        let WatchEvent::Error(error) = parse(line) else {
            panic!("no error")
        };
        assert_eq!(
            (error.kind, error.status.message.as_str()),
            (ErrorKind::Expired, "too old resource version: 1 (9)")
        );
    }

    #[test]
    fn identity_of_deep_object_is_its_own_metadata() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let other =
            r#"{"metadata":{"name":"victim","namespace":"v","uid":"v","resourceVersion":"99"}}"#;
        let object = format!(
            r#"{{"a":{other},"metadata":{{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","x":{deep}}},"spec":{deep}}}"#
        );
        let identity = |line: &str| match parse(line) {
            WatchEvent::Unreadable(found) => found.identity.map(|identity| *identity),
            other => panic!("{other:?}"),
        };
        let own = Identity {
            key: ObjectKey::namespaced("n", "a"),
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
            deleted: false,
        };
        assert_eq!(
            identity(&format!(r#"{{"type":"MODIFIED","object":{object}}}"#)),
            Some(own.clone())
        );
        let gone = Identity {
            deleted: true,
            ..own
        };
        assert_eq!(
            identity(&format!(r#"{{"type":"DELETED","object":{object}}}"#)),
            Some(gone)
        );
        let twice = format!(r#"{{"metadata":{{}},{}"#, &object[1..]);
        assert_eq!(
            identity(&format!(r#"{{"type":"ADDED","object":{twice}}}"#)),
            None,
            "which of them is it?"
        );
        assert_eq!(
            identity(&format!(r#"{{"type":"RENAMED","object":{object}}}"#)),
            None
        );
    }

    #[test]
    fn what_is_no_object_is_named_with_the_reason() {
        let named = Some(ObjectKey::namespaced("n", "a"));
        for (object, key, why) in [
            (
                r#"{"metadata":{"namespace":"n"}}"#,
                None,
                "no metadata.name",
            ),
            (
                r#"{"metadata":{"name":"a","namespace":"n"}}"#,
                named.clone(),
                "no metadata.resourceVersion",
            ),
            (
                r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":7}}"#,
                named.clone(),
                "expected a string",
            ),
            (
                r#"{"metadata":{"name":"a","namespace":"n"},"data":{]}"#,
                named.clone(),
                "key must be a string",
            ),
            ("[]", None, "expected a JSON object"),
        ] {
            let WatchEvent::Unreadable(found) =
                parse(&format!(r#"{{"type":"ADDED","object":{object}}}"#))
            else {
                panic!("{object}")
            };
            assert_eq!(found.key, key, "{object}");
            assert!(found.why.contains(why), "{object}: {}", found.why);
        }
        let mut line = format!(r#"{{"type":"ADDED","object":{A}}}"#).into_bytes();
        let end = line.len() - 5;
        line[end] = 0xff;
        let kind = GroupVersionKind::new("v1", "ConfigMap");
        let WatchEvent::Unreadable(found) =
            WatchEvent::parse(&line, &kind, &Prune::managed_fields())
        else {
            panic!("no UTF-8")
        };
        assert_eq!(
            (found.key, found.why.as_str()),
            (named.clone(), "it is not UTF-8")
        );
        for line in [
            format!(r#"{{"type":"RENAMED","object":{A}}}"#),
            format!(r#"{{"type":"ADDED","object":{A}"#),
        ] {
            let WatchEvent::Unreadable(found) = parse(&line) else {
                panic!("{line}")
            };
            assert_eq!(found.key, named);
        }
    }
}
