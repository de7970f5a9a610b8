//! The source of a Plugin's component, and the loading of a new one.
//!
//! If a new source does not load, the previous code keeps running. If the source is deleted, its code is stopped.

pub mod artifact;
mod fetch;
pub mod hand_over;
pub mod parts;
pub mod path;

use std::{sync::Arc, time::Duration};

use operetta_api::{annotations::COMPONENT_DIGEST, reasons};
use operetta_core::{
    nondeterminism,
    object::ObjectKey,
    ports::{EventType, LogLevel},
    status::{ApiError, ErrorKind},
};
use operetta_wasm::{LoadError, LoadLimits, Plugin as Component};
use tokio::{sync::oneshot, task::JoinSet, time::timeout};

use crate::{
    context::Context,
    crash_journal::{Noted, Step},
    plugin::{
        crash_guard::CrashGuard,
        host_informers::HostInformers,
        hosted_plugin::{Consent, Loading, PluginRef, State},
        report::Reporter,
    },
    problem::Problem,
};
use artifact::Stored;
use fetch::{Fetched, Version};
use hand_over::ConfigMapHandOver;

/// The time for which a reconcile waits for loading: code from the cache takes some milliseconds.
const QUICK_LOAD: Duration = Duration::from_millis(25);
/// The interval at which a file is checked for changes.
const FILE_INTERVAL: Duration = Duration::from_secs(2);

/// A component's bytes and their digest, and the version of the source that has them.
struct Source {
    bytes: Vec<u8>,
    digest: String,
    version: Version,
}

/// Loads the components of Plugins.
pub struct Loader {
    context: Arc<Context>,
    informers: Arc<HostInformers>,
    reporter: Arc<Reporter>,
    hand_over: Arc<ConfigMapHandOver>,
    guard: Arc<CrashGuard>,
}

impl Loader {
    /// Creates a loader.
    pub fn new(
        context: Arc<Context>,
        informers: Arc<HostInformers>,
        reporter: Arc<Reporter>,
        hand_over: Arc<ConfigMapHandOver>,
        guard: Arc<CrashGuard>,
    ) -> Self {
        Self { context, informers, reporter, hand_over, guard }
    }

