//! The garbage collector: deletes objects whose owners are gone, and completes foreground and
//! orphaning deletions.
//!
//! As in
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/garbagecollector/garbagecollector.go>,
//! an owner is gone if no object of its kind has its name and UID, in the dependent's namespace.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use super::{
    client::{Refused, if_found},
    control_loop::{Context, Controller},
    object::{has_finalizer, is_terminating, name, namespace, owner_references, text, uid},
    world::{Change, Key, World},
};
use crate::golang;

pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// When to look again at a dependent of an owner of unknown kind.
const UNKNOWN_KIND: Duration = Duration::from_secs(30);

/// Collects garbage.
#[derive(Default)]
pub(super) struct GarbageCollector {
    /// References to owners in other namespaces, each as a dependent and its owner's UID, that were
    /// not reported yet.
    misplaced: BTreeSet<(Key, String)>,
}

/// An owner of an object.
enum Owner {
    /// It exists.
    Solid,
    /// It does not exist.
    Gone,
    /// It was deleted in the foreground and waits for its dependents.
    Waiting,
    /// A namespaced owner of a cluster-scoped object, or an owner of a kind that is not served.
    Unknown,
}

impl Controller for GarbageCollector {
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        let object = change.object();
        let is_deleted = change.new.is_none();
        self.find_misplaced(change, world, keys);
        let has_owners = owner_references(object).next().is_some();

        if !is_deleted && (has_owners || is_terminating(object)) {
            keys.push(change.key.clone());
        }

        if is_deleted || is_waiting(object) {
            keys.extend(world.dependents(uid(object)).map(|(key, _)| key.clone()));
        }

        let owners = change
            .both()
            .flat_map(owner_references)
            .filter_map(|owner| world.by_uid(text(owner, &["uid"])));
        let is_ending = |key: &&Key| world.get(key).is_some_and(|owner| is_terminating(owner));
        keys.extend(owners.filter(is_ending).cloned());
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let Some(object) = context.world.get(key) else {
            self.misplaced.retain(|(dependent, _)| dependent != key);
            return Ok(None);
        };
        self.report_misplaced(key, object, context);

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

impl GarbageCollector {
    /// Finds references to owners in other namespaces, once for each reference: when the dependent
    /// gets it, or when its owner appears after it. Of a dependent's new references, the first
    /// counts, as in
    /// <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/garbagecollector/graph_builder.go>.
    fn find_misplaced(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        let Some(new) = &change.new else {
            return;
        };

        let had = |owner: &Value| {
            let old = change.old.iter().flat_map(|old| owner_references(old));
            old.into_iter().any(|known| known["uid"] == owner["uid"])
        };
        let is_elsewhere = |owner: &Key, dependent: &Key| {
            owner.object.namespace().is_some()
                && owner.object.namespace() != dependent.object.namespace()
        };

        let added = owner_references(new).filter(|owner| !had(owner));
        let misplaced = added.map(|owner| text(owner, &["uid"])).find(|uid| {
            world
                .by_uid(uid)
                .is_some_and(|owner| is_elsewhere(owner, &change.key))
        });
        if let Some(uid) = misplaced {
            self.misplaced.insert((change.key.clone(), uid.to_owned()));
        }

        if change.old.is_none() {
            for (dependent, _) in world.dependents(uid(new)) {
                if is_elsewhere(&change.key, dependent) {
                    self.misplaced
                        .insert((dependent.clone(), uid(new).to_owned()));
                    keys.push(dependent.clone());
                }
            }
        }
    }

