//! Where a Plugin's component comes from, and that it is loaded when that changes.
//!
//! A source that does not load leaves the code before it at work. One that is gone takes its code with it.

pub mod artifact;
pub mod parts;
pub mod path;

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ConfigMap;
use operetta_core::{
    object::{Object, ObjectKey},
    ports::{EventType, LogLevel},
    status::{ApiError, ErrorKind},
};
use operetta_wasm::{LoadError, Origin, Plugin as Component};
use tokio::time::timeout;

use crate::plugin::{
    crd::{ConfigMapSource, Plugin},
    reconcile::PluginController,
    slot::{Slot, State},
    source::parts::{PartsError, Split},
    status::Problem,
};

/// How long parts of a ConfigMap may take to come before their absence is reported.
const PARTS_COME: Duration = Duration::from_secs(3);
/// What takes no longer to load is not said to be loading: code from the cache takes some milliseconds.
const LOADS_SOON: Duration = Duration::from_millis(25);
/// How often a file is looked at.
const LOOK_AT_FILE: Duration = Duration::from_secs(2);

/// What a source holds now.
enum Fetched {
    /// The same as when it was looked at last, or not all of it yet.
    Nothing,
    /// A component, and the version of the source that it is.
    Component(Vec<u8>, String),
    /// Nothing that can be run, and the version of the source that this is so for.
    Problem(Problem, String),
    /// The source is not there.
    Gone(Problem),
}

impl PluginController {
    /// Makes `state.component` what the source holds.
    pub(super) async fn load(
        &self,
        key: &ObjectKey,
        plugin: &Plugin,
        slot: &Slot,
        state: &mut State,
    ) -> Result<(), ApiError> {
        let source = &plugin.spec.source;
        let pin = plugin.spec.digest.as_deref();
        let mut config_map = None;
        let fetched = match (&source.config_map, &source.path) {
            (Some(source), None) => {
                let at = ObjectKey { namespace: key.namespace.clone(), name: source.name.clone() };
                self.fetch_config_map(key, source, config_map.insert(at), pin, state).await?
            }
            (None, Some(path)) => {
                self.host.look_at_after(key, LOOK_AT_FILE);
                self.fetch_file(path, pin, state).await
            }
            _ => {
                let message = "spec.source names neither a configMap nor a path, and this host knows no other source";
                Fetched::Gone(Problem::new("SourceNotSupported", message))
            }
        };
        let (bytes, version) = match fetched {
            Fetched::Nothing => return Ok(()),
            Fetched::Component(bytes, version) => (bytes, version),
            Fetched::Problem(problem, version) => {
                state.source = Some(version);
                self.refuse(key, config_map.as_ref(), slot, state, problem);
                return Ok(());
            }
            Fetched::Gone(problem) => {
                (state.component, state.source) = (None, None);
                self.refuse(key, None, slot, state, problem);
                return Ok(());
            }
        };
        let digest = operetta_wasm::inspect(&bytes).digest;
        if let Some(pin) = pin.filter(|pin| *pin != digest) {
            let message = format!("the component's digest is {digest}, and spec.digest is {pin}: it is not run");
            state.source = Some(version);
            self.refuse(key, config_map.as_ref(), slot, state, Problem::new("DigestMismatch", message));
            return Ok(());
        }
        if state.component.as_ref().is_some_and(|component| component.digest() == digest) {
            (state.source, state.load_problem) = (Some(version), None);
            return Ok(());
        }
        let facts = state.component.is_none().then(|| {
            state.load_problem = None;
            self.facts(plugin, slot, state)
        });
        let limits = self.host.config.load_limits();
        let mut loading = pin!(Component::load(&self.host.engine, bytes, &limits, slot.log.clone()));
        let (told, loaded) = match (timeout(LOADS_SOON, &mut loading).await, &facts) {
            (Ok(loaded), _) => (Ok(()), loaded),
            // Compiling takes seconds: say so meanwhile.
            (Err(_), Some(facts)) => tokio::join!(self.write_status(key, slot, facts), loading),
            (Err(_), None) => (Ok(()), loading.await),
        };
        match loaded {
            Ok(component) => {
                self.loaded(key, plugin, slot, &component);
                state.component = Some(Arc::new(component));
                (state.source, state.load_problem) = (Some(version), None);
            }
            Err(LoadError::Busy(message)) => return Err(ApiError::new(ErrorKind::Unavailable, message)),
            Err(error) => {
                self.host.metrics.loaded(error.reason());
                state.source = Some(version);
                let problem = Problem::new(error.reason(), error.to_string());
                self.refuse(key, config_map.as_ref(), slot, state, problem);
            }
        }
        told
    }

    /// Tells that other code runs from now on.
    fn loaded(&self, key: &ObjectKey, plugin: &Plugin, slot: &Slot, component: &Component) {
        self.host.metrics.loaded("loaded");
        let provenance = component.provenance();
        self.host.metrics.obtained(&provenance);
        let how = match provenance.origin {
            Origin::Cache => "its code was in the cache".to_owned(),
            Origin::Here | Origin::Worker => format!("compiled in {:.1} s", provenance.took.as_secs_f32()),
        };
        let note = format!("loaded {}, {how}", component.digest());
        self.say(slot, LogLevel::Info, note.clone());
        self.event(key, plugin.metadata.uid.clone(), EventType::Normal, "Loaded", note);
    }

