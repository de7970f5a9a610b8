//! Decides what a replica does with a Plugin and its shards.

use crate::{
    object::ObjectKey,
    replicas::{
        group::{Epoch, Group},
        rendezvous::{assigned, assigned_shards},
        shard::Shard,
    },
};

/// A shard's owner, as named in the Plugin's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The epoch allowed to reconcile the shard's keys.
    pub epoch: Epoch,
    /// The epoch ready to take over.
    pub successor: Option<Epoch>,
}

/// What a replica does with a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs it.
    Own,
    /// Becomes its owner with a conditional write, and runs it.
    Claim,
    /// Loads the Plugin, syncs its informers, and then names itself as the successor. Another
    /// replica still runs the shard.
    Prepare,
    /// Stops it, then makes the successor its owner.
    HandOver {
        /// The successor.
        to: Epoch,
    },
    /// Nothing: it belongs to another replica.
    Elsewhere,
}

/// What a replica does with a Plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Act for each shard in its role; at least one of them is not [`Role::Elsewhere`].
    Act(Vec<(Shard, Role)>),
    /// Stop these shards, then remove itself as their owner: the number of shards is about to
    /// change.
    Free(Vec<Shard>),
    /// Set the number of shards with a conditional write: no replica acts for any of the old ones.
    Resize,
    /// Read the group again: an owner joined after this version of it.
    Refresh,
    /// Nothing: other replicas run the Plugin.
    Elsewhere,
}

/// A hand-over already sent. Until the replica sees another version of the Plugin, the hand-over
/// may have been stored, or may still be: the response may have been lost, and the watch may be
/// late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentHandOver {
    /// The resourceVersion the write was conditional on.
    version: String,
    shards: Vec<Shard>,
}

impl SentHandOver {
    /// Notes a hand-over of these shards.
    pub fn new(version: String, shards: Vec<Shard>) -> Self {
        Self { version, shards }
    }

    /// Whether the replica must change the Plugin before acting in these roles, because it would
    /// act for a shard that may belong to another replica by now. A conditional change conflicts if
    /// the hand-over was stored, and otherwise keeps it from being stored later.
    pub fn must_be_withdrawn(&self, version: &str, roles: &[(Shard, Role)]) -> bool {
        let is_handed_again = |(shard, role): &(Shard, Role)| {
            !self.shards.contains(shard) || matches!(role, Role::HandOver { .. })
        };
        version == self.version && !roles.iter().all(is_handed_again)
    }
}

/// Decides what the replica with epoch `me` does with a Plugin that should have `wanted` shards.
/// `owners` has an entry for each of its current shards. `group` may be stale, as long as it only
/// misses the latest changes.
pub fn plan(
    me: Epoch,
    plugin: &ObjectKey,
    wanted: u32,
    owners: &[Option<Owner>],
    group: &Group,
) -> Plan {
    if group.get(me).is_none() {
        return Plan::Elsewhere;
    }

    if owners
        .iter()
        .flatten()
        .any(|owner| owner.epoch > group.last_epoch())
    {
        return Plan::Refresh;
    }

    let shards = || Shard::all(u32::try_from(owners.len()).unwrap_or(u32::MAX));
    if owners.len() != wanted as usize {
        let is_own = |owner: &Option<Owner>| owner.is_some_and(|owner| owner.epoch == me);
        let own: Vec<Shard> = shards()
            .zip(owners)
            .filter(|(_, owner)| is_own(owner))
            .map(|(shard, _)| shard)
            .collect();
        let is_any_run = owners
            .iter()
            .flatten()
            .any(|owner| group.get(owner.epoch).is_some());

        return match (own.is_empty(), is_any_run) {
            (false, _) => Plan::Free(own),
            (true, false) if assigned(plugin, group) == Some(me) => Plan::Resize,
            _ => Plan::Elsewhere,
        };
    }

    let epochs: Vec<Option<Epoch>> = owners
        .iter()
        .map(|owner| owner.map(|owner| owner.epoch))
        .collect();
    let assigned = assigned_shards(plugin, &epochs, group);
    let roles = owners
        .iter()
        .zip(assigned)
        .map(|(owner, assigned)| role(me, assigned, *owner, group));
    let roles: Vec<(Shard, Role)> = shards().zip(roles).collect();

    match roles.iter().all(|(_, role)| *role == Role::Elsewhere) {
        true => Plan::Elsewhere,
        false => Plan::Act(roles),
    }
}

