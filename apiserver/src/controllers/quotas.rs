//! The status of ResourceQuotas.

use std::{sync::Arc, time::Duration};

use super::{
    client::{Refused, if_found},
    control_loop::{Context, Controller},
    object::name,
    world::{Change, Key, World},
};
use crate::{admission::resource_quota, server::objects::StoredObjects};

/// Keeps the status of ResourceQuotas.
pub(super) struct ResourceQuotas(pub Arc<StoredObjects>);

impl Controller for ResourceQuotas {
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        let Some(namespace) = change.key.object.namespace() else {
            return;
        };
        if change.key.is_of("", "resourcequotas") {
            keys.push(change.key.clone());
            return;
        }

        // This includes resources that no quota counts: noticing that nothing changed is cheap.
        for quota in world.list("", "resourcequotas", namespace) {
            keys.push(Key::new("", "resourcequotas", Some(namespace), name(quota)));
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let Some(quota) = context.world.get(key) else {
            return Ok(None);
        };

        let status = resource_quota::status(quota, &*self.0);
        if quota["status"] == status {
            return Ok(None);
        }
        let Some(resource) = context.world.resource(&key.resource) else {
            return Ok(None);
        };

        let mut changed = (**quota).clone();
        changed["status"] = status;
        if_found(context.client.update(&resource, &changed, "status")).map(|()| None)
    }
}
