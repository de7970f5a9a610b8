//! The controller of Plugins. A reconcile handles consent, source, code, configuration, controllers and status, in this order, and
//! skips steps for which nothing has changed. It stops a Plugin that is gone, or whose source is gone, and waits for kinds that are
//! not served. The status has the reason in one sentence.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use operetta_api::annotations::LOG_LEVEL;
use operetta_core::{
    authz::{
        access_review::{Grants, SubjectGrants},
        host_permissions::HostPermissions,
    },
    controller::request::{Action, Failure, ReconcileRequest},
    gate::PluginConfig,
    object::{Object, ObjectKey},
    ports::{LogLevel, Reconciler},
    status::ApiError,
};
use tokio::{sync::MutexGuard, task::JoinSet};

use crate::{
    authz::consent::{self, OptIn},
    context::Context,
    plugin::{
        configuration,
        crash_guard::CrashGuard,
        crd::{self, Plugin, PluginSpec, Source},
        facts::facts,
        host_informers::HostInformers,
        hosted_plugin::{Applied, Consent, HeldBack, HostedPlugin, PluginRef, SourceState, State},
        hosted_plugins::HostedPlugins,
        missing_kinds::wait_for_kinds,
        ownership::Ownership,
        report::Reporter,
        setup::{Setup, SetupError},
        source::Loader,
    },
    problem::Problem,
    tenancy::{
        admission::{Demand, Need},
        cache_quota,
    },
};

/// The delay after which a Plugin is reconciled again if the host may not impersonate its ServiceAccount.
const GRANT_RETRY: Duration = Duration::from_secs(60);

/// The reason why the requests of a plugin are refused that is gone.
const DELETED: &str = "the Plugin was deleted";

/// The reconciler of Plugins.
pub struct PluginController {
    pub(super) context: Arc<Context>,
    pub(super) informers: Arc<HostInformers>,
    pub(super) hosted_plugins: Arc<HostedPlugins>,
    pub(super) ownership: Arc<Ownership>,
    pub(super) reporter: Arc<Reporter>,
    loader: Loader,
    guard: Arc<CrashGuard>,
}

impl PluginController {
    /// Creates the reconciler.
    pub fn new(
        context: Arc<Context>,
        informers: Arc<HostInformers>,
        hosted_plugins: Arc<HostedPlugins>,
        ownership: Arc<Ownership>,
        loader: Loader,
        guard: Arc<CrashGuard>,
    ) -> Arc<Self> {
        let reporter = loader.reporter().clone();
        Arc::new(Self { context, informers, hosted_plugins, ownership, reporter, loader, guard })
    }

    /// Reconciles a Plugin that this replica runs, or prepares to run.
    pub(super) async fn reconcile_object(&self, object: &Object) -> Result<(), ApiError> {
        match crd::decode(object) {
            Ok(plugin) => self.reconcile_plugin(object.key(), &plugin).await,
            Err(problem) => self.refuse_undecodable(object.key(), object, problem).await,
        }
    }

    async fn reconcile_plugin(&self, key: &ObjectKey, object: &Plugin) -> Result<(), ApiError> {
        let may_follow = self.context.queue.may_follow(key);
        let hosted = self.hosted_plugins.get_or_create(key, object.metadata.uid.as_deref().unwrap_or_default());
        let plugin = PluginRef { key, object, hosted: &hosted };
        let annotation = object.metadata.annotations.as_ref().and_then(|annotations| annotations.get(LOG_LEVEL));
        hosted.log.set_level(annotation.map(String::as_str), self.context.config.plugin_log_level.into());
        let mut state = hosted.state.lock().await;
        if hosted.renew_revocation() {
            // The controllers hold the old token.
            state.applied = None;
        }
        if let Some(running) = &mut state.running {
            running.release_others(&hosted.shards(), self.context.shutdown_time());
        }
        if let Err(problem) = self.check_quota(plugin).await {
            self.unload(plugin, problem, &mut state);
            return self.write_status(plugin, state).await;
        }
        match self.check_consent(plugin).await? {
            Ok(consent) => {
                state.problems.refusal = None;
                drop_forbidden_code(plugin, &consent, &mut state);
                self.bring_up_to_date(plugin, &consent, may_follow, &mut state).await?;
            }
            Err(problem) => {
                self.needs_nothing(key);
                self.refuse(plugin, problem, &mut state);
            }
        }
        self.write_status(plugin, state).await
    }

