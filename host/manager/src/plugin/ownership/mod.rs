//! Which replicas own a Plugin's shards: see [`Owners`].
//!
//! Only this module writes the owners, and only to the version of the Plugin it has read. Of two
//! replicas writing at the same time, one gets a conflict and starts over.

pub mod installations;
pub mod local_shards;
pub mod owners;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use operetta_core::{
    gate::operation::{PatchBody, Write, WriteAction, WriteOptions},
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    replicas::{Epoch, Group, Owner, Plan, Role, SentHandOver, Shard, assigned, plan},
    status::{ApiError, ErrorKind},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    context::Context,
    plugin::{
        crd,
        ownership::{
            installations::Installations,
            owners::{Owners, wanted_shards},
        },
    },
    replicas::Replicas,
};

/// The delay after a conflict; by then the watch should have the newer version.
pub const CONFLICT_RETRY: Duration = Duration::from_millis(20);

/// The result of a conditional write to the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionalWrite {
    /// The write succeeded.
    Done,
    /// The Plugin has changed or was deleted: plan again.
    Conflict,
}

/// How a replica leaves a Plugin to the hosts of another class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It stops these shards, if it runs them, and then removes their owners and the group.
    Shards(Vec<Shard>),
    /// It waits for former members that may still be acting.
    Wait,
    /// It has nothing to do: other replicas of its group run the Plugin, or none does.
    Nothing,
}

/// Decides how the replica with epoch `me` leaves a Plugin. Each replica gives up its own shards.
/// The one that the Plugin is assigned to gives up those of former members as well, once they are
/// vacant, and removes the group.
fn leaving(
    me: Epoch,
    owners: &Owners,
    group: &Group,
    is_assigned: bool,
    is_vacant: impl Fn(Shard) -> bool,
) -> Leaving {
    let mut left = Vec::new();
    let mut is_waiting = false;
    let mut has_other_owner = false;

    for (shard, owner) in owners.iter() {
        match owner {
            None => {}
            Some(owner) if owner.epoch == me => left.push(shard),
            Some(owner) if group.get(owner.epoch).is_some() => has_other_owner = true,
            Some(_) if !is_assigned => has_other_owner = true,
            Some(_) if is_vacant(shard) => left.push(shard),
            Some(_) => is_waiting = true,
        }
    }

    if !left.is_empty() {
        return Leaving::Shards(left);
    }
    match (is_waiting, has_other_owner) {
        (true, _) => Leaving::Wait,
        (false, false) if is_assigned => Leaving::Shards(left),
        _ => Leaving::Nothing,
    }
}

/// Reads and writes the owners of Plugins.
pub struct Ownership {
    context: Arc<Context>,
    replicas: Arc<Replicas>,
    /// The last hand-over of each Plugin by this replica.
    sent: Mutex<HashMap<ObjectKey, SentHandOver>>,
    /// Other installations of the host.
    pub installations: Installations,
}

impl Ownership {
    /// Creates this for one replica.
    pub fn new(context: Arc<Context>, replicas: Arc<Replicas>) -> Arc<Self> {
        let installations = Installations::new(replicas.clone());
        Arc::new(Self {
            context,
            replicas,
            sent: Mutex::default(),
            installations,
        })
    }

    /// Decides what this replica does with a Plugin.
    ///
    /// # Errors
    /// The API server's error when the group had to be read again.
    pub async fn plan(&self, plugin: &Object) -> Result<Plan, ApiError> {
        let Some(me) = self.replicas.epoch() else {
            return Ok(Plan::Elsewhere);
        };
        let decided = self.known_plan(plugin);
        if decided != Plan::Refresh {
            return Ok(decided);
        }

        let group = self.replicas.refresh().await?;
        // Ignore owners with later epochs: they were members of a group that has been deleted.
        let is_known = |owner: &Owner| owner.epoch <= group.last_epoch();
        let owners: Vec<_> = self
            .owners(plugin)
            .owners()
            .into_iter()
            .map(|owner| owner.filter(is_known))
            .collect();

        Ok(plan(
            me,
            plugin.key(),
            wanted_shards(plugin),
            &owners,
            &group,
        ))
    }

    /// Returns the shards this replica has lost between two versions of a Plugin.
    pub fn lost(&self, before: &Object, now: &Object) -> Vec<Shard> {
        let now = self.owners(now);
        let before = self.owners(before);
        let lost = before
            .iter()
            .filter(|(shard, owner)| self.is_mine(*owner) && !self.is_mine(now.of(*shard)));
        lost.map(|(shard, _)| shard).collect()
    }

    /// Reports whether this replica owns a Plugin or one of its shards.
    pub fn is_own(&self, plugin: &Object) -> bool {
        self.owners(plugin)
            .iter()
            .any(|(_, owner)| self.is_mine(owner))
    }

