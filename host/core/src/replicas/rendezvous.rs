//! Assigns Plugins and their shards to replicas by rendezvous hashing.

use std::cmp::Reverse;

use sha2::{Digest, Sha256};

use crate::{
    object::ObjectKey,
    replicas::group::{Epoch, Group},
};

/// The member that should run a Plugin; None if all are leaving.
///
/// Each Plugin belongs to the member with the highest hash of the two. So the members get about the
/// same number of Plugins, a joining member takes some from all others, and a leaving one spreads
/// its own over all others. All replicas, of any version, must compute the same hash.
pub fn assigned(plugin: &ObjectKey, group: &Group) -> Option<Epoch> {
    let staying = group.members().filter(|(_, member)| !member.is_leaving);
    let scored = staying.map(|(epoch, member)| (score(plugin, &member.identity), epoch));
    scored.max().map(|(_, epoch)| epoch)
}

/// The member that should run each shard of a Plugin; None if all are leaving. `owners` run the
/// shards now.
///
/// No member gets two shards more than another. Members are ranked by their hash with the Plugin,
/// like in [`assigned`], and the first ones get one shard more if the number doesn't divide evenly.
/// An owner keeps as many shards as it may have. The others go to members with room, by the highest
/// hash with the shard. So when members change, no more shards move than necessary: those of a
/// vanished member, or those a new member gets. For one shard this equals [`assigned`].
pub fn assigned_shards(
    plugin: &ObjectKey,
    owners: &[Option<Epoch>],
    group: &Group,
) -> Vec<Option<Epoch>> {
    let mut members = ranked(plugin, owners.len(), group);
    let mut assigned = vec![None; owners.len()];
    for member in &mut members {
        let mut own: Vec<usize> = (0..owners.len())
            .filter(|index| owners[*index] == Some(member.epoch))
            .collect();
        own.sort_by_cached_key(|index| Reverse(shard_score(plugin, *index, member.identity)));
        own.truncate(member.room);
        member.room -= own.len();
        own.into_iter()
            .for_each(|index| assigned[index] = Some(member.epoch));
    }

    for (index, assigned) in assigned
        .iter_mut()
        .enumerate()
        .filter(|(_, assigned)| assigned.is_none())
    {
        let with_room = members.iter_mut().filter(|member| member.room > 0);
        if let Some(member) =
            with_room.max_by_key(|member| shard_score(plugin, index, member.identity))
        {
            member.room -= 1;
            *assigned = Some(member.epoch);
        }
    }

    assigned
}

/// A member that stays.
struct Ranked<'a> {
    epoch: Epoch,
    identity: &'a str,
    /// How many shards it may get.
    room: usize,
}

/// The members that stay, highest hash with the Plugin first. Together they have room for all
/// shards.
fn ranked<'a>(plugin: &ObjectKey, shards: usize, group: &'a Group) -> Vec<Ranked<'a>> {
    let staying = group.members().filter(|(_, member)| !member.is_leaving);
    let mut members: Vec<_> = staying
        .map(|(epoch, member)| Ranked {
            epoch,
            identity: &member.identity,
            room: 0,
        })
        .collect();

    members.sort_by_cached_key(|member| Reverse((score(plugin, member.identity), member.epoch)));
    let count = members.len();
    for (rank, member) in members.iter_mut().enumerate() {
        // An equal number each, and the remainder for the first ones.
        member.room = (shards + count - 1 - rank) / count;
    }

    members
}

/// Hashes a Plugin and a member unambiguously: no name contains a slash, and neither side a zero
/// byte.
fn score(plugin: &ObjectKey, identity: &str) -> [u8; 32] {
    let namespace = plugin.namespace.as_deref().unwrap_or_default();
    Sha256::new()
        .chain_update(format!("{namespace}/{}\0{identity}", plugin.name))
        .finalize()
        .into()
}

