//! The host reconciles Plugins: consent, source, code, configuration, controllers, status, in that order, each step only
//! where something changed.
//!
//! A Plugin whose source is gone, or that is gone itself, stops. A kind that is not served is waited for. Whatever
//! happens, the status says it in one sentence.

use std::sync::Arc;

use async_trait::async_trait;
use operetta_core::{
    authz::access_review::{Grants, ServiceAccount, SubjectGrants},
    controller::request::{Action, Failure, ReconcileRequest},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{LogLevel, Reconciler},
    status::ApiError,
};
use operetta_kube::authz::watch_scope;
use tokio::task::JoinSet;

use crate::{
    authz::consent,
    plugin::{
        configuration,
        crd::Plugin,
        running::{Running, Setup, SetupError},
        slot::{HeldBack, Slot, State},
        status::Problem,
    },
};
use crate::{manager::Host, tenancy::cache_quota};

/// Core's [`Reconciler`] for Plugins.
pub struct PluginController {
    pub(super) host: Arc<Host>,
}

impl PluginController {
    /// Reconciles this host's Plugins.
    pub fn new(host: Arc<Host>) -> Arc<Self> {
        Arc::new(Self { host })
    }

    async fn reconcile_plugin(&self, key: &ObjectKey, plugin: &Plugin) -> Result<(), ApiError> {
        let slot = self.host.slot(key);
        let mut state = slot.state.lock().await;
        match self.permit(key, plugin).await? {
            Ok(account) => {
                state.refusal = None;
                self.load(key, plugin, &slot, &mut state).await?;
                if plugin.spec.suspend || state.component.is_none() {
                    self.stop(&slot, &mut state);
                } else if !self.held_back(key, plugin, &slot, &mut state) {
                    let grants = self.host.grants.of(account);
                    if let Some(config) = self.configure(key, plugin, &grants, &slot, &mut state).await? {
                        self.set_up(key, plugin, grants, config, &slot, &mut state).await?;
                    }
                }
            }
            Err(problem) => {
                if let Some(running) = &state.running {
                    running.close(&problem.message);
                }
                self.stop(&slot, &mut state);
                state.configuration = configuration::Configuration::default();
                if state.refusal.as_ref() != Some(&problem) {
                    self.warn(key, &slot, &problem, "");
                }
                state.refusal = Some(problem);
            }
        }
        let facts = self.facts(plugin, &slot, &state);
        self.tell_denied(key, &facts, &mut state);
        drop(state);
        self.write_status(key, &slot, &facts).await
    }

