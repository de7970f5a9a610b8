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
    client::answers::is_written,
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
