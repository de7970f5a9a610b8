//! What the answers to a plugin's writes tell about the objects in the caches. Every write we send
//! is noted here, in whatever form: typed or raw, of an object, a subresource or a collection. A
//! write without an answer may have been stored all the same.

use std::sync::Arc;

use operetta_core::{
    gate::{call::Call, operation::Verb},
    object::{ManagedFields, Object, ObjectKey},
    status::{ApiError, ErrorKind},
};
use serde::Deserialize;
use tokio::time::Instant;

use crate::{
    client::{answers::is_written, protobuf::Envelope},
    discovery::ApiResource,
    informer::{own_writes::Effect, registry::InformerRegistry},
    store::overlay::{Author, Until},
};

/// The part of a write's answer that tells what it is: a metav1.Status, an object, or a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    details: Details,
    items: Option<Vec<Item>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    namespace: Option<String>,
    name: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
struct Details {
    #[serde(default)]
    uid: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

impl Metadata {
    fn revision(&self) -> Option<u64> {
        self.resource_version.parse().ok()
    }

    fn is_of(&self, key: &ObjectKey) -> bool {
        self.name == key.name && self.namespace == key.namespace
    }
}

/// An in-flight write. If dropped without an answer, it leaves a note that it may have been stored.
pub(crate) struct Sent<'a> {
    registry: &'a InformerRegistry,
    resource: &'a ApiResource,
    call: &'a Call,
    author: Author,
    since: Instant,
    is_answered: bool,
}

impl<'a> Sent<'a> {
    pub(crate) fn new(
        registry: &'a InformerRegistry,
        resource: &'a ApiResource,
        call: &'a Call,
        author: Author,
    ) -> Self {
        // Requests that store nothing need no note.
        let is_answered = call.is_dry_run || !call.verb.is_write();
        Self {
            registry,
            resource,
            call,
            author,
            since: Instant::now(),
            is_answered,
        }
    }

    /// Whether a cache may need the answer.
    pub(crate) fn is_of_interest(&self) -> bool {
        !self.is_answered && !self.registry.of_resource(self.resource).is_empty()
    }

    /// Notes the answer to a successful write.
    pub(crate) fn answered(mut self, text: &str) {
        let is_of_interest = self.is_of_interest();
        self.is_answered = true;
        if !is_of_interest {
            return;
        }
        for effect in effects(text, self.resource, self.call, self.since) {
            self.registry.note(self.resource, &effect, self.author);
        }
    }

    /// Notes the object in the answer to the write.
    pub(crate) fn answered_with(mut self, object: Object) {
        self.is_answered = true;
        let effect = of_object(object, self.resource, self.call);
        self.registry.note(self.resource, &effect, self.author);
    }

    /// Notes the answer to a successful write in Protobuf. It tells which object has changed, but
    /// its content is not read.
    pub(crate) fn answered_in_protobuf(mut self, body: &[u8]) {
        let is_of_interest = self.is_of_interest();
        self.is_answered = true;
        if let Some(effect) = of_protobuf(body, self.call, self.since).filter(|_| is_of_interest) {
            self.registry.note(self.resource, &effect, self.author);
        }
    }

    /// Notes a successful write whose answer was not read.
    pub(crate) fn answered_unread(mut self) {
        let is_of_interest = self.is_of_interest();
        self.is_answered = true;
        if let Some(effect) = unread(self.call).filter(|_| is_of_interest) {
            self.registry.note(self.resource, &effect, self.author);
        }
    }

    /// Notes that the API server refused the write, or that it failed.
    pub(crate) fn failed(mut self, error: &ApiError) {
        self.is_answered |= !matches!(
            error.kind,
            ErrorKind::TimedOut | ErrorKind::Unavailable | ErrorKind::Other
        );
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        let key = self.call.key();
        // Without a name there is no object to ask about.
        if self.is_answered || key.name.is_empty() {
            return;
        }
        let until = Until::Asked { certain: false };
        let effect = Effect::Changed { key, until };
        self.registry.note(self.resource, &effect, self.author);
    }
}

