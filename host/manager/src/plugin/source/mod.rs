//! The source of a Plugin's component: [`Loader`] reads a new version and loads it.
//!
//! If a new version doesn't load, the previous code keeps running. If the source is deleted, its
//! code is stopped, unless the Plugin will be deleted with it and has to clean up first.

pub mod artifact;
pub mod parts;
pub mod path;
pub mod recent;
pub mod state;

use std::{fmt, mem, sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use operetta_api::{annotations::COMPONENT_DIGEST, reasons};
use operetta_core::{
    nondeterminism,
    object::{Object, ObjectKey},
    ports::{EventType, LogLevel},
    status::{ApiError, ErrorKind},
};
use operetta_wasm::{Component, LoadError, LoadLimits, LoadObserver, LoadStage};
use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    authz::consent::Consent,
    context::Context,
    crash_journal::{InFlight, Step},
    plugin::{
        crash_guard::CrashGuard,
        crd::Plugin,
        drop_in::is_drop_in,
        host_informers::{HostInformers, watch_object},
        hosted_plugin::{PluginRef, State},
        queue::PluginQueue,
        status::report::Reporter,
        teardown::{is_held, is_terminating},
    },
    problem::Problem,
};
use artifact::Stored;
use parts::{PartsError, Split};
use recent::RecentConfigMap;
use state::{Loading, SourceWatch, Version};

/// How long a reconcile waits for loading. From the cache that takes a few milliseconds.
const QUICK_LOAD: Duration = Duration::from_millis(25);

/// How often a file is checked for changes.
const FILE_INTERVAL: Duration = Duration::from_secs(2);

/// How long parts of a source may be missing before that is reported. `kubectl apply` creates one
/// after the other, and the digest in a ConfigMap's annotation must be copied to the Plugin.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(3);

/// What reading a source returned.
enum Fetched {
    /// The source hasn't changed since the last read, or isn't complete yet.
    Unchanged,
    /// A component as stored.
    Stored(Stored, Version),
    /// A version without a valid component.
    Problem(Problem, Version),
    /// The source does not exist.
    Gone(Problem),
}

/// A component's bytes, their digest, and the version of the source they are from.
struct Source {
    bytes: Vec<u8>,
    digest: String,
    version: Version,
}

/// Keeps a load in the crash journal while the component is in this process, and shows where it is.
struct LoadNote {
    in_flight: InFlight,
    stage: Arc<Mutex<LoadStage>>,
    plugin: ObjectKey,
    queue: PluginQueue,
}

impl fmt::Debug for LoadNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadNote")
            .field("plugin", &self.plugin)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl LoadObserver for LoadNote {
    async fn enters(&self, stage: LoadStage) {
        match stage {
            LoadStage::Here => self.in_flight.resume().await,
            LoadStage::Waiting | LoadStage::InWorker => self.in_flight.pause(),
        }

        // The status says so.
        let before = mem::replace(&mut *self.stage.lock(), stage);
        if (before == LoadStage::Waiting) != (stage == LoadStage::Waiting) {
            self.queue.enqueue(&self.plugin);
        }
    }
}

/// Loads the components of Plugins.
pub struct Loader {
    context: Arc<Context>,
    informers: Arc<HostInformers>,
    reporter: Arc<Reporter>,
    recent: Arc<RecentConfigMap>,
    guard: Arc<CrashGuard>,
}

impl Loader {
    /// Creates a loader.
    pub fn new(
        context: Arc<Context>,
        informers: Arc<HostInformers>,
        reporter: Arc<Reporter>,
        recent: Arc<RecentConfigMap>,
        guard: Arc<CrashGuard>,
    ) -> Self {
        Self {
            context,
            informers,
            reporter,
            recent,
            guard,
        }
    }

