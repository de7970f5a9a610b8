//! What the answers to a plugin's writes tell about the objects in the caches. Every write we send
//! is noted here, in whatever form: typed or raw, of an object, a subresource or a collection. A
//! write without an answer may have been stored all the same. If neither the request nor its answer
//! names the objects, the note is for the collection.

use std::sync::Arc;

use operetta_core::{
    gate::{call::Call, operation::Verb},
    object::{ManagedFields, Object, ObjectKey, selector::required_name},
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

/// The part of a write's answer that tells what it is: a metav1.Status, an object, a list, or a
/// metav1.Table of objects ([`rows`]).
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

#[derive(Deserialize)]
struct Table {
    rows: Vec<Row>,
}

/// A row of a table. It has its object's metadata, unless the request said `includeObject=None`.
#[derive(Deserialize)]
struct Row {
    object: Option<Item>,
}

/// The part of a create's body that names its object.
#[derive(Deserialize)]
struct Created {
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
    /// The object's key, as far as the request has it.
    key: ObjectKey,
    author: Author,
    since: Instant,
    is_answered: bool,
}

impl<'a> Sent<'a> {
    pub(crate) fn new(
        registry: &'a InformerRegistry,
        resource: &'a ApiResource,
        call: &'a Call,
        body: &[u8],
        author: Author,
    ) -> Self {
        // Requests that store nothing need no note.
        let is_answered = call.is_dry_run || !call.verb.is_write();
        Self {
            registry,
            resource,
            call,
            key: key_of(resource, call, body),
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
        for effect in effects(text, self.resource, self.call, &self.key, self.since) {
            self.registry.note(self.resource, &effect, self.author);
        }
    }

    /// Notes the object in the answer to the write.
    pub(crate) fn answered_with(mut self, object: Object) {
        self.is_answered = true;
        let effect = of_object(object, self.resource, self.call, &self.key);
        self.registry.note(self.resource, &effect, self.author);
    }

    /// Notes the answer to a successful write in Protobuf. It tells which object has changed, but
    /// its content is not read.
    pub(crate) fn answered_in_protobuf(mut self, body: &[u8]) {
        let is_of_interest = self.is_of_interest();
        self.is_answered = true;
        if is_of_interest {
            let effect = of_protobuf(body, self.call, &self.key, self.since);
            self.registry.note(self.resource, &effect, self.author);
        }
    }

    /// Notes a successful write whose answer was not read.
    pub(crate) fn answered_unread(mut self) {
        let is_of_interest = self.is_of_interest();
        self.is_answered = true;
        if is_of_interest {
            let effect = unshown(&self.key, true);
            self.registry.note(self.resource, &effect, self.author);
        }
    }

    /// Notes that the API server refused the write, or that it failed.
    pub(crate) fn failed(mut self, error: &ApiError) {
        self.is_answered |= !may_be_stored(self.call, error);
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let effect = unshown(&self.key, false);
        self.registry.note(self.resource, &effect, self.author);
    }
}

/// The key of a write's object, as far as the request has it.
fn key_of(resource: &ApiResource, call: &Call, body: &[u8]) -> ObjectKey {
    let key = call.key();
    let name = match call.verb {
        _ if !key.name.is_empty() => return key,
        Verb::Create => {
            let created = serde_json::from_slice::<Created>(body).ok();
            created.map(|created| created.metadata.name)
        }
        // The selector of a collection's deletion may name a single object.
        Verb::Delete if key.namespace.is_some() == resource.namespaced => {
            call.field_selector.as_deref().and_then(required_name)
        }
        _ => None,
    };
    ObjectKey {
        name: name.unwrap_or_default(),
        ..key
    }
}

/// Whether a write that failed may have changed something.
fn may_be_stored(call: &Call, error: &ApiError) -> bool {
    match error.kind {
        ErrorKind::TimedOut | ErrorKind::Unavailable | ErrorKind::Other => true,
        // The objects of a collection are deleted one by one, up to the first that a webhook or a
        // precondition keeps.
        ErrorKind::Conflict | ErrorKind::Invalid => is_of_collection(call),
        ErrorKind::Forbidden => {
            let by_authorizer = "\" cannot deletecollection resource \"";
            is_of_collection(call) && !error.status.message.contains(by_authorizer)
        }
        _ => false,
    }
}

fn is_of_collection(call: &Call) -> bool {
    call.verb == Verb::Delete && call.name.is_none()
}

/// What a successful write did to the objects of a resource. `key` is as much of the object's key as
/// the request has.
fn effects(
    text: &str,
    resource: &ApiResource,
    call: &Call,
    key: &ObjectKey,
    sent: Instant,
) -> Vec<Effect> {
    let Ok(answer) = serde_json::from_str::<Answer>(text) else {
        return vec![unshown(key, true)];
    };

    let Answer {
        kind,
        metadata,
        details,
        items,
    } = answer;
    let is_table = kind == "Table" && resource.kind.kind != "Table";
    let rows = is_table.then(|| rows(text)).flatten();
    if is_of_collection(call) {
        let items = items.or(rows);
        return items.map_or_else(|| vec![unshown(key, true)], left);
    }

    let row = rows.and_then(|rows| rows.into_iter().next());
    let metadata = row.map_or(metadata, |item| item.metadata);
    let mut key = key.clone();
    if key.name.is_empty() && metadata.namespace == key.namespace {
        key.name.clone_from(&metadata.name);
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
        return vec![of_object(object, resource, call, &key)];
    }

    // A Scale has the uid and resourceVersion of its object.
    let revision = metadata.revision().filter(|_| metadata.is_of(&key));
    vec![match revision {
        Some(revision) => Effect::Changed {
            key,
            until: Until::Reached(revision),
        },
        None => unshown(&key, true),
    }]
}

/// The metadata of the objects in a table; None if it hasn't all of them.
fn rows(text: &str) -> Option<Vec<Item>> {
    let table: Table = serde_json::from_str(text).ok()?;
    table.rows.into_iter().map(|row| row.object).collect()
}

/// What a successful write did, according to its answer in Protobuf.
fn of_protobuf(body: &[u8], call: &Call, key: &ObjectKey, sent: Instant) -> Effect {
    let Some(envelope) = Envelope::read(body) else {
        return unshown(key, true);
    };

    if is_of_collection(call) {
        return unshown(key, true);
    }
    if call.verb == Verb::Delete && call.subresource.is_none() {
        // An object in the answer may be gone or not: see `effects`.
        return match envelope.status() {
            Some(status) => Effect::Deleted {
                key: key.clone(),
                uid: status.uid.to_owned(),
                existed: None,
                sent,
            },
            None => unshown(key, true),
        };
    }

    let metadata = envelope.metadata().unwrap_or_default();
    let is_it = Some(metadata.namespace).filter(|name| !name.is_empty())
        == key.namespace.as_deref()
        && (key.name.is_empty() || metadata.name == key.name);
    match metadata.resource_version.parse() {
        Ok(revision) if is_it && !metadata.name.is_empty() => Effect::Changed {
            key: ObjectKey {
                name: metadata.name.to_owned(),
                ..key.clone()
            },
            until: Until::Reached(revision),
        },
        _ => unshown(key, true),
    }
}

/// What a write did whose answer doesn't show it, or never came: it may have changed the object of
/// this key; without a name, any object of the namespace.
fn unshown(key: &ObjectKey, certain: bool) -> Effect {
    if key.name.is_empty() {
        return Effect::Collection {
            namespace: key.namespace.clone(),
            certain,
        };
    }
    Effect::Changed {
        key: key.clone(),
        until: Until::Asked { certain },
    }
}

/// What a write did, according to the object in its answer.
fn of_object(object: Object, resource: &ApiResource, call: &Call, key: &ObjectKey) -> Effect {
    // The API server may have named a created object differently.
    let is_it = is_written(&object, &resource.kind, &call.key());
    match object.revision() {
        Some(_) if is_it && !may_be_removed(&object) => Effect::Stored(Arc::new(object)),
        Some(revision) if is_it => Effect::Changed {
            key: object.key().clone(),
            until: Until::Left {
                uid: object.uid().to_owned(),
                revision,
            },
        },
        Some(revision) if object.key() == key => Effect::Changed {
            key: key.clone(),
            until: Until::Reached(revision),
        },
        _ => unshown(key, true),
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
    use operetta_core::{gate::proxied_request::ProxiedRequest, object::kind::GroupVersionKind};

    use super::*;
    use crate::client::protobuf::tests::{body, encoded};

    const ALL: &str = "/api/v1/namespaces/n/configmaps";
    const ONE: &str = "/api/v1/namespaces/n/configmaps/a";

    fn call(method: &str, path: &str) -> Call {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let request = ProxiedRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            ..ProxiedRequest::default()
        };
        request.parse().expect("a target").call(b"")
    }

    fn effect(method: &str, path: &str, answer: &[u8]) -> Effect {
        let call = call(method, path);
        of_protobuf(answer, &call, &call.key(), Instant::now())
    }

    fn config_maps() -> ApiResource {
        ApiResource {
            kind: GroupVersionKind::new("v1", "ConfigMap"),
            plural: "configmaps".to_owned(),
            namespaced: true,
            subresources: vec![],
            watchable: true,
            former_plural: None,
        }
    }

    fn of_json(method: &str, path: &str, answer: &str) -> Vec<Effect> {
        let call = call(method, path);
        effects(answer, &config_maps(), &call, &call.key(), Instant::now())
    }

    fn is_asked(effect: &Effect) -> bool {
        let asked = Until::Asked { certain: true };
        matches!(effect, Effect::Changed { until, .. } if *until == asked)
    }

    /// Whether the effect is on any object of namespace `n`.
    fn is_collection(effect: &Effect) -> bool {
        let Effect::Collection { namespace, certain } = effect else {
            return false;
        };
        namespace.as_deref() == Some("n") && *certain
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
        for (method, path) in [("POST", ALL), ("PUT", ONE), ("PATCH", ONE)] {
            let changed = effect(method, path, &config_map("n", "a"));
            let Effect::Changed { key, until } = changed else {
                panic!("{method}: {changed:?}");
            };
            assert_eq!(key, ObjectKey::namespaced("n", "a"), "{method}");
            assert_eq!(until, Until::Reached(42), "{method}");
        }

        for answer in [config_map("n", "b"), config_map("m", "a"), b"?".to_vec()] {
            let asked = effect("PUT", ONE, &answer);
            assert!(is_asked(&asked), "{asked:?}");
        }
        let created = effect("POST", ALL, b"?");
        assert!(is_collection(&created), "no name: {created:?}");
    }

    #[test]
    fn deletion_answered_in_protobuf_is_one_if_the_answer_is_a_status() {
        let status = body("Status", &encoded(5, &encoded(6, b"u")));
        let deleted = effect("DELETE", ONE, &status);
        assert!(
            matches!(&deleted, Effect::Deleted { uid, .. } if uid == "u"),
            "{deleted:?}"
        );

        let asked = effect("DELETE", ONE, &config_map("n", "a"));
        assert!(is_asked(&asked), "{asked:?}");
        for answer in [status, body("ConfigMapList", b"")] {
            let deleted = effect("DELETE", ALL, &answer);
            assert!(is_collection(&deleted), "{deleted:?}");
        }
    }

    #[test]
    fn table_tells_which_objects_of_a_collection_were_deleted() {
        let row = |object: &str| {
            format!(
                r#"{{"kind": "Table", "metadata": {{"resourceVersion": "9"}}, "rows": [{{"cells": ["a"], "object": {object}}}]}}"#
            )
        };
        let metadata =
            r#"{"metadata": {"namespace": "n", "name": "a", "uid": "u", "resourceVersion": "7"}}"#;

        let deleted = of_json("DELETE", ALL, &row(metadata));
        let [Effect::Changed { key, until }] = deleted.as_slice() else {
            panic!("{deleted:?}");
        };
        assert_eq!(*key, ObjectKey::namespaced("n", "a"));
        let left = Until::Left {
            uid: "u".to_owned(),
            revision: 7,
        };
        assert_eq!(*until, left);

        // A table of cells alone (`includeObject=None`), and other answers without objects.
        let status = r#"{"kind": "Status", "metadata": {}, "status": "Success"}"#;
        for answer in [row("null").as_str(), status, "not JSON"] {
            let deleted = of_json("DELETE", ALL, answer);
            assert!(
                matches!(deleted.as_slice(), [one] if is_collection(one)),
                "{answer}: {deleted:?}"
            );
        }

        let created = of_json("POST", ALL, &row(metadata));
        assert!(
            matches!(
                created.as_slice(),
                [Effect::Changed { key, until: Until::Reached(7) }] if key.name == "a"
            ),
            "{created:?}"
        );
    }

    #[test]
    fn object_is_named_by_the_body_of_a_create_or_by_the_selector_of_a_deletion() {
        let named = |method: &str, path: &str, body: &str| {
            key_of(&config_maps(), &call(method, path), body.as_bytes())
        };
        for (method, path, body, name) in [
            ("POST", ALL, r#"{"metadata": {"name": "a"}}"#, "a"),
            ("POST", ALL, r#"{"metadata": {"generateName": "a-"}}"#, ""),
            ("POST", ALL, "k8s\0not JSON", ""),
            ("DELETE", ALL, r#"{"metadata": {"name": "a"}}"#, ""),
            ("PUT", ONE, r#"{"metadata": {"name": "b"}}"#, "a"),
        ] {
            let key = named(method, path, body);
            assert_eq!(key, ObjectKey::namespaced("n", name), "{method} {body}");
        }

        let one = format!("{ALL}?fieldSelector=metadata.name%3Db");
        assert_eq!(named("DELETE", &one, "").name, "b");
        assert_eq!(named("POST", &one, "").name, "");
        let labels = format!("{ALL}?labelSelector=app%3Db");
        assert_eq!(named("DELETE", &labels, "").name, "");
    }

    #[test]
    fn deletion_of_a_collection_that_fails_midway_may_have_deleted_something() {
        let error = |kind, message: &str| ApiError::new(kind, message);
        let refused = r#"configmaps is forbidden: User "u" cannot deletecollection resource "configmaps" in API group """#;
        for (error, may_be) in [
            (error(ErrorKind::Unavailable, "no connection"), true),
            (
                error(ErrorKind::Forbidden, "admission webhook denied"),
                true,
            ),
            (error(ErrorKind::Conflict, "precondition failed"), true),
            (error(ErrorKind::Forbidden, refused), false),
            (error(ErrorKind::BadRequest, "unknown selector"), false),
        ] {
            let deletion = call("DELETE", ALL);
            assert_eq!(may_be_stored(&deletion, &error), may_be, "{error:?}");
            let is_open = matches!(error.kind, ErrorKind::Unavailable);
            assert_eq!(
                may_be_stored(&call("PUT", ONE), &error),
                is_open,
                "{error:?}"
            );
        }
    }
}
