//! Suppressed writes: an update (also of the status) or a merge patch is not sent if it would leave
//! the cached object unchanged, or has done so before in this version of the object
//! ([`no_ops`](super::no_ops)). The plugin gets the cached object, just as the API server would
//! have answered.
//!
//! These writes are always sent, because they depend on more than the object's content:
//!
//! - creates, deletions, server-side apply (it takes ownership), JSON patches (they may test), dry
//!   runs, strict validation, subresources other than `status`, raw requests;
//! - writes naming another resourceVersion, and updates naming none, which some kinds reject;
//! - writes of objects too large to compare (50,000 values);
//! - writes of kinds the host does not cache completely, or whose watch fails, and of objects
//!   changed by an earlier write of the plugin in a way the cache does not show yet;
//! - writes not yet known to be allowed for the plugin's ServiceAccount. Such a write is not
//!   compared with the object, because the timing of a denial would reveal whether a guess of the
//!   object's content is right. The review is requested after the first write accepted by the API
//!   server, so one write is always sent.
//!
//! Limits: admission does not see a suppressed write. Because a write is compared with the cache,
//! it does not fail with a conflict if another writer changed the object just before. But the event
//! of that change enqueues the key again.

use std::sync::Arc;

use operetta_core::{
    authz::access_review::{Access, AccessVerb},
    gate::operation::{Operation, PatchBody, Write, WriteAction},
    object::{Object, ObjectKey, tree::tree},
};
use serde_json::Value;

use crate::{client::object_api::PluginApi, discovery::ApiResource, informer::Informer};

