//! The manager, as in controller-runtime: starts and stops the controllers for Plugins and drop-in
//! ConfigMaps.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Result;
use kube::Client;
use operetta_api::reasons;
use operetta_core::{
    controller::{
        Controller, Observer,
        request::{Action, Failure, ReconcileRequest},
    },
    handler::event::Event,
    object::{ObjectKey, kind::GroupVersionKind},
    ports::Reconciler,
    queue::WorkQueue,
    recorder::{Recorder, TraceSink},
    replicas::Fence,
    status::{ApiError, ErrorKind},
};
use operetta_kube::{
    authz::permission_watch::PermissionWatch,
    client::version::{self, OLDEST_MINOR},
    informer::{Informer, Scope, Subscription},
    store::Lookup,
};
use operetta_wasm::Engine;
use tokio::{task::JoinSet, time::timeout};

use crate::{
    authz::consent_watch,
    config::HostConfig,
    context::Context,
    crash_journal::{CrashJournal, Entry},
    identity::HostIdentity,
    metrics::Metrics,
    plugin::{
        controller::PluginController,
        crash_guard::CrashGuard,
        drop_in::DropInController,
        host_informers::{HostInformers, resolve},
        hosted_plugins::HostedPlugins,
        ownership::Ownership,
        source::{Loader, recent::RecentConfigMap},
        status::report::Reporter,
        teardown::rights::RightsController,
        triggers::Triggers,
    },
    readiness::Readiness,
    replicas::{Replicas, clock::boot_time, heartbeat::Heartbeat},
    tenancy::cache_quota,
    traces::Traces,
};

/// Delay between attempts to read Namespace kube-system and the permissions at startup.
const RETRY: Duration = Duration::from_secs(1);

/// How often to check whether all Plugins have been handed over.
const POLL: Duration = Duration::from_millis(20);

/// Timeout for reading the API server's version.
const VERSION: Duration = Duration::from_secs(1);

/// The host's own controllers.
const PLUGINS: &str = "plugin";
const DROP_INS: &str = "drop-in";
const RIGHTS: &str = "rights";

/// More than one, because they mostly wait for the API server or a compilation.
const PLUGIN_WORKERS: u32 = 8;
/// The workers of the drop-in controller, so that a slow answer holds up one namespace and not all.
const DROP_IN_WORKERS: u32 = 4;
/// The workers that keep what Plugins act with until their teardown has ended.
const RIGHTS_WORKERS: u32 = 4;

/// The manager of a host.
pub struct Manager {
    /// What all plugins share.
    pub context: Arc<Context>,
    /// The state of all Plugins.
    pub hosted_plugins: Arc<HostedPlugins>,
    /// This host as one of its replicas.
    pub replicas: Arc<Replicas>,
    /// The readiness checks.
    pub readiness: Arc<Readiness>,
    /// Traces of reconciles, if configured.
    pub traces: Option<Arc<Traces>>,
    _identity: HostIdentity,
    /// Set once by [`Manager::start`].
    started: OnceLock<Started>,
}

/// The manager's own controllers and watches.
struct Started {
    /// Renews this replica's Lease.
    _heartbeat: Heartbeat,
    journal: Arc<CrashJournal>,
    _permission_watch: PermissionWatch,
    /// Tasks such as the enforcement of the cache quota. Dropping this aborts them.
    _background: JoinSet<()>,
    plugins: Arc<Controller>,
    drop_ins: Arc<Controller>,
    rights: Arc<Controller>,
    ownership: Arc<Ownership>,
    informers: Arc<HostInformers>,
    /// The event handlers that fill the two queues, and the one for CRDs.
    _subscriptions: Vec<Subscription>,
}

/// Where a Plugin runs, if it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// This replica.
    Here,
    /// The member with this identity.
    Elsewhere(String),
    /// The hosts of another group, which this replica doesn't know: of another trust class, or
    /// installed in another namespace. It has the key of their Lease.
    OtherGroup(ObjectKey),
    /// Unknown: this replica hasn't joined the others yet.
    Unknown,
}

/// Counts the manager's own reconciles, and logs their failures.
struct OwnReconciles {
    controller: &'static str,
    metrics: Arc<Metrics>,
}