    /// Returns the reporter.
    pub fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// Sets `state.component` to the component in the source.
    ///
    /// # Errors
    /// The API server's error when it doesn't respond; the caller retries.
    pub async fn load(
        &self,
        plugin: PluginRef<'_>,
        consent: &Consent,
        state: &mut State,
    ) -> Result<(), ApiError> {
        let source = &plugin.object.spec.source;
        let mut config_map = None;
        let fetched = match (&source.config_map, &source.path) {
            (Some(source), None) => {
                let key = plugin.key.beside(&source.name);
                self.fetch_config_map(plugin, consent, config_map.insert(key), state)
                    .await?
            }
            (None, Some(path)) => {
                self.context.queue.enqueue_after(plugin.key, FILE_INTERVAL);
                self.fetch_file(path, &pins(plugin, consent), state).await
            }
            _ => {
                let message = "spec.source names neither a configMap nor a path: this host supports no other source";
                Fetched::Gone(Problem::new(reasons::SOURCE_NOT_SUPPORTED, message))
            }
        };

        let config_map = config_map.as_ref();
        let (stored, version) = match fetched {
            Fetched::Stored(stored, version) => (stored, version),
            Fetched::Unchanged => {
                self.finish_loading(plugin, state)?;
                return Ok(());
            }
            Fetched::Problem(problem, version) => {
                self.refuse(plugin, config_map, problem, version, state);
                return Ok(());
            }
            Fetched::Gone(problem) => {
                if state.component.is_some() && self.is_ending(plugin.key).await? {
                    return Ok(());
                }
                state.component = None;
                state.source.loading = None;
                state.source.version = None;
                self.reporter
                    .report_load_problem(plugin, None, problem, state);
                return Ok(());
            }
        };

        let bytes = match self.decompress(plugin, stored).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(problem)) => {
                self.refuse(plugin, config_map, problem, version, state);
                return Ok(());
            }
            Err(problem) => {
                self.postpone(plugin, config_map, problem, state);
                return Ok(());
            }
        };

        let digest = operetta_wasm::digest(&bytes);
        if let Err(problem) = check_code(plugin, consent, &digest) {
            self.refuse(plugin, config_map, problem, version, state);
            return Ok(());
        }
        let source = Source {
            bytes,
            digest,
            version,
        };
        self.load_bytes(plugin, config_map.cloned(), source, state)
            .await
    }

    /// Reports whether the source of a Plugin is gone because the Plugin itself will be deleted, and
    /// the Plugin has to clean up first.
    async fn is_ending(&self, plugin: &ObjectKey) -> Result<bool, ApiError> {
        let Some(found) = self.informers.plugins.cache.get(plugin) else {
            return Ok(false);
        };
        if !is_held(&found) {
            return Ok(false);
        }

        let namespace = plugin.namespace.as_deref().unwrap_or_default();
        Ok(is_drop_in(&found) || is_terminating(&self.context.cluster, namespace).await?)
    }

    async fn fetch_config_map(
        &self,
        plugin: PluginRef<'_>,
        consent: &Consent,
        key: &ObjectKey,
        state: &mut State,
    ) -> Result<Fetched, ApiError> {
        let source = plugin.object.spec.source.config_map.as_ref();
        let file = source.and_then(|source| source.key.as_deref());

        let Some(metadata) = self.source_metadata(plugin.key, key, state).await else {
            let namespace = key.namespace.as_deref().unwrap_or_default();
            let message = format!(
                "ConfigMap {:?} does not exist in namespace {namespace:?}",
                key.name
            );
            let problem = Problem::new(reasons::SOURCE_NOT_FOUND, message);
            return Ok(Fetched::Gone(problem));
        };

        let version = format!(
            "{}/{}{} {:?} {}",
            metadata.uid(),
            metadata.resource_version(),
            self.informers.part_versions(key).await,
            file.unwrap_or_default(),
            pins(plugin, consent)
        );
        if state.source.has(&version) {
            state.source.incomplete_since = None;
            return Ok(Fetched::Unchanged);
        }
        if is_digest_pending(plugin.object, &metadata) && self.may_still_come(plugin.key, state) {
            return Ok(Fetched::Unchanged);
        }

        let config_map = match self.recent.take(&metadata).await {
            Ok(config_map) => config_map,
            // Deleted in the meantime; we'll get an event.
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(Fetched::Unchanged),
            Err(error) => return Err(error),
        };
        let config_map = match self.join_parts(config_map).await? {
            Ok(joined) => joined,
            Err(error) => {
                let is_incomplete = matches!(error, PartsError::Incomplete { .. });
                if is_incomplete && self.may_still_come(plugin.key, state) {
                    tracing::debug!(plugin = %plugin.key, %error, "waiting for parts");
                    return Ok(Fetched::Unchanged);
                }
                state.source.incomplete_since = None;
                let problem = Problem::new(error.reason(), error.to_string());
                return Ok(Fetched::Problem(problem, version));
            }
        };

        state.source.incomplete_since = None;
        Ok(match artifact::stored(config_map, file) {
            Ok(stored) => Fetched::Stored(stored, version),
            Err(error) => {
                Fetched::Problem(Problem::new(error.reason(), error.to_string()), version)
            }
        })
    }

    /// Returns the source's metadata, from the informer of labelled ConfigMaps or from a watch for
    /// this one.
    async fn source_metadata(
        &self,
        plugin: &ObjectKey,
        key: &ObjectKey,
        state: &mut State,
    ) -> Option<Arc<Object>> {
        let labelled = &self.informers.config_maps;
        labelled.synced().await;
        if let Some(found) = labelled.cache.get(key) {
            state.source.watch = None;
            return Some(found);
        }

        let watch = state.source.watch.as_ref();
        if watch.is_none_or(|watch| watch.config_map != key.name) {
            let subscription = watch_object(&self.context, plugin, &labelled.resource, key);
            state.source.watch = Some(SourceWatch {
                config_map: key.name.clone(),
                subscription,
            });
        }
        let informer = state.source.watch.as_ref()?.subscription.informer();
        informer.synced().await;
        informer.cache.get(key)
    }

    /// Reports whether the rest of a source may still come. If so, enqueues the Plugin for later.
    fn may_still_come(&self, plugin: &ObjectKey, state: &mut State) -> bool {
        let since = state
            .source
            .incomplete_since
            .get_or_insert_with(Instant::now);
        let in_time = since.elapsed() < SOURCE_TIMEOUT;
        if in_time {
            self.context.queue.enqueue_after(plugin, SOURCE_TIMEOUT);
        }
        in_time
    }

    /// Joins a ConfigMap with its further parts, within the host's size limit.
    async fn join_parts(
        &self,
        mut first: ConfigMap,
    ) -> Result<Result<ConfigMap, PartsError>, ApiError> {
        let split = match Split::of(&first) {
            Ok(Some(split)) => split,
            Ok(None) => return Ok(Ok(first)),
            Err(error) => return Ok(Err(error)),
        };
        let Some(mut joining) = split.begin(&mut first, self.context.config.max_wasm_bytes) else {
            return Ok(Ok(first));
        };

        for name in split.names() {
            let key = ObjectKey {
                namespace: first.metadata.namespace.clone(),
                name,
            };
            let part = match self.context.cluster.config_map(&key).await {
                Ok(part) => Some(part),
                Err(error) if error.kind == ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            if let Err(error) = joining.add(&key.name, part) {
                return Ok(Err(error));
            }
        }
        Ok(joining.finish(first))
    }

    async fn fetch_file(&self, path: &str, pins: &str, state: &State) -> Fetched {
        let directory = self.context.config.plugin_directory.clone();
        let limit = self.context.config.file_limit().bytes;
        let path = path.to_owned();
        let pins = pins.to_owned();
        let loading = state.source.loading.as_ref();
        let loading = loading.map(|loading| loading.version.clone());
        let known = [state.source.version.clone(), loading];

        let fetch = move || {
            let problem = |error: path::PathError| Problem::new(error.reason(), error.to_string());
            let found = match path::find(directory.as_deref(), &path) {
                Ok(found) => found,
                Err(error) => return Fetched::Gone(problem(error)),
            };
            let version = format!("{} {pins}", found.version);
            if known.iter().flatten().any(|known| *known == version) {
                return Fetched::Unchanged;
            }
            match found.read(limit) {
                Ok(stored) => Fetched::Stored(stored, version),
                Err(error) => Fetched::Problem(problem(error), version),
            }
        };
        let fetched = nondeterminism::blocking(fetch).await;
        fetched.unwrap_or_else(|error| {
            Fetched::Gone(Problem::new(reasons::SOURCE_UNREADABLE, error.to_string()))
        })
    }

    /// Decompresses a component while the crash journal says so. The outer error means it can't
    /// start now: it has the problem, or None if it only has to wait for others.
    async fn decompress(
        &self,
        plugin: PluginRef<'_>,
        stored: Stored,
    ) -> Result<Result<Vec<u8>, Problem>, Option<Problem>> {
        let PluginRef { key, object, .. } = plugin;
        let in_flight = match stored.compressed_digest() {
            Some(digest) => {
                Some(
                    self.guard
                        .begin_for_plugin(key, object, Step::Decompress, &digest)?,
                )
            }
            None => None,
        };
        let limit = match object.spec.source.path {
            Some(_) => self.context.config.file_limit(),
            None => self.context.config.config_map_limit(),
        };
        let decompressed = nondeterminism::blocking(move || stored.decompress(limit)).await;
        drop(in_flight);

        Ok(match decompressed {
            Ok(decompressed) => {
                decompressed.map_err(|error| Problem::new(error.reason(), error.to_string()))
            }
            Err(error) => Err(Problem::new(
                reasons::DAMAGED_ARCHIVE,
                format!("failed to decompress it: {error}"),
            )),
        })
    }

    /// Loads a component's bytes, unless they are loaded already.
    async fn load_bytes(
        &self,
        plugin: PluginRef<'_>,
        config_map: Option<ObjectKey>,
        source: Source,
        state: &mut State,
    ) -> Result<(), ApiError> {
        state.source.loading = None;
        let loaded = state.component.as_ref();
        if loaded.is_some_and(|component| component.digest() == source.digest) {
            state.source.version = Some(source.version);
            state.problems.load = None;
            return Ok(());
        }
        if loaded.is_none() {
            state.problems.load = None;
        }

        let PluginRef { key, object, .. } = plugin;
        let begun = self
            .guard
            .begin_for_plugin(key, object, Step::Load, &source.digest);
        let in_flight = match begun {
            Ok(in_flight) => in_flight,
            Err(problem) => {
                self.postpone(plugin, config_map.as_ref(), problem, state);
                return Ok(());
            }
        };

        let mut loading = self.start_loading(plugin, config_map, in_flight, source);
        match timeout(QUICK_LOAD, &mut loading.result).await {
            Ok(Ok(loaded)) => self.finish(plugin, loading, loaded, state),
            _ => {
                state.source.loading = Some(loading);
                Ok(())
            }
        }
    }

    /// Starts loading a component. When that ends, the Plugin is enqueued.
    fn start_loading(
        &self,
        plugin: PluginRef<'_>,
        config_map: Option<ObjectKey>,
        in_flight: InFlight,
        source: Source,
    ) -> Loading {
        let Source { bytes, version, .. } = source;
        let (sender, result) = oneshot::channel();
        let namespace = plugin.key.namespace.as_deref().unwrap_or_default();
        let stage = Arc::new(Mutex::new(LoadStage::Here));
        let note = LoadNote {
            in_flight,
            stage: stage.clone(),
            plugin: plugin.key.clone(),
            queue: self.context.queue.clone(),
        };
        let limits = LoadLimits {
            compilations: Some(self.context.tenants.compilations(namespace)),
            observer: Some(Arc::new(note)),
            ..self.context.config.load_limits()
        };

        let context = self.context.clone();
        let key = plugin.key.clone();
        let log = plugin.hosted.log.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let loaded = Component::load(&context.engine, bytes, &limits, log).await;
            // Erases the note.
            drop(limits);
            // The version may have been replaced; then nobody waits for it.
            if sender.send(loaded).is_ok() {
                context.queue.enqueue(&key);
            }
        });
        Loading {
            version,
            config_map,
            stage,
            result,
            _task: task,
        }
    }

    /// Uses the component if loading has ended. Reports whether it has.
    ///
    /// # Errors
    /// When loading was interrupted; the caller retries.
    pub fn finish_loading(
        &self,
        plugin: PluginRef<'_>,
        state: &mut State,
    ) -> Result<bool, ApiError> {
        let Some(mut loading) = state.source.loading.take() else {
            return Ok(false);
        };
        match loading.result.try_recv() {
            Ok(loaded) => self.finish(plugin, loading, loaded, state).map(|()| true),
            Err(oneshot::error::TryRecvError::Empty) => {
                state.source.loading = Some(loading);
                Ok(false)
            }
            Err(oneshot::error::TryRecvError::Closed) => Err(ApiError::new(
                ErrorKind::Unavailable,
                "loading the component was interrupted",
            )),
        }
    }

    fn finish(
        &self,
        plugin: PluginRef<'_>,
        loading: Loading,
        loaded: Result<Component, LoadError>,
        state: &mut State,
    ) -> Result<(), ApiError> {
        match loaded {
            Ok(component) => {
                self.record_load(plugin, &component);
                state.component = Some(Arc::new(component));
                state.source.version = Some(loading.version);
                state.problems.load = None;
            }
            Err(LoadError::Busy(message)) => {
                return Err(ApiError::new(ErrorKind::Unavailable, message));
            }
            Err(error) => {
                self.context.metrics.loaded(error.reason().as_str());
                let problem = Problem::new(error.reason(), error.to_string());
                let config_map = loading.config_map.as_ref();
                self.refuse(plugin, config_map, problem, loading.version, state);
            }
        }
        Ok(())
    }

    /// Records that other code runs from now on: in the metrics, the plugin's log and an Event.
    fn record_load(&self, plugin: PluginRef<'_>, component: &Component) {
        self.context.metrics.loaded("loaded");
        self.context.metrics.obtained(&component.provenance());

        // Don't mention where the code came from: that would tell a tenant which code others run.
        let note = format!("loaded {}", component.digest());
        plugin
            .hosted
            .log
            .write_host_line(LogLevel::Info, note.clone());
        let uid = plugin.object.metadata.uid.clone();
        self.reporter
            .event(plugin.key, uid, EventType::Normal, reasons::LOADED, note);
    }

    /// Reports why a version of the source wasn't loaded.
    fn refuse(
        &self,
        plugin: PluginRef<'_>,
        config_map: Option<&ObjectKey>,
        problem: Problem,
        version: Version,
        state: &mut State,
    ) {
        state.source.loading = None;
        state.source.version = Some(version);
        self.reporter
            .report_load_problem(plugin, config_map, problem, state);
    }

    /// Reports why a component can't be decompressed or loaded now, unless it only has to wait for
    /// others. The version doesn't count as read, so that the next reconcile tries again.
    fn postpone(
        &self,
        plugin: PluginRef<'_>,
        config_map: Option<&ObjectKey>,
        problem: Option<Problem>,
        state: &mut State,
    ) {
        state.source.loading = None;
        let Some(problem) = problem else { return };
        if problem.reason == reasons::CRASH_QUARANTINED {
            self.context
                .metrics
                .loaded(reasons::CRASH_QUARANTINED.as_str());
        }
        self.reporter
            .report_load_problem(plugin, config_map, problem, state);
    }
}

