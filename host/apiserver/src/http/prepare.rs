//! What the server sets in objects before it stores them.

use serde_json::Value;

use super::{
    environment::{Environment, format_time},
    metadata,
    resource::{Flavor, Part, Resource},
};

/// Removes from the metadata of a new object what a client may not set.
pub(super) fn clear_system_fields(object: &mut Value) {
    let cleared = ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "creationTimestamp", "uid"];
    cleared.iter().for_each(|field| metadata::set(object, field, Value::Null));
}

/// Fills the metadata of a new object.
pub(super) fn set_system_fields(object: &mut Value, environment: &Environment) {
    metadata::set(object, "creationTimestamp", format_time(environment.now()));
    metadata::set(object, "uid", environment.uid());
}

/// Completes a new object.
pub(super) fn for_create(resource: &Resource, object: &mut Value) {
    if resource.rules.generation {
        metadata::set(object, "generation", 1);
    }
    if resource.subresources.status
        && let Some(members) = object.as_object_mut()
    {
        members.remove("status");
    }
    resource.strategy.prepare_for_create(object);
}

/// Keeps the metadata that no client may change.
pub(super) fn keep_system_fields(old: &Value, object: &mut Value) {
    metadata::set(object, "selfLink", Value::Null);
    metadata::copy(old, object, "creationTimestamp");
    metadata::copy(old, object, "generation");
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata::copy_missing(old, object, field);
    }
}

/// Completes an object that replaces `old`: the part that the request may not change stays.
pub(super) fn for_update(resource: &Resource, old: &Value, object: &mut Value, part: Part) {
    match part {
        Part::Main | Part::Finalize if resource.subresources.status => metadata::copy_member(old, object, "status"),
        Part::Main | Part::Finalize => {}
        Part::Status => keep_all_but_status(resource, old, object),
    }
    if part == Part::Main && resource.group.is_empty() && resource.names.plural == "namespaces" {
        // Only the subresource `finalize` changes the finalizers in the spec.
        metadata::copy_member(old, object, "spec");
    }
    resource.strategy.prepare_for_update(old, object, part);
    if part == Part::Main && resource.rules.generation && content_differs(resource, old, object) {
        let generation = metadata::integer(old, "generation").unwrap_or_default();
        metadata::set(object, "generation", generation + 1);
    }
}

fn keep_all_but_status(resource: &Resource, old: &Value, object: &mut Value) {
    let status = object.get("status").cloned();
    let sent = object["metadata"].take();
    *object = old.clone();
    if let Some(members) = object.as_object_mut() {
        match status {
            Some(status) => drop(members.insert("status".into(), status)),
            None => drop(members.remove("status")),
        }
    }
    match resource.flavor {
        // The metadata of a custom resource is not changed through its status, but the checks see what was sent.
        Flavor::Custom => {
            for field in ["resourceVersion", "managedFields"] {
                metadata::set(object, field, sent.get(field).cloned().unwrap_or_default());
            }
        }
        Flavor::BuiltIn => object["metadata"] = sent,
    }
}

/// Reports whether anything besides the metadata and the status differs.
fn content_differs(resource: &Resource, old: &Value, object: &Value) -> bool {
    let skipped = |name: &String| name == "metadata" || (resource.subresources.status && name == "status");
    let empty = serde_json::Map::new();
    let left = old.as_object().unwrap_or(&empty).iter().filter(|(name, _)| !skipped(name));
    let right = object.as_object().unwrap_or(&empty).iter().filter(|(name, _)| !skipped(name));
    !left.eq(right)
}

/// Marks an object as deleted at a time.
pub(super) fn mark_deleted(object: &mut Value, now: jiff::Timestamp, grace_seconds: i64) {
    if !metadata::is_terminating(object) {
        metadata::set(object, "deletionTimestamp", format_time(now));
        if let Some(generation) = metadata::integer(object, "generation").filter(|generation| *generation > 0) {
            metadata::set(object, "generation", generation + 1);
        }
    }
    metadata::set(object, "deletionGracePeriodSeconds", grace_seconds);
}

/// Reports whether an object that was changed shall be deleted now: its deletion waited for its last finalizer.
pub(super) fn is_deletion_complete(object: &Value) -> bool {
    metadata::is_terminating(object)
        && metadata::finalizers(object).is_empty()
        && metadata::integer(object, "deletionGracePeriodSeconds").unwrap_or_default() == 0
}