    fn is_mine(&self, owner: Option<Owner>) -> bool {
        owner.is_some_and(|owner| Some(owner.epoch) == self.replicas.epoch())
    }

    /// Reports whether other replicas run a Plugin, judging by the group as last read.
    pub fn is_elsewhere(&self, plugin: &Object) -> bool {
        self.installations.other(plugin).is_some() || self.known_plan(plugin) == Plan::Elsewhere
    }

    /// Returns the identity of the other member that runs a Plugin or should run it, or None if
    /// that is this replica. Of a split Plugin, the first shard counts.
    pub fn other_owner(&self, plugin: &Object) -> Option<String> {
        let group = self.replicas.group();
        let group = group.borrow();
        let owner = self
            .owners(plugin)
            .owners()
            .into_iter()
            .next()
            .flatten()
            .map(|owner| owner.epoch);
        let owner = owner.filter(|epoch| group.get(*epoch).is_some());
        let owner = owner
            .or_else(|| assigned(plugin.key(), &group))
            .filter(|epoch| Some(*epoch) != self.epoch())?;
        group.get(owner).map(|member| member.identity.clone())
    }

    /// Returns the identities of the other members with shards of this Plugin, or none if it isn't
    /// split.
    pub fn other_shard_owners(&self, plugin: &Object) -> Vec<String> {
        let owners = self.owners(plugin);
        if !owners.is_split() {
            return Vec::new();
        }

        let group = self.replicas.group();
        let group = group.borrow();
        let epochs: BTreeSet<Epoch> = owners
            .owners()
            .into_iter()
            .flatten()
            .map(|owner| owner.epoch)
            .collect();
        let others = epochs
            .into_iter()
            .filter(|epoch| Some(*epoch) != self.epoch());

        others
            .filter_map(|epoch| group.get(epoch))
            .map(|member| member.identity.clone())
            .collect()
    }

    /// Plans with the group as last read.
    fn known_plan(&self, plugin: &Object) -> Plan {
        let owners = self.owners(plugin).owners();
        let group = self.replicas.group();
        let decide = |me| {
            plan(
                me,
                plugin.key(),
                wanted_shards(plugin),
                &owners,
                &group.borrow(),
            )
        };
        self.replicas.epoch().map_or(Plan::Elsewhere, decide)
    }

    /// Returns the shards that can't be claimed yet, because their former owner may still be
    /// acting.
    pub fn occupied(&self, plugin: &Object, shards: &[Shard]) -> Vec<Shard> {
        if shards.is_empty() {
            return Vec::new();
        }
        let owners = self.owners(plugin);
        shards
            .iter()
            .copied()
            .filter(|shard| !self.is_vacant(&owners, *shard))
            .collect()
    }

    /// Reports whether the former owners of all shards have stopped.
    pub fn is_all_vacant(&self, plugin: &Object) -> bool {
        let owners = self.owners(plugin);
        owners
            .iter()
            .all(|(shard, _)| self.is_vacant(&owners, shard))
    }

    fn is_vacant(&self, owners: &Owners, shard: Shard) -> bool {
        // With our identity, the owner is this replica or an earlier process of it: no two running
        // replicas share an identity.
        let is_own = owners.replica(shard) == Some(self.identity());
        is_own
            || owners
                .of(shard)
                .is_none_or(|owner| self.replicas.has_stopped(owner.epoch))
    }

    /// Makes this replica the owner of these shards.
    ///
    /// # Errors
    /// The API server's error; `Unavailable` if the Lease wasn't renewed in time.
    pub async fn claim(
        &self,
        plugin: &Object,
        shards: &[Shard],
    ) -> Result<ConditionalWrite, ApiError> {
        let Some(me) = self.replicas.epoch() else {
            return Ok(ConditionalWrite::Conflict);
        };
        let mut owners = self.owners(plugin);
        shards
            .iter()
            .for_each(|shard| owners.set(*shard, Some((self.identity(), me))));
        self.write_owners(plugin, &owners).await
    }

    /// Names this replica as the successor of these shards' owners.
    ///
    /// # Errors
    /// See [`Self::claim`].
    pub async fn offer(
        &self,
        plugin: &Object,
        shards: &[Shard],
    ) -> Result<ConditionalWrite, ApiError> {
        let Some(me) = self.replicas.epoch() else {
            return Ok(ConditionalWrite::Conflict);
        };
        let before = self.owners(plugin);
        let mut owners = before.clone();

        // Another replica may have changed the number of shards, or handed them over already.
        let has_other_owner =
            |shard: &&Shard| before.of(**shard).is_some_and(|owner| owner.epoch != me);
        shards
            .iter()
            .filter(has_other_owner)
            .for_each(|shard| owners.set_successor(*shard, me));
        if owners == before {
            return Ok(ConditionalWrite::Done);
        }

        self.write_owners(plugin, &owners).await
    }

