//! Replicas that see the group and the Plugin's status late, in any order, while members come and
//! go and the number of shards changes. Some writes arrive late, and some responses are lost.
//!
//! After each step, no key belongs to shards for which two replicas act. When the changes end, one
//! replica acts for each shard, and the shards are balanced.

use std::collections::BTreeSet;

use operetta_core::{
    object::ObjectKey,
    replicas::{Epoch, Group, Owner, Plan, Role, SentHandOver, Shard, plan},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// The Plugin as the API server stores it.
#[derive(Clone, Default)]
struct Stored {
    version: u64,
    wanted: u32,
    owners: Vec<Option<Owner>>,
}

/// A replica with what it has seen so far.
struct Replica {
    epoch: Epoch,
    group: Group,
    plugin: Stored,
    acts_for: BTreeSet<Shard>,
    sent: Option<SentHandOver>,
}

struct World {
    random: StdRng,
    key: ObjectKey,
    group: Group,
    plugin: Stored,
    replicas: Vec<Replica>,
    joined: u32,
    /// Writes that the API server has not received yet, though their replicas have given up: the
    /// owners, and the version that they are conditional on.
    delayed: Vec<(u64, Vec<Option<Owner>>)>,
    /// True if responses may be lost.
    loses_responses: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let plugin = Stored {
            version: 1,
            wanted: 1,
            owners: vec![None],
        };
        let key = ObjectKey::namespaced("team", format!("plugin-{seed}"));
        let random = StdRng::seed_from_u64(seed);
        let mut world = Self {
            random,
            key,
            group: Group::default(),
            plugin,
            replicas: Vec::new(),
            joined: 0,
            delayed: Vec::new(),
            loses_responses: true,
        };
        world.join();
        world
    }

    fn join(&mut self) {
        self.joined += 1;
        let epoch = self.group.join(&format!("replica-{}", self.joined));
        let replica = Replica {
            epoch,
            group: self.group.clone(),
            plugin: self.plugin.clone(),
            acts_for: BTreeSet::new(),
            sent: None,
        };
        self.replicas.push(replica);
    }

    /// Changes the members or the spec, or lets a replica see something or act.
    fn step(&mut self) {
        let at = self.random.random_range(0..self.replicas.len());
        match self.random.random_range(0..100) {
            0 if self.replicas.len() < 5 => self.join(),
            1 if self.replicas.len() > 1 => {
                // Its fence has closed before its epoch ends.
                let dead = self.replicas.remove(at);
                self.group.remove(dead.epoch);
            }
            2 => {
                let _changed = self.group.begin_leaving(self.replicas[at].epoch);
            }
            3 => {
                self.plugin.wanted = self.random.random_range(1..8);
                self.plugin.version += 1;
            }
            4 => self.receive_delayed(),
            5..30 => self.replicas[at].group = self.group.clone(),
            30..60 => self.replicas[at].plugin = self.plugin.clone(),
            _ => self.act(at),
        }
    }

    /// Writes the owners, if the replica has seen the stored version. Reports whether it got the
    /// response that they were. It sees them now or later.
    fn write(&mut self, at: usize, change: impl FnOnce(&mut Vec<Option<Owner>>)) -> bool {
        let Stored {
            version,
            mut owners,
            ..
        } = self.replicas[at].plugin.clone();
        change(&mut owners);
        let fate = if self.loses_responses {
            self.random.random_range(0..20)
        } else {
            20
        };
        if fate == 0 {
            self.delayed.push((version, owners));
            return false;
        }
        let is_stored = self.store(version, owners);
        if is_stored && fate >= 10 {
            self.replicas[at].plugin = self.plugin.clone();
        }
        is_stored && fate != 1
    }

    /// Stores owners on the version that they are conditional on.
    fn store(&mut self, version: u64, owners: Vec<Option<Owner>>) -> bool {
        let is_current = self.plugin.version == version;
        if is_current {
            self.plugin.owners = owners;
            self.plugin.version += 1;
        }
        is_current
    }

    /// Lets the API server receive one of the delayed writes.
    fn receive_delayed(&mut self) {
        if !self.delayed.is_empty() {
            let at = self.random.random_range(0..self.delayed.len());
            let (version, owners) = self.delayed.swap_remove(at);
            self.store(version, owners);
        }
    }

    /// Does what the host does for a plan.
    fn act(&mut self, at: usize) {
        let Replica {
            epoch: me,
            group,
            plugin,
            ..
        } = &self.replicas[at];
        let me = *me;
        match plan(me, &self.key, plugin.wanted, &plugin.owners, group) {
            Plan::Elsewhere => self.replicas[at].acts_for.clear(),
            Plan::Refresh => self.replicas[at].group = self.group.clone(),
            Plan::Free(shards) => {
                self.replicas[at]
                    .acts_for
                    .retain(|shard| !shards.contains(shard));
                self.write(at, |owners| {
                    shards
                        .iter()
                        .for_each(|shard| owners[shard.index() as usize] = None);
                });
            }
            Plan::Resize => {
                self.replicas[at].acts_for.clear();
                let wanted = self.replicas[at].plugin.wanted as usize;
                self.write(at, |owners| *owners = vec![None; wanted]);
            }
            Plan::Act(roles) => self.act_in_roles(at, me, &roles),
        }
    }

    fn act_in_roles(&mut self, at: usize, me: Epoch, roles: &[(Shard, Role)]) {
        let index = |shard: Shard| shard.index() as usize;
        let version = self.replicas[at].plugin.version.to_string();
        let sent = self.replicas[at].sent.as_ref();
        if sent.is_some_and(|sent| sent.must_be_withdrawn(&version, roles)) {
            self.replicas[at].acts_for.clear();
            self.write(at, |owners| {
                owners
                    .iter_mut()
                    .flatten()
                    .for_each(|owner| owner.successor = None);
            });
            return;
        }
        let own = |(shard, role): &(Shard, Role)| (*role == Role::Own).then_some(*shard);
        self.replicas[at].acts_for = roles.iter().filter_map(own).collect();
        let is_handed = |(_, role): &(Shard, Role)| matches!(role, Role::HandOver { .. });
        if roles.iter().any(is_handed) {
            let handed = roles
                .iter()
                .filter(|role| is_handed(role))
                .map(|(shard, _)| *shard)
                .collect();
            self.replicas[at].sent = Some(SentHandOver::new(version, handed));
            self.write(at, |owners| {
                for (shard, role) in roles {
                    if let Role::HandOver { to } = role {
                        owners[index(*shard)] = Some(Owner {
                            epoch: *to,
                            successor: None,
                        });
                    }
                }
            });
            return;
        }
        let with = |wanted: Role| {
            roles
                .iter()
                .filter(move |(_, role)| *role == wanted)
                .map(|(shard, _)| *shard)
        };
        let claimed: Vec<Shard> = with(Role::Claim).collect();
        let claim = |owners: &mut Vec<Option<Owner>>| {
            claimed.iter().for_each(|shard| {
                owners[index(*shard)] = Some(Owner {
                    epoch: me,
                    successor: None,
                });
            });
        };
        if !claimed.is_empty() {
            if self.write(at, claim) {
                self.replicas[at].acts_for.extend(claimed);
            }
            return;
        }
        let prepared: Vec<Shard> = with(Role::Prepare).collect();
        let owners = &self.replicas[at].plugin.owners;
        let is_offered =
            |shard: &Shard| owners[index(*shard)].and_then(|owner| owner.successor) == Some(me);
        if !prepared.iter().all(is_offered) {
            self.write(at, |owners| {
                for shard in &prepared {
                    if let Some(owner) = &mut owners[index(*shard)] {
                        owner.successor = Some(me);
                    }
                }
            });
        }
    }

    /// Returns the number of replicas that act for each of some keys.
    fn actors(&self) -> Vec<usize> {
        let keys = (0..64).map(|number| ObjectKey::namespaced("team", format!("web-{number}")));
        let acting = |key: &ObjectKey| {
            self.replicas
                .iter()
                .filter(|replica| replica.acts_for.iter().any(|shard| shard.contains(key)))
                .count()
        };
        keys.map(|key| acting(&key)).collect()
    }

    /// Lets all replicas see everything and act, until nothing changes.
    fn settle(&mut self) {
        for _ in 0..100 {
            let version = self.plugin.version;
            for at in 0..self.replicas.len() {
                self.replicas[at].group = self.group.clone();
                self.replicas[at].plugin = self.plugin.clone();
                self.act(at);
            }
            if self.plugin.version == version {
                return;
            }
        }
        panic!("the owners change without end");
    }
}

#[test]
fn no_two_replicas_act_for_a_key_and_none_is_left_out() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        for step in 0..1_000 {
            world.step();
            let actors = world.actors();
            assert!(
                actors.iter().all(|actors| *actors <= 1),
                "seed {seed}, step {step}: {actors:?}"
            );
        }
        world.join();
        world.loses_responses = false;
        world.settle();
        assert_eq!(world.actors(), [1; 64], "seed {seed}");
        let staying = world
            .group
            .members()
            .filter(|(_, member)| !member.is_leaving)
            .map(|(epoch, _)| epoch);
        let staying: BTreeSet<Epoch> = staying.collect();
        let shares = world
            .replicas
            .iter()
            .filter(|replica| staying.contains(&replica.epoch));
        let shares: Vec<usize> = shares.map(|replica| replica.acts_for.len()).collect();
        let least = shares.iter().min().expect("a member");
        let most = shares.iter().max().expect("a member");
        assert!(most - least <= 1, "seed {seed}: {shares:?}");
        assert_eq!(
            shares.iter().sum::<usize>(),
            world.plugin.wanted as usize,
            "seed {seed}: those that leave have none"
        );
    }
}