/// The change requested by a write.
#[derive(Clone, Copy, Debug)]
enum Change<'a> {
    /// Replaces the object with this text.
    Replace(&'a str),
    /// Applies this merge patch.
    Merge(&'a str),
}

impl PluginApi {
    /// Returns the cached object if the write is allowed but would leave it unchanged. The decision
    /// that allows it is no older than one about a read: an authorizer besides RBAC may have taken
    /// the permission away since, and only asking tells.
    pub(crate) async fn unchanged(
        &self,
        resource: &ApiResource,
        write: &Write,
    ) -> Option<Arc<Object>> {
        // The host itself compares its writes.
        let grants = self.grants.as_ref()?;
        let (verb, change) = match &write.action {
            WriteAction::Update { object, .. } => (AccessVerb::Update, Change::Replace(object)),
            WriteAction::Patch {
                body: PatchBody::Merge(patch),
                ..
            } => (AccessVerb::Patch, Change::Merge(patch)),
            WriteAction::Patch { .. } | WriteAction::Create { .. } => return None,
        };

        if write.options.dry_run || write.options.strict {
            return None;
        }

        let key = write.key()?;
        let access = access(resource, verb, key, write.subresource())?;
        if !grants.is_known_allowed(&access) {
            return None;
        }

        let informer = self.cached_whole(resource, key)?;
        let unknown =
            informer
                .cache
                .unknown(self.author, key.namespace.as_deref(), Some(&key.name));
        let cached = informer.cache.get(key).filter(|_| unknown.is_empty());
        let unchanged = cached
            .filter(|cached| leaves(cached.json(), change) || self.no_ops.knows(cached, write))?;

        // Asked last: a right is enough for a write that is sent anyway, which costs no review.
        grants
            .allows(&access)
            .await
            .unwrap_or(false)
            .then_some(unchanged)
    }

    /// The version of the object that a write would change, as far as it is cached.
    pub(crate) fn version_before(
        &self,
        resource: &ApiResource,
        write: &Write,
    ) -> Option<Arc<Object>> {
        let key = write.key()?;
        self.cached_whole(resource, key)?.cache.get(key)
    }

    /// The permission for a write, if the write could be suppressed once known to be allowed.
    pub(crate) fn suppressible(&self, resource: &ApiResource, write: &Write) -> Option<Access> {
        let verb = match &write.action {
            WriteAction::Update { .. } => AccessVerb::Update,
            WriteAction::Patch {
                body: PatchBody::Merge(_),
                ..
            } => AccessVerb::Patch,
            WriteAction::Patch { .. } | WriteAction::Create { .. } => return None,
        };

        let key = write.key()?;
        self.cached_whole(resource, key)?;
        access(resource, verb, key, write.subresource())
    }

    /// The informer of an object's kind, if it caches the whole kind and its watch works.
    fn cached_whole(&self, resource: &ApiResource, key: &ObjectKey) -> Option<Arc<Informer>> {
        let works = |informer: &Arc<Informer>| {
            let state = informer.state();
            let state = state.borrow();
            informer.scope.pruned.is_empty()
                && informer.scope.covers(key.namespace.as_deref())
                && informer.resource.as_ref() == resource
                && state.synced
                && state.error.is_none()
        };

        self.registry
            .of_kind(&resource.kind)
            .into_iter()
            .find(works)
    }
}

/// The permission needed to write an object or its status; None for other subresources.
fn access(
    resource: &ApiResource,
    verb: AccessVerb,
    key: &ObjectKey,
    subresource: Option<&str>,
) -> Option<Access> {
    let written = match subresource.filter(|name| !name.is_empty()) {
        None => resource.plural.clone(),
        Some("status") => format!("{}/status", resource.plural),
        Some(_) => return None,
    };

    Some(Access {
        verb,
        group: resource.kind.group().to_owned(),
        version: resource.kind.version().to_owned(),
        resource: written,
        namespace: key.namespace.clone().filter(|_| resource.namespaced),
        name: Some(key.name.clone()),
    })
}

/// Whether a change leaves an object unchanged. Invalid input is left for the API server to reject.
fn leaves(cached: &str, change: Change<'_>) -> bool {
    let (Change::Replace(text) | Change::Merge(text)) = change;
    let Some((mut before, given)) = tree(cached).zip(tree(text)) else {
        return false;
    };
    if !given.is_object() || resets_managed_fields(&given) {
        return false;
    }

    let mut after = match change {
        Change::Replace(_) => given,
        Change::Merge(_) => {
            let mut after = before.clone();
            json_patch::merge(&mut after, &given);
            after
        }
    };

    for object in [&mut before, &mut after] {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }

    before == after
}

/// Whether a write may [clear managedFields]: it sets them to a list without complete entries, or to
/// something other than a list.
///
/// [clear managedFields]: https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields
fn resets_managed_fields(given: &Value) -> bool {
    let is_complete = |entry: &Value| entry.as_object().is_some_and(|entry| !entry.is_empty());
    match given.pointer("/metadata/managedFields") {
        None => false,
        Some(Value::Array(entries)) => entries.is_empty() || !entries.iter().all(is_complete),
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHED: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"7","uid":"u",
        "labels":{"x":"1"}},"data":{"n":"1"},"n":{"big":9007199254740993,"half":0.5,"list":[1,2],"nothing":null}}"#;

    fn update(change: impl FnOnce(&mut Value)) -> bool {
        let mut object = tree(CACHED).expect("JSON");
        change(&mut object);
        leaves(CACHED, Change::Replace(&object.to_string()))
    }

    fn patch(patch: &str) -> bool {
        leaves(CACHED, Change::Merge(patch))
    }

    #[test]
    fn update_ignores_field_order_and_ownership() {
        assert!(update(|_| {}));
        assert!(update(
            |object| object["metadata"]["managedFields"] = serde_json::json!([{"manager": "m"}])
        ));
        let reordered = r#"{"n":{"nothing":null,"list":[1,2],"half":0.5,"big":9007199254740993},"data":{"n":"1"},
            "metadata":{"labels":{"x":"1"},"uid":"u","resourceVersion":"7","name":"a"},"kind":"ConfigMap","apiVersion":"v1"}"#;
        assert!(leaves(CACHED, Change::Replace(reordered)));
    }

    #[test]
    fn update_with_any_other_value_is_a_change() {
        let value = |text: &str| tree(text).expect("JSON");
        for (path, to) in [
            ("/data/n", "\"2\""),
            ("/metadata/resourceVersion", "\"8\""),
            ("/metadata/uid", "\"v\""),
            ("/n/big", "9007199254740992"),
            ("/n/list", "[2,1]"),
            ("/n/nothing", "false"),
        ] {
            let change = |object: &mut Value| *object.pointer_mut(path).expect("there") = value(to);
            assert!(!update(change), "{path}: {to}");
        }
        assert!(!update(|object| drop(
            object["metadata"]
                .as_object_mut()
                .expect("it is")
                .remove("resourceVersion")
        )));
        assert!(!update(|object| drop(
            object["n"]
                .as_object_mut()
                .expect("it is")
                .remove("nothing")
        )));
        assert!(!update(|object| object["data"]["m"] = value("\"\"")));
        for reset in ["[]", "[{}]", "[{\"manager\":\"m\"},{}]", "null", "\"\""] {
            assert!(
                !update(|object| object["metadata"]["managedFields"] = value(reset)),
                "{reset}"
            );
        }
    }

    #[test]
    fn merge_patch_of_same_values_changes_nothing() {
        for text in [
            "{}",
            r#"{"data":{"n":"1"}}"#,
            r#"{"data":{"gone":null},"status":null}"#,
            r#"{"metadata":{"resourceVersion":"7","labels":{"x":"1"}}}"#,
        ] {
            assert!(patch(text), "{text}");
        }
        for text in [
            r#"{"data":{"n":"2"}}"#,
            r#"{"data":{"n":null}}"#,
            r#"{"data":{"m":"1"}}"#,
            r#"{"n":{"list":[1]}}"#,
            r#"{"metadata":{"resourceVersion":"6"}}"#,
            r#"{"metadata":{"managedFields":[]}}"#,
            r#"{"metadata":{"managedFields":null}}"#,
            r#"{"status":{}}"#,
        ] {
            assert!(!patch(text), "{text}");
        }
    }

    #[test]
    fn leaves_invalid_objects_to_the_api_server() {
        let deep = "[".repeat(10_000);
        for text in [
            "",
            "null",
            "[]",
            "1",
            "\"a\"",
            "{",
            r#"{"a":1}{"#,
            "{\"a\":NaN}",
            &deep,
        ] {
            assert!(
                !patch(text) && !leaves(CACHED, Change::Replace(text)),
                "{}",
                &text[..text.len().min(9)]
            );
        }
    }
}
