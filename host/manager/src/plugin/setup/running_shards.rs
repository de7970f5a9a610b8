//! The shards of a plugin that run on this replica, or are prepared to. They share the code, the
//! account and the informers; each has its own queues, workers and gate. A plugin that is not split
//! has one.

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
    setup::{
        Setup, SetupError,
        assembly::Metered,
        running_shard::{RunningShard, Watching},
    },
};

/// The shards of a plugin that run on this replica, or are prepared to.
pub struct RunningShards {
    by_shard: BTreeMap<Shard, RunningShard>,
    /// The number of delays until a looping key is quarantined.
    hot_loop_rounds: u32,
    /// The plugin's account, across code swaps; None before it was set up.
    metered: Option<Metered>,
    /// The recorded permissions of the plugin's calls.
    recorded: Arc<RecordedPermissions>,
}

impl RunningShards {
    /// Creates a plugin without shards. `hot_loop_rounds` is the number of delays until a looping
    /// key is quarantined.
    pub fn new(hot_loop_rounds: u32) -> Self {
        Self {
            by_shard: BTreeMap::new(),
            hot_loop_rounds,
            metered: None,
            recorded: Arc::default(),
        }
    }

    /// Stops the shards that this replica has lost, and takes no more keys of those that it only
    /// prepares.
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

    /// Takes keys of the shards that this replica owns.
    pub fn activate(&mut self, local_shards: &[LocalShard]) {
        for local in local_shards.iter().filter(|local| local.is_owned) {
            if let Some(running) = self.by_shard.get_mut(&local.shard) {
                running.set_active(true);
            }
        }
    }

    /// Reports whether a shard is not set up with its token.
    pub fn lacks(&self, local_shards: &[LocalShard]) -> bool {
        local_shards.iter().any(|local| !self.is_set_up(local))
    }

    fn is_set_up(&self, local: &LocalShard) -> bool {
        self.by_shard
            .get(&local.shard)
            .is_some_and(|running| running.is_set_up_with(&local.token))
    }

    /// Sets the controllers of these shards up, as [`RunningShard::update`] does: of all, or of
    /// those that are not set up yet.
    ///
    /// # Errors
    /// Fails as [`RunningShard::update`] does.
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

    /// Takes shards out.
    pub fn take(&mut self, shards: &[Shard]) -> Vec<RunningShard> {
        shards
            .iter()
            .filter_map(|shard| self.by_shard.remove(shard))
            .collect()
    }

    /// Reports whether there is no shard.
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

    /// Returns the views of a controller in all shards; none when it does not run.
    pub fn views<'a>(&'a self, controller: &'a str) -> impl Iterator<Item = &'a Watching> {
        self.iter()
            .flat_map(move |running| running.views(controller))
    }

    /// Returns the last request that RBAC refused, of the first shard that has one.
    pub fn refusal(&self) -> Option<Refusal> {
        self.iter().find_map(RunningShard::refusal)
    }

    /// Returns the plugin's API and the required permissions of its watches, the same for all
    /// shards; None before it was set up.
    pub fn required_permissions(&self) -> Option<(Arc<PluginApi>, Vec<RequiredPermission>)> {
        self.iter().find_map(RunningShard::required_permissions)
    }

    /// Returns the permissions that the host lacks to watch a source, with the command that grants
    /// each.
    pub fn missing_rights(&self) -> Vec<Advice> {
        self.iter()
            .next()
            .map(RunningShard::missing_rights)
            .unwrap_or_default()
    }

    /// Returns the informers that serve its reads, each once: those that its controllers watch, and
    /// those started on demand.
    pub fn informers(&self) -> (Vec<Arc<Informer>>, Vec<Arc<Informer>>) {
        let (watched, on_demand): (Vec<_>, Vec<_>) =
            self.iter().map(RunningShard::informers).unzip();
        (each_once(watched), each_once(on_demand))
    }

    /// Returns the informers that its controllers subscribe to, one for each subscription.
    pub fn subscribed(&self) -> impl Iterator<Item = &Arc<Informer>> {
        self.iter().flat_map(RunningShard::subscribed)
    }

    /// Reports whether the API server serves one of its kinds by another resource, or no longer.
    pub async fn is_served_otherwise(&self, setup: &Setup<'_>) -> bool {
        // All shards watch the same kinds.
        match self.iter().next() {
            Some(running) => running.is_served_otherwise(setup).await,
            None => false,
        }
    }

    /// Reports whether the sources of a shard must be watched in other namespaces, see
    /// [`RunningShard::must_watch_elsewhere`].
    pub async fn must_watch_elsewhere(&self, setup: &Setup<'_>) -> bool {
        for running in self.iter() {
            if running.must_watch_elsewhere(setup).await {
                return true;
            }
        }
        false
    }

    /// Sends reads of kinds that its controllers do not watch to the API server, until the next
    /// set-up.
    pub fn read_live(&self) {
        self.iter().for_each(RunningShard::read_live);
    }

    /// Reports whether [`Self::read_live`] is in effect.
    pub fn reads_live(&self) -> bool {
        self.iter().any(RunningShard::reads_live)
    }

    /// Forgets the hot loops of its keys, because other code or another configuration runs from the
    /// next [`Self::update`] on.
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

    /// Reports whether the plugin has shards that do not run here.
    pub fn has_others(&self) -> bool {
        self.by_shard
            .keys()
            .next()
            .is_some_and(|shard| self.by_shard.len() < shard.count() as usize)
    }

    /// Returns the looping keys of a controller in all shards.
    pub fn loops(&self, controller: &str) -> Summary<ObjectKey> {
        let summaries = self
            .iter()
            .map(|running| running.loops().summary(controller));
        summaries.reduce(merged).unwrap_or_default()
    }

    /// Returns its account and throttle; None before it was set up.
    pub fn metered(&self) -> Option<&Metered> {
        self.metered.as_ref()
    }

    /// Returns the number of keys queued for a controller in all shards, see
    /// [`RunningShard::queued`].
    pub fn queued(&self, controller: &str) -> usize {
        self.iter().map(|running| running.queued(controller)).sum()
    }
}

/// Returns the summary of the keys of two shards.
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

/// Returns the round of the worst key; None if no key loops.
fn round(summary: &Summary<ObjectKey>) -> Option<u32> {
    let (_, looping) = summary.worst.as_ref()?;
    Some(match looping.stage {
        Stage::Slowed { round } => round,
        Stage::Quarantined => u32::MAX,
    })
}

/// Returns the informers of all lists, each once.
fn each_once(lists: Vec<Vec<Arc<Informer>>>) -> Vec<Arc<Informer>> {
    let mut seen = HashSet::new();
    lists
        .into_iter()
        .flatten()
        .filter(|informer| seen.insert(Arc::as_ptr(informer)))
        .collect()
}
