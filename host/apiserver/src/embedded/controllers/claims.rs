//! Adoption: which objects a controller of a namespace has, by its selector and by their owner.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    client::{Refused, if_found},
    control_loop::Context,
    object::{controller_of, controller_reference, is_terminating, name, namespace, owner_references, uid},
    world::{Change, Key, World},
};
use crate::authz::aggregation::matches;

/// Returns the objects of a resource that an owner controls, in the order of their names. Those that its selector matches
/// and that nobody controls are adopted; those that it does not match any more are released.
///
/// # Errors
///
/// The refusal of a write other than that the object is gone.
pub(super) fn claim(
    owner: &Value,
    group: &str,
    resource: &str,
    context: &Context<'_>,
) -> Result<Vec<Arc<Value>>, Refused> {
    let selector = &owner["spec"]["selector"];
    let mut claimed = Vec::new();
    for object in context.world.list(group, resource, namespace(owner)) {
        let is_matching = matches(selector, &object["metadata"]["labels"]);
        match controller_of(object) {
            Some(controller) if controller["uid"] != uid(owner) => {}
            Some(_) if is_matching => claimed.push(Arc::clone(object)),
            Some(_) if is_terminating(owner) => {}
            Some(_) => {
                let others = owner_references(object).filter(|other| other["uid"] != uid(owner));
                set_owners(object, others.cloned().collect(), (group, resource), context)?;
            }
            None if is_matching && !is_terminating(owner) && !is_terminating(object) => {
                let owners = owner_references(object).cloned().chain([controller_reference(owner)]);
                set_owners(object, owners.collect(), (group, resource), context)?;
                claimed.push(Arc::clone(object));
            }
            None => {}
        }
    }
    Ok(claimed)
}

fn set_owners(
    object: &Value,
    owners: Vec<Value>,
    (group, resource): (&str, &str),
    context: &Context<'_>,
) -> Result<(), Refused> {
    let Some(resource) = context.world.resource(&Key::new(group, resource, None, "").resource) else { return Ok(()) };
    let owners = if owners.is_empty() { Value::Null } else { owners.into() };
    let patch = json!({"metadata": {"uid": uid(object), "ownerReferences": owners}});
    if_found(context.client.patch(&resource, object, "", &patch))
}

/// Returns the keys of the owners of a kind that a changed object affects: those that control it, and if nobody does,
/// those that could adopt it.
pub(super) fn owners(change: &Change, (group, resource, kind): (&str, &str, &str), world: &World, keys: &mut Vec<Key>) {
    for object in change.both() {
        keys.extend(Key::of_controller(object, (group, resource, kind)));
    }
    let Some(object) = change.new.as_ref().filter(|object| controller_of(object).is_none()) else { return };
    let labels = &object["metadata"]["labels"];
    let candidates = world.list(group, resource, namespace(object)).into_iter();
    let matching = candidates.filter(|owner| matches(&owner["spec"]["selector"], labels));
    keys.extend(matching.map(|owner| Key::new(group, resource, Some(namespace(owner)), name(owner))));
}
