//! A plugin at work: its controllers, what they subscribe to, and how new code takes over with nothing lost.
//!
//! [`Running::update`] is used for the first start and for every change after it. Queues outlive the change; in-flight
//! reconciles end on the old code; the new subscriptions are made before the old ones go, so no watch that both need
//! ends; and because a new subscription is told of the whole store, every key is reconciled by the new code.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use operetta_core::{
    authz::{
        access_review::{Grants, ServiceAccount, SubjectGrants},
        recorded_permissions::{Need, Observed},
    },
    controller::Controller,
    gate::{
        Gate, Shared,
        audit::{Audit, Writer},
        operation::Verb,
        throttle::Throttle,
    },
    handler::{EventHandler, Target, event::Event},
    hot_loop::HotLoops,
    manifest,
    object::{ObjectKey, kind::GroupVersionKind},
    ports::Reconciler,
    queue::{BucketRateLimiter, ItemExponentialFailureRateLimiter, MaxOfRateLimiter, Priority, WorkQueue},
    status::ApiError,
};
use operetta_kube::{
    authz::{
        filtered_view::View,
        required_permissions::{Call, NotedEvents},
        watch_scope,
    },
    client::{
        object_api::{PluginApi, Refusal, Watched},
        wire::Wire,
    },
    events::recorder::EventRecorder,
    informer::Informer,
};
use operetta_scheduler::{Account, FairReconciler};
use operetta_wasm::{Plugin as Component, PluginMapper, PluginReconciler};
use tokio::task::JoinSet;

use crate::plugin::{
    crd::{ConfigSource, PluginSpec, Usage},
    health::Health,
    mapping_stage::{MapStage, Mapping},
    status::Problem,
    wiring::{Placed, Wiring, overridden, wire_up},
};
use crate::{logs::store::PluginLog, manager::Host};

/// A plugin's controllers.
pub struct Running {
    controllers: BTreeMap<String, RunningController>,
    /// Kept while the identity stays: it remembers which Events were written.
    recorder: Option<(ServiceAccount, Arc<EventRecorder>)>,
    /// As whom the plugin acts, and the gate that its reconciles pass.
    gate: Option<(SubjectGrants, Arc<Gate>)>,
    /// Behind that gate.
    api: Option<Arc<PluginApi>>,
    /// What it uses of the host, whatever code it runs.
    metered: Option<Metered>,
    /// What its calls need of RBAC, whatever code it runs.
    observed: Arc<Observed>,
    /// Which of its keys loop, whatever code it runs.
    loops: Arc<HotLoops>,
    /// Where the host watches for each of its sources.
    placed: Vec<Placed>,
    /// Tell the host when an informer's state changes; they end with this.
    watchers: JoinSet<()>,
}

/// What a plugin is charged for, and held to.
#[derive(Clone)]
pub struct Metered {
    /// Processor time.
    pub account: Arc<Account>,
    /// Calls.
    pub throttle: Throttle,
}

impl Metered {
    /// For the Plugin's status.
    pub fn usage(&self, cached_bytes: u64) -> Usage {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let millis = u64::try_from(self.account.usage().polled.as_millis()).unwrap_or(u64::MAX);
        Usage {
            cpu_milliseconds: number(millis),
            peak_memory_bytes: number(self.throttle.meter.peak_memory_bytes.load(Ordering::Relaxed)),
            calls: number(Verb::ALL.iter().map(|verb| self.throttle.meter.calls(*verb)).sum()),
            cached_bytes: number(cached_bytes),
        }
    }
}

struct RunningController {
    controller: Arc<Controller>,
    views: Vec<Watching>,
    /// Of the kinds that the plugin maps itself.
    stages: Vec<MapStage>,
    limiter: manifest::RateLimiter,
}

/// What a controller sees of an informer.
pub struct Watching {
    /// What RBAC lets the plugin see.
    pub view: View,
    /// Whether it is one namespace's part of a source that is about all of them.
    pub part: bool,
}

/// What is needed to set a plugin up.
pub struct Setup<'a> {
    /// The host.
    pub host: &'a Arc<Host>,
    /// The Plugin's key.
    pub key: &'a ObjectKey,
    /// The Plugin's spec.
    pub spec: &'a PluginSpec,
    /// What the plugin reads as its configuration: JSON text.
    pub config: Arc<str>,
    /// The code.
    pub component: &'a Arc<Component>,
    /// Where it logs.
    pub log: &'a Arc<PluginLog>,
    /// Who is told of reconciles.
    pub health: &'a Arc<Health>,
    /// As whom it acts, and what it may see.
    pub grants: SubjectGrants,
}

/// Why a plugin is not set up.
pub enum SetupError {
    /// Nothing can be done until the Plugin or its code changes.
    Refused(Problem),
    /// The API server does not answer; worth another try.
    Unavailable(ApiError),
}

