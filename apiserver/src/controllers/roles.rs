//! Aggregated ClusterRoles: their rules follow those of the roles that they select.

use std::{sync::Arc, time::Duration};

use http::Method;
use serde_json::json;

use super::{
    client::{Refused, path_of_key},
    control_loop::{Context, Controller},
    object::name,
    world::{Change, Key, World},
};
use crate::{
    authz::{aggregation::aggregated_rules, objects::Objects},
    server::objects::StoredObjects,
};

const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "clusterroles";

/// Keeps the rules of aggregated ClusterRoles.
pub(super) struct RoleAggregation(pub Arc<StoredObjects>);

impl Controller for RoleAggregation {
    fn affected(&mut self, change: &Change, _world: &World, keys: &mut Vec<Key>) {
        if change.key.is_of(GROUP, ROLES) {
            // Any role may select any other, so one key stands for all of them.
            keys.push(Key::new(GROUP, ROLES, None, ""));
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let Some(resource) = context.world.resource(&key.resource) else {
            return Ok(None);
        };

        for role in self.0.list(GROUP, ROLES, "") {
            let Some(rules) = aggregated_rules(&role, &*self.0) else {
                continue;
            };

            let role_name = name(&role);
            let object = path_of_key(&resource, &Key::new(GROUP, ROLES, None, role_name));
            let path =
                format!("{object}?fieldManager=clusterrole-aggregation-controller&force=true");
            let applied = json!({
                "apiVersion": resource.api_version(), "kind": "ClusterRole", "metadata": {"name": role_name}, "rules": rules,
            });

            context.client.send(
                Method::PATCH,
                &path,
                "application/apply-patch+yaml",
                &applied,
            )?;
        }

        Ok(None)
    }
}
