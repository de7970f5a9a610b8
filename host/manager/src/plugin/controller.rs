//! The controller of Plugins. Read [`PluginController`] from top to bottom to see what happens to
//! one Plugin, from the event that enqueued it to controllers that run, are handed over or are
//! released.
//!
//! First the replicas agree on who runs the Plugin, or each of its shards. A Plugin that is not
//! split has one shard. A hand-over loses no key and never reconciles a key twice at once:
//!
//! 1. The successor loads the code, syncs the informers, and names itself in the Plugin's status.
//! 2. The owner takes no more keys, waits for the reconciles in flight, and writes the successor's
//!    epoch into the status.
//! 3. The successor starts. Its queue has every key of the shard.
//!
//! A Plugin whose namespace moves to another trust class is given up by the group of replicas that
//! runs it, as [`Ownership::leaving`] says, and then claimed by a replica of that class.
//!
//! When the number of shards changes, each owner takes no more keys, waits for the reconciles in
//! flight, and removes itself from the status. One replica then writes the new number, and all
//! replicas claim shards again.
//!
//! Then a replica that runs a shard, or prepares to, brings it up to date: quota, consent, code,
//! configuration, controllers and status, in this order. Steps whose input has not changed are
//! skipped. A Plugin that cannot run stops with the reason in its status.
//!
//! A deleted Plugin ends at once, unless objects wait for it to remove its finalizers
//! ([`teardown`]).

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use operetta_api::{annotations::LOG_LEVEL, reasons};
use operetta_core::{
    authz::{
        access_review::{Grants, SubjectGrants},
        host_permissions::HostPermissions,
    },
    controller::request::{Action, Failure, ReconcileRequest},
    gate::PluginConfig,
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::{EventType, LogLevel, Reconciler},
    replicas::{Epoch, Plan, Role, Shard},
    status::{ApiError, ErrorKind},
};
use serde::{Deserialize, de::IgnoredAny};
use tokio::{
    sync::MutexGuard,
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    authz::consent::{self, Consent, OptIn},
    context::Context,
    plugin::{
        config::{self, Configuration},
        crash_guard::CrashGuard,
        crd::{self, Plugin, PluginSpec, Source},
        host_informers::HostInformers,
        hosted_plugin::{Applied, ELSEWHERE, HostedPlugin, Pause, PluginRef, State},
        hosted_plugins::HostedPlugins,
        ownership::{CONFLICT_RETRY, ConditionalWrite, Leaving, Ownership, installations::RECHECK},
        process::sources::Sources,
        setup::{
            Setup, SetupError, assembly::DRAIN, running_shard::RunningShard,
            running_shards::RunningShards,
        },
        source::{Loader, state::SourceState},
        status::{
            is_settled,
            observed::{ObservedWatches, observe},
            report::Reporter,
        },
        teardown::{self, Remaining},
    },
    problem::Problem,
    tenancy::{
        admission::{Demand, Need},
        cache_quota,
    },
};

/// How often this replica checks whether the former owner of a shard has stopped. A deleted Lease
/// triggers a reconcile at once.
const VACANCY_POLL: Duration = Duration::from_millis(500);

/// The delay after which a Plugin is reconciled again if the host may not impersonate its
/// ServiceAccount.
const GRANT_RETRY: Duration = Duration::from_secs(60);

/// The longest delay after which a Plugin is set up again if the API server could not answer. No
/// event says that an aggregated API server is back.
const UNAVAILABLE_RETRY: Duration = Duration::from_secs(30);

/// How many APIServices are asked why watches fail, and how long each may take to answer.
const MAX_API_SERVICES: usize = 4;
const API_SERVICE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why requests of a deleted plugin are refused.
const DELETED: &str = "the Plugin was deleted";

/// The reconciler of Plugins.
pub struct PluginController {
    context: Arc<Context>,
    informers: Arc<HostInformers>,
    hosted_plugins: Arc<HostedPlugins>,
    ownership: Arc<Ownership>,
    reporter: Arc<Reporter>,
    loader: Loader,
    guard: Arc<CrashGuard>,
}

#[async_trait]
impl Reconciler for PluginController {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let key = &request.key;
        let plugin = match self.informers.plugins.cache.get(key) {
            Some(plugin) if !teardown::is_gone(&plugin) => plugin,
            _ => {
                self.hosted_plugins.remove(key, DELETED).await;
                self.ownership.forget(key);
                return Ok(Action::Done);
            }
        };

