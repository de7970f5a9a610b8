//! The controllers of CustomResourceDefinitions: names and conditions, serving, and the end of
//! deleted ones.

use std::{collections::HashMap, sync::Arc};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use serde_json::{Value, json};
use tokio::{sync::Notify, task::yield_now};
use tower::ServiceExt;

use crate::{
    apiextensions::{
        admission::reconcile_status,
        custom::resource_of,
        strategy::{CLEANUP_FINALIZER, set_terminating},
    },
    apply::fields::Fields,
    server::{ApiServer, Body, FieldWrite, format_time},
    shared::Shared,
    store::{Draft, EventKind, GroupResource, ListQuery, ObjectKey, StoreError, StoredObject},
};

/// The manager of what the server writes itself.
const MANAGER: &str = "kube-apiserver";

fn definitions() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Serves the definitions that a data file has.
pub(crate) fn serve_stored(shared: &Shared) {
    let listing = shared.store.list(&definitions(), &ListQuery::default());
    for stored in listing.map(|listing| listing.items).unwrap_or_default() {
        serve(shared, &stored);
    }
}

/// Follows the definitions. Never ends.
pub(crate) async fn run(shared: &Arc<Shared>, api: &ApiServer) {
    let mut ends = Ends::default();
    loop {
        let begun = shared
            .store
            .list_and_watch(&definitions(), &ListQuery::default());
        let Ok((listing, mut watcher)) = begun else {
            return;
        };

        for stored in &listing.items {
            settle(shared, api, stored.key(), &mut ends);
        }

        loop {
            let batch = tokio::select! {
                // In this order, so that a run can be repeated exactly.
                biased;
                batch = watcher.next() => batch,
                Some(key) = ends.under_way.next() => {
                    ends.changed.remove(&key);
                    continue;
                }
            };
            // A watch ends when it was too slow; then everything is looked at anew.
            let Ok(batch) = batch else { break };
            for event in &batch.events {
                if event.kind == EventKind::Deleted {
                    cease(shared, &event.object);
                }
                settle(shared, api, event.object.key(), &mut ends);
            }
        }
    }
}

/// The ends of deleted definitions. Each waits until the finalizers of its objects are gone, and
/// nobody waits for it: in a namespace that is deleted, an operator that another definition brings
/// may be what removes them.
#[derive(Default)]
struct Ends<'a> {
    under_way: FuturesUnordered<BoxFuture<'a, ObjectKey>>,
    /// Wake the end of a definition when the definition has changed.
    changed: HashMap<ObjectKey, Arc<Notify>>,
}

fn cease(shared: &Shared, stored: &StoredObject) {
    if let Ok(definition) = stored.to_value() {
        shared.customs.remove(
            &resource_of(&definition),
            stored.revision(),
            &shared.resources(),
        );
    }
}

/// Reconciles a definition: sets its status, serves it or stops serving it, and begins to delete its
/// objects if it is being deleted.
fn settle<'a>(shared: &'a Arc<Shared>, api: &'a ApiServer, key: &ObjectKey, ends: &mut Ends<'a>) {
    let established = establish(shared, key);
    if let Some(changed) = ends.changed.get(key) {
        changed.notify_one();
        return;
    }

    if established.is_some_and(|(_, definition)| is_ending(&definition)) {
        let changed = Arc::<Notify>::default();
        ends.changed.insert(key.clone(), Arc::clone(&changed));
        let end = end(shared, api, key.clone(), changed);
        ends.under_way.push(end.boxed());
    }
}

fn is_ending(definition: &Value) -> bool {
    let finalizers = definition["metadata"]["finalizers"].as_array();
    definition["metadata"]["deletionTimestamp"].is_string()
        && finalizers.is_some_and(|finalizers| finalizers.contains(&json!(CLEANUP_FINALIZER)))
}

/// Establishes all stored definitions.
pub(crate) fn establish_stored(shared: &Arc<Shared>) {
    let listing = shared.store.list(&definitions(), &ListQuery::default());
    for stored in listing.map(|listing| listing.items).unwrap_or_default() {
        establish(shared, stored.key());
    }
}

/// Sets the status of a definition, and serves it if it is established. Returns it as stored
/// afterwards, or None if it is gone or cannot be written.
fn establish(shared: &Arc<Shared>, key: &ObjectKey) -> Option<(Arc<StoredObject>, Value)> {
    loop {
        let stored = shared.store.get(&definitions(), key)?;
        let definition = stored.to_value().ok()?;
        let now = format_time(shared.environment.now());
        let others = other_definitions(shared, key);
        let others: Vec<&Value> = others.iter().collect();
        match reconcile_status(&definition, &others, &now) {
            Ok(Some(changed)) => {
                if !is_written(shared, &stored, changed) {
                    return None;
                }
            }
            Ok(None) => {
                serve(shared, &stored);
                return Some((stored, definition));
            }
            Err(error) => {
                tracing::error!(
                    "failed to set the status of CustomResourceDefinition {}: {error}",
                    key.name()
                );
                return None;
            }
        }
    }
}

/// Writes a changed definition. Returns false if the store cannot.
fn is_written(shared: &Arc<Shared>, stored: &StoredObject, mut changed: Value) -> bool {
    track(shared, stored, &mut changed);
    let draft = Draft::from_object(&changed);

    match shared
        .store
        .update(&definitions(), stored.key(), draft, stored.revision())
    {
        Ok(_) | Err(StoreError::Conflict { .. } | StoreError::NotFound) => true,
        Err(error) => {
            tracing::error!(
                "failed to store CustomResourceDefinition {}: {error}",
                stored.key().name()
            );
            false
        }
    }
}

