//! The assignment of Plugins to replicas by rendezvous hashing.

use sha2::{Digest, Sha256};

use crate::{
    object::ObjectKey,
    replicas::{Epoch, Group},
};

/// Returns the member that should run a Plugin; None if all members leave.
///
/// Each Plugin belongs to the member with the highest hash of both. So the members get about as many Plugins each, a
/// member that joins takes Plugins from all others, and one that leaves gives its own to all others. All replicas, of any
/// version, must compute the same hash.
pub fn assigned(plugin: &ObjectKey, group: &Group) -> Option<Epoch> {
    let staying = group.members().filter(|(_, member)| !member.is_leaving);
    let scored = staying.map(|(epoch, member)| (score(plugin, &member.identity), epoch));
    scored.max().map(|(_, epoch)| epoch)
}

/// Returns the hash of a Plugin and a member. A slash cannot be part of a name, and a zero byte of neither.
fn score(plugin: &ObjectKey, identity: &str) -> [u8; 32] {
    let namespace = plugin.namespace.as_deref().unwrap_or_default();
    Sha256::new().chain_update(format!("{namespace}/{}\0{identity}", plugin.name)).finalize().into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn plugins() -> Vec<ObjectKey> {
        (0..3000).map(|at| ObjectKey::namespaced(format!("team-{}", at % 7), format!("plugin-{at}"))).collect()
    }

    fn spread(group: &Group) -> BTreeMap<ObjectKey, Epoch> {
        plugins().into_iter().map(|plugin| (plugin.clone(), assigned(&plugin, group).expect("a member"))).collect()
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
        assert!(before.iter().all(|(plugin, owner)| with_four[plugin] == *owner || with_four[plugin] == joined));
        group.begin_leaving(joined);
        assert_eq!(spread(&group), before, "one that leaves gets no Plugins");
        group.remove(members[1]);
        let without = spread(&group);
        assert!(before.iter().all(|(plugin, owner)| without[plugin] == *owner || *owner == members[1]));
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
            members.iter().position(|member| Some(*member) == owner).expect("a member")
        };
        assert_eq!(["one", "two", "three", "four", "five", "six"].map(of), [2, 2, 0, 0, 1, 0]);
    }
}
