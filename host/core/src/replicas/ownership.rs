//! What a replica does with a Plugin.

use crate::{
    object::ObjectKey,
    replicas::{Epoch, Group, assigned},
};

/// The owner of a Plugin as its status names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The epoch that may reconcile its keys.
    pub epoch: Epoch,
    /// The epoch that is prepared to take over.
    pub successor: Option<Epoch>,
}

/// The role of a replica for a Plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs it.
    Own,
    /// Becomes its owner by a conditional write, and runs it.
    Claim,
    /// Loads it and syncs its informers, and then names itself as the successor. Another replica still runs it.
    Prepare,
    /// Stops it, and then names the successor as the owner.
    HandOver {
        /// The successor.
        to: Epoch,
    },
    /// Reads the group again: the owner joined after this version of the group.
    Refresh,
    /// Nothing: it is another replica's.
    Elsewhere,
}

/// Decides what the replica with the epoch `me` does with a Plugin. `group` may be old, but only by missing changes at its
/// end.
pub fn role(me: Epoch, plugin: &ObjectKey, owner: Option<Owner>, group: &Group) -> Role {
    if group.get(me).is_none() {
        return Role::Elsewhere;
    }
    let assigned = assigned(plugin, group);
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
        Some(Owner { epoch, .. }) if epoch > group.last_epoch() => Role::Refresh,
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
        let other = if assigned == members[0] { members[1] } else { members[0] };
        Stage { group, plugin, assigned, other }
    }

    impl Stage {
        /// The roles of the assigned replica and of the other one.
        fn roles(&self, owner: Option<Owner>) -> [Role; 2] {
            [self.assigned, self.other].map(|me| role(me, &self.plugin, owner, &self.group))
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
        assert_eq!(stage.roles(owned(dead, None)), [Role::Claim, Role::Elsewhere]);
    }

    #[test]
    fn hand_over_waits_until_the_successor_is_prepared() {
        let Stage { assigned, other, .. } = stage();
        let stage = stage();
        assert_eq!(stage.roles(owned(other, None)), [Role::Prepare, Role::Own]);
        let handed = Role::HandOver { to: assigned };
        assert_eq!(stage.roles(owned(other, Some(assigned))), [Role::Prepare, handed]);
        assert_eq!(stage.roles(owned(assigned, None)), [Role::Own, Role::Elsewhere]);
    }

    #[test]
    fn successor_that_is_not_assigned_any_more_gets_nothing() {
        let mut stage = stage();
        stage.group.begin_leaving(stage.assigned);
        assert_eq!(stage.roles(owned(stage.other, Some(stage.assigned))), [Role::Elsewhere, Role::Own]);
        stage.group.remove(stage.assigned);
        assert_eq!(stage.roles(owned(stage.other, Some(stage.assigned))), [Role::Elsewhere, Role::Own]);
    }

    #[test]
    fn replica_that_leaves_keeps_its_plugins_until_another_takes_them() {
        let mut stage = stage();
        stage.group.begin_leaving(stage.assigned);
        let handed = Role::HandOver { to: stage.other };
        assert_eq!(stage.roles(owned(stage.assigned, None)), [Role::Own, Role::Prepare]);
        assert_eq!(stage.roles(owned(stage.assigned, Some(stage.other))), [handed, Role::Prepare]);
        stage.group.begin_leaving(stage.other);
        assert_eq!(stage.roles(owned(stage.assigned, Some(stage.other))), [Role::Own, Role::Elsewhere]);
        assert_eq!(stage.roles(None), [Role::Elsewhere, Role::Elsewhere]);
    }

    #[test]
    fn old_version_of_the_group_never_takes_a_plugin_from_a_newer_member() {
        let stage = stage();
        let newer = stage.group.clone().join("c");
        assert_eq!(stage.roles(owned(newer, None)), [Role::Refresh, Role::Refresh]);
    }

    #[test]
    fn former_member_has_no_role() {
        let mut stage = stage();
        stage.group.remove(stage.assigned);
        assert_eq!(stage.roles(owned(stage.assigned, None)), [Role::Elsewhere, Role::Claim]);
    }
}