    /// Brings code and controllers up to date with the Plugin. A reconcile that may not follow changes yet only suspends it, or sets
    /// up code whose loading has ended.
    async fn bring_up_to_date(
        &self,
        plugin: PluginRef<'_>,
        consent: &Consent,
        may_follow: bool,
        state: &mut State,
    ) -> Result<(), ApiError> {
        let PluginRef { key, object, .. } = plugin;
        if may_follow {
            self.loader.load(plugin, consent, state).await?;
        } else if !object.spec.suspend && !self.loader.finish_loading(plugin, state)? {
            return Ok(());
        }
        let room = self.context.tenants.admission.record(key, need(object, state));
        if object.spec.suspend || state.component.is_none() {
            self.stop(plugin.hosted, state);
        } else if let Err(problem) = room {
            state.configuration = configuration::Configuration::default();
            self.stop_for(plugin, problem, state);
        } else if !self.hold_back(plugin, state) {
            let grants = self.context.cluster.grants.of(consent.account.clone());
            if let Some(config) = self.configure(plugin, &grants, state).await? {
                self.set_up(plugin, grants, config, state).await?;
            }
        }
        Ok(())
    }

    /// Reports missing permissions, and writes the status.
    async fn write_status(&self, plugin: PluginRef<'_>, mut state: MutexGuard<'_, State>) -> Result<(), ApiError> {
        let PluginRef { key, object, hosted } = plugin;
        let facts = facts(object, hosted, &state, self.context.admin_address());
        if hosted.is_leading() {
            self.reporter.report_denials(key, &facts, &mut state);
        }
        drop(state);
        self.offer(key, hosted, &facts).await?;
        self.reporter.write_status(key, hosted, &facts).await
    }

    /// Checks that the namespace's quota has room for the Plugin's code.
    async fn check_quota(&self, plugin: PluginRef<'_>) -> Result<(), Problem> {
        // After a restart of the host, older Plugins may come later.
        self.informers.plugins.synced().await;
        if plugin.object.spec.suspend {
            self.needs_nothing(plugin.key);
        }
        self.context.tenants.admission.check_load(plugin.key)
    }

    /// Records that a Plugin that may not run needs no room in the namespace's quota.
    fn needs_nothing(&self, key: &ObjectKey) {
        // Such a Plugin fits always.
        let _fits = self.context.tenants.admission.record(key, Need::Known(Demand::default()));
    }

    /// Refuses a Plugin that is over a quota, and drops its code.
    fn unload(&self, plugin: PluginRef<'_>, problem: Problem, state: &mut State) {
        self.refuse(plugin, problem, state);
        state.component = None;
        state.source = SourceState::default();
        state.problems.load = None;
        let _refused_already = self.context.tenants.admission.record(plugin.key, Need::Unknown);
    }

    /// Returns the consent under which the Plugin runs, or why it may not run.
    async fn check_consent(&self, plugin: PluginRef<'_>) -> Result<Result<Consent, Problem>, ApiError> {
        let name = plugin.key.namespace.as_deref().unwrap_or_default();
        let opt_in = match self.informers.check_namespace(name).await? {
            Ok(opt_in) => opt_in,
            Err(problem) => return Ok(Err(problem)),
        };
        let needs_digest = opt_in == OptIn::Pinned || self.context.config.require_digest;
        let account = match consent::named_account(plugin.key, plugin.object.spec.service_account_name.as_deref()) {
            Ok(account) => account,
            Err(problem) => return Ok(Err(problem)),
        };
        let found = self.informers.service_account(&account).await?;
        let code = match consent::check_account(&account, found.as_deref(), &plugin.key.name) {
            Ok(code) => code,
            Err(problem) => return Ok(Err(problem)),
        };
        let impersonation = &self.context.cluster.impersonation;
        if !impersonation.may_act_as(&account).await? {
            // A change of a role enqueues the Plugin, too; changes of other authorizers do not.
            self.context.queue.enqueue_after(plugin.key, GRANT_RETRY);
            return Ok(Err(consent::not_granted(&account, impersonation.own_user().await?)));
        }
        Ok(Ok(Consent { account, code, needs_digest }))
    }