/// What a successful write did to the objects of a resource.
fn effects(text: &str, resource: &ApiResource, call: &Call, sent: Instant) -> Vec<Effect> {
    let key = call.key();
    let changed = |key, until| vec![Effect::Changed { key, until }];
    let asked = Until::Asked { certain: true };
    let Ok(answer) = serde_json::from_str::<Answer>(text) else {
        return changed(key, asked);
    };

    let Answer {
        kind,
        metadata,
        details,
        items,
    } = answer;
    let is_collection = call.verb == Verb::Delete && call.name.is_none();
    if is_collection {
        return left(items.unwrap_or_default());
    }

    let is_deletion = call.verb == Verb::Delete && call.subresource.is_none();
    if is_deletion && kind == "Status" {
        return vec![Effect::Deleted {
            key,
            uid: details.uid,
            existed: None,
            sent,
        }];
    }
    if is_deletion && metadata.is_of(&key) && metadata.deletion_timestamp.is_none() {
        // Some kinds answer with the object as it was. If it were staying, it would have a
        // deletionTimestamp.
        return vec![Effect::Deleted {
            existed: metadata.revision(),
            key,
            uid: metadata.uid,
            sent,
        }];
    }

    if kind == resource.kind.kind
        && let Ok(object) = Object::from_json(text, &resource.kind, ManagedFields::Drop)
    {
        return vec![of_object(object, resource, call)];
    }

    // A Scale has the uid and resourceVersion of its object.
    match metadata.revision().filter(|_| metadata.is_of(&key)) {
        Some(revision) => changed(key, Until::Reached(revision)),
        None => changed(key, asked),
    }
}

/// What a successful write did to an object, according to its answer in Protobuf; None if it names
/// no object.
fn of_protobuf(body: &[u8], call: &Call, sent: Instant) -> Option<Effect> {
    let key = call.key();
    let Some(envelope) = Envelope::read(body) else {
        return unread(call);
    };

    let is_deletion = call.verb == Verb::Delete && call.subresource.is_none();
    if is_deletion && !key.name.is_empty() {
        // An object in the answer may be gone or not: see `effects`.
        return match envelope.status() {
            Some(status) => Some(Effect::Deleted {
                key,
                uid: status.uid.to_owned(),
                existed: None,
                sent,
            }),
            None => unread(call),
        };
    }

    let metadata = envelope.metadata().unwrap_or_default();
    let is_it = Some(metadata.namespace).filter(|name| !name.is_empty())
        == key.namespace.as_deref()
        && (key.name.is_empty() || metadata.name == key.name);
    match metadata.resource_version.parse() {
        Ok(revision) if is_it && !metadata.name.is_empty() => Some(Effect::Changed {
            key: ObjectKey {
                name: metadata.name.to_owned(),
                ..key
            },
            until: Until::Reached(revision),
        }),
        _ => unread(call),
    }
}

/// What a successful write did whose answer was not read. Without a name there is no object to ask
/// about.
fn unread(call: &Call) -> Option<Effect> {
    let key = call.key();
    (!key.name.is_empty()).then(|| Effect::Changed {
        key,
        until: Until::Asked { certain: true },
    })
}

/// What a write did, according to the object in its answer.
fn of_object(object: Object, resource: &ApiResource, call: &Call) -> Effect {
    let key = call.key();
    let is_it = is_written(&object, &resource.kind, &key);
    match object.revision() {
        Some(_) if is_it && !may_be_removed(&object) => Effect::Stored(Arc::new(object)),
        Some(revision) if is_it => Effect::Changed {
            key: object.key().clone(),
            until: Until::Left {
                uid: object.uid().to_owned(),
                revision,
            },
        },
        Some(revision) if *object.key() == key => Effect::Changed {
            key,
            until: Until::Reached(revision),
        },
        _ => Effect::Changed {
            key,
            until: Until::Asked { certain: true },
        },
    }
}

