//! The shards of a Plugin that this replica runs or prepares to run, each with the token that permits it to act.

use std::{collections::BTreeMap, sync::Arc};

use operetta_core::{gate::revocation::Revocation, replicas::Shard};

/// A shard that this replica runs or prepares to run.
#[derive(Clone)]
pub struct HeldShard {
    /// The shard.
    pub shard: Shard,
    /// The token of its reconciles: a child of the Plugin's.
    pub token: Arc<Revocation>,
    /// True if this replica owns the shard: only then it takes keys.
    pub is_acting: bool,
}

/// The shards of a Plugin on this replica.
#[derive(Default)]
pub(super) struct HeldShards(BTreeMap<Shard, HeldShard>);

impl HeldShards {
    /// Replaces the shards: `shards` has each with true if this replica owns it. Revokes the tokens of those that it owns no
    /// more, with this message. `plugin` is the Plugin's token.
    pub(super) fn set(&mut self, shards: &[(Shard, bool)], plugin: &Arc<Revocation>, why: &str) {
        let before = std::mem::take(&mut self.0);
        for held in before.values() {
            let is_kept = shards.iter().any(|(shard, is_acting)| *shard == held.shard && *is_acting >= held.is_acting);
            if !is_kept {
                held.token.revoke(why);
            }
        }
        for (shard, is_acting) in shards {
            let kept = before.get(shard).map(|held| held.token.clone()).filter(|token| !token.is_own_revoked());
            let token = kept.unwrap_or_else(|| plugin.child());
            self.0.insert(*shard, HeldShard { shard: *shard, token, is_acting: *is_acting });
        }
    }

    /// Gives all shards new tokens, children of this one.
    pub(super) fn renew(&mut self, plugin: &Arc<Revocation>) {
        self.0.values_mut().for_each(|held| held.token = plugin.child());
    }

    /// Revokes the tokens of these shards.
    pub(super) fn revoke(&self, shards: &[Shard], why: &str) {
        shards.iter().filter_map(|shard| self.0.get(shard)).for_each(|held| held.token.revoke(why));
    }

    /// Revokes the tokens of these shards, and forgets them.
    pub(super) fn remove(&mut self, shards: &[Shard], why: &str) {
        self.revoke(shards, why);
        self.0.retain(|shard, _| !shards.contains(shard));
    }

    /// Returns the shards.
    pub(super) fn all(&self) -> Vec<HeldShard> {
        self.0.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_of(held: &HeldShards, shard: Shard) -> Arc<Revocation> {
        held.all().into_iter().find(|held| held.shard == shard).expect("held").token
    }

    #[test]
    fn shard_that_goes_elsewhere_may_act_no_more_and_others_may() {
        let plugin = Revocation::new();
        let [first, second] = {
            let shards: Vec<Shard> = Shard::all(2).collect();
            [shards[0], shards[1]]
        };
        let mut held = HeldShards::default();
        held.set(&[(first, true), (second, false)], &plugin, "elsewhere");
        let tokens = [token_of(&held, first), token_of(&held, second)];
        held.set(&[(first, true), (second, true)], &plugin, "elsewhere");
        assert!(Arc::ptr_eq(&token_of(&held, second), &tokens[1]), "a prepared shard begins with its token");
        held.set(&[(second, true)], &plugin, "elsewhere");
        assert_eq!(tokens.each_ref().map(|token| token.is_revoked()), [true, false]);
        held.set(&[(second, false)], &plugin, "elsewhere");
        assert!(tokens[1].is_revoked(), "another replica has taken it");
        assert!(!token_of(&held, second).is_revoked());
        held.revoke(&[first, second], "lost");
        assert!(token_of(&held, second).is_revoked());
        held.set(&[(second, true)], &plugin, "elsewhere");
        let token = token_of(&held, second);
        assert!(!token.is_revoked());
        plugin.revoke("no consent");
        assert!(token.is_revoked());
        held.renew(&Revocation::new());
        assert!(!token_of(&held, second).is_revoked());
        let token = token_of(&held, second);
        held.remove(&[second], "elsewhere");
        assert!(held.all().is_empty() && token.is_revoked());
    }
}
