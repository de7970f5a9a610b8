//! What this replica does with the shards of a Plugin: it runs them, prepares to take them over, hands them over, or leaves them
//! to another one. A Plugin that is not split has one shard.
//!
//! A hand-over loses no key and lets no key be reconciled twice at once. The successor loads the code and syncs the
//! informers, and names itself in the Plugin's status. The owner takes no more keys, waits for those in flight, and writes
//! the successor's epoch into the status. Then the successor begins: its queue has every key of the shard.
//!
//! When the number of shards changes, each owner takes no more keys, waits for those in flight, and removes itself from the status.
//! One replica then writes the new number, and all begin anew.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    authz::access_review::ServiceAccount,
    controller::request::Action,
    object::{Object, ObjectKey},
    ports::EventType,
    replicas::{Epoch, Plan, Role, Shard},
    status::ApiError,
};
use operetta_kube::store::Lookup;
use serde::{Deserialize, de::IgnoredAny};
use tokio::task::JoinSet;

use crate::{
    plugin::{
        assembly::DRAIN,
        hosted_plugin::{ELSEWHERE, HostedPlugin, State},
        installations::RECHECK,
        ownership::{AGAIN, Claimed},
        reconcile::PluginController,
        running::Running,
        running_shards::RunningShards,
        status::{Facts, is_settled},
    },
    problem::Problem,
    tenancy::admission::{Demand, Need},
};

/// The longest time until this replica finds out that a former owner has stopped. It finds out at once if a Lease is deleted.
const VACANT: Duration = Duration::from_millis(500);

impl PluginController {
    /// Does with a Plugin what this replica is to do.
    pub(super) async fn play(&self, plugin: &Arc<Object>) -> Result<Action, ApiError> {
        if let Some(problem) = self.ownership.installations.check(plugin).await {
            self.release(plugin).await;
            self.report_left(plugin, problem);
            return Ok(Action::RequeueAfter(RECHECK));
        }
        self.ownership.installations.forget(plugin.key());
        match self.ownership.plan(plugin).await? {
            Plan::Play(roles) => self.play_roles(plugin, &roles).await,
            Plan::Free(shards) => {
                self.drain(plugin.key(), &shards).await;
                let written = self.ownership.free(plugin, &shards).await?;
                self.forget(plugin.key(), &shards, written);
                Ok(again_after(written))
            }
            Plan::Resize if !self.ownership.is_all_vacant(plugin) => Ok(Action::RequeueAfter(VACANT)),
            Plan::Resize => {
                self.release(plugin).await;
                Ok(again_after(self.ownership.resize(plugin).await?))
            }
            Plan::Refresh | Plan::Elsewhere => {
                self.release(plugin).await;
                Ok(Action::Done)
            }
        }
    }

    /// Plays its role for each shard. A shard whose former owner may still act waits.
    async fn play_roles(&self, plugin: &Arc<Object>, roles: &[(Shard, Role)]) -> Result<Action, ApiError> {
        if self.ownership.must_withdraw(plugin, roles) {
            self.ownership.withdraw(plugin).await?;
            // The watch brings the version that says who owns the shards.
            return Ok(Action::RequeueAfter(AGAIN));
        }
        let handed = |(shard, role): &(Shard, Role)| match role {
            Role::HandOver { to } => Some((*shard, *to)),
            _ => None,
        };
        let handed: Vec<(Shard, Epoch)> = roles.iter().filter_map(handed).collect();
        if !handed.is_empty() {
            let keeps_others = roles.iter().any(|(_, role)| !matches!(role, Role::HandOver { .. } | Role::Elsewhere));
            return self.hand_over(plugin, &handed, keeps_others).await;
        }
        let claims = roles.iter().filter(|(_, role)| *role == Role::Claim);
        let mut claimed: Vec<Shard> = claims.map(|(shard, _)| *shard).collect();
        let occupied = self.ownership.occupied(plugin, &claimed);
        claimed.retain(|shard| !occupied.contains(shard));
        if !claimed.is_empty() {
            if self.ownership.claim(plugin, &claimed).await? == Claimed::Conflict {
                return Ok(Action::RequeueAfter(AGAIN));
            }
            tracing::info!(plugin = %plugin.key(), shards = list(&claimed), "claimed");
        }
        let is_held = |(shard, role): &&(Shard, Role)| *role != Role::Elsewhere && !occupied.contains(shard);
        let held = roles.iter().filter(is_held);
        let held: Vec<(Shard, bool)> = held.map(|(shard, role)| (*shard, *role != Role::Prepare)).collect();
        let then = if occupied.is_empty() { Action::Done } else { Action::RequeueAfter(VACANT) };
        if held.is_empty() {
            return Ok(then);
        }
        self.expect_all_beside(plugin);
        self.hosted_plugins.get_or_create(plugin.key(), plugin.uid()).set_shards(&held);
        self.reconcile_object(plugin).await?;
        Ok(then)
    }

    /// Names this replica as the successor of the shards that it prepares, once they could run here. A Plugin that cannot run is
    /// settled, too: the owner then reports why.
    pub(super) async fn offer(&self, key: &ObjectKey, hosted: &HostedPlugin, facts: &Facts) -> Result<(), ApiError> {
        let prepared = hosted.shards().into_iter().filter(|held| !held.is_acting);
        let prepared: Vec<Shard> = prepared.map(|held| held.shard).collect();
        if prepared.is_empty() || !is_settled(facts) {
            return Ok(());
        }
        let Some(plugin) = self.informers.plugins.cache.get(key) else { return Ok(()) };
        if self.ownership.offer(&plugin, &prepared).await? == Claimed::Conflict {
            self.context.queue.enqueue_after(key, AGAIN);
        }
        Ok(())
    }

