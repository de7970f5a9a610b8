//! What this replica does with a Plugin: it runs it, prepares to take it over, hands it over, or leaves it to another one.
//!
//! A hand-over loses no key and lets no key be reconciled twice at once. The successor loads the code and syncs the
//! informers, and names itself in the Plugin's status. The owner takes no more keys, waits for those in flight, and writes
//! the successor's epoch into the status. Then the successor begins: its queue has every key.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    authz::access_review::ServiceAccount,
    controller::request::Action,
    object::{Object, ObjectKey},
    replicas::{Epoch, Role},
    status::ApiError,
};
use operetta_kube::store::Lookup;
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    plugin::{
        assembly::DRAIN,
        hosted_plugin::{HostedPlugin, State},
        ownership::Claimed,
        reconcile::PluginController,
        running::Running,
        status::{Facts, is_settled},
    },
    tenancy::admission::{Demand, Need},
};

/// The delay after a conflicting write. The watch brings the newer version.
const AGAIN: Duration = Duration::from_millis(20);

/// The longest time until this replica finds out that a former owner has stopped. It finds out at once if a Lease is deleted.
const VACANT: Duration = Duration::from_millis(500);

impl PluginController {
    /// Does with a Plugin what is this replica's role.
    pub(super) async fn play(&self, plugin: &Arc<Object>) -> Result<Action, ApiError> {
        match self.ownership.role(plugin).await? {
            Role::Own => {}
            Role::Claim if !self.ownership.is_vacant(plugin) => return Ok(Action::RequeueAfter(VACANT)),
            Role::Claim => {
                if self.ownership.claim(plugin).await? == Claimed::Conflict {
                    return Ok(Action::RequeueAfter(AGAIN));
                }
            }
            Role::Prepare => {
                self.expect_all_beside(plugin);
                if self.hosted_plugins.get(plugin.key()).is_some_and(|hosted| hosted.is_acting()) {
                    // Somebody else has changed the owner.
                    self.release(plugin).await;
                }
                self.hosted_plugins.get_or_create(plugin.key()).set_acting(false);
                self.reconcile_object(plugin).await?;
                return Ok(Action::Done);
            }
            Role::HandOver { to } => return self.hand_over(plugin, to).await,
            Role::Refresh | Role::Elsewhere => {
                self.release(plugin).await;
                return Ok(Action::Done);
            }
        }
        self.expect_all_beside(plugin);
        self.hosted_plugins.get_or_create(plugin.key()).set_acting(true);
        self.reconcile_object(plugin).await?;
        Ok(Action::Done)
    }

    /// Names this replica as the successor, once the Plugin could run here. A Plugin that cannot run is settled, too: the
    /// owner then reports why.
    pub(super) async fn offer(&self, key: &ObjectKey, facts: &Facts) -> Result<(), ApiError> {
        let Some(plugin) = self.informers.plugins.cache.get(key).filter(|_| is_settled(facts)) else { return Ok(()) };
        if self.ownership.offer(&plugin).await? == Claimed::Conflict {
            self.context.queue.enqueue_after(key, AGAIN);
        }
        Ok(())
    }

    /// Returns the plugin's controllers, to be set up. They take keys only if this replica owns the Plugin. `is_changed` is true
    /// if the code, the spec or the configuration is new.
    pub(super) fn running<'a>(&self, hosted: &HostedPlugin, is_changed: bool, state: &'a mut State) -> &'a mut Running {
        let rounds = self.context.config.hot_loop_rounds;
        let running = state.running.get_or_insert_with(|| Running::new(rounds));
        if hosted.is_acting() {
            running.activate();
        }
        if is_changed {
            hosted.health.reset();
            // The new subscriptions enqueue every key once more.
            running.loops().reset();
        }
        running
    }

    /// Returns the epoch that the plugin's writes carry; None if the host may not send it for this account.
    pub(super) async fn epoch_to_send(&self, account: &ServiceAccount) -> Result<Option<Epoch>, ApiError> {
        let may_send = self.context.cluster.impersonation.may_send_epoch(account).await?;
        Ok(self.ownership.epoch().filter(|_| may_send))
    }

    async fn hand_over(&self, plugin: &Object, to: Epoch) -> Result<Action, ApiError> {
        let key = plugin.key();
        if let Some(hosted) = self.hosted_plugins.get(key) {
            self.drain(&hosted).await;
        }
        if self.ownership.hand_over(plugin, to).await? == Claimed::Conflict {
            return Ok(Action::RequeueAfter(AGAIN));
        }
        tracing::info!(plugin = %key, epoch = %to, "handed over");
        self.release(plugin).await;
        Ok(Action::Done)
    }

    /// Takes no more keys, and waits until no reconcile is in flight. Those that take longer than [`DRAIN`] may send no more
    /// requests.
    async fn drain(&self, hosted: &HostedPlugin) {
        let mut state = hosted.state.lock().await;
        state.applied = None;
        let Some(mut running) = state.running.take() else { return };
        if !running.drain(DRAIN).await {
            hosted.revocation().revoke("another replica takes the plugin over");
            running.drain(self.context.shutdown_time()).await;
        }
        running.stop_and_wait(Duration::ZERO).await;
    }

    /// Leaves a Plugin to another replica.
    async fn release(&self, plugin: &Object) {
        self.hosted_plugins.remove(plugin.key(), "another replica runs the plugin").await;
        let _fits = self.context.tenants.admission.record(plugin.key(), Need::Elsewhere(demand(plugin)));
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
