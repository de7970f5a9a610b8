//! Adoption: the objects that a controller owns, by its selector and by their owner references.
//!
//! Upstream is
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/controller_ref_manager.go>.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    client::{Refused, if_found},
    control_loop::Context,
    object::{
        controller_of, controller_reference, is_terminating, name, namespace, owner_references, uid,
    },
    world::{Change, Key, World},
};
use crate::apimachinery::selector::objects::matches;

/// Returns the objects that an owner controls, in the order of their names. Unowned objects that its
/// selector matches are adopted; those it no longer matches are released.
///
/// # Errors
///
/// The refusal of a write, unless the object is gone.
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
                set_owners(
                    object,
                    others.cloned().collect(),
                    (group, resource),
                    context,
                )?;
            }
            None if is_matching && !is_terminating(owner) && !is_terminating(object) => {
                let owners = owner_references(object)
                    .cloned()
                    .chain([controller_reference(owner)]);
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
    let Some(resource) = context
        .world
        .resource(&Key::new(group, resource, None, "").resource)
    else {
        return Ok(());
    };

    let owners = if owners.is_empty() {
        Value::Null
    } else {
        owners.into()
    };

    let patch = json!({"metadata": {"uid": uid(object), "ownerReferences": owners}});
    if_found(context.client.patch(&resource, object, "", &patch))
}

/// Adds the owners of one kind that a changed object affects: its controller, or if it has none,
/// those that could adopt it.
pub(super) fn owners(
    change: &Change,
    (group, resource, kind): (&str, &str, &str),
    world: &World,
    keys: &mut Vec<Key>,
) {
    for object in change.both() {
        keys.extend(Key::of_controller(object, (group, resource, kind)));
    }

    let Some(object) = change
        .new
        .as_ref()
        .filter(|object| controller_of(object).is_none())
    else {
        return;
    };

    let labels = &object["metadata"]["labels"];
    let candidates = world.list(group, resource, namespace(object)).into_iter();
    let matching = candidates.filter(|owner| matches(&owner["spec"]["selector"], labels));

    keys.extend(
        matching.map(|owner| Key::new(group, resource, Some(namespace(owner)), name(owner))),
    );
}