impl Observer for OwnReconciles {
    fn reconciled(
        &self,
        request: &ReconcileRequest,
        result: &Result<Action, Failure>,
        took: Duration,
        retries: u32,
    ) {
        self.metrics
            .reconciled(&host(), self.controller, result, took);
        if let Err(error) = result {
            tracing::warn!(controller = self.controller, key = %request.key, %error, retries, ?took, "reconcile failed");
        }
    }
}

impl Manager {
    /// Creates a manager that does nothing until [`Manager::start`]. To count the client's requests
    /// in `metrics`, create it with [`operetta_kube::client::connect::connect_observed`]. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// When the configuration can't be used; the message names the field.
    pub fn new(client: Client, config: HostConfig, metrics: Arc<Metrics>) -> Result<Arc<Self>> {
        let engine = Engine::with_code(&config.engine(), config.code()?)?;
        Self::with_engine(client, config, metrics, engine)
    }

    /// Like [`Manager::new`], but with a sandbox that managers can share. The configuration's
    /// fields about compiled code are ignored.
    ///
    /// # Errors
    /// When the configuration can't be used; the message names the field.
    pub fn with_engine(
        client: Client,
        config: HostConfig,
        metrics: Arc<Metrics>,
        engine: Engine,
    ) -> Result<Arc<Self>> {
        let identity = HostIdentity::take(engine.code().directory());
        let traces = Traces::start(&config.traces, identity.name())?;
        let sink = traces.clone().map(|traces| traces as Arc<dyn TraceSink>);
        let recorder = Recorder::new(config.flight_recorder.limits(), sink);
        let context = Context::new(client, config, metrics, engine, recorder)?;
        let fence = Fence::new(boot_time);
        let hosted_plugins = HostedPlugins::new(context.clone(), fence.clone(), traces.clone());
        let client = context.cluster.client.clone();
        let namespace = context.config.own_namespace();

        let replicas = Replicas::new(
            client,
            &namespace,
            context.config.class.clone(),
            identity.name(),
            context.config.replicas.clone(),
            fence,
        );
        let readiness = Readiness::new(context.clone(), replicas.clone());
        let started = OnceLock::new();

        Ok(Arc::new(Self {
            context,
            hosted_plugins,
            replicas,
            readiness,
            traces,
            _identity: identity,
            started,
        }))
    }

    /// Refuses an API server that is too old. Returns false if it doesn't respond; the readiness
    /// checks report that.
    async fn check_version(&self) -> Result<bool> {
        match timeout(VERSION, version::too_old(&self.context.cluster.client)).await {
            Ok(Ok(Some(found))) => {
                let message = format!(
                    "the API server is Kubernetes {found}, and 1.{OLDEST_MINOR} or later is needed"
                );
                Err(reasons::API_SERVER_TOO_OLD.error(message).into())
            }
            Ok(Ok(None)) => Ok(true),
            _ => Ok(false),
        }
    }

