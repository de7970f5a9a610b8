//! The host: what all plugins share, and the controllers that look after them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use operetta_core::{
    authz::access_review::{Grants, ServiceAccount, SubjectGrants},
    conflict::Fights,
    controller::{
        Controller, Observer,
        request::{Action, Failure, ReconcileRequest},
    },
    gate::{
        operation::{Operation, OperationAction, Read, Reply},
        throttle::CallRate,
    },
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::{ObjectApi, Reconciler},
    queue::{Priority, WorkQueue},
    status::{ApiError, ErrorKind},
};
use operetta_kube::{
    authz::access_review::{RightsWatch, SubjectAccessReviews},
    client::{
        object_api::PluginApi,
        wire::{Identity, Wire},
    },
    discovery::Discovery,
    events::recorder::EventRecorder,
    informer::{Informer, Scope, Subscription, Timing, registry::InformerRegistry},
    store::Lookup,
};
use operetta_scheduler::{Account, Background, FairScheduler};
use operetta_wasm::Engine;
use tokio::task::JoinSet;

use crate::{
    admin::informers::ServerRevisions,
    authz::consent::NAMESPACE_LABEL,
    config::HostConfig,
    conflict::FightReporter,
    logs::{audit::AuditLog, store::LogStore},
    metrics::{Metrics, informers::InformerMetrics},
    plugin::{
        crd, drop_in::DropInController, health::Health, hot_loop::LoopReporter, reconcile::PluginController,
        slot::Slot, source::artifact::PLUGIN_LABEL, source::parts::PART_OF,
    },
    tenancy::cache_quota,
};

/// Lets several quick changes of a plugin's health become one look.
const SETTLE: Duration = Duration::from_millis(500);

/// Everything that plugins share.
pub struct Host {
    /// As configured.
    pub config: HostConfig,
    /// Plugins' requests go out over it, under their own identities.
    pub client: Client,
    /// Kinds and resources.
    pub discovery: Arc<Discovery>,
    /// Shared watches.
    pub registry: Arc<InformerRegistry>,
    /// The sandbox.
    pub engine: Engine,
    /// The plugins' logs.
    pub logs: LogStore,
    /// For Prometheus.
    pub metrics: Arc<Metrics>,
    /// Where plugins' writes are recorded.
    pub audit: Arc<AuditLog>,
    /// Those among them that fight.
    pub fights: Arc<Fights>,
    /// Who runs next.
    fair: Arc<FairScheduler>,
    /// Where those run that take long.
    _background: Background,
    /// Requests of each namespace's plugins together.
    call_rates: Mutex<HashMap<String, Option<Arc<CallRate>>>>,
    /// What plugins may see.
    pub grants: Arc<Grants>,
    /// The host's own reads and writes.
    pub api: Arc<PluginApi>,
    /// The host's own Events.
    pub recorder: Arc<EventRecorder>,
    slots: Mutex<HashMap<ObjectKey, Arc<Slot>>>,
    /// The ConfigMap that was read last and that somebody else needs next.
    handed_on: Mutex<Option<ConfigMap>>,
    /// Set once by [`Host::start`].
    started: OnceLock<Started>,
    admin_address: OnceLock<String>,
    /// What informers have done, also those that have ended.
    pub informer_metrics: InformerMetrics,
    /// How far the API server is, for those who look at the informers.
    pub server_revisions: ServerRevisions,
}

/// The host's own controllers and what they watch.
struct Started {
    plugins: Arc<Informer>,
    config_maps: Arc<Informer>,
    parts: Arc<Informer>,
    /// Those that take part.
    namespaces: Arc<Informer>,
    /// Without those named `default`.
    service_accounts: Arc<Informer>,
    _rights: RightsWatch,
    /// Looks whose memory the cache is; ends with this.
    _cache: JoinSet<()>,
    plugin_controller: Arc<Controller>,
    drop_in_controller: Arc<Controller>,
    /// What puts keys into the two queues; made after the rest, because it asks for it.
    subscriptions: Mutex<Vec<Subscription>>,
}