impl Running {
    /// One without controllers, held to what the host says of loops.
    pub fn new(host: &Host) -> Self {
        Self {
            controllers: BTreeMap::new(),
            recorder: None,
            gate: None,
            api: None,
            metered: None,
            observed: Arc::default(),
            loops: HotLoops::with_rounds(host.config.hot_loop_rounds),
            placed: Vec::new(),
            watchers: JoinSet::new(),
        }
    }

    /// Makes the controllers what the component's manifest says. Returns the kinds that are not served: their
    /// controllers do not run yet.
    pub async fn update(&mut self, setup: &Setup<'_>) -> Result<Vec<GroupVersionKind>, SetupError> {
        let manifest = setup.component.manifest();
        let controllers = overridden(&manifest.controllers, &setup.spec.controllers).map_err(SetupError::Refused)?;
        let mut missing = Vec::new();
        let (mut wired, mut placed) = (Vec::new(), Vec::new());
        for declared in &controllers {
            let kinds_missing = missing.len();
            let (wiring, places) = wire_up(setup, declared, &mut missing).await?;
            placed.extend(places);
            if missing.len() == kinds_missing {
                wired.push((declared, wiring));
            }
        }
        missing.sort();
        missing.dedup();

        let manager = format!("operetta:{}", setup.key);
        let (discovery, registry) = (setup.host.discovery.clone(), setup.host.registry.clone());
        let (client, observed) = (setup.host.client.clone(), self.observed.clone());
        let api = PluginApi::of_plugin(client, discovery, registry, setup.grants.clone(), observed, manager.clone())
            .map_err(|error| SetupError::Refused(Problem::new("InvalidServiceAccount", error.status.message)))?;
        let informers = wired.iter().flat_map(|(_, wiring)| wiring).map(|wiring| wiring.informer.clone()).collect();
        api.watch(Watched { informers, indexes: manifest.indexes.clone() });
        for (kind, reference) in setup.spec.config_from.iter().filter_map(ConfigSource::chosen) {
            // The host has read it already.
            let need = Need::resource("get", "", kind.resource(), setup.key.namespace.as_deref());
            self.observed.note(&need, Some(&reference.name));
        }
        let recorder = self.recorder(setup.grants.subject(), api.wire().clone(), setup.key);
        let events = Arc::new(NotedEvents::new(recorder, self.observed.clone()));
        let (call_limits, gate_limits) = setup.host.config.limits(&setup.spec.limits);
        let namespace = setup.key.namespace.as_deref().unwrap_or_default();
        let metered = self.metered.get_or_insert_with(|| Metered {
            account: setup.host.account(namespace),
            throttle: Throttle { rates: setup.host.call_rates(namespace), meter: Arc::default() },
        });
        let writer = Writer {
            plugin: setup.key.clone(),
            digest: setup.component.digest().to_owned(),
            service_account: setup.grants.subject().user(),
            field_manager: manager,
        };
        let shared = Shared {
            throttle: metered.throttle.clone(),
            audit: Some(Audit { writer, sink: setup.host.audit.clone(), fights: setup.host.fights.clone() }),
            loops: Some(self.loops.clone()),
            ambient: None,
        };
        api.throttle_by(metered.throttle.clone());
        self.api = Some(api.clone());
        let mapping = Gate::mapping(setup.log.clone(), setup.config.clone(), gate_limits.clone(), shared.clone());
        let gate = Gate::sharing(api, events, setup.log.clone(), setup.config.clone(), gate_limits, shared);
        if let Some((before, old)) = self.gate.replace((setup.grants.clone(), gate.clone()))
            && before.subject() != setup.grants.subject()
        {
            // Nobody looks any more whether the one before still consents.
            old.close("the plugin acts as another ServiceAccount now");
        }
        let mapper = PluginMapper::new(setup.component.clone(), mapping, &call_limits);
        let mut reconciler = PluginReconciler::new(setup.component.clone(), gate, call_limits);
        if let Some(warm) = &setup.spec.runtime.warm {
            reconciler = reconciler.keep_warm(warm.limits());
        }
        let account = metered.account.clone();
        let mapping = mapper.map(|mapper| Mapping { mapper: Arc::new(mapper), account: account.clone() });
        let reconciler: Arc<dyn Reconciler> = Arc::new(FairReconciler::new(Arc::new(reconciler), account));
        self.placed = placed;
        self.take_over(setup, wired, &reconciler, mapping.as_ref());
        Ok(missing)
    }