    /// Joins the group of replicas, waits for the CRD of Plugins, and starts the controllers.
    /// `admin_address` is the address of the admin endpoints; each Plugin's status shows it.
    ///
    /// # Errors
    /// When the API server is too old or doesn't serve a kind the manager needs.
    pub async fn start(&self, admin_address: String) -> Result<()> {
        let context = &self.context;
        let _first = context.admin_address.set(admin_address);

        let is_checked = self.check_version().await?;
        let heartbeat = self.replicas.start_heartbeat().await?;
        tokio::spawn(self.readiness.clone().log_changes());
        tokio::spawn(self.readiness.clone().check_sandbox());
        self.replicas.joined().await;
        // The API server didn't respond above. It does now: this replica could join.
        if !is_checked {
            self.check_version().await?;
        }

        let journal = self.open_journal().await;
        let mut subscriptions = vec![self.follow_crds().await?];
        let informers = HostInformers::start(context.clone()).await?;
        let permission_watch = self.watch_permissions().await?;

        let mut background = JoinSet::new();
        background.spawn(cache_quota::enforce(
            context.clone(),
            self.hosted_plugins.clone(),
        ));
        background.spawn(consent_watch::pause_while_stale(
            self.hosted_plugins.consent.clone(),
            informers.consent(),
        ));

        let ownership = Ownership::new(context.clone(), self.replicas.clone());
        let recent = RecentConfigMap::new(context.clone());
        let reporter = Reporter::new(context.clone(), informers.clone(), ownership.clone());
        let guard = CrashGuard::new(context.clone(), informers.clone(), journal.clone());
        let loader = Loader::new(
            context.clone(),
            informers.clone(),
            reporter,
            recent.clone(),
            guard.clone(),
        );

        context
            .metrics
            .keep_controllers(&host(), [PLUGINS, DROP_INS, RIGHTS]);
        let plugins = PluginController::new(
            context.clone(),
            informers.clone(),
            self.hosted_plugins.clone(),
            ownership.clone(),
            loader,
            guard.clone(),
        );
        let plugins = self.controller(PLUGINS, context.queue.work_queue(), plugins);
        let drop_ins = DropInController::new(
            context.clone(),
            informers.clone(),
            recent,
            guard,
            ownership.clone(),
        );
        let queue = drop_ins.queue();
        let drop_ins = self.controller(DROP_INS, queue.work_queue(), drop_ins);

        let rights = RightsController::new(context.clone(), informers.clone(), ownership.clone());
        let namespaces = rights.queue();
        let rights = self.controller(RIGHTS, namespaces.clone(), rights);

        let triggers = Triggers::new(
            context,
            &informers,
            &self.hosted_plugins,
            &ownership,
            queue,
            namespaces,
        );
        subscriptions.extend(triggers.subscribe());
        background.spawn(triggers.follow_group(self.replicas.group()));
        background.spawn(follow(self.replicas.clone(), context.clone()));
        plugins.set_workers(PLUGIN_WORKERS);
        drop_ins.set_workers(DROP_IN_WORKERS);
        rights.set_workers(RIGHTS_WORKERS);

        let started = Started {
            _heartbeat: heartbeat,
            journal,
            _permission_watch: permission_watch,
            _background: background,
            plugins,
            drop_ins,
            rights,
            ownership,
            informers: informers.clone(),
            _subscriptions: subscriptions,
        };
        let _first = self.started.set(started);
        self.readiness.watch(informers);
        Ok(())
    }

    /// Watches permissions, retrying while the API server is unreachable.
    async fn watch_permissions(&self) -> Result<PermissionWatch, ApiError> {
        let cluster = &self.context.cluster;
        loop {
            match PermissionWatch::start(&cluster.grants, &cluster.discovery, &cluster.registry)
                .await
            {
                Err(error) if error.kind == ErrorKind::Unavailable => {
                    tracing::warn!(%error, "failed to watch permissions, retrying");
                    tokio::time::sleep(RETRY).await;
                }
                other => return other,
            }
        }
    }

