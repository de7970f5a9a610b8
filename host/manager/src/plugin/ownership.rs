//! The owner of each Plugin among the replicas: the fields `replica`, `epoch` and `successor` of its status.
//!
//! They are written only here, and only on the version of the Plugin that was read. So of two replicas that write at the
//! same time, one fails and reads again.

use std::sync::Arc;

use operetta_core::{
    gate::operation::{PatchBody, Write, WriteAction, WriteOptions},
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    replicas::{Epoch, Owner, Role, assigned, role},
    status::{ApiError, ErrorKind},
};
use serde_json::{Value, json};

use crate::{context::Context, plugin::crd, replicas::Replicas};

/// The fields of a Plugin's status that name its owner.
pub const FIELDS: [&str; 3] = ["replica", "epoch", "successor"];

/// The result of a write of the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The write succeeded.
    Done,
    /// The Plugin has changed, or is gone: decide again.
    Conflict,
}

/// Reads and writes the owners of Plugins.
pub struct Ownership {
    context: Arc<Context>,
    replicas: Arc<Replicas>,
}

impl Ownership {
    /// Creates it for this replica.
    pub fn new(context: Arc<Context>, replicas: Arc<Replicas>) -> Arc<Self> {
        Arc::new(Self { context, replicas })
    }

    /// Decides what this replica does with a Plugin.
    ///
    /// # Errors
    /// The API server's error when the group must be read again.
    pub async fn role(&self, plugin: &Object) -> Result<Role, ApiError> {
        let Some(me) = self.replicas.epoch() else { return Ok(Role::Elsewhere) };
        let decided = self.known_role(plugin);
        if decided != Role::Refresh {
            return Ok(decided);
        }
        let group = self.replicas.refresh().await?;
        Ok(match role(me, plugin.key(), owner(plugin), &group) {
            // The owner was a member of a group that was deleted.
            Role::Refresh => role(me, plugin.key(), None, &group),
            decided => decided,
        })
    }

    /// Reports whether another replica owns a Plugin that this one owned before.
    pub fn is_lost(&self, before: &Object, now: &Object) -> bool {
        let is_mine = |plugin: &Object| owner(plugin).map(|owner| owner.epoch) == self.replicas.epoch();
        self.replicas.epoch().is_some() && is_mine(before) && !is_mine(now)
    }

    /// Reports whether this replica owns a Plugin.
    pub fn is_own(&self, plugin: &Object) -> bool {
        self.replicas.epoch().is_some_and(|me| owner(plugin).is_some_and(|owner| owner.epoch == me))
    }

    /// Reports whether another replica runs a Plugin, as far as the members are known.
    pub fn is_elsewhere(&self, plugin: &Object) -> bool {
        self.known_role(plugin) == Role::Elsewhere
    }

    /// Returns the identity of the other member that runs a Plugin, or will if none does; None if this replica does.
    pub fn other_owner(&self, plugin: &Object) -> Option<String> {
        let group = self.replicas.group();
        let group = group.borrow();
        let owner = owner(plugin).map(|owner| owner.epoch).filter(|epoch| group.get(*epoch).is_some());
        let owner = owner.or_else(|| assigned(plugin.key(), &group)).filter(|epoch| Some(*epoch) != self.epoch())?;
        group.get(owner).map(|member| member.identity.clone())
    }

    /// Decides by the members as they were last read.
    fn known_role(&self, plugin: &Object) -> Role {
        let decide = |me| role(me, plugin.key(), owner(plugin), &self.replicas.group().borrow());
        self.replicas.epoch().map_or(Role::Elsewhere, decide)
    }

    /// Reports whether a Plugin to be claimed has no owner that may still act.
    pub fn is_vacant(&self, plugin: &Object) -> bool {
        let is_own = plugin.scalar_at(".status.replica").is_some_and(|replica| replica == self.replicas.identity());
        // No two living replicas have the same identity.
        is_own || owner(plugin).is_none_or(|owner| self.replicas.has_stopped(owner.epoch))
    }

