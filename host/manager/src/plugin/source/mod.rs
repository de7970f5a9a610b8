//! The source of a Plugin's component, and the loading of a new one.
//!
//! A source that does not load leaves the code before it running. A source that is gone stops its code.

pub mod artifact;
mod fetch;
pub mod hand_over;
pub mod parts;
pub mod path;

use std::{pin::pin, sync::Arc, time::Duration};

use operetta_api::reasons;
use operetta_core::{
    object::ObjectKey,
    ports::{EventType, LogLevel},
    status::{ApiError, ErrorKind},
};
use operetta_wasm::{LoadError, Origin, Plugin as Component};
use tokio::time::timeout;

use crate::{
    context::Context,
    plugin::{
        facts::facts,
        host_informers::HostInformers,
        report::Reporter,
        slot::{PluginRef, State},
    },
    problem::Problem,
};
use fetch::{Fetched, Version};
use hand_over::ConfigMapHandOver;

/// The time within which loading is not worth a status of its own: code from the cache takes some milliseconds.
const QUICK_LOAD: Duration = Duration::from_millis(25);
/// The interval at which a file is checked for changes.
const FILE_INTERVAL: Duration = Duration::from_secs(2);

/// Loads the components of Plugins.
pub struct Loader {
    context: Arc<Context>,
    informers: Arc<HostInformers>,
    reporter: Arc<Reporter>,
    hand_over: Arc<ConfigMapHandOver>,
}

impl Loader {
    /// Creates a loader.
    pub fn new(
        context: Arc<Context>,
        informers: Arc<HostInformers>,
        reporter: Arc<Reporter>,
        hand_over: Arc<ConfigMapHandOver>,
    ) -> Self {
        Self { context, informers, reporter, hand_over }
    }

    /// Makes `state.component` the component that the source holds.
    ///
    /// # Errors
    /// The API server's error when it does not answer; worth another try.
    pub async fn load(&self, plugin: PluginRef<'_>, state: &mut State) -> Result<(), ApiError> {
        let source = &plugin.object.spec.source;
        let mut config_map = None;
        let fetched = match (&source.config_map, &source.path) {
            (Some(source), None) => {
                let key = ObjectKey { namespace: plugin.key.namespace.clone(), name: source.name.clone() };
                self.fetch_config_map(plugin, source, config_map.insert(key), state).await?
            }
            (None, Some(path)) => {
                self.context.queue.enqueue_after(plugin.key, FILE_INTERVAL);
                self.fetch_file(path, plugin.object.spec.digest.as_deref(), state).await
            }
            _ => {
                let message = "spec.source names neither a configMap nor a path, and this host knows no other source";
                Fetched::Gone(Problem::new(reasons::SOURCE_NOT_SUPPORTED, message))
            }
        };
        let config_map = config_map.as_ref();
        match fetched {
            Fetched::Unchanged => Ok(()),
            Fetched::Component(bytes, version) => self.load_bytes(plugin, config_map, bytes, version, state).await,
            Fetched::Problem(problem, version) => {
                state.source.version = Some(version);
                self.reporter.report_load_problem(plugin, config_map, problem, state);
                Ok(())
            }
            Fetched::Gone(problem) => {
                state.component = None;
                state.source.version = None;
                self.reporter.report_load_problem(plugin, None, problem, state);
                Ok(())
            }
        }
    }

    /// Loads a component's bytes, unless their digest is not the pinned one or is loaded already.
    async fn load_bytes(
        &self,
        plugin: PluginRef<'_>,
        config_map: Option<&ObjectKey>,
        bytes: Vec<u8>,
        version: Version,
        state: &mut State,
    ) -> Result<(), ApiError> {
        let digest = operetta_wasm::inspect(&bytes).digest;
        if let Some(pin) = plugin.object.spec.digest.as_deref().filter(|pin| *pin != digest) {
            let message = format!("the component's digest is {digest}, but spec.digest is {pin}: it is not run");
            state.source.version = Some(version);
            let problem = Problem::new(reasons::DIGEST_MISMATCH, message);
            self.reporter.report_load_problem(plugin, config_map, problem, state);
            return Ok(());
        }
        if state.component.as_ref().is_some_and(|component| component.digest() == digest) {
            state.source.version = Some(version);
            state.problems.load = None;
            return Ok(());
        }
        let (reported, loaded) = self.load_and_report(plugin, bytes, state).await;
        match loaded {
            Ok(component) => {
                self.record_load(plugin, &component);
                state.component = Some(Arc::new(component));
                state.source.version = Some(version);
                state.problems.load = None;
            }
            Err(LoadError::Busy(message)) => return Err(ApiError::new(ErrorKind::Unavailable, message)),
            Err(error) => {
                self.context.metrics.loaded(error.reason());
                state.source.version = Some(version);
                let problem = Problem::new(error.reason(), error.to_string());
                self.reporter.report_load_problem(plugin, config_map, problem, state);
            }
        }
        reported
    }

    /// Loads a component; where that takes seconds and no code runs yet, the status says so meanwhile.
    async fn load_and_report(
        &self,
        plugin: PluginRef<'_>,
        bytes: Vec<u8>,
        state: &mut State,
    ) -> (Result<(), ApiError>, Result<Component, LoadError>) {
        let loading_facts = state.component.is_none().then(|| {
            state.problems.load = None;
            facts(plugin.object, plugin.slot, state, self.context.admin_address())
        });
        let limits = self.context.config.load_limits();
        let mut loading = pin!(Component::load(&self.context.engine, bytes, &limits, plugin.slot.log.clone()));
        match (timeout(QUICK_LOAD, &mut loading).await, &loading_facts) {
            (Ok(loaded), _) => (Ok(()), loaded),
            (Err(_), Some(facts)) => {
                tokio::join!(self.reporter.write_status(plugin.key, plugin.slot, facts), loading)
            }
            (Err(_), None) => (Ok(()), loading.await),
        }
    }

    /// Records that other code runs from now on: in the metrics, the plugin's log and an Event.
    fn record_load(&self, plugin: PluginRef<'_>, component: &Component) {
        self.context.metrics.loaded("loaded");
        let provenance = component.provenance();
        self.context.metrics.obtained(&provenance);
        let origin = match provenance.origin {
            Origin::Cache => "its code was in the cache".to_owned(),
            Origin::Here | Origin::Worker => format!("compiled in {:.1} s", provenance.took.as_secs_f32()),
        };
        let note = format!("loaded {}, {origin}", component.digest());
        plugin.slot.log.write_host_line(LogLevel::Info, note.clone());
        let uid = plugin.object.metadata.uid.clone();
        self.reporter.event(plugin.key, uid, EventType::Normal, reasons::LOADED, note);
    }
}