    /// Stops a plugin that may not run here: its gate refuses all further calls.
    fn refuse(&self, plugin: PluginRef<'_>, problem: Problem, state: &mut State) {
        plugin.hosted.revocation().revoke(&problem.message);
        state.source.loading = None;
        self.stop(plugin.hosted, state);
        state.configuration = configuration::Configuration::default();
        if state.problems.refusal.as_ref() != Some(&problem) {
            self.reporter.warn(plugin.key, plugin.hosted, &problem);
        }
        state.problems.refusal = Some(problem);
    }

    /// Stops a Plugin whose spec cannot be decoded, and sets its status.
    async fn refuse_undecodable(&self, key: &ObjectKey, object: &Object, problem: Problem) -> Result<(), ApiError> {
        let hosted = self.hosted_plugins.get_or_create(key, object.uid());
        let mut state = hosted.state.lock().await;
        let mut plugin = Plugin::new(&key.name, PluginSpec::new(Source::default()));
        plugin.metadata.generation = Some(object.generation());
        self.needs_nothing(key);
        self.refuse(PluginRef { key, object: &plugin, hosted: &hosted }, problem, &mut state);
        self.write_status(PluginRef { key, object: &plugin, hosted: &hosted }, state).await
    }

    fn stop(&self, hosted: &HostedPlugin, state: &mut State) {
        if let Some(running) = state.running.take() {
            running.stop(self.context.shutdown_time());
        }
        state.applied = None;
        state.problems.setup = None;
        state.missing.kinds.clear();
        state.missing.similar.clear();
        state.missing.waiters = JoinSet::new();
        hosted.health.reset();
    }

    /// Stops the controllers that are held back. Reports whether they are.
    fn hold_back(&self, plugin: PluginRef<'_>, state: &mut State) -> bool {
        let digest = state.component.as_ref().map(|component| component.digest().to_owned()).unwrap_or_default();
        let generation = plugin.object.metadata.generation.unwrap_or_default();
        let is_over = |held: &mut HeldBack| {
            held.generation != generation || held.digest != digest || held.since.elapsed() >= cache_quota::RETRY
        };
        let _over = state.held_back.take_if(is_over);
        let Some(problem) = state.held_back.as_ref().map(|held| held.problem.clone()) else { return false };
        self.stop_for(plugin, problem, state);
        self.context.queue.enqueue_after(plugin.key, cache_quota::RETRY);
        true
    }

    /// Stops the controllers, and reports the problem once.
    fn stop_for(&self, plugin: PluginRef<'_>, problem: Problem, state: &mut State) {
        if state.problems.setup.as_ref() != Some(&problem) {
            self.reporter.warn(plugin.key, plugin.hosted, &problem);
        }
        self.stop(plugin.hosted, state);
        state.problems.setup = Some(problem);
    }

    /// Reads the plugin's configuration. Returns None if that fails: the controllers then keep the previous one, unless
    /// the ServiceAccount has lost the permission to read it.
    async fn configure(
        &self,
        plugin: PluginRef<'_>,
        grants: &SubjectGrants,
        state: &mut State,
    ) -> Result<Option<PluginConfig>, ApiError> {
        let problem =
            match state.configuration.read(&self.context, &self.guard, plugin.key, plugin.object, grants).await? {
                Ok(config) => {
                    state.problems.config = None;
                    return Ok(Some(config));
                }
                // It has to wait until it may be parsed.
                Err(None) => return Ok(None),
                Err(Some(problem)) => problem,
            };
        if problem.reason == configuration::FORBIDDEN {
            plugin.hosted.revocation().revoke(&problem.message);
            self.stop(plugin.hosted, state);
        }
        if state.problems.config.as_ref() != Some(&problem) {
            self.reporter.warn(plugin.key, plugin.hosted, &problem);
        }
        state.problems.config = Some(problem);
        Ok(None)
    }

