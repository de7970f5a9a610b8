//! The controllers of a running plugin, or of one of its shards.
//!
//! [`RunningShard::update`] handles the first start and every later change without losing anything.
//! Queues survive the change, and in-flight reconciles end on the old code. New subscriptions are
//! made before the old ones are dropped, so that a watch needed by both continues. A new
//! subscription delivers everything in the store, so the new code reconciles every key.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use operetta_api::reasons;
use operetta_core::{
    authz::{host_permissions::HostPermissions, recorded_permissions::RecordedPermissions},
    controller::Controller,
    gate::permit::RequestPermit,
    handler::{Target, backlog::Backlog},
    hot_loop::HotLoops,
    manifest,
    object::{ObjectKey, kind::GroupVersionKind},
    queue::WorkQueue,
    remedy::Advice,
    replicas::Shard,
};
use operetta_kube::{
    authz::{filtered_view::FilteredView, required_permissions::RequiredPermission},
    client::object_api::{PluginApi, Refusal},
    informer::Informer,
};
use operetta_wasm::Component;
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::{
    plugin::{
        process::{Served, Supervisor, definition::Definition, state::ProcessState},
        setup::{
            Setup, SetupError,
            assembly::{Assembly, Code, Identity, Metered, connect, define, instantiate},
            enqueue::{enqueue_named, enqueue_on, rate_limiter},
            mapping_stage::{MapStage, StageSetup},
            retry_on_grant::RetryOnGrant,
            wiring::{Placement, WiredController, Wiring, wire_all},
        },
    },
    problem::Problem,
};

/// The shortest resync period, because a resync walks all objects of a source.
const MIN_RESYNC: Duration = Duration::from_secs(10);

/// How soon a kind is looked up again after its watch got a 404.
const SERVED_AGAIN: Duration = Duration::from_secs(2);

/// The controllers of one shard of a plugin.
pub struct RunningShard {
    shard: Shard,
    controllers: BTreeMap<String, RunningController>,
    identity: Identity,
    /// The permit they were set up with.
    token: Option<Arc<RequestPermit>>,
    /// The hot loops among its keys; survives code swaps.
    loops: Arc<HotLoops>,
    /// Where the host watches each source.
    placements: Vec<Placement>,
    /// Tasks that enqueue the Plugin when a watch changes state. Dropping this aborts them.
    watchers: JoinSet<()>,
    /// Retries failed keys when a refused call is allowed.
    retry_on_grant: RetryOnGrant,
    /// True if the controllers take keys, as soon as this replica owns the shard.
    is_active: bool,
    /// The process, if the component is one.
    process: Option<RunningProcess>,
}

struct RunningProcess {
    supervisor: Supervisor,
    /// What runs while the shard is active.
    definition: Arc<Definition>,
}

impl RunningProcess {
    /// Runs the process if this replica owns the shard.
    fn follow(&self, is_active: bool) {
        self.supervisor
            .want(is_active.then(|| self.definition.clone()));
    }
}

struct RunningController {
    controller: Arc<Controller>,
    /// The kind it reconciles.
    kind: GroupVersionKind,
    /// The number of workers while active.
    workers: u32,
    views: Vec<Watching>,
    /// For the sources the plugin maps itself.
    stages: Vec<MapStage>,
    /// For the sources whose objects name other keys.
    backlogs: Vec<Arc<Backlog>>,
    limiter: manifest::RateLimiter,
}

/// A controller's view of an informer.
pub struct Watching {
    /// The events and objects that the plugin's ServiceAccount may see.
    pub view: FilteredView,
    /// True if this is one namespace of a source that covers all namespaces.
    pub part: bool,
}

impl RunningShard {
    /// Creates a shard without controllers. It takes no keys before [`RunningShard::set_active`].
    /// `hot_loop_rounds` is the number of delays before a looping key is quarantined, `recorded`
    /// records the permissions used by the plugin's calls.
    pub fn new(shard: Shard, hot_loop_rounds: u32, recorded: Arc<RecordedPermissions>) -> Self {
        Self {
            shard,
            controllers: BTreeMap::new(),
            identity: Identity::new(recorded),
            token: None,
            loops: HotLoops::with_rounds(hot_loop_rounds),
            placements: Vec::new(),
            watchers: JoinSet::new(),
            retry_on_grant: RetryOnGrant::default(),
            is_active: false,
            process: None,
        }
    }

    /// Retries a key now, in each controller that has it. Returns the number of those controllers.
    pub fn retry(&self, key: &ObjectKey) -> usize {
        let with_key = self.controllers.values().filter(|running| running.has(key));
        with_key
            .filter(|running| running.controller.retry(key))
            .count()
    }