    /// Records an Event for each reference to an owner in another namespace.
    fn report_misplaced(&mut self, key: &Key, object: &Value, context: &Context<'_>) {
        let found = self
            .misplaced
            .extract_if(.., |(dependent, _)| dependent == key);
        let uids: Vec<String> = found.map(|(_, uid)| uid).collect();
        let Some(resource) = context.world.resource(&key.resource) else {
            return;
        };

        let namespace = key.namespace();
        let mut about = json!({
            "apiVersion": resource.api_version(), "kind": resource.names.kind,
            "metadata": {"name": key.object.name(), "uid": uid(object)},
        });
        if !namespace.is_empty() {
            about["metadata"]["namespace"] = namespace.into();
        }

        let is_reported = |owner: &&Value| uids.iter().any(|uid| owner["uid"] == **uid);
        for owner in owner_references(object).filter(is_reported) {
            let part = |name: &str| text(owner, &[name]);
            let message = format!(
                "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace {}",
                part("apiVersion"),
                part("kind"),
                part("name"),
                part("uid"),
                golang::quote(namespace),
            );
            context
                .client
                .event(&about, "Warning", "OwnerRefInvalidNamespace", &message);
        }
    }
}

fn is_waiting(object: &Value) -> bool {
    is_terminating(object) && has_finalizer(object, FOREGROUND)
}

/// Looks up the owner that a reference names.
fn find_owner(key: &Key, reference: &Value, world: &World) -> Owner {
    let (api_version, kind) = (text(reference, &["apiVersion"]), text(reference, &["kind"]));
    let Some(resource) = world.resource_of_kind(api_version, kind) else {
        return Owner::Unknown;
    };

    let namespace = match key.object.namespace() {
        None if resource.namespaced => return Owner::Unknown,
        namespace => namespace.filter(|_| resource.namespaced),
    };

    let stored = resource.storage();
    let owner = Key::new(
        stored.group(),
        stored.resource(),
        namespace,
        text(reference, &["name"]),
    );

    match world
        .get(&owner)
        .filter(|owner| uid(owner) == text(reference, &["uid"]))
    {
        None => Owner::Gone,
        Some(owner) if is_waiting(owner) => Owner::Waiting,
        Some(_) => Owner::Solid,
    }
}

/// Deletes an object that has no owner left, or removes its references to owners that are gone.
fn collect(key: &Key, object: &Value, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
    let Some(resource) = context.world.resource(&key.resource) else {
        return Ok(None);
    };

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
        let kept =
            owner_references(object).filter(|owner| !ending.contains(&text(owner, &["uid"])));
        return set_owners(key, object, kept.cloned().collect(), context).map(|()| None);
    }

    if waiting > 0 {
        let dependents: Vec<_> = context.world.dependents(uid(object)).collect();
        if dependents
            .iter()
            .any(|(_, dependent)| is_waiting(dependent))
        {
            // Dependents that wait for each other would never end.
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
            return context
                .client
                .delete(&resource, object, "Foreground")
                .map(|()| None);
        }
    }

    let policy = match () {
        () if has_finalizer(object, ORPHAN) => "Orphan",
        () if has_finalizer(object, FOREGROUND) => "Foreground",
        () => "Background",
    };

    context
        .client
        .delete(&resource, object, policy)
        .map(|()| None)
}

/// Completes a foreground deletion once no dependent blocks it.
fn delete_dependents(
    key: &Key,
    object: &Value,
    context: &Context<'_>,
) -> Result<Option<Duration>, Refused> {
    let is_blocking = |dependent: &Value| {
        owner_references(dependent)
            .any(|owner| owner["uid"] == uid(object) && owner["blockOwnerDeletion"] == true)
    };

    // Dependents are reconciled by keys of their own, which deletes them.
    if context
        .world
        .dependents(uid(object))
        .any(|(_, dependent)| is_blocking(dependent))
    {
        return Ok(None);
    }

    remove_finalizer(key, object, FOREGROUND, context).map(|()| None)
}

/// Removes the references to an object from its dependents, and then its finalizer.
fn orphan_dependents(
    key: &Key,
    object: &Value,
    context: &Context<'_>,
) -> Result<Option<Duration>, Refused> {
    for (dependent_key, dependent) in context.world.dependents(uid(object)) {
        let kept = owner_references(dependent).filter(|owner| owner["uid"] != uid(object));
        set_owners(dependent_key, dependent, kept.cloned().collect(), context)?;
    }
    remove_finalizer(key, object, ORPHAN, context).map(|()| None)
}

fn set_owners(
    key: &Key,
    object: &Value,
    owners: Vec<Value>,
    context: &Context<'_>,
) -> Result<(), Refused> {
    let Some(resource) = context.world.resource(&key.resource) else {
        return Ok(());
    };

    let owners = if owners.is_empty() {
        Value::Null
    } else {
        owners.into()
    };

    let revision = &object["metadata"]["resourceVersion"];
    let patch = json!({"metadata": {"ownerReferences": owners, "uid": uid(object), "resourceVersion": revision}});

    if_found(
        context
            .client
            .patch(&resource, &named(key, object), "", &patch),
    )
}

fn remove_finalizer(
    key: &Key,
    object: &Value,
    finalizer: &str,
    context: &Context<'_>,
) -> Result<(), Refused> {
    let Some(resource) = context.world.resource(&key.resource) else {
        return Ok(());
    };

    let all = object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten();
    let kept: Vec<&Value> = all.filter(|one| *one != finalizer).collect();
    let kept = if kept.is_empty() {
        Value::Null
    } else {
        json!(kept)
    };

    let patch = json!({"metadata": {"finalizers": kept, "resourceVersion": object["metadata"]["resourceVersion"]}});
    if_found(
        context
            .client
            .patch(&resource, &named(key, object), "", &patch),
    )
}

fn named(key: &Key, object: &Value) -> Value {
    debug_assert_eq!(
        (key.object.name(), key.namespace()),
        (name(object), namespace(object))
    );
    json!({"metadata": {"name": key.object.name(), "namespace": key.namespace()}})
}
