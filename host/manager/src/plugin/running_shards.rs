//! The shards of a plugin that run on this replica, or are prepared to. They share the code, the account and the informers; each
//! has its own queues, workers and gate. A plugin that is not split has one.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use operetta_core::{
    authz::recorded_permissions::RecordedPermissions,
    hot_loop::{Stage, Summary},
    object::{ObjectKey, kind::GroupVersionKind},
    replicas::Shard,
};
use operetta_kube::{
    authz::required_permissions::Call,
    client::object_api::{PluginApi, Refusal},
    informer::Informer,
};
use tokio::task::JoinSet;

use crate::plugin::{
    assembly::Metered,
    held_shards::HeldShard,
    running::{Running, Watching},
    setup::{Setup, SetupError},
};

/// The shards of a plugin that run on this replica, or are prepared to.
pub struct RunningShards {
    by_shard: BTreeMap<Shard, Running>,
    /// The number of delays until a looping key is quarantined.
    hot_loop_rounds: u32,
    /// The account that the plugin is charged to, whatever code it runs; None before it was set up.
    metered: Option<Metered>,
    /// The recorded permissions of the plugin's calls.
    recorded: Arc<RecordedPermissions>,
}

impl RunningShards {
    /// Creates a plugin without shards. `hot_loop_rounds` is the number of delays until a looping key is quarantined.
    pub fn new(hot_loop_rounds: u32) -> Self {
        Self { by_shard: BTreeMap::new(), hot_loop_rounds, metered: None, recorded: Arc::default() }
    }

    /// Stops the shards that this replica does not hold, and takes no more keys of those that it does not own.
    pub fn release_others(&mut self, held: &[HeldShard], grace: Duration) {
        let is_held = |shard: &Shard| held.iter().any(|held| held.shard == *shard);
        let released: Vec<Shard> = self.by_shard.keys().filter(|shard| !is_held(shard)).copied().collect();
        self.take(&released).into_iter().for_each(|running| running.stop(grace));
        for held in held.iter().filter(|held| !held.is_acting) {
            if let Some(running) = self.by_shard.get_mut(&held.shard) {
                running.set_active(false);
            }
        }
    }

    /// Takes keys of the shards that this replica owns.
    pub fn activate(&mut self, held: &[HeldShard]) {
        for held in held.iter().filter(|held| held.is_acting) {
            if let Some(running) = self.by_shard.get_mut(&held.shard) {
                running.set_active(true);
            }
        }
    }

    /// Reports whether a shard is not set up with its token.
    pub fn lacks(&self, held: &[HeldShard]) -> bool {
        held.iter().any(|held| !self.is_set_up(held))
    }

    fn is_set_up(&self, held: &HeldShard) -> bool {
        self.by_shard.get(&held.shard).is_some_and(|running| running.is_set_up_with(&held.token))
    }

    /// Sets the controllers of these shards up, as [`Running::update`] does: of all, or of those that are not set up yet.
    ///
    /// # Errors
    /// Fails as [`Running::update`] does.
    pub async fn update(
        &mut self,
        setup: &Setup<'_>,
        held: &[HeldShard],
        all: bool,
    ) -> Result<Vec<GroupVersionKind>, SetupError> {
        let metered = self.metered.get_or_insert_with(|| {
            let namespace = setup.key.namespace.as_deref().unwrap_or_default();
            let tenants = &setup.context.tenants;
            Metered { account: tenants.account(namespace), throttle: tenants.throttle(namespace) }
        });
        let metered = metered.clone();
        let mut missing = Vec::new();
        for held in held {
            if !all && self.is_set_up(held) {
                continue;
            }
            let setup = Setup { revocation: held.token.clone(), ..setup.clone() };
            let new = || Running::new(held.shard, self.hot_loop_rounds, self.recorded.clone());
            let running = self.by_shard.entry(held.shard).or_insert_with(new);
            running.set_active(held.is_acting);
            missing = running.update(&setup, &metered).await?;
        }
        Ok(missing)
    }

    /// Takes shards out.
    pub fn take(&mut self, shards: &[Shard]) -> Vec<Running> {
        shards.iter().filter_map(|shard| self.by_shard.remove(shard)).collect()
    }

    /// Reports whether there is no shard.
    pub fn is_empty(&self) -> bool {
        self.by_shard.is_empty()
    }

    /// Returns the shards.
    pub fn iter(&self) -> impl Iterator<Item = &Running> {
        self.by_shard.values()
    }

    /// Stops all shards, see [`Running::stop`].
    pub fn stop(self, grace: Duration) {
        self.by_shard.into_values().for_each(|running| running.stop(grace));
    }

