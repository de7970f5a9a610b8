//! A plugin's shards that this replica runs or prepares. They share the code, the account and the
//! informers, but each has its own queues, workers and gate. An unsplit plugin has one.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use operetta_core::{
    authz::recorded_permissions::RecordedPermissions,
    hot_loop::{Stage, Summary},
    object::{ObjectKey, kind::GroupVersionKind},
    remedy::Advice,
    replicas::Shard,
};
use operetta_kube::{
    authz::required_permissions::RequiredPermission,
    client::object_api::{PluginApi, Refusal},
    informer::Informer,
};
use tokio::task::JoinSet;

use crate::plugin::{
    ownership::local_shards::LocalShard,
    process::state::ProcessState,
    setup::{
        Setup, SetupError,
        assembly::Metered,
        running_shard::{RunningShard, Watching},
    },
};

/// A plugin's shards that this replica runs or prepares.
pub struct RunningShards {
    by_shard: BTreeMap<Shard, RunningShard>,
    /// The number of delays before a looping key is quarantined.
    hot_loop_rounds: u32,
    /// Survives code swaps; None before the first set-up.
    metered: Option<Metered>,
    /// The permissions used by the plugin's calls.
    recorded: Arc<RecordedPermissions>,
}

impl RunningShards {
    /// Creates a plugin without shards. `hot_loop_rounds` is the number of delays before a looping
    /// key is quarantined.
    pub fn new(hot_loop_rounds: u32) -> Self {
        Self {
            by_shard: BTreeMap::new(),
            hot_loop_rounds,
            metered: None,
            recorded: Arc::default(),
        }
    }

    /// Stops the shards this replica has lost, and takes no more keys for those it only prepares.
    pub fn release_others(&mut self, local_shards: &[LocalShard], grace: Duration) {
        let is_local = |shard: &Shard| local_shards.iter().any(|local| local.shard == *shard);
        let released: Vec<Shard> = self
            .by_shard
            .keys()
            .filter(|shard| !is_local(shard))
            .copied()
            .collect();
        self.take(&released)
            .into_iter()
            .for_each(|running| running.stop(grace));

        for local in local_shards.iter().filter(|local| !local.is_owned) {
            if let Some(running) = self.by_shard.get_mut(&local.shard) {
                running.set_active(false);
            }
        }
    }

    /// Starts taking keys for the shards this replica owns.
    pub fn activate(&mut self, local_shards: &[LocalShard]) {
        for local in local_shards.iter().filter(|local| local.is_owned) {
            if let Some(running) = self.by_shard.get_mut(&local.shard) {
                running.set_active(true);
            }
        }
    }

    /// Reports whether a shard isn't set up with its current permit.
    pub fn lacks(&self, local_shards: &[LocalShard]) -> bool {
        local_shards.iter().any(|local| !self.is_set_up(local))
    }

    fn is_set_up(&self, local: &LocalShard) -> bool {
        self.by_shard
            .get(&local.shard)
            .is_some_and(|running| running.is_set_up_with(&local.token))
    }

    /// Sets up the controllers like [`RunningShard::update`]: of all these shards, or only of those
    /// that aren't set up yet.
    ///
    /// # Errors
    /// See [`RunningShard::update`].
    pub async fn update(
        &mut self,
        setup: &Setup<'_>,
        local_shards: &[LocalShard],
        all: bool,
    ) -> Result<Vec<GroupVersionKind>, SetupError> {
        let metered = self.metered.get_or_insert_with(|| {
            let namespace = setup.key.namespace.as_deref().unwrap_or_default();
            let tenants = &setup.context.tenants;
            Metered {
                account: tenants.account(namespace),
                throttle: tenants.throttle(namespace),
            }
        });
        let metered = metered.clone();
        let mut missing = Vec::new();

        for local in local_shards {
            if !all && self.is_set_up(local) {
                continue;
            }
            let setup = Setup {
                permit: local.token.clone(),
                ..setup.clone()
            };
            let new =
                || RunningShard::new(local.shard, self.hot_loop_rounds, self.recorded.clone());
            let running = self.by_shard.entry(local.shard).or_insert_with(new);
            running.set_active(local.is_owned);
            missing = running.update(&setup, &metered).await?;
        }

        Ok(missing)
    }

    /// Removes and returns shards.
    pub fn take(&mut self, shards: &[Shard]) -> Vec<RunningShard> {
        shards
            .iter()
            .filter_map(|shard| self.by_shard.remove(shard))
            .collect()
    }

    /// Reports whether there are no shards.
    pub fn is_empty(&self) -> bool {
        self.by_shard.is_empty()
    }

    /// Returns the shards.
    pub fn iter(&self) -> impl Iterator<Item = &RunningShard> {
        self.by_shard.values()
    }

    /// Stops all shards, see [`RunningShard::stop`].
    pub fn stop(self, grace: Duration) {
        self.by_shard
            .into_values()
            .for_each(|running| running.stop(grace));
    }

    /// Stops all shards, see [`RunningShard::stop_and_wait`].
    pub async fn stop_and_wait(self, grace: Duration) {
        let mut stops = JoinSet::new();
        for running in self.by_shard.into_values() {
            stops.spawn(running.stop_and_wait(grace));
        }
        stops.join_all().await;
    }

    /// Returns a controller's views in all shards, or none if it isn't running.
    pub fn views<'a>(&'a self, controller: &'a str) -> impl Iterator<Item = &'a Watching> {
        self.iter()
            .flat_map(move |running| running.views(controller))
    }