/// Hashes a shard of a Plugin and a member.
fn shard_score(plugin: &ObjectKey, index: usize, identity: &str) -> [u8; 32] {
    let namespace = plugin.namespace.as_deref().unwrap_or_default();
    Sha256::new()
        .chain_update(format!("{namespace}/{}/{index}\0{identity}", plugin.name))
        .finalize()
        .into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn plugins() -> Vec<ObjectKey> {
        (0..3000)
            .map(|at| ObjectKey::namespaced(format!("team-{}", at % 7), format!("plugin-{at}")))
            .collect()
    }

    fn spread(group: &Group) -> BTreeMap<ObjectKey, Epoch> {
        plugins()
            .into_iter()
            .map(|plugin| (plugin.clone(), assigned(&plugin, group).expect("a member")))
            .collect()
    }

    #[test]
    fn each_member_gets_its_share() {
        let mut group = Group::default();
        let members = ["a", "b", "c"].map(|identity| group.join(identity));
        let spread = spread(&group);
        for member in members {
            let share = spread.values().filter(|owner| **owner == member).count();
            assert!((900..1100).contains(&share), "{member} has {share} of 3000");
        }
    }

    #[test]
    fn plugins_move_only_to_or_from_the_changed_member() {
        let mut group = Group::default();
        let members = ["a", "b", "c"].map(|identity| group.join(identity));
        let before = spread(&group);
        let joined = group.join("d");
        let with_four = spread(&group);
        assert!(
            before
                .iter()
                .all(|(plugin, owner)| with_four[plugin] == *owner || with_four[plugin] == joined)
        );
        group.begin_leaving(joined);
        assert_eq!(spread(&group), before, "one that leaves gets no Plugins");
        group.remove(members[1]);
        let without = spread(&group);
        assert!(
            before
                .iter()
                .all(|(plugin, owner)| without[plugin] == *owner || *owner == members[1])
        );
        for member in members {
            group.begin_leaving(member);
        }
        assert_eq!(assigned(&plugins()[0], &group), None);
    }

    #[test]
    fn hash_is_that_of_earlier_versions() {
        let mut group = Group::default();
        let members = ["a", "b", "c"].map(|identity| group.join(identity));
        let of = |name: &str| {
            let owner = assigned(&ObjectKey::namespaced("team", name), &group);
            members
                .iter()
                .position(|member| Some(*member) == owner)
                .expect("a member")
        };
        assert_eq!(
            ["one", "two", "three", "four", "five", "six"].map(of),
            [2, 2, 0, 0, 1, 0]
        );
    }

    /// Lets the shards move to the members that they are assigned to.
    fn settled(plugin: &ObjectKey, owners: &[Option<Epoch>], group: &Group) -> Vec<Option<Epoch>> {
        let settled = assigned_shards(plugin, owners, group);
        assert_eq!(
            assigned_shards(plugin, &settled, group),
            settled,
            "an assignment that was carried out stays"
        );
        settled
    }

    fn shares(owners: &[Option<Epoch>], group: &Group) -> Vec<usize> {
        let staying = group.members().filter(|(_, member)| !member.is_leaving);
        staying
            .map(|(epoch, _)| owners.iter().filter(|owner| **owner == Some(epoch)).count())
            .collect()
    }

    #[test]
    fn one_shard_is_assigned_as_its_plugin() {
        let mut group = Group::default();
        let members = ["a", "b", "c"].map(|identity| group.join(identity));
        for plugin in plugins().iter().take(100) {
            for owner in [None, Some(members[0]), Some(Epoch(99))] {
                assert_eq!(
                    assigned_shards(plugin, &[owner], &group),
                    [assigned(plugin, &group)],
                    "{plugin}"
                );
            }
        }
    }

    #[test]
    fn shards_are_balanced_and_few_of_them_move() {
        for plugin in plugins().iter().take(60) {
            for count in [2, 4, 7, 32] {
                let mut group = Group::default();
                let _members = ["a", "b", "c"].map(|identity| group.join(identity));
                let before = settled(plugin, &vec![None; count], &group);
                assert!(before.iter().all(Option::is_some));
                let mut moved_to_balance = Vec::new();
                let mut owners = before;
                for change in ["join", "kill", "leave"] {
                    let changed = match change {
                        "join" => group.join("d"),
                        "kill" => group
                            .members()
                            .map(|(epoch, _)| epoch)
                            .next()
                            .expect("a member"),
                        _ => group
                            .members()
                            .map(|(epoch, _)| epoch)
                            .nth(1)
                            .expect("a member"),
                    };
                    match change {
                        "kill" => assert!(group.remove(changed)),
                        "leave" => assert!(group.begin_leaving(changed)),
                        _ => {}
                    }
                    let now = settled(plugin, &owners, &group);
                    let moved: Vec<_> = owners
                        .iter()
                        .zip(&now)
                        .filter(|(before, now)| before != now)
                        .collect();
                    let is_needed = |(before, now): &(&Option<Epoch>, &Option<Epoch>)| {
                        **before == Some(changed) || **now == Some(changed)
                    };
                    assert!(
                        moved.iter().all(is_needed),
                        "{plugin} {count} {change}: {moved:?}"
                    );
                    moved_to_balance.push(moved.len());
                    let shares = shares(&now, &group);
                    let least = shares.iter().min().copied().unwrap_or_default();
                    assert!(
                        shares.iter().all(|share| *share <= least + 1),
                        "{plugin} {count} {change}: {shares:?}"
                    );
                    owners = now;
                }
                assert!(
                    moved_to_balance
                        .iter()
                        .all(|moved| *moved <= count.div_ceil(3)),
                    "{moved_to_balance:?}"
                );
            }
        }
    }

    #[test]
    fn assignment_stays_the_same_while_shards_are_handed_over_one_by_one() {
        let mut group = Group::default();
        let _members = ["a", "b"].map(|identity| group.join(identity));
        for plugin in plugins().iter().take(40) {
            let mut owners = settled(plugin, &[None; 9], &group);
            let mut grown = group.clone();
            grown.join("c");
            grown.join("d");
            let target = assigned_shards(plugin, &owners, &grown);
            // The last ones first: not the order in which they are assigned.
            for index in (0..owners.len()).rev() {
                owners[index] = target[index];
                assert_eq!(
                    assigned_shards(plugin, &owners, &grown),
                    target,
                    "{plugin} after {index}"
                );
            }
        }
    }

    #[test]
    fn shards_wait_if_all_members_leave() {
        let mut group = Group::default();
        let member = group.join("a");
        group.begin_leaving(member);
        assert_eq!(
            assigned_shards(&plugins()[0], &[Some(member), None], &group),
            [None, None]
        );
    }
}