/// Checks, before compiling, that the code's digest is the one in `spec.digest`, if set, and that
/// consent allows it.
fn check_code(plugin: PluginRef<'_>, consent: &Consent, digest: &str) -> Result<(), Problem> {
    let pin = plugin.object.spec.digest.as_deref();
    if let Some(pin) = pin.filter(|pin| *pin != digest) {
        let message = format!(
            "the component's digest is {digest}, but spec.digest is {pin}: it is not run; a drop-in ConfigMap sets spec.digest \
             by its annotation {COMPONENT_DIGEST}"
        );
        return Err(Problem::new(reasons::DIGEST_MISMATCH, message));
    }
    consent.check_code(plugin.key, digest)
}

/// Returns a text that changes when the allowed digests do.
fn pins(plugin: PluginRef<'_>, consent: &Consent) -> String {
    let digest = plugin.object.spec.digest.as_deref().unwrap_or_default();
    format!("{digest} {}", consent.version())
}

/// Reports whether the drop-in controller still has to copy the digest in a ConfigMap's annotation
/// to the Plugin's `spec.digest`. Without an annotation, somebody else set the digest and there is
/// nothing to wait for.
fn is_digest_pending(plugin: &Plugin, config_map: &Object) -> bool {
    let owners = plugin.metadata.owner_references.iter().flatten();
    let mut owners =
        owners.filter(|owner| owner.controller == Some(true) && owner.kind == "ConfigMap");
    let annotation = config_map.along(["metadata", "annotations", COMPONENT_DIGEST]);
    let annotation = annotation.and_then(|text| serde_json::from_str::<String>(text).ok());

    owners.any(|owner| owner.uid == config_map.uid())
        && annotation.is_some()
        && annotation != plugin.spec.digest
}