    /// Returns the last request refused by RBAC, of the first shard with one.
    pub fn refusal(&self) -> Option<Refusal> {
        self.iter().find_map(RunningShard::refusal)
    }

    /// Returns the plugin's API and the permissions required by its watches, or None before it was
    /// set up. They are the same for all shards.
    pub fn required_permissions(&self) -> Option<(Arc<PluginApi>, Vec<RequiredPermission>)> {
        self.iter().find_map(RunningShard::required_permissions)
    }

    /// Returns the permissions the host lacks to watch a source, each with the command that grants
    /// it.
    pub fn missing_rights(&self) -> Vec<Advice> {
        self.iter()
            .next()
            .map(RunningShard::missing_rights)
            .unwrap_or_default()
    }

    /// Returns the informers that serve its reads, without duplicates: those watched by its
    /// controllers, and those started on demand.
    pub fn informers(&self) -> (Vec<Arc<Informer>>, Vec<Arc<Informer>>) {
        let (watched, on_demand): (Vec<_>, Vec<_>) =
            self.iter().map(RunningShard::informers).unzip();
        (each_once(watched), each_once(on_demand))
    }

    /// Returns the informers of its controllers, one per subscription.
    pub fn subscribed(&self) -> impl Iterator<Item = &Arc<Informer>> {
        self.iter().flat_map(RunningShard::subscribed)
    }

    /// Reports whether the API server serves one of its kinds as a different resource, or no
    /// longer.
    pub async fn is_served_otherwise(&self, setup: &Setup<'_>) -> bool {
        // All shards watch the same kinds.
        match self.iter().next() {
            Some(running) => running.is_served_otherwise(setup).await,
            None => false,
        }
    }

    /// Reports whether a shard must watch sources in other namespaces, see
    /// [`RunningShard::must_watch_elsewhere`].
    pub async fn must_watch_elsewhere(&self, setup: &Setup<'_>) -> bool {
        for running in self.iter() {
            if running.must_watch_elsewhere(setup).await {
                return true;
            }
        }
        false
    }

    /// Until the next set-up, sends reads of kinds that no controller watches to the API server.
    pub fn read_live(&self) {
        self.iter().for_each(RunningShard::read_live);
    }

    /// Reports whether [`Self::read_live`] is in effect.
    pub fn reads_live(&self) -> bool {
        self.iter().any(RunningShard::reads_live)
    }

    /// Reports whether its process watches more than the host's cache answers for one.
    pub fn watches_too_many(&self) -> bool {
        self.iter().any(RunningShard::watches_too_many)
    }

    /// Forgets the hot loops among its keys, because the next [`Self::update`] brings other code or
    /// another configuration.
    pub fn forget_loops(&self) {
        self.iter().for_each(|running| running.loops().reset());
    }

    /// Retries all failed keys, see [`RunningShard::retry_failed`].
    pub fn retry_failed(&self) -> usize {
        self.iter().map(RunningShard::retry_failed).sum()
    }

    /// Retries a key now, see [`RunningShard::retry`].
    pub fn retry(&self, key: &ObjectKey) -> usize {
        self.iter().map(|running| running.retry(key)).sum()
    }

    /// Reports whether some of the plugin's shards don't run here.
    pub fn has_others(&self) -> bool {
        self.by_shard
            .keys()
            .next()
            .is_some_and(|shard| self.by_shard.len() < shard.count() as usize)
    }

    /// Returns a controller's looping keys in all shards.
    pub fn loops(&self, controller: &str) -> Summary<ObjectKey> {
        let summaries = self
            .iter()
            .map(|running| running.loops().summary(controller));
        summaries.reduce(merged).unwrap_or_default()
    }

    /// Returns the plugin's account and throttle, or None before it was set up.
    pub fn metered(&self) -> Option<&Metered> {
        self.metered.as_ref()
    }

    /// Returns the state of the process, if the component is one. Only one shard has it.
    pub fn process(&self) -> Option<ProcessState> {
        self.iter().find_map(RunningShard::process)
    }

    /// Returns the number of keys queued for a controller in all shards, see
    /// [`RunningShard::queued`].
    pub fn queued(&self, controller: &str) -> usize {
        self.iter().map(|running| running.queued(controller)).sum()
    }
}

/// Combines the summaries of two shards.
fn merged(one: Summary<ObjectKey>, other: Summary<ObjectKey>) -> Summary<ObjectKey> {
    let worst = if round(&one) >= round(&other) {
        one.worst
    } else {
        other.worst
    };
    Summary {
        slowed: one.slowed + other.slowed,
        quarantined: one.quarantined + other.quarantined,
        worst,
    }
}

/// Returns the round of the worst key, or None if no key loops.
fn round(summary: &Summary<ObjectKey>) -> Option<u32> {
    let (_, looping) = summary.worst.as_ref()?;
    Some(match looping.stage {
        Stage::Slowed { round } => round,
        Stage::Quarantined => u32::MAX,
    })
}

/// Returns the informers in all lists, without duplicates.
fn each_once(lists: Vec<Vec<Arc<Informer>>>) -> Vec<Arc<Informer>> {
    let mut seen = HashSet::new();
    lists
        .into_iter()
        .flatten()
        .filter(|informer| seen.insert(Arc::as_ptr(informer)))
        .collect()
}
