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
    replicas::{Epoch, Owner, Plan, Role, SentHandOver, Shard, assigned, plan},
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