    fn take_over(
        &mut self,
        setup: &Setup<'_>,
        wired: Vec<(&manifest::Controller, Vec<Wiring>)>,
        reconciler: &Arc<dyn Reconciler>,
        mapping: Option<&Mapping>,
    ) {
        let mut before = std::mem::take(&mut self.controllers);
        self.watchers = JoinSet::new();
        if self.placed.iter().any(Placed::is_narrow) {
            self.watchers.spawn(tell_of_rights(setup.grants.changes(), setup.host.clone(), setup.key.clone()));
        }
        for (declared, wiring) in wired {
            let limiter = declared.rate_limiter.unwrap_or_default();
            setup.health.reconciles(&declared.name, declared.for_.group_version_kind());
            let mut old = before.remove(&declared.name);
            let controller = match &old {
                Some(old) => {
                    old.controller.swap(reconciler.clone());
                    if old.limiter != limiter {
                        old.controller.queue().set_rate_limiter(rate_limiter(&limiter));
                    }
                    old.controller.clone()
                }
                None => Controller::with_loops(
                    declared.name.clone(),
                    WorkQueue::with_rate_limiter(rate_limiter(&limiter)),
                    reconciler.clone(),
                    setup.health.clone(),
                    &self.loops,
                ),
            };
            let resync = Some(declared.resync_seconds).filter(|seconds| *seconds > 0);
            let resync = resync.map(|seconds| Duration::from_secs(seconds.into()));
            // Before the stages, which have as many.
            controller.set_workers(declared.workers);
            let mut stages_before = old.as_mut().map(|old| std::mem::take(&mut old.stages)).unwrap_or_default();
            let mut stages = Vec::new();
            let views = wiring.into_iter().map(|Wiring { kind, informer, handler, part }| {
                let only = handler.namespace.clone();
                let enqueue = match (&handler.target, mapping) {
                    (Target::Custom(rules), Some(mapping)) => {
                        let (rules, told) = (rules.clone(), (&limiter, setup.health));
                        let stage = MapStage::take_over(&mut stages_before, &kind, &controller, rules, mapping, told);
                        let handler = stage.handler(handler, setup.log);
                        stages.push(stage);
                        handler
                    }
                    _ => enqueue_on(&controller, handler),
                };
                let view = View::open(&informer, setup.grants.clone(), only, enqueue, resync);
                self.watchers.spawn(tell_changes(informer.state(), setup.host.clone(), setup.key.clone()));
                self.watchers.spawn(tell_changes(view.state(), setup.host.clone(), setup.key.clone()));
                Watching { view, part }
            });
            let views = views.collect();
            let running = RunningController { controller, views, stages, limiter };
            self.controllers.insert(declared.name.clone(), running);
            // `old` goes only now: what both watch was never without a user.
            drop(old);
            stop_stages(stages_before, setup.host.shutdown_time());
        }
        before.into_values().for_each(|old| old.stop(setup.host.shutdown_time()));
    }

    fn recorder(&mut self, account: &ServiceAccount, wire: Wire, key: &ObjectKey) -> Arc<EventRecorder> {
        match &self.recorder {
            Some((kept, recorder)) if kept == account => recorder.clone(),
            _ => {
                let recorder = EventRecorder::start(wire, key.name.clone());
                self.recorder = Some((account.clone(), recorder.clone()));
                recorder
            }
        }
    }

    /// Lets nothing that its reconciles do reach the API server or a cache any more, and says why.
    pub fn close(&self, why: &str) {
        if let Some((_, gate)) = &self.gate {
            gate.close(why);
        }
    }

    /// Ends everything: no new reconcile begins, watches that nobody else needs end now, and reconciles in flight get
    /// `grace` to end.
    pub fn stop(self, grace: Duration) {
        self.controllers.into_values().for_each(|controller| controller.stop(grace));
    }

    /// As [`Running::stop`], but waits for the reconciles in flight.
    pub async fn stop_and_wait(self, grace: Duration) {
        let mut stops = JoinSet::new();
        for RunningController { controller, views, stages, .. } in self.controllers.into_values() {
            drop(views);
            for stage in stages {
                stops.spawn(async move { tokio::time::timeout(grace, stage.stop()).await.is_ok() });
            }
            stops.spawn(async move { tokio::time::timeout(grace, controller.stop()).await.is_ok() });
        }
        stops.join_all().await;
    }

    /// What a controller sees; nothing when it does not run.
    pub fn views(&self, controller: &str) -> impl Iterator<Item = &Watching> {
        let views = self.controllers.get(controller).map(|running| running.views.as_slice());
        views.unwrap_or_default().iter()
    }

    /// What RBAC forbade last.
    pub fn refusal(&self) -> Option<Refusal> {
        self.api.as_ref()?.refusal()
    }

    /// Its way to the API server, and what it watches needs of RBAC; None before it was set up.
    pub fn rights(&self) -> Option<(Arc<PluginApi>, Vec<Call>)> {
        let views = self.controllers.values().flat_map(|running| &running.views);
        Some((self.api.clone()?, views.flat_map(|watching| watching.view.rights()).collect()))
    }

