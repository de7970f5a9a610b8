//! The garbage collector: objects whose owners are gone go too, and deletions in the foreground or that orphan end.
//!
//! As kube-controller-manager's, an owner is gone if no object of its kind has its name, in the namespace of the
//! dependent, with its UID.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    client::{Refused, if_found},
    control_loop::{Context, Controller},
    object::{has_finalizer, is_terminating, name, namespace, owner_references, text, uid},
    world::{Change, Key, World},
};

pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// The delay after which a dependent of an unknown kind is looked at again.
const UNKNOWN_KIND: Duration = Duration::from_secs(30);

/// Collects garbage.
pub(super) struct GarbageCollector;

/// An owner of an object.
enum Owner {
    /// It exists.
    Solid,
    /// It does not exist.
    Gone,
    /// It was deleted in the foreground, and waits for its dependents.
    Waiting,
    /// A namespaced owner of an object of the cluster, or an owner of a kind that is not served.
    Unknown,
}

impl Controller for GarbageCollector {
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        let object = change.object();
        let is_deleted = change.new.is_none();
        let has_owners = owner_references(object).next().is_some();
        if !is_deleted && (has_owners || is_terminating(object)) {
            keys.push(change.key.clone());
        }
        if is_deleted || is_waiting(object) {
            keys.extend(world.dependents(uid(object)).map(|(key, _)| key.clone()));
        }
        let owners = change.both().flat_map(owner_references);
        let owners = owners.filter_map(|owner| world.by_uid(text(owner, &["uid"])));
        let is_ending = |key: &&Key| world.get(key).is_some_and(|owner| is_terminating(owner));
        keys.extend(owners.filter(is_ending).cloned());
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let Some(object) = context.world.get(key) else { return Ok(None) };
        if is_terminating(object) && has_finalizer(object, ORPHAN) {
            return orphan_dependents(key, object, context);
        }
        if is_waiting(object) {
            return delete_dependents(key, object, context);
        }
        if is_terminating(object) {
            return Ok(None);
        }
        collect(key, object, context)
    }
}

/// Reports whether an object was deleted in the foreground.
fn is_waiting(object: &Value) -> bool {
    is_terminating(object) && has_finalizer(object, FOREGROUND)
}

/// Finds the owner that a reference names.
fn find_owner(key: &Key, reference: &Value, world: &World) -> Owner {
    let (api_version, kind) = (text(reference, &["apiVersion"]), text(reference, &["kind"]));
    let Some(resource) = world.resource_of_kind(api_version, kind) else { return Owner::Unknown };
    let namespace = match key.object.namespace() {
        None if resource.namespaced => return Owner::Unknown,
        namespace => namespace.filter(|_| resource.namespaced),
    };
    let stored = resource.storage();
    let owner = Key::new(stored.group(), stored.resource(), namespace, text(reference, &["name"]));
    match world.get(&owner).filter(|owner| uid(owner) == text(reference, &["uid"])) {
        None => Owner::Gone,
        Some(owner) if is_waiting(owner) => Owner::Waiting,
        Some(_) => Owner::Solid,
    }
}

/// Deletes an object without an owner that is left, or removes the references to those that are gone.
fn collect(key: &Key, object: &Value, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
    let Some(resource) = context.world.resource(&key.resource) else { return Ok(None) };
    let (mut solid, mut waiting, mut ending) = (0, 0, Vec::new());
    for reference in owner_references(object) {
        match find_owner(key, reference, context.world) {
            Owner::Solid => solid += 1,
            Owner::Unknown => return Ok(Some(UNKNOWN_KIND)),
            Owner::Gone => ending.push(text(reference, &["uid"])),
            Owner::Waiting => {
                waiting += 1;
                ending.push(text(reference, &["uid"]));
            }
        }
    }
    if ending.is_empty() {
        return Ok(None);
    }
    if solid > 0 {
        let kept = owner_references(object).filter(|owner| !ending.contains(&text(owner, &["uid"])));
        return set_owners(key, object, kept.cloned().collect(), context).map(|()| None);
    }
    if waiting > 0 {
        let dependents: Vec<_> = context.world.dependents(uid(object)).collect();
        if dependents.iter().any(|(_, dependent)| is_waiting(dependent)) {
            // Owners and dependents that wait for each other would never end.
            let unblocked = owner_references(object).map(|owner| {
                let mut owner = owner.clone();
                if owner["blockOwnerDeletion"] == true {
                    owner["blockOwnerDeletion"] = false.into();
                }
                owner
            });
            set_owners(key, object, unblocked.collect(), context)?;
        }
        if !dependents.is_empty() {
            return context.client.delete(&resource, object, "Foreground").map(|()| None);
        }
    }
    let policy = match () {
        () if has_finalizer(object, ORPHAN) => "Orphan",
        () if has_finalizer(object, FOREGROUND) => "Foreground",
        () => "Background",
    };
    context.client.delete(&resource, object, policy).map(|()| None)
}

/// Deletes the dependents of an object that was deleted in the foreground, and ends it when none is in its way.
fn delete_dependents(key: &Key, object: &Value, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
    let is_blocking = |dependent: &Value| {
        owner_references(dependent).any(|owner| owner["uid"] == uid(object) && owner["blockOwnerDeletion"] == true)
    };
    // The dependents are keys of their own, and are deleted in their turn.
    if context.world.dependents(uid(object)).any(|(_, dependent)| is_blocking(dependent)) {
        return Ok(None);
    }
    remove_finalizer(key, object, FOREGROUND, context).map(|()| None)
}

/// Removes the references to an object from its dependents, and then its finalizer.
fn orphan_dependents(key: &Key, object: &Value, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
    for (dependent_key, dependent) in context.world.dependents(uid(object)) {
        let kept = owner_references(dependent).filter(|owner| owner["uid"] != uid(object));
        set_owners(dependent_key, dependent, kept.cloned().collect(), context)?;
    }
    remove_finalizer(key, object, ORPHAN, context).map(|()| None)
}

fn set_owners(key: &Key, object: &Value, owners: Vec<Value>, context: &Context<'_>) -> Result<(), Refused> {
    let Some(resource) = context.world.resource(&key.resource) else { return Ok(()) };
    let owners = if owners.is_empty() { Value::Null } else { owners.into() };
    let revision = &object["metadata"]["resourceVersion"];
    let patch = json!({"metadata": {"ownerReferences": owners, "uid": uid(object), "resourceVersion": revision}});
    if_found(context.client.patch(&resource, &named(key, object), "", &patch))
}

fn remove_finalizer(key: &Key, object: &Value, finalizer: &str, context: &Context<'_>) -> Result<(), Refused> {
    let Some(resource) = context.world.resource(&key.resource) else { return Ok(()) };
    let all = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    let kept: Vec<&Value> = all.filter(|one| *one != finalizer).collect();
    let kept = if kept.is_empty() { Value::Null } else { json!(kept) };
    let patch = json!({"metadata": {"finalizers": kept, "resourceVersion": object["metadata"]["resourceVersion"]}});
    if_found(context.client.patch(&resource, &named(key, object), "", &patch))
}

/// Returns the metadata by which requests name an object.
fn named(key: &Key, object: &Value) -> Value {
    debug_assert_eq!((key.object.name(), key.namespace()), (name(object), namespace(object)));
    json!({"metadata": {"name": key.object.name(), "namespace": key.namespace()}})
}