    /// Starts or stops taking keys.
    pub fn set_active(&mut self, is_active: bool) {
        if mem::replace(&mut self.is_active, is_active) != is_active {
            for running in self.controllers.values() {
                let workers = if is_active { running.workers } else { 0 };
                running.controller.set_workers(workers);
                running
                    .stages
                    .iter()
                    .for_each(|stage| stage.set_workers(workers));
            }
            if let Some(process) = &self.process {
                process.follow(is_active);
            }
        }
    }

    /// Returns the state of its process, if it has one.
    pub fn process(&self) -> Option<ProcessState> {
        let process = self.process.as_ref()?;
        Some(process.supervisor.state())
    }

    /// Returns the metrics that its process serves, if it has one that does.
    pub fn served(&self) -> Option<Served> {
        self.process.as_ref()?.supervisor.served()
    }

    /// Returns the shard these controllers are for.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Reports whether the controllers were set up with this permit.
    pub fn is_set_up_with(&self, token: &Arc<RequestPermit>) -> bool {
        self.token
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, token))
    }

    /// Sets up the controllers in the component's manifest, with the shard's permit in `setup`.
    /// Returns the kinds the API server doesn't serve; controllers for those can't run yet.
    ///
    /// # Errors
    /// [`SetupError::Refused`] when the manifest or the spec can't be set up,
    /// [`SetupError::Unavailable`] when the API server doesn't respond.
    pub async fn update(
        &mut self,
        setup: &Setup<'_>,
        metered: &Metered,
    ) -> Result<Vec<GroupVersionKind>, SetupError> {
        check_spec(setup)?;
        let wired = wire_all(setup).await?;
        let api = connect(setup, &mut self.identity, &wired.controllers, metered)?;
        let assembly = Assembly {
            metered,
            loops: &self.loops,
        };

        match &**setup.component {
            Component::Plugin(component) => {
                let identity = &mut self.identity;
                let code = instantiate(setup, component, self.shard, identity, api, assembly);
                self.placements = wired.placements;
                self.replace_controllers(setup, wired.controllers, &code);
                if let Some(process) = self.process.take() {
                    end(process);
                }
            }
            Component::Process(program) => {
                let definition = define(setup, program, &mut self.identity, api, assembly);
                self.placements = Vec::new();
                self.watchers = JoinSet::new();
                let reconciled = mem::take(&mut self.controllers);
                reconciled
                    .into_values()
                    .for_each(|controller| controller.stop(setup.context.shutdown_time()));
                self.replace_process(setup, Arc::new(definition));
            }
        }
        self.enqueue_on_change(setup, setup.finalizers.follow());
        self.token = Some(setup.permit.clone());
        Ok(wired.missing)
    }

    /// Runs this process from now on, and ends one that differs.
    fn replace_process(&mut self, setup: &Setup<'_>, definition: Arc<Definition>) {
        let supervisor = match self.process.take() {
            Some(process) => process.supervisor,
            None => {
                let queue = setup.context.queue.clone();
                let key = setup.key.clone();
                Supervisor::start(setup.log.clone(), move || queue.enqueue(&key))
            }
        };
        let process = RunningProcess {
            supervisor,
            definition,
        };
        process.follow(self.is_active);
        self.process = Some(process);
    }

    fn replace_controllers(&mut self, setup: &Setup<'_>, wired: Vec<WiredController>, code: &Code) {
        let mut before = mem::take(&mut self.controllers);
        self.watchers = JoinSet::new();

        if self.placements.iter().any(Placement::is_narrow) {
            let queue = setup.context.queue.clone();
            let host = HostPermissions::new(setup.context.cluster.grants.clone());
            self.watchers.spawn(queue.enqueue_on_permission_change(
                setup.grants.permission_changes(),
                host.permission_changes(),
                setup.key.clone(),
            ));
        }

        let discovery = setup.context.cluster.discovery.clone();
        let queue = setup.context.queue.clone();
        let key = setup.key.clone();
        let resources: Vec<_> = self
            .placements
            .iter()
            .map(|placement| placement.resource().clone())
            .collect();
        self.watchers.spawn(async move {
            discovery.until_served_otherwise(&resources).await;
            queue.enqueue(&key);
        });

        // Before their first reconcile, which wouldn't be counted otherwise.
        let names = wired.iter().map(|wired| wired.declared.name.as_str());
        setup.context.metrics.keep_controllers(setup.key, names);

        for WiredController { declared, wiring } in wired {
            let old = before.remove(&declared.name);
            let running = self.replace_controller(setup, &declared, wiring, code, old);
            self.controllers.insert(declared.name, running);
        }

        before
            .into_values()
            .for_each(|old| old.stop(setup.context.shutdown_time()));
        let queues = self
            .controllers()
            .map(|controller| controller.queue().clone())
            .collect();
        self.retry_on_grant
            .follow(setup, &self.identity.refused, queues);
    }

    /// Retries all failed keys and failed mappings, as the cause may have been fixed. Returns the
    /// number of keys.
    pub fn retry_failed(&self) -> usize {
        self.controllers
            .values()
            .flat_map(|running| &running.stages)
            .for_each(MapStage::retry_failed);
        self.controllers()
            .map(|controller| controller.queue().retry_failed())
            .sum()
    }

    /// Moves a controller to new code and new views, and keeps its queue.
    fn replace_controller(
        &mut self,
        setup: &Setup<'_>,
        declared: &manifest::Controller,
        wiring: Vec<Wiring>,
        code: &Code,
        mut old: Option<RunningController>,
    ) -> RunningController {
        let limiter = declared.rate_limiter.unwrap_or_default();
        let budget = setup.context.tenants.queues(setup.key);
        setup
            .health
            .reconciles(&declared.name, declared.for_.group_version_kind());

        let controller = self.controller(setup, declared, code, old.as_ref());
        let resync = Some(declared.resync_seconds).filter(|seconds| *seconds > 0);
        let resync = resync.map(|seconds| Duration::from_secs(seconds.into()).max(MIN_RESYNC));

        // Before the stages, which take over the number of workers.
        controller.set_workers(if self.is_active { declared.workers } else { 0 });

        let mut stages_before = old
            .as_mut()
            .map(|old| mem::take(&mut old.stages))
            .unwrap_or_default();
        let mut backlogs_before = old
            .as_mut()
            .map(|old| mem::take(&mut old.backlogs))
            .unwrap_or_default();
        let mut stages = Vec::new();
        let mut backlogs = Vec::new();
        let mut views = Vec::new();

        for Wiring {
            kind,
            informer,
            handler,
            part,
        } in wiring
        {
            let only = handler.namespace.clone();
            let handler = match (&handler.target, &code.mapping) {
                (Target::Custom(rules), Some(mapping)) => {
                    let stage_setup = StageSetup {
                        kind: &kind,
                        target: &controller,
                        rules: rules.clone(),
                        mapping,
                        limiter: &limiter,
                        health: setup.health,
                        budget: &budget,
                        retries_failed: setup.retries_failed,
                    };
                    let stage = MapStage::replace(&mut stages_before, stage_setup);
                    let handler = stage.handler(handler, setup.log);
                    stages.push(stage);
                    handler
                }
                (Target::Itself, _) => enqueue_on(&controller, handler),
                _ => {
                    let backlog = Backlog::replace(
                        &mut backlogs_before,
                        &kind,
                        handler,
                        &controller,
                        &budget,
                    );
                    let handler = enqueue_named(&backlog, &kind, setup.log);
                    backlogs.push(backlog);
                    handler
                }
            };
            let view = FilteredView::open(&informer, setup.grants.clone(), only, handler, resync);
            self.enqueue_on_change(setup, informer.state());
            self.enqueue_on_change(setup, view.state());
            views.push(Watching { view, part });
        }

        // Last, so that a watch needed by the old and the new views always has a user.
        drop(old);
        MapStage::stop_all(stages_before, setup.context.shutdown_time());

        RunningController {
            controller,
            kind: declared.for_.group_version_kind(),
            workers: declared.workers,
            views,
            stages,
            backlogs,
            limiter,
        }
    }

    fn controller(
        &self,
        setup: &Setup<'_>,
        declared: &manifest::Controller,
        code: &Code,
        old: Option<&RunningController>,
    ) -> Arc<Controller> {
        let limiter = declared.rate_limiter.unwrap_or_default();
        let Some(old) = old else {
            let budget = setup.context.tenants.queues(setup.key);
            let queue = WorkQueue::with_rate_limiter(rate_limiter(&limiter)).within(budget);
            let name = declared.name.clone();
            let reconciler = code.reconciler.clone();

            return Controller::of_shard(
                self.shard,
                name,
                queue,
                reconciler,
                setup.health.clone(),
                &self.loops,
            );
        };

        old.controller.swap(code.reconciler.clone());
        if old.limiter != limiter {
            old.controller
                .queue()
                .set_rate_limiter(rate_limiter(&limiter));
        }

        // Before the new views open: whatever fails from then on fails because of the new code.
        if setup.retries_failed {
            old.controller.queue().retry_failed();
        }
        old.controller.clone()
    }

    fn enqueue_on_change<T: Send + Sync + 'static>(
        &mut self,
        setup: &Setup<'_>,
        mut state: watch::Receiver<T>,
    ) {
        let queue = setup.context.queue.clone();
        let plugin = setup.key.clone();
        self.watchers.spawn(async move {
            while state.changed().await.is_ok() {
                queue.enqueue(&plugin);
            }
        });
    }

    /// Stops all controllers: no reconcile starts any more, unused watches end now, and in-flight
    /// reconciles get `grace`.
    pub fn stop(self, grace: Duration) {
        if let Some(process) = self.process {
            end(process);
        }
        self.controllers
            .into_values()
            .for_each(|controller| controller.stop(grace));
    }

    /// Stops all controllers like [`RunningShard::stop`], and waits for in-flight reconciles.
    pub async fn stop_and_wait(self, grace: Duration) {
        let mut stops = JoinSet::new();
        if let Some(process) = self.process {
            stops.spawn(async move { timeout(grace, process.supervisor.stop()).await.is_ok() });
        }
        for RunningController {
            controller,
            views,
            stages,
            ..
        } in self.controllers.into_values()
        {
            drop(views);
            for stage in stages {
                stops.spawn(async move { timeout(grace, stage.stop()).await.is_ok() });
            }
            stops.spawn(async move { timeout(grace, controller.stop()).await.is_ok() });
        }
        stops.join_all().await;
    }

    /// Refuses further requests from in-flight reconciles.
    pub fn revoke(&self, why: &str) {
        if let Some(token) = &self.token {
            token.revoke(why);
        }
    }

    /// Takes no more keys and waits for in-flight reconciles, at most `grace`. Reports whether all
    /// have ended.
    pub async fn drain(&mut self, grace: Duration) -> bool {
        self.is_active = false;
        let mut ends = JoinSet::new();
        for running in self.controllers.values() {
            running.controller.set_workers(0);
            let controller = running.controller.clone();
            ends.spawn(async move { timeout(grace, controller.idle()).await.is_ok() });
        }
        if let Some(process) = &self.process {
            // It has its own grace period: what it does on SIGTERM needs the API server.
            process.supervisor.stop().await;
        }
        ends.join_all().await.into_iter().all(|ended| ended)
    }

    /// Returns a controller's views, or none if it isn't running.
    pub fn views(&self, controller: &str) -> impl Iterator<Item = &Watching> {
        let views = self
            .controllers
            .get(controller)
            .map(|running| running.views.as_slice());
        views.unwrap_or_default().iter()
    }

    /// Returns the last request refused by RBAC.
    pub fn refusal(&self) -> Option<Refusal> {
        self.identity.api.as_ref()?.refusal()
    }

    /// Returns the plugin's API and the permissions required by its watches, or None before it was
    /// set up.
    pub fn required_permissions(&self) -> Option<(Arc<PluginApi>, Vec<RequiredPermission>)> {
        Some((
            self.identity.api.clone()?,
            self.placements.iter().flat_map(Placement::rights).collect(),
        ))
    }

    /// Returns the permissions the host lacks to watch a source, each with the command that grants
    /// it.
    pub fn missing_rights(&self) -> Vec<Advice> {
        let Some(account) = self.identity.account() else {
            return Vec::new();
        };
        self.placements
            .iter()
            .filter_map(|placement| placement.missing_right(account))
            .collect()
    }

    /// Returns the informers that serve its reads: those watched by its controllers, and those
    /// started on demand.
    pub fn informers(&self) -> (Vec<Arc<Informer>>, Vec<Arc<Informer>>) {
        self.identity
            .api
            .as_ref()
            .map(|api| api.informers())
            .unwrap_or_default()
    }

    /// Returns the informers of its controllers, one per subscription.
    pub fn subscribed(&self) -> impl Iterator<Item = &Arc<Informer>> {
        self.controllers
            .values()
            .flat_map(|running| &running.views)
            .map(|watching| watching.view.informer())
    }

    /// Reports whether the API server serves one of its kinds as a different resource, or no
    /// longer.
    pub async fn is_served_otherwise(&self, setup: &Setup<'_>) -> bool {
        let discovery = &setup.context.cluster.discovery;
        for placement in &self.placements {
            let resource = placement.resource();
            // After a 404, don't trust cached discovery.
            let is_gone = |informer: &Arc<Informer>| {
                informer.resource == *resource && informer.state().borrow().not_served
            };
            if self.subscribed().any(is_gone) {
                discovery.invalidate(Some(resource.kind.group()));
                setup.context.queue.enqueue_after(setup.key, SERVED_AGAIN);
            }
            if discovery.serves_otherwise(resource).await {
                return true;
            }
        }
        false
    }

    /// Reports whether the host's permissions have changed, so that a source must be watched in
    /// other namespaces. Asks the API server only if that is possible.
    pub async fn must_watch_elsewhere(&self, setup: &Setup<'_>) -> bool {
        let is_allowed = |informer: &Arc<Informer>| !informer.state().borrow().forbidden;
        let views = self.controllers.values().flat_map(|running| &running.views);
        let sees_nothing = |watching: &Watching| watching.view.state().borrow().sees_nothing();
        let is_narrow = self.placements.iter().any(Placement::is_narrow);
        if !is_narrow && self.subscribed().all(is_allowed) && !views.into_iter().any(sees_nothing) {
            return false;
        }

        for placement in &self.placements {
            if placement.has_changed(setup).await {
                return true;
            }
        }
        false
    }

    /// Until the next set-up, sends reads of kinds that no controller watches to the API server.
    pub fn read_live(&self) {
        if let Some(api) = &self.identity.api {
            api.read_live();
        }
    }

    /// Reports whether [`Self::read_live`] is in effect.
    pub fn reads_live(&self) -> bool {
        self.identity
            .api
            .as_ref()
            .is_some_and(|api| api.reads_live())
    }

    /// Reports whether its process watches more than the host's cache answers for one.
    pub fn watches_too_many(&self) -> bool {
        self.identity
            .api
            .as_ref()
            .is_some_and(|api| api.watches_too_many())
    }

    /// Returns the hot loops among its keys.
    pub fn loops(&self) -> &HotLoops {
        &self.loops
    }

    /// Returns the number of keys queued for a controller, including watched objects not mapped to
    /// keys yet.
    pub fn queued(&self, name: &str) -> usize {
        self.controllers.get(name).map_or(0, |running| {
            let mapped = running.stages.iter().map(MapStage::queued).sum::<usize>();
            let named = running
                .backlogs
                .iter()
                .map(|backlog| backlog.len())
                .sum::<usize>();
            running.controller.queue().len() + mapped + named
        })
    }

    /// Returns the running controllers.
    pub fn controllers(&self) -> impl Iterator<Item = &Arc<Controller>> {
        self.controllers.values().map(|running| &running.controller)
    }
}