/// Logs the failures of the host's own reconciles.
struct HostObserver(&'static str);

impl Observer for HostObserver {
    fn reconciled(&self, request: &ReconcileRequest, result: &Result<Action, Failure>, took: Duration, retries: u32) {
        if let Err(error) = result {
            tracing::warn!(controller = self.0, key = %request.key, %error, retries, ?took, "reconcile failed");
        }
    }
}

async fn read(api: &PluginApi, kind: &GroupVersionKind, key: &ObjectKey) -> Result<Arc<Object>, ApiError> {
    let action = OperationAction::Get { key: key.clone(), read: Read::Live };
    match api.call(Operation { kind: kind.clone(), action }).await? {
        Reply::Object(object) | Reply::Unchanged(object) => Ok(object),
        Reply::Page(_) | Reply::Done => Err(ApiError::new(ErrorKind::Other, "the answer to a get is no object")),
    }
}

impl Host {
    /// A host that does nothing yet.
    pub fn new(client: Client, config: HostConfig) -> Result<Arc<Self>> {
        let wire = Wire::new(client.clone(), &Identity::Host)?;
        let discovery = Discovery::new(wire.clone());
        let registry = InformerRegistry::with(wire.clone(), Timing::default(), config.cache_compression);
        let api = PluginApi::of_host(wire.clone(), discovery.clone(), registry.clone(), "operetta".to_owned());
        let grants = Grants::new(Arc::new(SubjectAccessReviews::new(wire.clone())));
        let recorder = EventRecorder::start(wire, "operetta".to_owned());
        let metrics = Metrics::new();
        let slots = crate::fair_slots();
        let background = Background::start(slots).context("the threads for plugins that run for long do not start")?;
        let fair = FairScheduler::with_background(slots, background.handle().clone());
        let reporter =
            FightReporter { events: recorder.clone(), metrics: metrics.clone(), informers: registry.clone() };
        Ok(Arc::new(Self {
            fights: Fights::new(Arc::new(reporter)),
            audit: Arc::new(AuditLog::open(config.audit_file.as_deref())?),
            engine: Engine::with_code(&config.engine(), config.code()?)?,
            config,
            client,
            discovery,
            registry,
            logs: LogStore::default(),
            metrics,
            fair,
            _background: background,
            call_rates: Mutex::default(),
            grants,
            api,
            recorder,
            slots: Mutex::default(),
            handed_on: Mutex::default(),
            started: OnceLock::new(),
            admin_address: OnceLock::new(),
            informer_metrics: InformerMetrics::default(),
            server_revisions: ServerRevisions::default(),
        }))
    }

    /// Starts to look after Plugins; waits for their CRD, and says so. `admin_address` is where the host answers.
    pub async fn start(self: &Arc<Self>, admin_address: String) -> Result<()> {
        let _first = self.admin_address.set(admin_address);
        let kind = |api_version: &str, kind: &str| GroupVersionKind::new(api_version, kind);
        let crds = self.served(&kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")).await?;
        let metadata = |labels: &str| Scope { labels: labels.to_owned(), metadata_only: true, ..Scope::everything() };
        let discovery = self.discovery.clone();
        let crds =
            self.registry.informer(&crds, metadata("")).subscribe(Arc::new(move |_| discovery.invalidate()), None);

        let plugin_kind = kind(crd::API_VERSION, crd::KIND);
        if self.discovery.resolve(&plugin_kind).await.is_err() {
            tracing::warn!("waiting for the CRD plugins.operetta.dev: kubectl apply -f deploy/crd/");
        }
        let plugins = self.discovery.wait_for(&plugin_kind).await;
        let plugins = self.registry.informer(&plugins, Scope::everything());
        let config_maps = self.served(&kind("v1", "ConfigMap")).await?;
        let parts = self.registry.informer(&config_maps, metadata(PART_OF));
        let config_maps = self.registry.informer(&config_maps, metadata(&format!("{PLUGIN_LABEL}=true")));

        let namespaces = self.served(&kind("v1", "Namespace")).await?;
        let namespaces = self.registry.informer(&namespaces, metadata(&format!("{NAMESPACE_LABEL}=enabled")));
        self.registry.reach.choose_from(namespaces.clone());
        let service_accounts = self.served(&kind("v1", "ServiceAccount")).await?;
        let not_default = Scope { fields: "metadata.name!=default".to_owned(), ..metadata("") };
        let service_accounts = self.registry.informer(&service_accounts, not_default);
        let rights = RightsWatch::start(&self.grants, &self.discovery, &self.registry).await?;

        let mut cache = JoinSet::new();
        cache.spawn(cache_quota::watch(Arc::downgrade(self)));
        let new = |name: &'static str, reconciler: Arc<dyn Reconciler>| {
            Controller::new(name, WorkQueue::new(), reconciler, Arc::new(HostObserver(name)))
        };
        let plugin_controller = new("plugin", PluginController::new(self.clone()));
        let drop_in_controller = new("drop-in", DropInController::new(self.clone()));
        let started = Started {
            plugins: plugins.clone(),
            config_maps: config_maps.clone(),
            parts: parts.clone(),
            namespaces: namespaces.clone(),
            service_accounts: service_accounts.clone(),
            _rights: rights,
            _cache: cache,
            plugin_controller,
            drop_in_controller,
            subscriptions: Mutex::new(vec![crds]),
        };
        let started = self.started.get_or_init(|| started);
        let on_plugin = self.on_plugin(&started.plugin_controller, &started.drop_in_controller);
        let on_config_map = self.on_config_map(&started.drop_in_controller);
        let subscriptions = [
            plugins.subscribe(on_plugin, None),
            config_maps.subscribe(on_config_map, None),
            parts.subscribe(self.on_part(), None),
            namespaces.subscribe(self.on_namespace(&started.drop_in_controller), None),
            service_accounts.subscribe(self.on_service_account(), None),
        ];
        started.subscriptions.lock().unwrap_or_else(PoisonError::into_inner).extend(subscriptions);
        // Most of what they do is waiting: for the API server, or for a plugin to be compiled.
        started.plugin_controller.start(8);
        started.drop_in_controller.start(1);
        Ok(())
    }

    async fn served(&self, kind: &GroupVersionKind) -> Result<Arc<operetta_kube::discovery::ApiResource>> {
        let what = || format!("the API server does not answer for {kind}");
        tokio::time::timeout(Duration::from_secs(60), self.discovery.wait_for(kind)).await.with_context(what)
    }

    /// A namespace, as far as it exists.
    ///
    /// # Errors
    /// What the API server said.
    ///
    /// # Panics
    /// As [`Host::plugins`].
    pub async fn namespace(&self, name: &str) -> Result<Option<Arc<Object>>, ApiError> {
        let namespaces = &self.started.get().expect("only started controllers ask").namespaces;
        self.known_or_read(namespaces, &ObjectKey::cluster(name)).await
    }

    /// A ServiceAccount that is not a namespace's default one.
    ///
    /// # Errors
    /// What the API server said.
    ///
    /// # Panics
    /// As [`Host::plugins`].
    pub async fn service_account(&self, account: &ServiceAccount) -> Result<Option<Arc<Object>>, ApiError> {
        let accounts = &self.started.get().expect("only started controllers ask").service_accounts;
        self.known_or_read(accounts, &ObjectKey::namespaced(&account.namespace, &account.name)).await
    }

    /// From an informer, or from the API server when it is not there: what was applied a moment ago together with a
    /// Plugin is not reported as missing.
    async fn known_or_read(&self, informer: &Informer, key: &ObjectKey) -> Result<Option<Arc<Object>>, ApiError> {
        informer.synced().await;
        if let Some(known) = informer.cache.get(key) {
            return Ok(Some(known));
        }
        match self.read(&informer.resource.kind, key).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// A ConfigMap, whole, from the API server: the informer has its metadata only.
    ///
    /// # Errors
    /// What the API server said.
    pub async fn config_map(&self, key: &ObjectKey) -> Result<ConfigMap, ApiError> {
        let object = self.read(&GroupVersionKind::new("v1", "ConfigMap"), key).await?;
        serde_json::from_str(object.json())
            .map_err(|error| ApiError::new(ErrorKind::Other, format!("ConfigMap {key}: {error}")))
    }

    /// Keeps a ConfigMap that was just read, for who asks for this version of it next. They are large, and each read of one
    /// takes time. There is one such place.
    pub fn hand_on(&self, config_map: ConfigMap) {
        *self.handed_on.lock().unwrap_or_else(PoisonError::into_inner) = Some(config_map);
    }

    /// The ConfigMap of this metadata, or a later version: the one handed on, or read as by [`Self::config_map`].
    ///
    /// # Errors
    /// What the API server said.
    pub async fn config_map_of(&self, metadata: &Object) -> Result<ConfigMap, ApiError> {
        let same = |kept: &mut ConfigMap| {
            let of = &kept.metadata;
            of.uid.as_deref() == Some(metadata.uid())
                && of.resource_version.as_deref() == Some(metadata.resource_version())
        };
        let kept = self.handed_on.lock().unwrap_or_else(PoisonError::into_inner).take_if(same);
        match kept {
            Some(kept) => Ok(kept),
            None => self.config_map(metadata.key()).await,
        }
    }

    async fn read(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Result<Arc<Object>, ApiError> {
        read(&self.api, kind, key).await
    }

    /// An object, from the API server, as a ServiceAccount may read it.
    ///
    /// # Errors
    /// What the API server said.
    pub async fn read_as(
        &self,
        grants: &SubjectGrants,
        kind: &GroupVersionKind,
        key: &ObjectKey,
    ) -> Result<Arc<Object>, ApiError> {
        let (discovery, registry) = (self.discovery.clone(), self.registry.clone());
        let (grants, manager) = (grants.clone(), String::new());
        let api = PluginApi::of_plugin(self.client.clone(), discovery, registry, grants, Arc::default(), manager)?;
        read(&api, kind, key).await
    }

    /// Puts a Plugin into the queue of those to look at. Several calls within a moment are one look.
    pub fn look_at(&self, plugin: &ObjectKey) {
        if let Some(started) = self.started.get() {
            started.plugin_controller.enqueue(plugin.clone(), Priority::Normal);
        }
    }

    /// The same, later.
    pub fn look_at_after(&self, plugin: &ObjectKey, delay: Duration) {
        if let Some(started) = self.started.get() {
            started.plugin_controller.queue().add_after(plugin.clone(), delay);
        }
    }

    /// The informer of Plugins.
    ///
    /// # Panics
    /// Before [`Host::start`]: only its controllers ask.
    pub fn plugins(&self) -> &Arc<Informer> {
        &self.started.get().expect("only started controllers ask").plugins
    }

    /// The informer of ConfigMaps that are dropped in: metadata only.
    ///
    /// # Panics
    /// As [`Host::plugins`].
    pub fn labelled_config_maps(&self) -> &Arc<Informer> {
        &self.started.get().expect("only started controllers ask").config_maps
    }

    /// The versions of a ConfigMap's further parts, in one text that changes when any of them does.
    ///
    /// # Panics
    /// As [`Host::plugins`].
    pub async fn versions_of_parts(&self, first: &ObjectKey) -> String {
        let parts = &self.started.get().expect("only started controllers ask").parts;
        parts.synced().await;
        let found = parts.cache.store.list(&Lookup::All, first.namespace.as_deref(), None);
        let of_this = found.filter(|part| part.label(PART_OF) == Some(&first.name));
        of_this.map(|part| format!(" {}/{}", part.uid(), part.resource_version())).collect()
    }

    /// A plugin's share of the processors, within its namespace's.
    pub fn account(&self, namespace: &str) -> Arc<Account> {
        let quotas = &self.config.quotas;
        self.fair.group(namespace, quotas.of_namespace(namespace).share()).account(quotas.plugin.share())
    }

    /// The quotas of requests that a plugin is held to: its own, a new one, and its namespace's.
    pub fn call_rates(&self, namespace: &str) -> Vec<Arc<CallRate>> {
        let quotas = &self.config.quotas;
        let mut kept = self.call_rates.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = || quotas.of_namespace(namespace).call_rate().map(Arc::new);
        let shared = kept.entry(namespace.to_owned()).or_insert_with(begin).clone();
        quotas.plugin.call_rate().map(Arc::new).into_iter().chain(shared).collect()
    }

    /// Whether the host looks after Plugins.
    pub fn is_ready(&self) -> bool {
        let synced = |started: &Started| {
            [&started.plugins, &started.config_maps].iter().all(|informer| informer.state().borrow().synced)
        };
        self.started.get().is_some_and(synced)
    }

    /// Where the host answers.
    pub fn admin_address(&self) -> String {
        self.admin_address.get().cloned().unwrap_or_default()
    }

    /// How long reconciles in flight get when their plugin stops.
    pub fn shutdown_time(&self) -> Duration {
        Duration::from_secs(self.config.shutdown_seconds)
    }

    /// What is kept of a Plugin, begun if there is nothing.
    pub fn slot(self: &Arc<Self>, plugin: &ObjectKey) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = || {
            let log = self.logs.of(plugin, self.config.plugin_log_level.into());
            let (host, key) = (Arc::downgrade(self), plugin.clone());
            let changed = Box::new(move || {
                if let Some(host) = host.upgrade() {
                    host.look_at_after(&key, SETTLE);
                }
            });
            let informers = self.registry.clone();
            let known = Box::new(move |kind: &GroupVersionKind, key: &ObjectKey| {
                let found = informers.of_kind(kind).into_iter().find_map(|informer| informer.cache.get(key));
                found.map(|object| object.uid().to_owned())
            });
            let loops = LoopReporter { events: self.recorder.clone(), known };
            let health = Health::new(plugin.clone(), log.clone(), self.metrics.clone(), loops, changed);
            Slot::new(log, health)
        };
        slots.entry(plugin.clone()).or_insert_with(begin).clone()
    }

    /// What is kept of all Plugins.
    pub fn slots(&self) -> Vec<(ObjectKey, Arc<Slot>)> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.iter().map(|(key, slot)| (key.clone(), slot.clone())).collect()
    }

    /// Stops a Plugin that is gone and drops what was kept of it.
    pub async fn forget(&self, plugin: &ObjectKey) {
        let slot = self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(plugin);
        if let Some(slot) = slot {
            if let Some(running) = slot.state.lock().await.running.take() {
                running.stop(self.shutdown_time());
            }
            self.logs.remove(plugin);
            tracing::info!(%plugin, "stopped");
        }
    }

    /// Takes no new keys and waits for the reconciles in flight.
    pub async fn stop(&self) {
        if let Some(started) = self.started.get() {
            let host_controllers = async {
                tokio::join!(started.plugin_controller.stop(), started.drop_in_controller.stop());
            };
            // A plugin that compiles is not waited for.
            let _in_time = tokio::time::timeout(self.shutdown_time(), host_controllers).await;
        }
        let mut stops = JoinSet::new();
        for (_, slot) in self.slots() {
            if let Some(running) = slot.state.lock().await.running.take() {
                stops.spawn(running.stop_and_wait(self.shutdown_time()));
            }
        }
        stops.join_all().await;
    }
}