    /// Returns the plugin's shards, to be set up. They take keys only if this replica owns them. `is_changed` is true if the code,
    /// the spec or the configuration is new.
    pub(super) fn running<'a>(
        &self,
        hosted: &HostedPlugin,
        is_changed: bool,
        state: &'a mut State,
    ) -> &'a mut RunningShards {
        let rounds = self.context.config.hot_loop_rounds;
        let running = state.running.get_or_insert_with(|| RunningShards::new(rounds));
        if is_changed {
            hosted.health.reset();
            // The new subscriptions enqueue every key once more.
            running.forget_loops();
        }
        running
    }

    /// Returns the epoch that the plugin's writes carry; None if the host may not send it for this account.
    pub(super) async fn epoch_to_send(&self, account: &ServiceAccount) -> Result<Option<Epoch>, ApiError> {
        let may_send = self.context.cluster.impersonation.may_send_epoch(account).await?;
        Ok(self.ownership.epoch().filter(|_| may_send))
    }

    /// Hands shards over. `keeps_others` is true if this replica goes on to run or prepare others.
    async fn hand_over(
        &self,
        plugin: &Object,
        handed: &[(Shard, Epoch)],
        keeps_others: bool,
    ) -> Result<Action, ApiError> {
        let key = plugin.key();
        let shards: Vec<Shard> = handed.iter().map(|(shard, _)| *shard).collect();
        self.drain(key, &shards).await;
        let written = self.ownership.hand_over(plugin, handed).await?;
        self.forget(key, &shards, written);
        if written == Claimed::Conflict {
            return Ok(Action::RequeueAfter(AGAIN));
        }
        for (shard, to) in handed {
            tracing::info!(plugin = %key, %shard, epoch = %to, "handed over");
        }
        if keeps_others {
            return Ok(Action::RequeueAfter(AGAIN));
        }
        self.release(plugin).await;
        Ok(Action::Done)
    }

    /// Takes no more keys of these shards, and waits until no reconcile of them is in flight. Those that take longer than
    /// [`DRAIN`] may send no more requests.
    async fn drain(&self, plugin: &ObjectKey, shards: &[Shard]) {
        let Some(hosted) = self.hosted_plugins.get(plugin) else { return };
        let mut state = hosted.state.lock().await;
        let Some(running) = &mut state.running else { return };
        let mut drains = JoinSet::new();
        for running in running.take(shards) {
            drains.spawn(drain(running, self.context.shutdown_time()));
        }
        if running.is_empty() {
            state.running = None;
            state.applied = None;
        }
        drains.join_all().await;
    }

    /// Sends nothing more for drained shards, if they have another owner now.
    fn forget(&self, plugin: &ObjectKey, shards: &[Shard], written: Claimed) {
        if let (Claimed::Done, Some(hosted)) = (written, self.hosted_plugins.get(plugin)) {
            hosted.remove_shards(shards);
        }
    }

    /// Leaves a Plugin to other replicas.
    async fn release(&self, plugin: &Object) {
        self.hosted_plugins.remove(plugin.key(), ELSEWHERE).await;
        let _fits = self.context.tenants.admission.record(plugin.key(), Need::Elsewhere(demand(plugin)));
    }

    /// Reports once that another installation of the host runs a Plugin. One of the replicas does.
    fn report_left(&self, plugin: &Object, problem: Problem) {
        let Problem { reason, message } = problem;
        if self.ownership.installations.record(plugin.key()) && self.ownership.is_assigned(plugin.key()) {
            tracing::warn!(plugin = %plugin.key(), "{message}");
            self.reporter.event(plugin.key(), None, EventType::Warning, reason, message);
        }
    }

    /// Lets the younger Plugins of a namespace wait for the older ones, if this replica begins to run one of them: after the
    /// death of another replica it runs all of them, in any order.
    fn expect_all_beside(&self, plugin: &Object) {
        if self.hosted_plugins.get(plugin.key()).is_some() {
            return;
        }
        for other in self.informers.plugins.cache.store.list(&Lookup::All, plugin.key().namespace.as_deref(), None) {
            if !self.ownership.is_elsewhere(&other) {
                self.context.tenants.admission.expect(other.key());
            }
        }
    }
}

/// Waits until no reconcile of a shard is in flight, and stops it.
async fn drain(mut running: Running, grace: Duration) {
    if !running.drain(DRAIN).await {
        running.revoke(ELSEWHERE);
        running.drain(grace).await;
    }
    running.stop_and_wait(Duration::ZERO).await;
}

/// Returns what to do after a write that others may have come before. After a write that succeeded, the watch enqueues the Plugin.
fn again_after(written: Claimed) -> Action {
    match written {
        Claimed::Done => Action::Done,
        Claimed::Conflict => Action::RequeueAfter(AGAIN),
    }
}

/// Lists shards for the log.
fn list(shards: &[Shard]) -> String {
    shards.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the demand of a Plugin that another replica runs, from its status. That lists the controllers, each of which has
/// one source at least.
fn demand(plugin: &Object) -> Demand {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Reported {
        status: Status,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        controllers: Vec<IgnoredAny>,
    }
    let reported: Reported = serde_json::from_str(plugin.json()).unwrap_or_default();
    let controllers = reported.status.controllers.len();
    Demand { controllers, sources: controllers }
}