    /// Stops all shards, see [`Running::stop_and_wait`].
    pub async fn stop_and_wait(self, grace: Duration) {
        let mut stops = JoinSet::new();
        for running in self.by_shard.into_values() {
            stops.spawn(running.stop_and_wait(grace));
        }
        stops.join_all().await;
    }

    /// Returns the views of a controller in all shards; none when it does not run.
    pub fn views<'a>(&'a self, controller: &'a str) -> impl Iterator<Item = &'a Watching> {
        self.iter().flat_map(move |running| running.views(controller))
    }

    /// Returns the last request that RBAC refused, of the first shard that has one.
    pub fn refusal(&self) -> Option<Refusal> {
        self.iter().find_map(Running::refusal)
    }

    /// Returns the plugin's API and the permissions that its watches need, which are the same for all shards; None before it was
    /// set up.
    pub fn required_permissions(&self) -> Option<(Arc<PluginApi>, Vec<Call>)> {
        self.iter().find_map(Running::required_permissions)
    }

    /// Returns the permissions that the host lacks to watch a source, with the command that grants each.
    pub fn missing_rights(&self) -> Vec<(String, String)> {
        self.iter().next().map(Running::missing_rights).unwrap_or_default()
    }

    /// Returns the informers that serve its reads, each once: those that its controllers watch, and those started on demand.
    pub fn informers(&self) -> (Vec<Arc<Informer>>, Vec<Arc<Informer>>) {
        let (watched, on_demand): (Vec<_>, Vec<_>) = self.iter().map(Running::informers).unzip();
        (each_once(watched), each_once(on_demand))
    }

    /// Returns the informers that its controllers subscribe to, one for each subscription.
    pub fn subscribed(&self) -> impl Iterator<Item = &Arc<Informer>> {
        self.iter().flat_map(Running::subscribed)
    }

    /// Reports whether the sources of a shard must be watched in other namespaces, see [`Running::must_watch_elsewhere`].
    pub async fn must_watch_elsewhere(&self, setup: &Setup<'_>) -> bool {
        for running in self.iter() {
            if running.must_watch_elsewhere(setup).await {
                return true;
            }
        }
        false
    }

    /// Sends reads of kinds that its controllers do not watch to the API server, until the next set-up.
    pub fn read_live(&self) {
        self.iter().for_each(Running::read_live);
    }

    /// Reports whether [`Self::read_live`] is in effect.
    pub fn reads_live(&self) -> bool {
        self.iter().any(Running::reads_live)
    }

    /// Forgets the hot loops of its keys, because other code or another configuration runs from the next [`Self::update`] on.
    pub fn forget_loops(&self) {
        self.iter().for_each(|running| running.loops().reset());
    }

    /// Ends the backoff of all keys, see [`Running::retry_failed`].
    pub fn retry_failed(&self) -> usize {
        self.iter().map(Running::retry_failed).sum()
    }

    /// Retries a key now, see [`Running::retry`].
    pub fn retry(&self, key: &ObjectKey) -> usize {
        self.iter().map(|running| running.retry(key)).sum()
    }

    /// Reports whether the plugin has shards that do not run here.
    pub fn has_others(&self) -> bool {
        self.by_shard.keys().next().is_some_and(|shard| self.by_shard.len() < shard.count() as usize)
    }

    /// Returns a summary of the held keys of a controller in all shards.
    pub fn loops(&self, controller: &str) -> Summary<ObjectKey> {
        let summaries = self.iter().map(|running| running.loops().look(controller));
        summaries.reduce(merged).unwrap_or_default()
    }

    /// Returns its account and throttle; None before it was set up.
    pub fn metered(&self) -> Option<&Metered> {
        self.metered.as_ref()
    }

    /// Returns the number of keys that wait for a controller in all shards, see [`Running::queued`].
    pub fn queued(&self, controller: &str) -> usize {
        self.iter().map(|running| running.queued(controller)).sum()
    }
}

/// Returns the summary of the keys of two shards.
fn merged(one: Summary<ObjectKey>, other: Summary<ObjectKey>) -> Summary<ObjectKey> {
    let worst = if round(&one) >= round(&other) { one.worst } else { other.worst };
    Summary { slowed: one.slowed + other.slowed, quarantined: one.quarantined + other.quarantined, worst }
}

/// Returns the round of the worst key; None if no key is held.
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
    lists.into_iter().flatten().filter(|informer| seen.insert(Arc::as_ptr(informer))).collect()
}