    /// Makes this replica the owner.
    ///
    /// # Errors
    /// The API server's error; `Unavailable` when the Lease was not renewed in time.
    pub async fn claim(&self, plugin: &Object) -> Result<Claimed, ApiError> {
        let Some(me) = self.replicas.epoch() else { return Ok(Claimed::Conflict) };
        let status = json!({"replica": self.replicas.identity(), "epoch": me.0, "successor": null});
        self.write(plugin, status).await
    }

    /// Names this replica as the successor of the owner.
    ///
    /// # Errors
    /// Fails as [`Self::claim`] does.
    pub async fn offer(&self, plugin: &Object) -> Result<Claimed, ApiError> {
        let Some(me) = self.replicas.epoch() else { return Ok(Claimed::Conflict) };
        if owner(plugin).and_then(|owner| owner.successor) == Some(me) {
            return Ok(Claimed::Done);
        }
        self.write(plugin, json!({"successor": me.0})).await
    }

    /// Makes another replica the owner.
    ///
    /// # Errors
    /// Fails as [`Self::claim`] does.
    pub async fn hand_over(&self, plugin: &Object, to: Epoch) -> Result<Claimed, ApiError> {
        let group = self.replicas.group().borrow().clone();
        let Some(member) = group.get(to) else { return Ok(Claimed::Conflict) };
        let status = json!({"replica": member.identity, "epoch": to.0, "successor": null});
        self.write(plugin, status).await
    }

    async fn write(&self, plugin: &Object, status: Value) -> Result<Claimed, ApiError> {
        self.replicas.check()?;
        let body = json!({"metadata": {"resourceVersion": plugin.resource_version()}, "status": status});
        let action = WriteAction::Patch {
            key: plugin.key().clone(),
            subresource: Some("status".to_owned()),
            body: PatchBody::Merge(body.to_string()),
            force: false,
        };
        let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        match self.context.cluster.api.write(Write { kind, action, options: WriteOptions::default() }).await {
            Ok(_) => Ok(Claimed::Done),
            Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::NotFound) => Ok(Claimed::Conflict),
            Err(error) => Err(error),
        }
    }

    /// Reports whether this replica acts on a drop-in ConfigMap, or on anything else that has no owner: it is assigned to
    /// it. Two may for a moment when members change, so what they do must be idempotent.
    pub fn is_assigned(&self, key: &ObjectKey) -> bool {
        assigned(key, &self.replicas.group().borrow()) == self.replicas.epoch()
    }

    /// Returns the epoch of this replica; None before it has joined.
    pub fn epoch(&self) -> Option<Epoch> {
        self.replicas.epoch()
    }

    /// Checks that the Lease of this replica was renewed in time.
    ///
    /// # Errors
    /// `Unavailable` if it was not.
    pub fn check(&self) -> Result<(), ApiError> {
        self.replicas.check()
    }
}

/// Returns the owner of a Plugin; None if it has none.
fn owner(plugin: &Object) -> Option<Owner> {
    let number = |path: &str| plugin.scalar_at(path).and_then(|text| text.parse().ok()).map(Epoch);
    Some(Owner { epoch: number(".status.epoch")?, successor: number(".status.successor") })
}

#[cfg(test)]
mod tests {
    use operetta_core::object::ManagedFields;

    use super::*;

    fn owner_in(status: Value) -> Option<Owner> {
        let plugin = json!({"metadata": {"name": "p", "namespace": "n"}, "status": status});
        let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        owner(&Object::from_json(&plugin.to_string(), &kind, ManagedFields::Drop).expect("an object"))
    }

    #[test]
    fn owner_is_read_from_status() {
        assert_eq!(owner_in(json!({})), None);
        assert_eq!(owner_in(json!({"replica": "a"})), None, "a name without an epoch owns nothing");
        let owned = owner_in(json!({"replica": "a", "epoch": 7})).expect("an owner");
        assert_eq!(owned, Owner { epoch: Epoch(7), successor: None });
        let offered = owner_in(json!({"epoch": 7, "successor": 9})).expect("an owner");
        assert_eq!(offered.successor, Some(Epoch(9)));
        assert_eq!(owner_in(json!({"epoch": -7})), None);
    }
}