    /// Opens this cluster's crash journal. The uid of `kube-system` identifies the cluster.
    async fn open_journal(&self) -> Arc<CrashJournal> {
        let kind = GroupVersionKind::new("v1", "Namespace");
        let cluster = loop {
            let key = ObjectKey::cluster_scoped("kube-system");
            match self.context.cluster.get(&kind, &key).await {
                Ok(namespace) => break namespace.uid().to_owned(),
                Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Forbidden) => {
                    break String::new();
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to read Namespace kube-system, retrying");
                }
            }
            tokio::time::sleep(RETRY).await;
        };
        CrashJournal::open(self.context.engine.code().directory(), &cluster)
    }

    /// Returns the work in flight when the host crashed, if known.
    pub fn suspects(&self) -> Vec<Entry> {
        self.started
            .get()
            .map(|started| started.journal.suspects())
            .unwrap_or_default()
    }

    fn controller(
        &self,
        name: &'static str,
        queue: WorkQueue<ObjectKey>,
        reconciler: Arc<dyn Reconciler>,
    ) -> Arc<Controller> {
        let observer = OwnReconciles {
            controller: name,
            metrics: self.context.metrics.clone(),
        };
        Controller::new(name, queue, reconciler, Arc::new(observer))
    }

    /// Returns the host's own controllers, or none before they start.
    pub fn controllers(&self) -> Vec<Arc<Controller>> {
        let started = self.started.get().map(
            |Started {
                 plugins,
                 drop_ins,
                 rights,
                 ..
             }| vec![plugins.clone(), drop_ins.clone(), rights.clone()],
        );
        started.unwrap_or_default()
    }

    /// Returns the informer of Plugins, or None before it starts.
    pub fn plugins(&self) -> Option<&Arc<Informer>> {
        self.started.get().map(|started| &started.informers.plugins)
    }

    /// Returns where a Plugin runs.
    pub fn locate(&self, plugin: &ObjectKey) -> Location {
        let Some(started) = self.started.get() else {
            return Location::Unknown;
        };
        let Some(found) = started.informers.plugins.cache.store.get(plugin) else {
            return Location::Here;
        };
        if let Some(group) = started.ownership.installations.other(&found) {
            return Location::OtherGroup(group);
        }
        started
            .ownership
            .other_owner(&found)
            .map_or(Location::Here, Location::Elsewhere)
    }

    /// Returns the identities of the other members with shards of this Plugin, or none if it isn't
    /// split.
    pub fn other_shard_owners(&self, plugin: &ObjectKey) -> Vec<String> {
        let Some(started) = self.started.get() else {
            return Vec::new();
        };
        let found = started.informers.plugins.cache.store.get(plugin);
        found
            .map(|plugin| started.ownership.other_shard_owners(&plugin))
            .unwrap_or_default()
    }

    /// Keeps discovery up to date with the CRDs.
    async fn follow_crds(&self) -> Result<Subscription> {
        let cluster = &self.context.cluster;
        let kind = resolve(
            &cluster.discovery,
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
        )
        .await?;
        let discovery = cluster.discovery.clone();
        let scope = Scope {
            metadata_only: true,
            ..Scope::everything()
        };

        Ok(cluster.registry.informer(&kind, scope).subscribe(
            Arc::new(move |event: &Event| {
                if !matches!(event, Event::Added { initial: true, .. }) {
                    discovery.follow_definition(event.object().key());
                }
            }),
            None,
        ))
    }

    /// Hands all Plugins to the other replicas, if any, and waits until they have taken over, but
    /// no longer than the shutdown time.
    async fn hand_over(&self) {
        let Some(started) = self.started.get() else {
            return;
        };
        match self.replicas.begin_leaving().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                return tracing::warn!(%error, "failed to announce that this replica leaves");
            }
        }

        let plugins = &started.informers.plugins.cache.store;
        let handed_over = async {
            while plugins
                .list(&Lookup::All, None, None)
                .any(|plugin| started.ownership.is_own(&plugin))
            {
                tokio::time::sleep(POLL).await;
            }
        };

        if timeout(self.context.shutdown_time(), handed_over)
            .await
            .is_err()
        {
            tracing::warn!("the other replicas have not taken over all Plugins in time");
        }
    }

    /// Stops the manager: hands the Plugins over, takes no new keys, waits for in-flight reconciles
    /// and exports their spans. A replica that has lost its Lease doesn't wait: its reconciles
    /// can't send anything until the Lease is renewed.
    pub async fn stop(&self) {
        self.hand_over().await;
        let grace = if self.replicas.is_current() {
            self.context.shutdown_time()
        } else {
            Duration::ZERO
        };

        if let Some(started) = self.started.get() {
            let stopped = async {
                tokio::join!(started.plugins.stop(), started.drop_ins.stop());
            };
            // Don't wait for a compilation in flight.
            let _in_time = timeout(grace, stopped).await;
        }

        let mut stops = JoinSet::new();
        for (_, hosted) in self.hosted_plugins.all() {
            if let Some(running) = hosted.state.lock().await.running.take() {
                stops.spawn(running.stop_and_wait(grace));
            }
        }
        stops.join_all().await;
        if let Some(started) = self.started.get() {
            started.journal.stop();
        }

        self.replicas.leave().await;
        if let Some(traces) = &self.traces {
            traces.stop().await;
        }
    }
}

/// Follows the other replicas' Leases until this one's epoch ends.
async fn follow(replicas: Arc<Replicas>, context: Arc<Context>) {
    // Retry forever: a replica that renews its own Lease without watching the others' would keep
    // Plugins from them and run none.
    while let Err(error) = replicas.clone().follow(&context.cluster).await {
        tracing::error!(%error, "failed to watch the Leases of replicas, retrying");
    }
}

/// The key for the metrics of the host's own controllers: empty labels `plugin` and `namespace`.
fn host() -> ObjectKey {
    ObjectKey::cluster_scoped("")
}