    /// The informers that answer it: those that its controllers watch, and those that its reads have started.
    pub fn informers(&self) -> (Vec<Arc<Informer>>, Vec<Arc<Informer>>) {
        self.api.as_ref().map(|api| api.informers()).unwrap_or_default()
    }

    /// The informers that its controllers are told by, each as often as they subscribe to it.
    pub fn subscribed(&self) -> impl Iterator<Item = &Arc<Informer>> {
        self.controllers.values().flat_map(|running| &running.views).map(|of| of.view.informer())
    }

    /// Whether the rights of the host have changed so that its sources are to be watched elsewhere. Nobody is asked as long
    /// as all of them are watched in all namespaces and the host may do that.
    pub async fn is_elsewhere(&self, setup: &Setup<'_>) -> bool {
        let may = |informer: &Arc<Informer>| !informer.state().borrow().forbidden;
        if !self.placed.iter().any(Placed::is_narrow) && self.subscribed().all(may) {
            return false;
        }
        for placed in &self.placed {
            if placed.is_elsewhere(setup).await {
                return true;
            }
        }
        false
    }

    /// Lets the API server answer reads of what its controllers do not watch, until it is set up anew.
    pub fn read_live(&self) {
        if let Some(api) = &self.api {
            api.read_live();
        }
    }

    /// Whether [`Self::read_live`] is in effect.
    pub fn reads_live(&self) -> bool {
        self.api.as_ref().is_some_and(|api| api.reads_live())
    }

    /// Which of its keys loop.
    pub fn loops(&self) -> &HotLoops {
        &self.loops
    }

    /// What it has used; None before it was set up.
    pub fn metered(&self) -> Option<&Metered> {
        self.metered.as_ref()
    }

    /// How many keys wait for a controller, and watched objects to be mapped to some.
    pub fn queued(&self, name: &str) -> usize {
        self.controllers.get(name).map_or(0, |running| {
            running.controller.queue().len() + running.stages.iter().map(MapStage::waiting).sum::<usize>()
        })
    }

    /// The controllers that run.
    pub fn controllers(&self) -> impl Iterator<Item = &Arc<Controller>> {
        self.controllers.values().map(|running| &running.controller)
    }
}

impl RunningController {
    fn stop(self, grace: Duration) {
        drop(self.views);
        stop_stages(self.stages, grace);
        tokio::spawn(async move { tokio::time::timeout(grace, self.controller.stop()).await.is_ok() });
    }
}

fn stop_stages(stages: Vec<MapStage>, grace: Duration) {
    for stage in stages {
        tokio::spawn(async move { tokio::time::timeout(grace, stage.stop()).await.is_ok() });
    }
}

/// Tells the host of each change of the state of an informer or a view, without keeping it.
async fn tell_changes<T>(mut state: tokio::sync::watch::Receiver<T>, host: Arc<Host>, plugin: ObjectKey) {
    while state.changed().await.is_ok() {
        host.look_at(&plugin);
    }
}

/// Tells the host when rights have changed, and the authorizer knows: its own may have.
async fn tell_of_rights(mut changes: tokio::sync::watch::Receiver<u64>, host: Arc<Host>, plugin: ObjectKey) {
    while changes.changed().await.is_ok() {
        tokio::time::sleep(Grants::SETTLE + watch_scope::KEEP).await;
        changes.mark_unchanged();
        host.look_at(&plugin);
    }
}

/// Puts the keys of an event into a controller's queue.
fn enqueue_on(controller: &Arc<Controller>, handler: EventHandler) -> operetta_kube::informer::Handler {
    let controller = controller.clone();
    Arc::new(move |event| {
        for key in handler.keys(event) {
            controller.enqueue_for(event, key, priority(event));
        }
    })
}

/// What is there already, and what a resync repeats, waits behind what has just changed.
pub(super) fn priority(event: &Event) -> Priority {
    match event {
        Event::Added { initial: true, .. } => Priority::Low,
        Event::Modified { old, object } if Arc::ptr_eq(old, object) => Priority::Low,
        _ => Priority::Normal,
    }
}

pub(super) fn rate_limiter(limiter: &manifest::RateLimiter) -> MaxOfRateLimiter<ObjectKey> {
    let manifest::RateLimiter { base_delay_ms, max_delay_ms, qps, burst } = *limiter;
    let millis = |millis: u32| Duration::from_millis(millis.into());
    MaxOfRateLimiter::new(vec![
        Box::new(ItemExponentialFailureRateLimiter::new(millis(base_delay_ms), millis(max_delay_ms))),
        Box::new(BucketRateLimiter::new(qps, burst)),
    ])
}