/// Checks that the spec is one for this kind of component.
fn check_spec(setup: &Setup<'_>) -> Result<(), SetupError> {
    let spec = setup.spec;
    let shards = spec.shards.unwrap_or(1);
    let message = match &**setup.component {
        Component::Plugin(_) if spec.process.is_some() => {
            "spec.process is set, but the component is no process: the host calls its reconciler".to_owned()
        }
        Component::Process(_) if shards > 1 => {
            format!("spec.shards is {shards}, but the component is a process, which runs once")
        }
        Component::Process(_) if !spec.controllers.is_empty() => {
            "spec.controllers is set, but the component is a process, which runs its own controllers".to_owned()
        }
        _ => return check_finalizers(setup),
    };
    let problem = Problem::new(reasons::SPEC_MISMATCH, message);
    Err(SetupError::Refused(problem))
}

/// Checks the names in `spec.process.finalizers`.
fn check_finalizers(setup: &Setup<'_>) -> Result<(), SetupError> {
    let process = setup.spec.process.iter();
    for (at, of_kind) in process.flat_map(|process| process.finalizers.iter().enumerate()) {
        let checked = of_kind.group_version_kind().check();
        checked.map_err(|(field, message)| {
            let message = format!("spec.process.finalizers[{at}].{field}: {message}");
            SetupError::Refused(Problem::new(reasons::INVALID_PLUGIN, message))
        })?;
    }
    Ok(())
}

/// Lets a process end in its grace period.
fn end(process: RunningProcess) {
    tokio::spawn(async move { process.supervisor.stop().await });
}

impl RunningController {
    /// Reports whether a key is queued or has failed, or is that of an existing object.
    fn has(&self, key: &ObjectKey) -> bool {
        let informers = self.views.iter().map(|watching| watching.view.informer());
        let mut own = informers.filter(|informer| informer.resource.kind == self.kind);
        self.controller.queue().has(key) || own.any(|informer| informer.cache.get(key).is_some())
    }

    fn stop(self, grace: Duration) {
        drop(self.views);
        MapStage::stop_all(self.stages, grace);
        tokio::spawn(async move { timeout(grace, self.controller.stop()).await.is_ok() });
    }
}