/// Decides what the replica does with one shard, assigned to `assigned`.
fn role(me: Epoch, assigned: Option<Epoch>, owner: Option<Owner>, group: &Group) -> Role {
    let is_mine = assigned == Some(me);
    match owner {
        Some(Owner { epoch, successor }) if epoch == me => match assigned {
            Some(to) if to != me && successor == Some(to) => Role::HandOver { to },
            _ => Role::Own,
        },
        Some(Owner { epoch, .. }) if group.get(epoch).is_some() => match is_mine {
            true => Role::Prepare,
            false => Role::Elsewhere,
        },
        _ if is_mine => Role::Claim,
        _ => Role::Elsewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group of two, and a Plugin that is assigned to the first of them.
    struct Stage {
        group: Group,
        plugin: ObjectKey,
        assigned: Epoch,
        other: Epoch,
    }

    fn stage() -> Stage {
        let mut group = Group::default();
        let members = ["a", "b"].map(|identity| group.join(identity));
        let plugin = ObjectKey::namespaced("team", "plugin");
        let assigned = assigned(&plugin, &group).expect("a member");
        let other = if assigned == members[0] {
            members[1]
        } else {
            members[0]
        };
        Stage {
            group,
            plugin,
            assigned,
            other,
        }
    }

    impl Stage {
        /// The roles of the assigned replica and of the other one, for a Plugin that is not split.
        fn roles(&self, owner: Option<Owner>) -> [Role; 2] {
            [self.assigned, self.other].map(|me| {
                match plan(me, &self.plugin, 1, &[owner], &self.group) {
                    Plan::Act(roles) => roles[0].1,
                    Plan::Elsewhere => Role::Elsewhere,
                    plan => panic!("{plan:?}"),
                }
            })
        }

        /// The plans of both replicas for a Plugin that is to have `wanted` shards.
        fn plans(&self, wanted: u32, owners: &[Option<Owner>]) -> [Plan; 2] {
            [self.assigned, self.other]
                .map(|me| plan(me, &self.plugin, wanted, owners, &self.group))
        }
    }

    fn owned(epoch: Epoch, successor: Option<Epoch>) -> Option<Owner> {
        Some(Owner { epoch, successor })
    }

    #[test]
    fn plugin_without_living_owner_is_claimed_by_the_assigned_replica() {
        let mut stage = stage();
        assert_eq!(stage.roles(None), [Role::Claim, Role::Elsewhere]);
        let dead = stage.group.join("c");
        stage.group.remove(dead);
        assert_eq!(
            stage.roles(owned(dead, None)),
            [Role::Claim, Role::Elsewhere]
        );
    }

    #[test]
    fn hand_over_waits_until_the_successor_is_prepared() {
        let Stage {
            assigned, other, ..
        } = stage();
        let stage = stage();
        assert_eq!(stage.roles(owned(other, None)), [Role::Prepare, Role::Own]);
        let handed = Role::HandOver { to: assigned };
        assert_eq!(
            stage.roles(owned(other, Some(assigned))),
            [Role::Prepare, handed]
        );
        assert_eq!(
            stage.roles(owned(assigned, None)),
            [Role::Own, Role::Elsewhere]
        );
    }

    #[test]
    fn successor_that_is_not_assigned_any_more_gets_nothing() {
        let mut stage = stage();
        stage.group.begin_leaving(stage.assigned);
        assert_eq!(
            stage.roles(owned(stage.other, Some(stage.assigned))),
            [Role::Elsewhere, Role::Own]
        );
        stage.group.remove(stage.assigned);
        assert_eq!(
            stage.roles(owned(stage.other, Some(stage.assigned))),
            [Role::Elsewhere, Role::Own]
        );
    }

    #[test]
    fn replica_that_leaves_keeps_its_plugins_until_another_takes_them() {
        let mut stage = stage();
        stage.group.begin_leaving(stage.assigned);
        let handed = Role::HandOver { to: stage.other };
        assert_eq!(
            stage.roles(owned(stage.assigned, None)),
            [Role::Own, Role::Prepare]
        );
        assert_eq!(
            stage.roles(owned(stage.assigned, Some(stage.other))),
            [handed, Role::Prepare]
        );
        stage.group.begin_leaving(stage.other);
        assert_eq!(
            stage.roles(owned(stage.assigned, Some(stage.other))),
            [Role::Own, Role::Elsewhere]
        );
        assert_eq!(stage.roles(None), [Role::Elsewhere, Role::Elsewhere]);
    }

    #[test]
    fn old_version_of_the_group_never_takes_a_plugin_from_a_newer_member() {
        let stage = stage();
        let later = owned(Epoch(stage.group.last_epoch().0 + 1), None);
        assert_eq!(stage.plans(1, &[later]), [Plan::Refresh, Plan::Refresh]);
        assert_eq!(stage.plans(2, &[later]), [Plan::Refresh, Plan::Refresh]);
    }

    #[test]
    fn former_member_has_no_role() {
        let mut stage = stage();
        stage.group.remove(stage.assigned);
        let owner = owned(stage.assigned, None);
        assert_eq!(stage.roles(owner), [Role::Elsewhere, Role::Claim]);
        assert_eq!(stage.plans(2, &[owner]), [Plan::Elsewhere, Plan::Resize]);
    }

    #[test]
    fn number_of_shards_changes_when_no_replica_acts_for_the_former_ones() {
        let mut stage = stage();
        let Stage {
            assigned, other, ..
        } = stage;
        let [first, second] = {
            let mut shards = Shard::all(2);
            [
                shards.next().expect("a shard"),
                shards.next().expect("a shard"),
            ]
        };
        let both = [owned(assigned, None), owned(other, Some(assigned))];
        assert_eq!(
            stage.plans(4, &both),
            [Plan::Free(vec![first]), Plan::Free(vec![second])]
        );
        let one = [None, owned(other, None)];
        assert_eq!(
            stage.plans(4, &one),
            [Plan::Elsewhere, Plan::Free(vec![second])]
        );
        assert_eq!(
            stage.plans(4, &[None, None]),
            [Plan::Resize, Plan::Elsewhere]
        );
        stage.group.remove(other);
        assert_eq!(
            stage.plans(4, &one)[0],
            Plan::Resize,
            "a replica that is gone does not act"
        );
        assert_eq!(stage.plans(1, &[None; 4])[0], Plan::Resize);
    }
}