    /// Makes other replicas the owners of these shards.
    ///
    /// # Errors
    /// See [`Self::claim`].
    pub async fn hand_over(
        &self,
        plugin: &Object,
        shards: &[(Shard, Epoch)],
    ) -> Result<ConditionalWrite, ApiError> {
        let group = self.replicas.group().borrow().clone();
        let mut owners = self.owners(plugin);

        for (shard, to) in shards {
            let Some(member) = group.get(*to) else {
                return Ok(ConditionalWrite::Conflict);
            };
            owners.set(*shard, Some((&member.identity, *to)));
        }

        let handed = shards.iter().map(|(shard, _)| *shard).collect();
        let sent = SentHandOver::new(plugin.resource_version().to_owned(), handed);
        self.sent.lock().insert(plugin.key().clone(), sent);

        self.write_owners(plugin, &owners).await
    }

    /// Reports whether [`Self::withdraw`] must come before these roles: see
    /// [`SentHandOver::must_be_withdrawn`].
    pub fn must_withdraw(&self, plugin: &Object, roles: &[(Shard, Role)]) -> bool {
        let sent = self.sent.lock();
        sent.get(plugin.key())
            .is_some_and(|sent| sent.must_be_withdrawn(plugin.resource_version(), roles))
    }

    /// Removes all successors. A hand-over to them that is still in flight then gets a conflict.
    ///
    /// # Errors
    /// See [`Self::claim`].
    pub async fn withdraw(&self, plugin: &Object) -> Result<ConditionalWrite, ApiError> {
        let mut owners = self.owners(plugin);
        owners.clear_successors();
        self.write_owners(plugin, &owners).await
    }

    /// Forgets a deleted Plugin.
    pub fn forget(&self, plugin: &ObjectKey) {
        self.sent.lock().remove(plugin);
        self.installations.forget(plugin);
    }

    /// Removes the owners of these shards.
    ///
    /// # Errors
    /// See [`Self::claim`].
    pub async fn free(
        &self,
        plugin: &Object,
        shards: &[Shard],
    ) -> Result<ConditionalWrite, ApiError> {
        let mut owners = self.owners(plugin);
        shards.iter().for_each(|shard| owners.set(*shard, None));
        self.write_owners(plugin, &owners).await
    }

    /// Reports whether this host is responsible for namespaces whose label has this class. The host
    /// without a class is responsible for classes that have no hosts, too: it refuses to run their
    /// Plugins, and says so in their status.
    pub async fn is_responsible_for(&self, class: Option<&str>) -> bool {
        let config = &self.context.config;
        if config.is_own_class(class) {
            return true;
        }
        let (Some(class), None) = (class, &config.class) else {
            return false;
        };
        match class.parse() {
            Ok(class) => !self.installations.has_hosts(&class).await,
            Err(_) => true,
        }
    }

    /// Decides how this replica leaves a Plugin to the hosts of another class.
    ///
    /// # Errors
    /// The API server's error when the group had to be read again.
    pub async fn leaving(&self, plugin: &Object) -> Result<Leaving, ApiError> {
        let Some(me) = self.replicas.epoch() else {
            return Ok(Leaving::Nothing);
        };
        let own = self.replicas.group_key().to_string();
        if plugin.scalar_at(".status.group") != Some(own) {
            return Ok(Leaving::Nothing);
        }

        let owners = self.owners(plugin);
        let group = self.replicas.group().borrow().clone();
        let is_later = |owner: Owner| owner.epoch > group.last_epoch();
        let group = match owners.owners().into_iter().flatten().any(is_later) {
            true => self.replicas.refresh().await?,
            false => group,
        };

        let is_vacant = |shard| self.is_vacant(&owners, shard);
        let is_assigned = self.is_assigned(plugin.key());
        Ok(leaving(me, &owners, &group, is_assigned, is_vacant))
    }

    /// Removes the owners of these shards. If no shard has an owner then, also removes the group, so
    /// that hosts of another class may claim them.
    ///
    /// # Errors
    /// See [`Self::claim`].
    pub async fn leave(
        &self,
        plugin: &Object,
        shards: &[Shard],
    ) -> Result<ConditionalWrite, ApiError> {
        let mut owners = self.owners(plugin);
        shards.iter().for_each(|shard| owners.set(*shard, None));

        let mut status = self.status(&owners);
        if owners.owners().iter().all(Option::is_none) {
            status = owners.without_owners().status();
            status["group"] = Value::Null;
            status["replicas"] = Value::Null;
        }
        self.write(plugin, status).await
    }