        // A Plugin that was deleted and created again between two reconciles is another Plugin.
        let hosted = self.hosted_plugins.get(key);
        if hosted.is_some_and(|hosted| hosted.uid != plugin.uid()) {
            self.hosted_plugins.remove(key, DELETED).await;
        }

        let result = self.reconcile_plugin(&plugin).await;
        // Failed or not: what the host crashed on waits until every other Plugin was tried once.
        self.guard.record_attempt(key);
        result.map_err(|error| Failure::Retry(error.to_string()))
    }
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
        Arc::new(Self {
            context,
            informers,
            hosted_plugins,
            ownership,
            reporter,
            loader,
            guard,
        })
    }

    /// Runs, hands over or releases a Plugin's shards, as [`Ownership::plan`] says.
    async fn reconcile_plugin(&self, plugin: &Arc<Object>) -> Result<Action, ApiError> {
        let key = plugin.key();

        let namespace = key.namespace.as_deref().unwrap_or_default();
        let class = self.informers.cached_class(namespace).await;
        if !self.ownership.is_responsible_for(class.as_deref()).await {
            return self.leave_to_other_class(plugin).await;
        }

        if let Some(problem) = self.ownership.installations.check(plugin).await {
            self.release(plugin).await;
            // Each replica sees this; the one that would run the Plugin reports it, once.
            if self.ownership.installations.record(plugin) && self.ownership.is_assigned(key) {
                let Problem {
                    reason, message, ..
                } = problem;
                tracing::warn!(plugin = %key, "{message}");
                self.reporter
                    .event(key, None, EventType::Warning, reason, message);
            }
            return Ok(Action::RequeueAfter(RECHECK));
        }
        self.ownership.installations.forget(key);

        match self.ownership.plan(plugin).await? {
            Plan::Act(roles) => self.assume_roles(plugin, &roles).await,

            // The number of shards changes: stop, then give them up.
            Plan::Free(shards) => {
                self.drain(key, &shards).await;
                let written = self.ownership.free(plugin, &shards).await?;
                self.forget_shards(key, &shards, written);
                Ok(after_write(written))
            }
            Plan::Resize if !self.ownership.is_all_vacant(plugin) => {
                Ok(Action::RequeueAfter(VACANCY_POLL))
            }
            Plan::Resize => {
                self.release(plugin).await;
                Ok(after_write(self.ownership.resize(plugin).await?))
            }

            Plan::Refresh | Plan::Elsewhere => {
                self.release(plugin).await;
                Ok(Action::Done)
            }
        }
    }

    /// Leaves a Plugin to the hosts of another class. A hand-over between classes is like one
    /// between replicas: hosts of the other class claim the Plugin only once this group has
    /// stopped, and has taken its name out of the status.
    async fn leave_to_other_class(&self, plugin: &Arc<Object>) -> Result<Action, ApiError> {
        let key = plugin.key();
        self.ownership.installations.forget(key);

        match self.ownership.leaving(plugin).await? {
            Leaving::Shards(shards) => {
                self.drain(key, &shards).await;
                let written = self.ownership.leave(plugin, &shards).await?;
                self.forget_shards(key, &shards, written);
                if written == ConditionalWrite::Conflict {
                    return Ok(Action::RequeueAfter(CONFLICT_RETRY));
                }
                tracing::info!(plugin = %key, shards = list(&shards), "left to the hosts of another class");
                self.release(plugin).await;
            }
            Leaving::Wait => {
                self.release(plugin).await;
                return Ok(Action::RequeueAfter(VACANCY_POLL));
            }
            Leaving::Nothing => self.release(plugin).await,
        }

        // No event says that the last host of the other class is gone.
        let reports = self.context.config.class.is_none() && self.ownership.is_assigned(key);
        Ok(match reports {
            true => Action::RequeueAfter(RECHECK),
            false => Action::Done,
        })
    }

    /// Hands over the shards that have a successor, or else claims those that are free and runs or
    /// prepares all of its own. A shard whose former owner may still act has to wait.
    async fn assume_roles(
        &self,
        plugin: &Arc<Object>,
        roles: &[(Shard, Role)],
    ) -> Result<Action, ApiError> {
        let key = plugin.key();

        if self.ownership.must_withdraw(plugin, roles) {
            self.ownership.withdraw(plugin).await?;
            // The watch brings the version that names the owners.
            return Ok(Action::RequeueAfter(CONFLICT_RETRY));
        }

        let handed: Vec<(Shard, Epoch)> = roles
            .iter()
            .filter_map(|(shard, role)| match role {
                Role::HandOver { to } => Some((*shard, *to)),
                _ => None,
            })
            .collect();
        if !handed.is_empty() {
            let keeps_others = roles
                .iter()
                .any(|(_, role)| !matches!(role, Role::HandOver { .. } | Role::Elsewhere));
            return self.hand_over(plugin, &handed, keeps_others).await;
        }

        let claims = roles.iter().filter(|(_, role)| *role == Role::Claim);
        let mut claimed: Vec<Shard> = claims.map(|(shard, _)| *shard).collect();
        let occupied = self.ownership.occupied(plugin, &claimed);
        claimed.retain(|shard| !occupied.contains(shard));
        if !claimed.is_empty() {
            // The cache of namespaces may be older than the Plugin.
            let class = self
                .informers
                .class(key.namespace.as_deref().unwrap_or_default())
                .await?;
            if !self.ownership.is_responsible_for(class.as_deref()).await {
                return Ok(Action::RequeueAfter(VACANCY_POLL));
            }

            let written = self.ownership.claim(plugin, &claimed).await?;
            if written == ConditionalWrite::Conflict {
                return Ok(Action::RequeueAfter(CONFLICT_RETRY));
            }
            tracing::info!(plugin = %key, shards = list(&claimed), "claimed");
        }

        // True for those that it owns; it only prepares the others.
        let local: Vec<(Shard, bool)> = roles
            .iter()
            .filter(|(shard, role)| *role != Role::Elsewhere && !occupied.contains(shard))
            .map(|(shard, role)| (*shard, *role != Role::Prepare))
            .collect();
        if !local.is_empty() {
            if self.hosted_plugins.get(key).is_none() {
                self.expect_neighbours(plugin);
            }
            self.hosted_plugins
                .get_or_create(key, plugin.uid())
                .set_shards(&local);
            self.run(plugin).await?;
        }

        if !occupied.is_empty() {
            return Ok(Action::RequeueAfter(VACANCY_POLL));
        }
        // A host of the class may be installed, to which the Plugin is left then.
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let class = self.informers.cached_class(namespace).await;
        Ok(match self.context.config.is_own_class(class.as_deref()) {
            true => Action::Done,
            false => Action::RequeueAfter(RECHECK),
        })
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
        self.forget_shards(key, &shards, written);
        if written == ConditionalWrite::Conflict {
            return Ok(Action::RequeueAfter(CONFLICT_RETRY));
        }
        for (shard, to) in handed {
            tracing::info!(plugin = %key, %shard, epoch = %to, "handed over");
        }

        if keeps_others {
            return Ok(Action::RequeueAfter(CONFLICT_RETRY));
        }
        self.release(plugin).await;
        Ok(Action::Done)
    }

    /// Takes no more keys of these shards, waits for the reconciles in flight, and stops their
    /// controllers. A reconcile that takes longer than [`DRAIN`] may send no more requests.
    async fn drain(&self, plugin: &ObjectKey, shards: &[Shard]) {
        let Some(hosted) = self.hosted_plugins.get(plugin) else {
            return;
        };
        let mut state = hosted.state.lock().await;
        let Some(running) = &mut state.running else {
            return;
        };

        let mut drains = JoinSet::new();
        for shard in running.take(shards) {
            drains.spawn(drain(shard, self.context.shutdown_time()));
        }
        if running.is_empty() {
            state.running = None;
            state.applied = None;
        }

        drains.join_all().await;
    }

    /// Revokes the tokens of drained shards, if the write that gives them away has succeeded.
    fn forget_shards(&self, plugin: &ObjectKey, shards: &[Shard], written: ConditionalWrite) {
        if let (ConditionalWrite::Done, Some(hosted)) = (written, self.hosted_plugins.get(plugin)) {
            hosted.remove_shards(shards);
        }
    }

    /// Leaves a Plugin to other replicas.
    async fn release(&self, plugin: &Object) {
        self.hosted_plugins.remove(plugin.key(), ELSEWHERE).await;

        let need = Need::Elsewhere(reported_demand(plugin));
        let _fits = self.context.tenants.admission.record(plugin.key(), need);
    }

    /// Makes the younger Plugins of a namespace wait for the older ones. After the death of another
    /// replica, this one takes over all of them, in any order.
    fn expect_neighbours(&self, plugin: &Object) {
        let namespace = plugin.key().namespace.as_deref();
        for neighbour in self.informers.plugins_in(namespace) {
            if !self.ownership.is_elsewhere(&neighbour) {
                self.context.tenants.admission.expect(neighbour.key());
            }
        }
    }

    /// Brings the shards of a Plugin on this replica up to date.
    async fn run(&self, object: &Object) -> Result<(), ApiError> {
        let key = object.key();
        let plugin = match crd::decode(object) {
            Ok(plugin) => plugin,
            Err(problem) => return self.refuse_undecodable(object, problem).await,
        };
        let may_apply_changes = self.context.queue.may_apply_changes(key);

        let uid = plugin.metadata.uid.as_deref().unwrap_or_default();
        let hosted = self.hosted_plugins.get_or_create(key, uid);
        let annotations = plugin.metadata.annotations.as_ref();
        let log_level = annotations.and_then(|annotations| annotations.get(LOG_LEVEL));
        hosted.log.set_level(
            log_level.map(String::as_str),
            self.context.config.plugin_log_level.into(),
        );

        // A process that is started anew, here or on another replica, need not write them again.
        let seen = plugin.status.iter().flat_map(|status| &status.finalizers);
        for of_kind in seen {
            let finalizers = of_kind.finalizers.iter().cloned();
            hosted
                .finalizers
                .add(&of_kind.group_version_kind(), finalizers);
        }

        let plugin = PluginRef {
            key,
            object: &plugin,
            hosted: &hosted,
        };
        let mut state = hosted.state.lock().await;

        // Before the checks: a revocation that comes after them must not be lost.
        if hosted.renew_revocation() {
            // The controllers have the old token.
            state.applied = None;
        }
        if let Some(running) = &mut state.running {
            running.release_others(&hosted.shards(), self.context.shutdown_time());
        }

        if let Err(problem) = self.check_quota(plugin).await {
            self.refuse(plugin, problem, &mut state);
            state.component = None;
            state.source = SourceState::default();
            state.problems.load = None;
            let _refused_already = self.context.tenants.admission.record(key, Need::Unknown);
            return self.write_status(plugin, state).await;
        }

        let updated = self
            .check_and_update(plugin, may_apply_changes, &mut state)
            .await;
        self.note_unavailable(plugin, updated.as_ref().err(), &mut state);

        let written = self.write_status(plugin, state).await;
        updated.and(written)
    }

    /// Updates a Plugin that may run here, and stops one that may not.
    async fn check_and_update(
        &self,
        plugin: PluginRef<'_>,
        may_apply_changes: bool,
        state: &mut State,
    ) -> Result<(), ApiError> {
        match self.check_consent(plugin).await? {
            Ok(consent) => {
                state.problems.refusal = None;
                self.update(plugin, &consent, may_apply_changes, state)
                    .await
            }
            Err(problem) => {
                self.record_no_demand(plugin.key);
                self.refuse(plugin, problem, state);
                Ok(())
            }
        }
    }

    /// Notes why this reconcile could not ask the API server what it needed, for the status. An
    /// Event reports it once.
    fn note_unavailable(&self, plugin: PluginRef<'_>, error: Option<&ApiError>, state: &mut State) {
        let problem = error.map(|error| {
            let message = &error.status.message;
            match error.kind {
                ErrorKind::TooManyRequests => Problem::new(
                    reasons::SYNCING,
                    format!("the API server asks to wait: {message}"),
                ),
                _ => Problem::new(reasons::API_UNAVAILABLE, message.as_str()),
            }
        });

        if let Some(error) = error {
            let asked = error.status.retry_after_seconds;
            let asked = asked.map(|seconds| Duration::from_secs(seconds.into()));
            let delay = asked.map_or(UNAVAILABLE_RETRY, |asked| {
                asked.clamp(Duration::from_secs(1), UNAVAILABLE_RETRY)
            });
            self.context.queue.enqueue_after(plugin.key, delay);
        }

        let before = std::mem::replace(&mut state.problems.unavailable, problem.clone());
        if let Some(problem) = problem.filter(|problem| problem.reason != reasons::SYNCING)
            && before.as_ref() != Some(&problem)
        {
            self.reporter.warn(plugin.key, plugin.hosted, &problem);
        }
    }

    /// Stops a Plugin whose spec cannot be decoded, and writes its status.
    async fn refuse_undecodable(&self, object: &Object, problem: Problem) -> Result<(), ApiError> {
        let key = object.key();
        let hosted = self.hosted_plugins.get_or_create(key, object.uid());
        let mut state = hosted.state.lock().await;

        let mut placeholder = Plugin::new(&key.name, PluginSpec::new(Source::default()));
        placeholder.metadata.generation = Some(object.generation());
        let plugin = PluginRef {
            key,
            object: &placeholder,
            hosted: &hosted,
        };

        self.record_no_demand(key);
        self.refuse(plugin, problem, &mut state);
        self.write_status(plugin, state).await
    }

    /// Checks that the namespace's quota has room for the Plugin's code.
    async fn check_quota(&self, plugin: PluginRef<'_>) -> Result<(), Problem> {
        // After a restart of the host, older Plugins may be listed later than this one.
        self.informers.plugins.synced().await;

        if plugin.object.spec.suspend {
            self.record_no_demand(plugin.key);
        }
        self.context.tenants.admission.check_load(plugin.key)
    }

    /// Returns the consent under which the Plugin runs, or why it may not run.
    async fn check_consent(
        &self,
        plugin: PluginRef<'_>,
    ) -> Result<Result<Consent, Problem>, ApiError> {
        let namespace = plugin.key.namespace.as_deref().unwrap_or_default();
        let opt_in = match self.informers.check_namespace(namespace).await? {
            Ok(opt_in) => opt_in,
            Err(problem) => return Ok(Err(problem)),
        };
        let needs_digest = opt_in == OptIn::Pinned || self.context.config.require_digest;

        let name = plugin.object.spec.service_account_name.as_deref();
        let account = match consent::named_account(plugin.key, name) {
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
            // A changed role enqueues the Plugin; other authorizers report no changes.
            self.context.queue.enqueue_after(plugin.key, GRANT_RETRY);
            let host = impersonation.own_user().await?;
            return Ok(Err(consent::not_granted(&account, host)));
        }

        Ok(Ok(Consent {
            account,
            code,
            needs_digest,
        }))
    }

    /// Loads the code and sets the controllers up. While changes come too fast, a reconcile only
    /// suspends the Plugin, or sets up code whose loading has ended.
    async fn update(
        &self,
        plugin: PluginRef<'_>,
        consent: &Consent,
        may_apply_changes: bool,
        state: &mut State,
    ) -> Result<(), ApiError> {
        let PluginRef {
            key,
            object,
            hosted,
        } = plugin;
        let is_suspended = object.spec.suspend;

        // Consent may no longer name the code that runs: its gate refuses all further calls.
        if let Some(component) = &state.component
            && let Err(problem) = consent.check_code(key, component.digest())
        {
            hosted.permit().revoke(&problem.message);
            state.component = None;
            state.source.version = None;
        }

        let is_deleted = object.metadata.deletion_timestamp.is_some();
        if is_deleted && state.component.is_some() {
            // It ends with the code that it has: the source may be gone with the namespace.
        } else if may_apply_changes {
            self.loader.load(plugin, consent, state).await?;
        } else if !is_suspended && !self.loader.finish_loading(plugin, state)? {
            return Ok(());
        }

        let admission = &self.context.tenants.admission;
        let room = admission.record(key, demand(object, state));
        if is_suspended || state.component.is_none() {
            self.stop(hosted, state);
            return Ok(());
        }
        if let Err(problem) = room {
            state.configuration = Configuration::default();
            state.sources = Sources::default();
            self.stop_for(plugin, problem, state);
            return Ok(());
        }
        if let Some(problem) = self.pause_in_effect(plugin, state) {
            self.stop_for(plugin, problem, state);
            self.context.queue.enqueue_after(key, cache_quota::RETRY);
            return Ok(());
        }

        let grants = self.context.cluster.grants.of(consent.account.clone());
        if let Some(config) = self.configure(plugin, &grants, state).await? {
            self.set_up(plugin, grants, config, state).await?;
        }
        Ok(())
    }

    /// Returns why the controllers are paused. A pause ends after a while, or with other code or
    /// another spec.
    fn pause_in_effect(&self, plugin: PluginRef<'_>, state: &mut State) -> Option<Problem> {
        let component = state.component.as_ref();
        let digest = component.map_or("", |component| component.digest());
        let generation = plugin.object.metadata.generation.unwrap_or_default();
        let is_over = |pause: &mut Pause| {
            pause.generation != generation
                || pause.digest != digest
                || pause.since.elapsed() >= cache_quota::RETRY
        };

        let _over = state.paused.take_if(is_over);
        state.paused.as_ref().map(|pause| pause.problem.clone())
    }

    /// Reads the plugin's configuration, and what a process gets of ConfigMaps and Secrets. Returns
    /// None if that fails: the controllers then keep the previous one, unless the ServiceAccount has
    /// lost the permission to read it.
    async fn configure(
        &self,
        plugin: PluginRef<'_>,
        grants: &SubjectGrants,
        state: &mut State,
    ) -> Result<Option<PluginConfig>, ApiError> {
        let PluginRef {
            key,
            object,
            hosted,
        } = plugin;
        let read = state
            .configuration
            .read(&self.context, &self.guard, key, object, grants)
            .await?;
        let read = match read {
            Ok(config) => {
                let sources = &mut state.sources;
                let read = sources.read(&self.context, key, object, grants).await?;
                read.map(|()| config).map_err(Some)
            }
            Err(problem) => Err(problem),
        };
        let problem = match read {
            Ok(config) => {
                state.problems.config = None;
                return Ok(Some(config));
            }
            // Work that the host crashed on comes first.
            Err(None) => return Ok(None),
            Err(Some(problem)) => problem,
        };

        if problem.reason == config::FORBIDDEN {
            hosted.permit().revoke(&problem.message);
            self.stop(hosted, state);
        }
        if state.problems.config.as_ref() != Some(&problem) {
            self.reporter.warn(key, hosted, &problem);
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
        let PluginRef {
            key,
            object,
            hosted,
        } = plugin;
        let Some(component) = state.component.clone() else {
            return Ok(());
        };

        let local_shards = hosted.shards();
        if let Some(running) = &mut state.running {
            running.activate(&local_shards);
        }
        hosted.set_running_digest(component.digest());

        let wanted = Applied {
            generation: object.metadata.generation.unwrap_or_default(),
            digest: component.digest().to_owned(),
            config: config.clone(),
        };
        let is_changed = state.applied.as_ref() != Some(&wanted);
        let impersonation = &self.context.cluster.impersonation;
        let may_send_epoch = impersonation.may_send_epoch(grants.subject()).await?;
        let setup = Setup {
            context: &self.context,
            key,
            uid: &hosted.uid,
            metadata: &object.metadata,
            spec: &object.spec,
            config,
            sources: state.sources.follow(),
            component: &component,
            log: &hosted.log,
            health: &hosted.health,
            finalizers: &hosted.finalizers,
            permit: hosted.permit(),
            retries_failed: is_changed,
            epoch: self.ownership.epoch().filter(|_| may_send_epoch),
            grants,
        };

        let running = state.running.as_ref();
        let has_new_shard =
            !is_changed && running.is_some_and(|running| running.lacks(&local_shards));
        if !is_changed && !has_new_shard && state.missing.kinds.is_empty() {
            let Some(running) = running else {
                return Ok(());
            };
            let cause = if running.is_served_otherwise(&setup).await {
                "the API server serves other resources"
            } else if running.must_watch_elsewhere(&setup).await {
                // An authorizer that has just started may not know all permissions yet.
                self.context
                    .queue
                    .enqueue_after(key, Grants::SETTLE + HostPermissions::KEEP);
                "permissions changed"
            } else {
                return Ok(());
            };
            hosted
                .log
                .write_host_line(LogLevel::Info, format!("{cause}, restarting the watches"));
        }

        let hot_loop_rounds = self.context.config.hot_loop_rounds;
        let running = state
            .running
            .get_or_insert_with(|| RunningShards::new(hot_loop_rounds));
        if is_changed {
            hosted.health.reset();
            // The new subscriptions enqueue every key once more.
            running.forget_loops();
        }

        let all = !has_new_shard || !state.missing.kinds.is_empty();
        match running.update(&setup, &local_shards, all).await {
            Ok(missing) => {
                state.applied = Some(wanted);
                state.problems.setup = None;
                state
                    .missing
                    .wait_for(&self.context, key, setup.grants.subject(), missing)
                    .await;
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

    /// Stops a plugin that may not run here: its gate refuses all further calls.
    fn refuse(&self, plugin: PluginRef<'_>, problem: Problem, state: &mut State) {
        plugin.hosted.permit().revoke(&problem.message);
        state.source.loading = None;
        state.problems.unavailable = None;
        self.stop(plugin.hosted, state);
        state.configuration = Configuration::default();
        state.sources = Sources::default();

        if state.problems.refusal.as_ref() != Some(&problem) {
            self.reporter.warn(plugin.key, plugin.hosted, &problem);
        }
        state.problems.refusal = Some(problem);
    }

    /// Stops the controllers, and reports the problem once.
    fn stop_for(&self, plugin: PluginRef<'_>, problem: Problem, state: &mut State) {
        if state.problems.setup.as_ref() != Some(&problem) {
            self.reporter.warn(plugin.key, plugin.hosted, &problem);
        }
        self.stop(plugin.hosted, state);
        state.problems.setup = Some(problem);
    }

    fn stop(&self, hosted: &HostedPlugin, state: &mut State) {
        if let Some(running) = state.running.take() {
            running.stop(self.context.shutdown_time());
        }
        state.applied = None;
        state.problems.setup = None;
        state.missing.forget_kinds();
        hosted.health.reset();
    }

    /// Records that a Plugin that may not run takes no room in the namespace's quota.
    fn record_no_demand(&self, key: &ObjectKey) {
        // Nothing always fits.
        let _fits = self
            .context
            .tenants
            .admission
            .record(key, Need::Known(Demand::default()));
    }

    /// Writes the status, reports missing permissions, and sets the Plugin's finalizer. A replica
    /// that prepares to take a shard over first names itself as the successor.
    async fn write_status(
        &self,
        plugin: PluginRef<'_>,
        mut state: MutexGuard<'_, State>,
    ) -> Result<(), ApiError> {
        let PluginRef {
            key,
            object,
            hosted,
        } = plugin;
        let quotas = self.context.tenants.quotas();
        let mut observed = observe(object, hosted, &state, quotas, self.context.admin_address());
        observed.reduced_limits = self.context.config.reduced_limits(&object.spec.limits);
        let current = self.informers.plugins.cache.get(key);
        let current = current.filter(|current| current.uid() == hosted.uid);
        if current.as_ref().is_some_and(|current| current.deleting()) {
            observed.remaining = Some(self.remaining(plugin, &mut state).await?);
        }
        if hosted.is_leading() {
            self.reporter.report_denials(key, &observed, &mut state);
        }
        // Each replica waits for itself.
        if hosted.is_owner() {
            self.reporter.report_throttling(key, &observed, &mut state);
        }
        let component = state.component.as_ref();
        let declares = component.map(|component| {
            let seen = hosted.finalizers.all();
            !teardown::known(component.manifest(), &object.spec, &seen).is_empty()
        });
        drop(state);
        if !observed.watches.failing_apis.is_empty() {
            self.ask_api_services(&mut observed.watches).await;
            // The API server notices only after a while that an aggregated one is down.
            self.context.queue.enqueue_after(key, UNAVAILABLE_RETRY);
        }

        // A Plugin that cannot run is settled as well: the owner then reports why.
        let prepared: Vec<Shard> = hosted
            .shards()
            .into_iter()
            .filter(|local| !local.is_owned)
            .map(|local| local.shard)
            .collect();
        if !prepared.is_empty()
            && is_settled(&observed)
            && let Some(plugin) = self.informers.plugins.cache.get(key)
            && self.ownership.offer(&plugin, &prepared).await? == ConditionalWrite::Conflict
        {
            self.context.queue.enqueue_after(key, CONFLICT_RETRY);
        }

        self.reporter.write_status(key, hosted, &observed).await?;
        let Some(current) = current.filter(|_| hosted.is_leading()) else {
            return Ok(());
        };
        match (&observed.remaining, declares) {
            (Some(remaining), _) if remaining.is_over(observed.running, is_settled(&observed)) => {
                self.let_go(plugin, &current, remaining).await
            }
            (Some(_), _) => {
                self.context.queue.enqueue_after(key, teardown::POLL);
                Ok(())
            }
            (None, Some(declares)) if observed.running || !declares => {
                self.set_finalizer(&current, declares).await
            }
            // The code isn't known or doesn't run yet, so the finalizer may be needed.
            (None, _) => Ok(()),
        }
    }

    /// Adds what the APIServices of failing watches say about the aggregated API servers behind them:
    /// the API server itself only says that they do not answer.
    async fn ask_api_services(&self, watches: &mut ObservedWatches) {
        let discovery = &self.context.cluster.discovery;
        for api_version in watches.failing_apis.iter().take(MAX_API_SERVICES) {
            let why = timeout(API_SERVICE_TIMEOUT, discovery.unavailable_api(api_version));
            if let Ok(Some(why)) = why.await {
                watches.errors.push(why.into());
            }
        }
    }

    /// Counts the objects that keep a deleted Plugin from ending.
    async fn remaining(
        &self,
        plugin: PluginRef<'_>,
        state: &mut State,
    ) -> Result<Remaining, ApiError> {
        let PluginRef {
            key,
            object,
            hosted,
        } = plugin;
        let deleted = state
            .deleted_since
            .get_or_insert_with(Instant::now)
            .elapsed();
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let is_ending = teardown::is_terminating(&self.context.cluster, namespace).await?;
        let ending = is_ending.then_some(namespace);

        let remaining = Remaining::after(deleted);
        let code = state.component.as_ref().zip(state.running.as_ref());
        Ok(match code {
            Some((component, running)) => {
                let manifest = component.manifest();
                let known = teardown::known(manifest, &object.spec, &hosted.finalizers.all());
                remaining.count(manifest, running, &known, ending).await
            }
            None => remaining,
        })
    }

    /// Lets a deleted Plugin go, and reports the objects that keep its finalizers.
    async fn let_go(
        &self,
        plugin: PluginRef<'_>,
        current: &Object,
        remaining: &Remaining,
    ) -> Result<(), ApiError> {
        let PluginRef { key, hosted, .. } = plugin;
        if let Some(left) = remaining.left() {
            let problem = Problem::new(reasons::FINALIZERS_LEFT, left);
            self.reporter.warn(key, hosted, &problem);
        }
        self.set_finalizer(current, false).await
    }

    /// Adds or removes the finalizer of a Plugin.
    async fn set_finalizer(&self, plugin: &Object, wanted: bool) -> Result<(), ApiError> {
        if teardown::is_held(plugin) == wanted {
            return Ok(());
        }

        self.ownership.check()?;
        let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        let written = teardown::set_finalizer(&self.context.cluster, kind, plugin, wanted).await?;
        if written == ConditionalWrite::Conflict {
            self.context
                .queue
                .enqueue_after(plugin.key(), CONFLICT_RETRY);
        }
        Ok(())
    }
}

/// Waits until no reconcile of a shard is in flight, and stops it.
async fn drain(mut shard: RunningShard, grace: Duration) {
    if !shard.drain(DRAIN).await {
        shard.revoke(ELSEWHERE);
        shard.drain(grace).await;
    }
    shard.stop_and_wait(Duration::ZERO).await;
}

/// Returns when to reconcile after a conditional write. After one that succeeded, the watch
/// enqueues the Plugin.
fn after_write(written: ConditionalWrite) -> Action {
    match written {
        ConditionalWrite::Done => Action::Done,
        ConditionalWrite::Conflict => Action::RequeueAfter(CONFLICT_RETRY),
    }
}

fn list(shards: &[Shard]) -> String {
    let shards: Vec<String> = shards.iter().map(ToString::to_string).collect();
    shards.join(", ")
}

/// Returns the controllers and sources that a Plugin needs: none while it is suspended, or its code
/// does not load.
fn demand(object: &Plugin, state: &State) -> Need {
    match &state.component {
        _ if object.spec.suspend => Need::Known(Demand::default()),
        Some(component) => {
            let manifest = component.manifest();
            Need::Known(Demand {
                controllers: manifest.controllers.len(),
                sources: manifest.source_count(),
            })
        }
        None => match &state.problems.load {
            // It is postponed, not refused.
            Some(problem) if problem.reason == reasons::CRASH_SUSPECTED => Need::Unknown,
            Some(_) => Need::Known(Demand::default()),
            None => Need::Unknown,
        },
    }
}

/// Returns the demand of a Plugin that another replica runs. Its status lists the controllers, each
/// of which has at least one source.
fn reported_demand(plugin: &Object) -> Demand {
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
    Demand {
        controllers,
        sources: controllers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_that_is_only_postponed_keeps_its_room() {
        let plugin = Plugin::new("p", PluginSpec::new(Source::default()));
        let with = |reason| {
            let mut state = State::default();
            state.problems.load = Some(Problem::new(reason, "why"));
            state
        };

        let postponed = demand(&plugin, &with(reasons::CRASH_SUSPECTED));
        assert_eq!(postponed, Need::Unknown);
        let refused = demand(&plugin, &with(reasons::CRASH_QUARANTINED));
        assert_eq!(refused, Need::Known(Demand::default()));
    }
}