/// Whether an object in this state may have been removed right away, because it is being deleted
/// and nothing delays that ([`ShouldDeleteDuringUpdate`]). The API server answers the write that
/// removes the last finalizer with the object as it was.
///
/// [`ShouldDeleteDuringUpdate`]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/registry/generic/registry/store.go#L573
fn may_be_removed(object: &Object) -> bool {
    let has = |path: &str, nothing: &str| object.at(path).is_some_and(|text| text != nothing);
    object.deleting()
        && !has(".metadata.finalizers", "[]")
        && !has(".metadata.deletionGracePeriodSeconds", "0")
}

/// What deleting a collection did to its objects. The answer contains them in their earlier state.
fn left(items: Vec<Item>) -> Vec<Effect> {
    let left = |Item { metadata }: Item| {
        let until = match metadata.revision() {
            Some(revision) => Until::Left {
                uid: metadata.uid,
                revision,
            },
            None => Until::Asked { certain: true },
        };
        let key = ObjectKey {
            namespace: metadata.namespace,
            name: metadata.name,
        };
        Effect::Changed { key, until }
    };
    items.into_iter().map(left).collect()
}

#[cfg(test)]
mod tests {
    use operetta_core::gate::proxied_request::ProxiedRequest;

    use super::*;
    use crate::client::protobuf::tests::{body, encoded};

    fn effect(method: &str, path: &str, answer: &[u8]) -> Option<Effect> {
        let request = ProxiedRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            ..ProxiedRequest::default()
        };
        let call = request.parse().expect("a target").call(b"");
        of_protobuf(answer, &call, Instant::now())
    }

    fn config_map(namespace: &str, name: &str) -> Vec<u8> {
        let metadata = [
            encoded(1, name.as_bytes()),
            encoded(3, namespace.as_bytes()),
            encoded(6, b"42"),
        ]
        .concat();
        body("ConfigMap", &encoded(1, &metadata))
    }

    #[test]
    fn answer_in_protobuf_tells_when_the_watch_has_caught_up() {
        let all = "/api/v1/namespaces/n/configmaps";
        let one = "/api/v1/namespaces/n/configmaps/a";
        for (method, path) in [("POST", all), ("PUT", one), ("PATCH", one)] {
            let changed = effect(method, path, &config_map("n", "a"));
            let Some(Effect::Changed { key, until }) = changed else {
                panic!("{method}: {changed:?}");
            };
            assert_eq!(key, ObjectKey::namespaced("n", "a"), "{method}");
            assert_eq!(until, Until::Reached(42), "{method}");
        }

        for answer in [config_map("n", "b"), config_map("m", "a"), b"?".to_vec()] {
            let asked = effect("PUT", one, &answer);
            assert!(
                matches!(
                    asked,
                    Some(Effect::Changed {
                        until: Until::Asked { certain: true },
                        ..
                    })
                ),
                "{asked:?}"
            );
            assert!(effect("POST", all, &b"?"[..]).is_none(), "no name");
        }
    }

    #[test]
    fn deletion_answered_in_protobuf_is_one_if_the_answer_is_a_status() {
        let one = "/api/v1/namespaces/n/configmaps/a";
        let status = body("Status", &encoded(5, &encoded(6, b"u")));
        let deleted = effect("DELETE", one, &status);
        assert!(
            matches!(&deleted, Some(Effect::Deleted { uid, .. }) if uid == "u"),
            "{deleted:?}"
        );

        let asked = effect("DELETE", one, &config_map("n", "a"));
        assert!(
            matches!(
                asked,
                Some(Effect::Changed {
                    until: Until::Asked { certain: true },
                    ..
                })
            ),
            "{asked:?}"
        );
        assert!(effect("DELETE", "/api/v1/namespaces/n/configmaps", &status).is_none());
    }
}