    /// Changes the number of shards to the one in the spec, all without owners.
    ///
    /// # Errors
    /// See [`Self::claim`].
    pub async fn resize(&self, plugin: &Object) -> Result<ConditionalWrite, ApiError> {
        let mut status = self.status(&Owners::none(wanted_shards(plugin)));
        // The replicas' reports are about the former shards.
        status["replicas"] = Value::Null;
        self.write(plugin, status).await
    }

    /// Reads a Plugin's owners. Those in another installation's group don't count.
    fn owners(&self, plugin: &Object) -> Owners {
        let owners = Owners::read(plugin);
        if self.installations.other(plugin).is_some() {
            owners.without_owners()
        } else {
            owners
        }
    }

    /// Returns the status fields that name the owners, with this group.
    fn status(&self, owners: &Owners) -> Value {
        let mut status = owners.status();
        status["group"] = self.replicas.group_key().to_string().into();
        status
    }

    async fn write_owners(
        &self,
        plugin: &Object,
        owners: &Owners,
    ) -> Result<ConditionalWrite, ApiError> {
        self.write(plugin, self.status(owners)).await
    }

    /// Writes these status fields, if the Plugin hasn't changed.
    ///
    /// # Errors
    /// See [`Self::claim`].
    pub async fn write(
        &self,
        plugin: &Object,
        status: Value,
    ) -> Result<ConditionalWrite, ApiError> {
        self.replicas.check()?;
        let body =
            json!({"metadata": {"resourceVersion": plugin.resource_version()}, "status": status});
        let action = WriteAction::Patch {
            key: plugin.key().clone(),
            subresource: Some("status".to_owned()),
            body: PatchBody::Merge(body.to_string()),
            force: false,
        };
        let write = Write {
            kind: GroupVersionKind::new(crd::API_VERSION, crd::KIND),
            action,
            options: WriteOptions::default(),
        };

        match self.context.cluster.api.write(write).await {
            Ok(_) => Ok(ConditionalWrite::Done),
            Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::NotFound) => {
                Ok(ConditionalWrite::Conflict)
            }
            Err(error) => Err(error),
        }
    }

    /// Reports whether this replica should act on something without an owner, such as a drop-in
    /// ConfigMap. While the group changes, two replicas may think so; their actions must be
    /// idempotent.
    pub fn is_assigned(&self, key: &ObjectKey) -> bool {
        assigned(key, &self.replicas.group().borrow()) == self.replicas.epoch()
    }

    /// Reports whether the replica with this epoch may act, judging by the group as last read.
    pub fn is_member(&self, epoch: Epoch) -> bool {
        self.replicas.group().borrow().get(epoch).is_some()
    }

    /// Returns this replica's epoch, or None before it has joined.
    pub fn epoch(&self) -> Option<Epoch> {
        self.replicas.epoch()
    }

    /// Returns this replica's identity.
    pub fn identity(&self) -> &str {
        self.replicas.identity()
    }

    /// Checks that this replica's Lease was renewed in time.
    ///
    /// # Errors
    /// `Unavailable` if it wasn't.
    pub fn check(&self) -> Result<(), ApiError> {
        self.replicas.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two shards: of `me` and of another member, unless changed.
    fn owners(epochs: [Option<Epoch>; 2]) -> Owners {
        let mut owners = Owners::none(2);
        for (shard, epoch) in Shard::all(2).zip(epochs) {
            owners.set(shard, epoch.map(|epoch| ("replica", epoch)));
        }
        owners
    }

    #[test]
    fn group_leaves_a_plugin_once_all_its_replicas_have_stopped() {
        let mut group = Group::default();
        let [me, other, former] = ["a", "b", "c"].map(|identity| group.join(identity));
        group.remove(former);
        let [first, second] = {
            let mut shards = Shard::all(2);
            [shards.next(), shards.next()].map(|shard| shard.expect("a shard"))
        };
        let leave = |epochs, is_assigned, vacant: bool| {
            leaving(me, &owners(epochs), &group, is_assigned, |_| vacant)
        };

        // Each replica gives up what it runs.
        let both = [Some(me), Some(other)];
        assert_eq!(leave(both, false, true), Leaving::Shards(vec![first]));
        assert_eq!(leave([None, Some(other)], true, true), Leaving::Nothing);

        // A former member may still act until its Lease has ended.
        let orphan = [Some(me), Some(former)];
        assert_eq!(leave(orphan, true, false), Leaving::Shards(vec![first]));
        assert_eq!(leave([None, Some(former)], true, false), Leaving::Wait);
        assert_eq!(leave([None, Some(former)], false, true), Leaving::Nothing);
        assert_eq!(
            leave([None, Some(former)], true, true),
            Leaving::Shards(vec![second])
        );

        // One of them takes the group's name out of the status.
        assert_eq!(leave([None, None], true, true), Leaving::Shards(vec![]));
        assert_eq!(leave([None, None], false, true), Leaving::Nothing);
    }
}
