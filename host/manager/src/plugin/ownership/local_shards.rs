//! The shards of a Plugin that this replica runs or prepares, each with the permit to act for it.

use std::{collections::BTreeMap, sync::Arc};

use operetta_core::{gate::permit::RequestPermit, replicas::Shard};

/// A shard that this replica runs or prepares.
#[derive(Clone)]
pub struct LocalShard {
    /// The shard.
    pub shard: Shard,
    /// The permit of its reconciles: a child of the Plugin's.
    pub token: Arc<RequestPermit>,
    /// True if this replica owns the shard. Otherwise it takes no keys.
    pub is_owned: bool,
}

/// A Plugin's shards on this replica.
#[derive(Default)]
pub struct LocalShards(BTreeMap<Shard, LocalShard>);

impl LocalShards {
    /// Replaces the shards. `shards` has true for the ones this replica owns. The permits of those
    /// it no longer owns are revoked for the reason `why`. `plugin` is the Plugin's permit.
    pub fn set(&mut self, shards: &[(Shard, bool)], plugin: &Arc<RequestPermit>, why: &str) {
        let before = std::mem::take(&mut self.0);
        for local in before.values() {
            let is_kept = shards
                .iter()
                .any(|(shard, is_owned)| *shard == local.shard && *is_owned >= local.is_owned);
            if !is_kept {
                local.token.revoke(why);
            }
        }

        for (shard, is_owned) in shards {
            let kept = before
                .get(shard)
                .map(|local| local.token.clone())
                .filter(|token| !token.is_own_revoked());
            let token = kept.unwrap_or_else(|| plugin.child());
            self.0.insert(
                *shard,
                LocalShard {
                    shard: *shard,
                    token,
                    is_owned: *is_owned,
                },
            );
        }
    }

    /// Gives all shards new permits, as children of this one.
    pub fn renew(&mut self, plugin: &Arc<RequestPermit>) {
        self.0
            .values_mut()
            .for_each(|local| local.token = plugin.child());
    }

    /// Revokes the permits of these shards.
    pub fn revoke(&self, shards: &[Shard], why: &str) {
        shards
            .iter()
            .filter_map(|shard| self.0.get(shard))
            .for_each(|local| local.token.revoke(why));
    }

    /// Revokes the permits of these shards, and forgets the shards.
    pub fn remove(&mut self, shards: &[Shard], why: &str) {
        self.revoke(shards, why);
        self.0.retain(|shard, _| !shards.contains(shard));
    }

    /// Returns the shards in order.
    pub fn all(&self) -> Vec<LocalShard> {
        self.0.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_of(local: &LocalShards, shard: Shard) -> Arc<RequestPermit> {
        local
            .all()
            .into_iter()
            .find(|local| local.shard == shard)
            .expect("a local shard")
            .token
    }

    #[test]
    fn shard_that_goes_elsewhere_may_act_no_more_and_others_may() {
        let plugin = RequestPermit::new();
        let [first, second] = {
            let shards: Vec<Shard> = Shard::all(2).collect();
            [shards[0], shards[1]]
        };
        let mut local = LocalShards::default();
        local.set(&[(first, true), (second, false)], &plugin, "elsewhere");

        let tokens = [token_of(&local, first), token_of(&local, second)];
        local.set(&[(first, true), (second, true)], &plugin, "elsewhere");
        assert!(
            Arc::ptr_eq(&token_of(&local, second), &tokens[1]),
            "a prepared shard begins with its token"
        );

        local.set(&[(second, true)], &plugin, "elsewhere");
        assert_eq!(
            tokens.each_ref().map(|token| token.is_revoked()),
            [true, false]
        );

        local.set(&[(second, false)], &plugin, "elsewhere");
        assert!(tokens[1].is_revoked(), "another replica has taken it");
        assert!(!token_of(&local, second).is_revoked());

        local.revoke(&[first, second], "lost");
        assert!(token_of(&local, second).is_revoked());

        local.set(&[(second, true)], &plugin, "elsewhere");
        let token = token_of(&local, second);
        assert!(!token.is_revoked());

        plugin.revoke("no consent");
        assert!(token.is_revoked());

        local.renew(&RequestPermit::new());
        assert!(!token_of(&local, second).is_revoked());

        let token = token_of(&local, second);
        local.remove(&[second], "elsewhere");
        assert!(local.all().is_empty() && token.is_revoked());
    }
}