/// Sets the manager of the fields of a status that this controller changed.
fn track(shared: &Arc<Shared>, stored: &StoredObject, changed: &mut Value) {
    let Some(resource) = shared
        .resources()
        .preferred("apiextensions.k8s.io", "customresourcedefinitions")
    else {
        return;
    };

    let now = shared.environment.now();
    let write = FieldWrite {
        resource: &resource,
        subresource: "status",
        manager: MANAGER,
        now,
        force: false,
        is_scale: false,
    };

    let Ok(before) = stored.to_value() else {
        return;
    };

    Fields(Arc::clone(shared)).track(&write, Some(&before), changed);
}

/// Returns the other definitions of the same group without their versions. The schemas in these may
/// take megabytes, and only names may conflict.
fn other_definitions(shared: &Shared, key: &ObjectKey) -> Vec<Value> {
    let listing = shared.store.list(&definitions(), &ListQuery::default());
    let items = listing.map(|listing| listing.items).unwrap_or_default();
    let others = items
        .iter()
        .filter(|other| other.key() != key && group(other.key()) == group(key));

    others
        .filter_map(|other| {
            let mut definition = other.to_value().ok()?;
            definition["spec"].as_object_mut()?.remove("versions");
            Some(definition)
        })
        .collect()
}

/// Returns the group of a definition: its name is `PLURAL.GROUP`.
fn group(key: &ObjectKey) -> Option<&str> {
    key.name().split_once('.').map(|(_, group)| group)
}

/// Serves a definition if it is established, and stops serving it if not.
fn serve(shared: &Shared, stored: &StoredObject) {
    let Ok(definition) = stored.to_value() else {
        return;
    };

    let conditions = definition["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let is_established = conditions
        .into_iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");

    if !is_established {
        shared.customs.remove(
            &resource_of(&definition),
            stored.revision(),
            &shared.resources(),
        );
        return;
    }

    if let Err(error) = shared
        .customs
        .serve(&definition, stored.revision(), &shared.resources())
    {
        tracing::error!(
            "CustomResourceDefinition {} is not served: {error}",
            stored.key().name()
        );
    }
}

/// Deletes the objects of a deleted definition, and removes its finalizer when they are gone.
/// Returns the key of the definition.
async fn end(
    shared: &Arc<Shared>,
    api: &ApiServer,
    key: ObjectKey,
    changed: Arc<Notify>,
) -> ObjectKey {
    while let Some((stored, definition)) = establish(shared, &key) {
        if !is_ending(&definition) {
            break;
        }

        let resource = resource_of(&definition);
        let remaining = shared.store.count(&resource);
        if remaining == 0 {
            if remove_finalizer(shared, &stored, &definition) {
                continue;
            }
            break;
        }

        delete_objects(shared, api, &resource).await;
        if shared.store.count(&resource) < remaining {
            continue;
        }
        // Finalizers hold the rest. Its deletion is an event of another resource: wait for one.
        let Ok(mut watcher) = shared.store.watch(&resource, shared.store.revision()) else {
            continue;
        };
        if shared.store.count(&resource) > 0 {
            tokio::select! {
                biased;
                () = changed.notified() => {}
                _ended_or_events = watcher.next() => {}
            }
        }
    }
    key
}

/// Removes the finalizer of a definition without objects. Returns true if its end goes on.
fn remove_finalizer(shared: &Arc<Shared>, stored: &StoredObject, definition: &Value) -> bool {
    let mut changed = definition.clone();
    let message = "removed all instances";
    set_terminating(
        &mut changed,
        "InstanceDeletionCompleted",
        message,
        shared.environment.now(),
    );

    if let Some(finalizers) = changed["metadata"]["finalizers"].as_array_mut() {
        finalizers.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
        if !finalizers.is_empty() {
            return is_written(shared, stored, changed);
        }
    }

    match shared
        .store
        .delete(&definitions(), stored.key(), stored.revision())
    {
        Ok(deleted) => {
            cease(shared, &deleted);
            false
        }
        Err(StoreError::Conflict { .. }) => true,
        Err(_) => false,
    }
}

/// Deletes all objects of a resource, as an administrator.
async fn delete_objects(shared: &Shared, api: &ApiServer, resource: &GroupResource) {
    let Some(served) = shared
        .resources()
        .preferred(resource.group(), resource.resource())
    else {
        return;
    };

    let listing = shared.store.list(resource, &ListQuery::default());
    for object in listing.map(|listing| listing.items).unwrap_or_default() {
        let namespace = object
            .key()
            .namespace()
            .map(|name| format!("namespaces/{name}/"))
            .unwrap_or_default();

        let path = format!(
            "/apis/{}/{}/{namespace}{}/{}",
            served.group,
            served.version,
            served.names.plural,
            object.key().name()
        );
        let Ok(request) = http::Request::delete(path).body(Body::full("")) else {
            continue;
        };

        // A server in the same process does not fail; a refusal shows in the objects that are left.
        drop(api.clone().oneshot(request).await);
        // It does not wait for anything either, so others get their turn here.
        yield_now().await;
    }
}