    async fn fetch_config_map(
        &self,
        key: &ObjectKey,
        source: &ConfigMapSource,
        at: &ObjectKey,
        pin: Option<&str>,
        state: &mut State,
    ) -> Result<Fetched, ApiError> {
        let Some(found) = self.source_metadata(key, at, state).await else {
            let namespace = at.namespace.as_deref().unwrap_or_default();
            let message = format!("ConfigMap {:?} does not exist in namespace {namespace:?}", at.name);
            return Ok(Fetched::Gone(Problem::new("SourceNotFound", message)));
        };
        let parts = self.host.versions_of_parts(at).await;
        let (uid, revision) = (found.uid(), found.resource_version());
        let version = format!(
            "{uid}/{revision}{parts} {:?} {}",
            source.key.as_deref().unwrap_or_default(),
            pin.unwrap_or_default()
        );
        if state.source.as_ref() == Some(&version) {
            return Ok(Fetched::Nothing);
        }
        let config_map = match self.host.config_map_of(&found).await {
            Ok(config_map) => config_map,
            // Deleted since: its event comes.
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(Fetched::Nothing),
            Err(error) => return Err(error),
        };
        let config_map = match self.join_parts(config_map).await? {
            Ok(whole) => whole,
            Err(error @ PartsError::Incomplete { .. })
                if state.incomplete.is_none_or(|since| since.elapsed() < PARTS_COME) =>
            {
                // `kubectl apply` sends one after another: that is nothing to report.
                state.incomplete.get_or_insert_with(Instant::now);
                tracing::debug!(plugin = %key, %error, "waiting for parts");
                self.host.look_at_after(key, PARTS_COME);
                return Ok(Fetched::Nothing);
            }
            Err(error) => {
                state.incomplete = None;
                return Ok(Fetched::Problem(Problem::new(error.reason(), error.to_string()), version));
            }
        };
        state.incomplete = None;
        let limit = self.host.config.max_wasm_bytes;
        Ok(match artifact::component(&config_map, source.key.as_deref(), limit) {
            Ok(bytes) => Fetched::Component(bytes, version),
            Err(error) => Fetched::Problem(Problem::new(error.reason(), error.to_string()), version),
        })
    }

    /// The ConfigMap with the bytes of all its parts.
    async fn join_parts(&self, first: ConfigMap) -> Result<Result<ConfigMap, PartsError>, ApiError> {
        let split = match Split::of(&first) {
            Ok(Some(split)) => split,
            Ok(None) => return Ok(Ok(first)),
            Err(error) => return Ok(Err(error)),
        };
        let mut rest = Vec::new();
        for name in split.names() {
            let at = ObjectKey { namespace: first.metadata.namespace.clone(), name };
            rest.push(match self.host.config_map(&at).await {
                Ok(part) => Some(part),
                Err(error) if error.kind == ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            });
        }
        Ok(split.join(first, rest))
    }

    /// The source's metadata, from the informer of labelled ConfigMaps or from one of its own.
    async fn source_metadata(&self, key: &ObjectKey, at: &ObjectKey, state: &mut State) -> Option<Arc<Object>> {
        let labelled = self.host.labelled_config_maps();
        labelled.synced().await;
        if let Some(found) = labelled.cache.get(at) {
            state.source_watch = None;
            return Some(found);
        }
        if state.source_watch.as_ref().is_none_or(|(name, _)| *name != at.name) {
            let subscription = self.host.watch_for(key, &labelled.resource, at);
            state.source_watch = Some((at.name.clone(), subscription));
        }
        let (_, subscription) = state.source_watch.as_ref()?;
        subscription.informer().synced().await;
        subscription.informer().cache.get(at)
    }

    async fn fetch_file(&self, path: &str, pin: Option<&str>, state: &State) -> Fetched {
        let (directory, limit) = (self.host.config.plugin_directory.clone(), self.host.config.max_wasm_bytes);
        let (path, pin) = (path.to_owned(), pin.unwrap_or_default().to_owned());
        let known = state.source.clone();
        let fetch = move || {
            let problem = |error: path::PathError| Problem::new(error.reason(), error.to_string());
            let found = match path::find(directory.as_deref(), &path) {
                Ok(found) => found,
                Err(error) => return Fetched::Gone(problem(error)),
            };
            let version = format!("{} {pin}", found.version);
            if known.as_ref() == Some(&version) {
                return Fetched::Nothing;
            }
            match found.read(limit) {
                Ok(bytes) => Fetched::Component(bytes, version),
                Err(error) => Fetched::Problem(problem(error), version),
            }
        };
        let fetched = tokio::task::spawn_blocking(fetch).await;
        fetched.unwrap_or_else(|error| Fetched::Gone(Problem::new("SourceUnreadable", error.to_string())))
    }
}