    /// Returns the reporter.
    pub fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// Sets `state.component` to the component in the source.
    ///
    /// # Errors
    /// The API server's error when it does not respond; the caller retries.
    pub async fn load(&self, plugin: PluginRef<'_>, consent: &Consent, state: &mut State) -> Result<(), ApiError> {
        let source = &plugin.object.spec.source;
        let mut config_map = None;
        let fetched = match (&source.config_map, &source.path) {
            (Some(source), None) => {
                let key = ObjectKey { namespace: plugin.key.namespace.clone(), name: source.name.clone() };
                self.fetch_config_map(plugin, consent, config_map.insert(key), state).await?
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
        match fetched {
            Fetched::Unchanged => {
                self.finish_loading(plugin, state)?;
            }
            Fetched::Stored(stored, version) => {
                let bytes = match self.decompress(plugin, stored).await {
                    Ok(Ok(bytes)) => bytes,
                    Ok(Err(problem)) => {
                        self.refuse(plugin, config_map.as_ref(), problem, version, state);
                        return Ok(());
                    }
                    Err(problem) => {
                        self.hold(plugin, config_map.as_ref(), problem, state);
                        return Ok(());
                    }
                };
                let digest = operetta_wasm::digest(&bytes);
                match check_code(plugin, consent, &digest) {
                    Ok(()) => {
                        let source = Source { bytes, digest, version };
                        return self.load_bytes(plugin, config_map, source, state).await;
                    }
                    Err(problem) => self.refuse(plugin, config_map.as_ref(), problem, version, state),
                }
            }
            Fetched::Problem(problem, version) => {
                self.refuse(plugin, config_map.as_ref(), problem, version, state);
            }
            Fetched::Gone(problem) => {
                state.component = None;
                state.source.loading = None;
                state.source.version = None;
                self.reporter.report_load_problem(plugin, None, problem, state);
            }
        }
        Ok(())
    }

    /// Decompresses a component, with a record in the crash journal. Returns the outer error if it must not begin now: the
    /// problem, or None if it only has to wait for others.
    async fn decompress(
        &self,
        plugin: PluginRef<'_>,
        stored: Stored,
    ) -> Result<Result<Vec<u8>, Problem>, Option<Problem>> {
        let digest = stored.compressed_digest();
        let noted =
            digest.map(|digest| self.guard.note(plugin.key, plugin.object, Step::Decompress, &digest)).transpose()?;
        let limit = self.context.config.max_wasm_bytes;
        let decompressed = nondeterminism::blocking(move || stored.decompress(limit)).await;
        drop(noted);
        Ok(match decompressed {
            Ok(decompressed) => decompressed.map_err(|error| Problem::new(error.reason(), error.to_string())),
            Err(error) => Err(Problem::new(reasons::DAMAGED_ARCHIVE, format!("failed to decompress it: {error}"))),
        })
    }

    /// Reports why a component is not decompressed or loaded now, unless it only has to wait for others. The source's version
    /// stays new.
    fn hold(&self, plugin: PluginRef<'_>, config_map: Option<&ObjectKey>, problem: Option<Problem>, state: &mut State) {
        state.source.loading = None;
        let Some(problem) = problem else { return };
        if problem.reason == reasons::CRASH_QUARANTINED {
            self.context.metrics.loaded(reasons::CRASH_QUARANTINED.as_str());
        }
        self.reporter.report_load_problem(plugin, config_map, problem, state);
    }

    /// Reports why a version of the source is not loaded.
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
        self.reporter.report_load_problem(plugin, config_map, problem, state);
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
        if state.component.as_ref().is_some_and(|component| component.digest() == source.digest) {
            state.source.version = Some(source.version);
            state.problems.load = None;
            return Ok(());
        }
        if state.component.is_none() {
            state.problems.load = None;
        }
        let noted = match self.guard.note(plugin.key, plugin.object, Step::Load, &source.digest) {
            Ok(noted) => noted,
            Err(problem) => {
                self.hold(plugin, config_map.as_ref(), problem, state);
                return Ok(());
            }
        };
        let mut loading = self.start_loading(plugin, config_map, noted, source);
        match timeout(QUICK_LOAD, &mut loading.result).await {
            Ok(Ok(loaded)) => self.finish(plugin, loading, loaded, state),
            _ => {
                state.source.loading = Some(loading);
                Ok(())
            }
        }
    }

    /// Starts to load a component. Enqueues the Plugin at the end.
    fn start_loading(
        &self,
        plugin: PluginRef<'_>,
        config_map: Option<ObjectKey>,
        noted: Noted,
        source: Source,
    ) -> Loading {
        let Source { bytes, version, .. } = source;
        let (sender, result) = oneshot::channel();
        let namespace = plugin.key.namespace.as_deref().unwrap_or_default();
        let compilations = Some(self.context.tenants.compilations(namespace));
        let limits = LoadLimits { compilations, ..self.context.config.load_limits() };
        let context = self.context.clone();
        let key = plugin.key.clone();
        let log = plugin.hosted.log.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let loaded = Component::load(&context.engine, bytes, &limits, log).await;
            drop(noted);
            // Nobody waits for a version that was replaced meanwhile.
            if sender.send(loaded).is_ok() {
                context.queue.enqueue(&key);
            }
        });
        Loading { version, config_map, result, _task: task }
    }

    /// Uses the component whose loading has ended. Reports whether there is one.
    ///
    /// # Errors
    /// Returns an error if the loading was interrupted; the caller retries.
    pub fn finish_loading(&self, plugin: PluginRef<'_>, state: &mut State) -> Result<bool, ApiError> {
        let Some(mut loading) = state.source.loading.take() else { return Ok(false) };
        match loading.result.try_recv() {
            Ok(loaded) => self.finish(plugin, loading, loaded, state).map(|()| true),
            Err(oneshot::error::TryRecvError::Empty) => {
                state.source.loading = Some(loading);
                Ok(false)
            }
            Err(oneshot::error::TryRecvError::Closed) => {
                Err(ApiError::new(ErrorKind::Unavailable, "loading the component was interrupted"))
            }
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
            Err(LoadError::Busy(message)) => return Err(ApiError::new(ErrorKind::Unavailable, message)),
            Err(error) => {
                self.context.metrics.loaded(error.reason().as_str());
                state.source.version = Some(loading.version);
                let problem = Problem::new(error.reason(), error.to_string());
                self.reporter.report_load_problem(plugin, loading.config_map.as_ref(), problem, state);
            }
        }
        Ok(())
    }

    /// Records that other code runs from now on: in the metrics, the plugin's log and an Event.
    fn record_load(&self, plugin: PluginRef<'_>, component: &Component) {
        self.context.metrics.loaded("loaded");
        let provenance = component.provenance();
        self.context.metrics.obtained(&provenance);
        // The origin of the code would tell a tenant which code others run.
        let note = format!("loaded {}", component.digest());
        plugin.hosted.log.write_host_line(LogLevel::Info, note.clone());
        let uid = plugin.object.metadata.uid.clone();
        self.reporter.event(plugin.key, uid, EventType::Normal, reasons::LOADED, note);
    }
}

/// Checks before compiling that the code has the digest of `spec.digest`, if set, and that consent allows it.
fn check_code(plugin: PluginRef<'_>, consent: &Consent, digest: &str) -> Result<(), Problem> {
    if let Some(pin) = plugin.object.spec.digest.as_deref().filter(|pin| *pin != digest) {
        let message = format!(
            "the component's digest is {digest}, but spec.digest is {pin}: it is not run; a drop-in ConfigMap sets spec.digest \
             by its annotation {COMPONENT_DIGEST}"
        );
        return Err(Problem::new(reasons::DIGEST_MISMATCH, message));
    }
    consent.check_code(plugin.key, digest)
}

/// Returns the pins of the code as one text, which changes with them.
fn pins(plugin: PluginRef<'_>, consent: &Consent) -> String {
    format!("{} {}", plugin.object.spec.digest.as_deref().unwrap_or_default(), consent.version())
}