    /// Sets the controllers up for the code's manifest, the spec and the configuration.
    async fn set_up(
        &self,
        plugin: PluginRef<'_>,
        grants: SubjectGrants,
        config: PluginConfig,
        state: &mut State,
    ) -> Result<(), ApiError> {
        let PluginRef { key, object, hosted } = plugin;
        let Some(component) = state.component.clone() else { return Ok(()) };
        let held = hosted.shards();
        if let Some(running) = &mut state.running {
            running.activate(&held);
        }
        let generation = object.metadata.generation.unwrap_or_default();
        hosted.set_running_digest(component.digest());
        let wanted = Applied { generation, digest: component.digest().to_owned(), config: config.clone() };
        let changed = state.applied.as_ref() != Some(&wanted);
        let setup = Setup {
            context: &self.context,
            key,
            spec: &object.spec,
            config,
            component: &component,
            log: &hosted.log,
            health: &hosted.health,
            revocation: hosted.revocation(),
            retries_failed: changed,
            epoch: self.epoch_to_send(grants.subject()).await?,
            grants,
        };
        let is_added = !changed && state.running.as_ref().is_some_and(|running| running.lacks(&held));
        if !changed && !is_added && state.missing.kinds.is_empty() {
            let Some(running) = &state.running else { return Ok(()) };
            if !running.must_watch_elsewhere(&setup).await {
                return Ok(());
            }
            hosted.log.write_host_line(LogLevel::Info, "permissions changed, restarting the watches".to_owned());
            // An authorizer that has just started may not know all permissions yet.
            self.context.queue.enqueue_after(key, Grants::SETTLE + HostPermissions::KEEP);
        }
        let all = !is_added || !state.missing.kinds.is_empty();
        match self.running(hosted, changed, state).update(&setup, &held, all).await {
            Ok(missing) => {
                state.applied = Some(wanted);
                state.problems.setup = None;
                wait_for_kinds(&self.context, key, setup.grants.subject(), missing, &mut state.missing).await;
            }
            Err(SetupError::Refused(problem)) => {
                self.stop(hosted, state);
                self.reporter.warn(key, hosted, &problem);
                state.applied = Some(wanted);
                state.problems.setup = Some(problem);
            }
            Err(SetupError::Unavailable(error)) => return Err(error),
        }
        Ok(())
    }
}

/// Returns the controllers and sources that a Plugin needs: none while it is suspended, or its code does not load.
fn need(object: &Plugin, state: &State) -> Need {
    match &state.component {
        _ if object.spec.suspend => Need::Known(Demand::default()),
        Some(component) => {
            let manifest = component.manifest();
            Need::Known(Demand { controllers: manifest.controllers.len(), sources: manifest.source_count() })
        }
        None if state.problems.load.is_some() => Need::Known(Demand::default()),
        None => Need::Unknown,
    }
}

/// Drops code that consent no longer names: its gate refuses all further calls.
fn drop_forbidden_code(plugin: PluginRef<'_>, consent: &Consent, state: &mut State) {
    let Some(component) = &state.component else { return };
    if let Err(problem) = consent.check_code(plugin.key, component.digest()) {
        plugin.hosted.revocation().revoke(&problem.message);
        state.component = None;
        state.source.version = None;
    }
}

#[async_trait]
impl Reconciler for PluginController {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let object = match self.informers.plugins.cache.get(&request.key) {
            Some(object) if !object.deleting() => object,
            _ => {
                self.hosted_plugins.remove(&request.key, DELETED).await;
                self.ownership.forget(&request.key);
                return Ok(Action::Done);
            }
        };
        if self.hosted_plugins.get(&request.key).is_some_and(|hosted| hosted.uid != object.uid()) {
            // It was deleted, and created again before a reconcile.
            self.hosted_plugins.remove(&request.key, DELETED).await;
        }
        let played = self.play(&object).await;
        self.guard.record_attempt(&request.key);
        played.map_err(|error| Failure::Retry(error.to_string()))
    }
}