    /// As whom the Plugin may act.
    async fn permit(&self, key: &ObjectKey, plugin: &Plugin) -> Result<Result<ServiceAccount, Problem>, ApiError> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        if let Err(problem) = consent::namespace_takes_part(namespace, self.host.namespace(namespace).await?.as_deref())
        {
            return Ok(Err(problem));
        }
        let account = match consent::named_account(key, plugin.spec.service_account_name.as_deref()) {
            Ok(account) => account,
            Err(problem) => return Ok(Err(problem)),
        };
        let found = self.host.service_account(&account).await?;
        Ok(consent::consents(&account, found.as_deref(), &key.name).map(|()| account))
    }

    fn stop(&self, slot: &Slot, state: &mut State) {
        if let Some(running) = state.running.take() {
            running.stop(self.host.shutdown_time());
        }
        (state.applied, state.setup_problem) = (None, None);
        state.missing.clear();
        state.waiter = JoinSet::new();
        slot.health.reset();
    }

    /// Whether its controllers have to stop: then they do.
    fn held_back(&self, key: &ObjectKey, plugin: &Plugin, slot: &Slot, state: &mut State) -> bool {
        let digest = state.component.as_ref().map(|component| component.digest().to_owned()).unwrap_or_default();
        let version = (plugin.metadata.generation.unwrap_or_default(), digest);
        let over = |held: &mut HeldBack| held.of != version || held.since.elapsed() >= cache_quota::RETRY;
        let _over = state.held_back.take_if(over);
        let Some(why) = state.held_back.as_ref().map(|held| held.why.clone()) else { return false };
        if state.setup_problem.as_ref() != Some(&why) {
            self.warn(key, slot, &why, "");
        }
        self.stop(slot, state);
        state.setup_problem = Some(why);
        self.host.look_at_after(key, cache_quota::RETRY);
        true
    }

    /// What the plugin reads as its configuration. None when that cannot be had: then what runs goes on with the one
    /// before, unless it may not read it any more.
    async fn configure(
        &self,
        key: &ObjectKey,
        plugin: &Plugin,
        grants: &SubjectGrants,
        slot: &Slot,
        state: &mut State,
    ) -> Result<Option<Arc<str>>, ApiError> {
        let problem = match state.configuration.current(&self.host, key, &plugin.spec, grants).await? {
            Ok(config) => {
                state.config_problem = None;
                return Ok(Some(config));
            }
            Err(problem) => problem,
        };
        if problem.reason == configuration::FORBIDDEN {
            if let Some(running) = &state.running {
                running.close(&problem.message);
            }
            self.stop(slot, state);
        }
        if state.config_problem.as_ref() != Some(&problem) {
            self.warn(key, slot, &problem, "");
        }
        state.config_problem = Some(problem);
        Ok(None)
    }

    /// Makes `state.running` what the code's manifest, the spec and the configuration say.
    async fn set_up(
        &self,
        key: &ObjectKey,
        plugin: &Plugin,
        grants: SubjectGrants,
        config: Arc<str>,
        slot: &Slot,
        state: &mut State,
    ) -> Result<(), ApiError> {
        let Some(component) = state.component.clone() else { return Ok(()) };
        let generation = plugin.metadata.generation.unwrap_or_default();
        let wanted = (generation, component.digest().to_owned(), config.clone());
        let changed = state.applied.as_ref() != Some(&wanted);
        let setup = Setup {
            host: &self.host,
            key,
            spec: &plugin.spec,
            config,
            component: &component,
            log: &slot.log,
            health: &slot.health,
            grants,
        };
        if !changed && state.missing.is_empty() {
            let elsewhere = match &state.running {
                Some(running) => running.is_elsewhere(&setup).await,
                None => false,
            };
            if !elsewhere {
                return Ok(());
            }
            self.say(slot, LogLevel::Info, "the host's rights have changed: it watches elsewhere".to_owned());
            // An authorizer that has just begun does not know them all.
            self.host.look_at_after(key, Grants::SETTLE + watch_scope::KEEP);
        }
        if changed {
            slot.health.reset();
        }
        let running = state.running.get_or_insert_with(|| Running::new(&self.host));
        if changed {
            // Every key is told of once more below.
            running.loops().reset();
        }
        match running.update(&setup).await {
            Ok(missing) => {
                (state.applied, state.setup_problem) = (Some(wanted), None);
                self.wait_for(key, missing, state);
            }
            Err(SetupError::Refused(problem)) => {
                self.stop(slot, state);
                self.warn(key, slot, &problem, "");
                (state.applied, state.setup_problem) = (Some(wanted), Some(problem));
            }
            Err(SetupError::Unavailable(error)) => return Err(error),
        }
        Ok(())
    }

    fn wait_for(&self, key: &ObjectKey, missing: Vec<GroupVersionKind>, state: &mut State) {
        // Those that have found their kind are no reason not to wait: it may be gone again.
        while state.waiter.try_join_next().is_some() {}
        if state.missing == missing && state.waiter.len() == missing.len() {
            return;
        }
        state.waiter = JoinSet::new();
        state.missing.clone_from(&missing);
        for kind in missing {
            let (host, key) = (self.host.clone(), key.clone());
            state.waiter.spawn(async move {
                host.discovery.wait_for(&kind).await;
                host.look_at(&key);
            });
        }
    }
}

#[async_trait]
impl Reconciler for PluginController {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let retry = |error: ApiError| Failure::Retry(error.to_string());
        let plugin = match self.host.plugins().cache.get(&request.key) {
            Some(object) if !object.deleting() => object,
            _ => {
                self.host.forget(&request.key).await;
                return Ok(Action::Done);
            }
        };
        let plugin: Plugin = serde_json::from_str(plugin.json())
            .map_err(|error| Failure::Terminal(format!("Plugin {} is not as its CRD says: {error}", request.key)))?;
        self.reconcile_plugin(&request.key, &plugin).await.map_err(retry)?;
        Ok(Action::Done)
    }
}
