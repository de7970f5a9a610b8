//! Writes Events in the background, as core/v1 Events with a count, so that `kubectl describe`
//! shows "x7 over 3m".
//!
//! One task per plugin takes notes from a bounded channel, merges them with the [`Correlator`] and
//! writes them under the plugin's identity. A note never blocks a reconcile: if the channel is
//! full, it is dropped and counted. While the API server is unavailable, a failed write is tried up
//! to 12 times (client-go's [`maxTriesPerEvent`]); a rejected write is not retried.
//!
//! [`maxTriesPerEvent`]: https://github.com/kubernetes/client-go/blob/v0.36.2/tools/record/event.go#L39

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use operetta_api::names::is_dns_subdomain;
use operetta_core::{
    gate::path::check_key,
    nondeterminism,
    object::{
        ObjectKey,
        bounded_name::{MAX_OBJECT_NAME, bounded},
        kind::GroupVersionKind,
    },
    ports::{EventNote, EventSink},
    status::{ApiError, ErrorKind},
};
use serde_json::json;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    client::api_client::ApiClient,
    clock,
    events::correlator::{Correlator, Decision},
};

/// Same as client-go's `maxQueuedEvents`.
const QUEUE: usize = 1_000;
const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// Records one source's Events.
pub struct EventRecorder {
    notes: mpsc::Sender<EventNote>,
    /// How many notes were dropped because the channel was full.
    pub dropped: AtomicU64,
}

impl EventRecorder {
    /// Starts a recorder. When its last handle is dropped, it writes the queued Events and ends.
    /// `kubectl describe` shows `component` in the column From.
    pub fn start(api_client: ApiClient, component: String) -> Arc<Self> {
        let (notes, queue) = mpsc::channel(QUEUE);
        tokio::spawn(write_all(queue, api_client, component));
        Arc::new(Self {
            notes,
            dropped: AtomicU64::new(0),
        })
    }
}

impl EventSink for EventRecorder {
    fn emit(&self, note: EventNote) {
        if self.notes.try_send(note).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn write_all(mut queue: mpsc::Receiver<EventNote>, api_client: ApiClient, component: String) {
    let mut correlator = Correlator::default();
    while let Some(note) = queue.recv().await {
        let decision = correlator.correlate(&note, Instant::now());
        let about = note.key.clone();
        let mut tries = 1;

        while let Err(error) =
            write(&api_client, &component, &note, &decision, &mut correlator).await
        {
            let passing = matches!(
                error.kind,
                ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::TooManyRequests
            );
            if !passing || tries >= TRIES {
                tracing::warn!(component, %about, reason = note.reason, %error, "failed to record event");
                break;
            }
            tries += 1;
            tokio::time::sleep(PAUSE.mul_f32(nondeterminism::random_fraction().max(0.1))).await;
        }
    }
}

/// Sends a request, counting towards the plugin's quotas.
async fn send(api_client: &ApiClient, request: http::Request<Vec<u8>>) -> Result<String, ApiError> {
    api_client.throttle().wait().await;
    api_client.send(request).await
}

async fn write(
    api_client: &ApiClient,
    component: &str,
    note: &EventNote,
    decision: &Decision,
    correlator: &mut Correlator,
) -> Result<(), ApiError> {
    let namespace = note.key.namespace.as_deref().unwrap_or("default");
    check_key(&ObjectKey::namespaced(namespace, &note.key.name))?;
    let collection = format!("/api/v1/namespaces/{namespace}/events");
    let (key, message) = match decision {
        Decision::Drop => return Ok(()),
        Decision::Create { key, message } => (key, message),
        Decision::Count {
            key,
            name,
            count,
            message,
        } => {
            let patch =
                json!({"count": count, "message": message, "lastTimestamp": Time(clock::now())});
            let request = http::Request::patch(format!("{collection}/{name}"))
                .header(http::header::CONTENT_TYPE, "application/merge-patch+json");
            match send(api_client, built(request, patch.to_string())?).await {
                // Events live an hour by default (kube-apiserver's --event-ttl): the first one is
                // gone, so this one is new.
                Err(error) if error.kind == ErrorKind::NotFound => correlator.forget(*key),
                other => return other.map(drop),
            }
            (key, message)
        }
    };

    let event = event(component, namespace, note, message);
    let name = event.metadata.name.clone().unwrap_or_default();
    let body = serde_json::to_string(&event)
        .map_err(|error| ApiError::new(ErrorKind::Other, error.to_string()))?;
    let request =
        http::Request::post(collection).header(http::header::CONTENT_TYPE, "application/json");
    send(api_client, built(request, body)?).await?;
    correlator.created(*key, name);

    Ok(())
}

fn built(
    request: http::request::Builder,
    body: String,
) -> Result<http::Request<Vec<u8>>, ApiError> {
    request
        .body(body.into_bytes())
        .map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))
}

/// The name of an Event about an object: as in client-go ([`GenerateEventName`]), the object's name
/// and the time in nanoseconds, in hexadecimal. The object's name may be too long for that, or
/// contain characters an Event's name must not have.
///
/// [`GenerateEventName`]: https://github.com/kubernetes/client-go/blob/v0.36.2/tools/record/util/util.go#L50
fn event_name(object: &str, nanos: u128) -> String {
    let time = format!(".{nanos:x}");
    let mut name = object.to_owned();

    if !is_dns_subdomain(object) {
        let valid = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
        let letters = object.chars();
        let replaced: String = letters
            .map(|letter| {
                if valid(letter) {
                    letter.to_ascii_lowercase()
                } else {
                    '-'
                }
            })
            .collect();
        replaced
            .trim_matches(|end: char| !end.is_ascii_alphanumeric())
            .clone_into(&mut name);
    }
    if !is_dns_subdomain(&name) && name.len() <= MAX_OBJECT_NAME {
        "event".clone_into(&mut name);
    }

    bounded(name, MAX_OBJECT_NAME - time.len()) + &time
}

fn event(component: &str, namespace: &str, note: &EventNote, message: &str) -> Event {
    let GroupVersionKind { api_version, kind } = note.regarding.clone();
    let now = Time(clock::now());
    let nanos = nondeterminism::wall_clock().as_nanos();
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());

    Event {
        metadata: ObjectMeta {
            name: Some(event_name(&note.key.name, nanos)),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(api_version),
            kind: Some(kind),
            namespace: note.key.namespace.clone(),
            name: Some(note.key.name.clone()),
            uid: note.uid.clone(),
            ..ObjectReference::default()
        },
        type_: Some(note.event_type.as_str().to_owned()),
        reason: some(&note.reason),
        action: some(&note.action),
        message: Some(message.to_owned()),
        source: Some(EventSource {
            component: Some(component.to_owned()),
            host: None,
        }),
        reporting_component: Some(component.to_owned()),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_an_event_is_valid_whatever_the_object_is_called() {
        let nanos = u128::from(u64::MAX);
        assert_eq!(event_name("web", 0x17ab), "web.17ab");
        assert_eq!(event_name("hello World", 0x17ab), "hello-world.17ab");
        assert_eq!(event_name("system:node", 0x17ab), "system-node.17ab");

        let long = "a".repeat(253);
        for object in [
            long.as_str(),
            &long[..250],
            "a..b",
            "?",
            "\u{e9}",
            "",
            "-.-",
        ] {
            let name = event_name(object, nanos);
            assert!(is_dns_subdomain(&name), "{object:?}: {name}");
            assert!(name.ends_with(".ffffffffffffffff"), "{name}");
        }
    }
}
