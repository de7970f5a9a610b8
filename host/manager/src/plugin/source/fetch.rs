//! Reading a source: the ConfigMaps or the file that a Plugin names.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use operetta_api::reasons;
use operetta_core::{
    nondeterminism,
    object::{Object, ObjectKey},
    status::{ApiError, ErrorKind},
};
use tokio::time::Instant;

use super::{
    Loader,
    artifact::{self, Stored},
    parts::{PartsError, Split},
    path, pins,
};
use crate::{
    plugin::{
        digest_pin::is_pending,
        hosted_plugin::{Consent, PluginRef, SourceWatch, State},
        object_watch::watch_object,
    },
    problem::Problem,
};

/// The time after which missing parts of a source are reported: `kubectl apply` applies one after the other, and the
/// digest in a ConfigMap's annotation has to become the Plugin's.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(3);

/// The version of a source, with the pin that it was read for.
pub(super) type Version = String;

/// The content of a source.
pub(super) enum Fetched {
    /// The source is unchanged since the last read, or not complete yet.
    Unchanged,
    /// A component, as it is stored.
    Stored(Stored, Version),
    /// An invalid version.
    Problem(Problem, Version),
    /// The source does not exist.
    Gone(Problem),
}

impl Loader {
    pub(super) async fn fetch_config_map(
        &self,
        plugin: PluginRef<'_>,
        consent: &Consent,
        key: &ObjectKey,
        state: &mut State,
    ) -> Result<Fetched, ApiError> {
        let file = plugin.object.spec.source.config_map.as_ref().and_then(|source| source.key.as_deref());
        let Some(metadata) = self.source_metadata(plugin.key, key, state).await else {
            let namespace = key.namespace.as_deref().unwrap_or_default();
            let message = format!("ConfigMap {:?} does not exist in namespace {namespace:?}", key.name);
            return Ok(Fetched::Gone(Problem::new(reasons::SOURCE_NOT_FOUND, message)));
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
        if is_pending(plugin.object, &metadata) && self.may_still_come(plugin.key, state) {
            return Ok(Fetched::Unchanged);
        }
        let config_map = match self.hand_over.take(&metadata).await {
            Ok(config_map) => config_map,
            // Deleted since: its event follows.
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(Fetched::Unchanged),
            Err(error) => return Err(error),
        };
        let config_map = match self.join_parts(config_map).await? {
            Ok(whole) => whole,
            Err(error) => return Ok(self.handle_parts_error(plugin.key, error, version, state)),
        };
        state.source.incomplete_since = None;
        Ok(match artifact::stored(config_map, file) {
            Ok(stored) => Fetched::Stored(stored, version),
            Err(error) => Fetched::Problem(Problem::new(error.reason(), error.to_string()), version),
        })
    }

    fn handle_parts_error(
        &self,
        plugin: &ObjectKey,
        error: PartsError,
        version: Version,
        state: &mut State,
    ) -> Fetched {
        if matches!(error, PartsError::Incomplete { .. }) && self.may_still_come(plugin, state) {
            tracing::debug!(%plugin, %error, "waiting for parts");
            return Fetched::Unchanged;
        }
        state.source.incomplete_since = None;
        Fetched::Problem(Problem::new(error.reason(), error.to_string()), version)
    }

    /// Reports whether the rest of a source may still come. If so, the Plugin is enqueued for it.
    fn may_still_come(&self, plugin: &ObjectKey, state: &mut State) -> bool {
        let since = state.source.incomplete_since.get_or_insert_with(Instant::now);
        let in_time = since.elapsed() < SOURCE_TIMEOUT;
        if in_time {
            self.context.queue.enqueue_after(plugin, SOURCE_TIMEOUT);
        }
        in_time
    }

    /// Joins a ConfigMap with the bytes of its further parts, within the host's limit.
    async fn join_parts(&self, mut first: ConfigMap) -> Result<Result<ConfigMap, PartsError>, ApiError> {
        let split = match Split::of(&first) {
            Ok(Some(split)) => split,
            Ok(None) => return Ok(Ok(first)),
            Err(error) => return Ok(Err(error)),
        };
        let Some(mut joining) = split.begin(&mut first, self.context.config.max_wasm_bytes) else {
            return Ok(Ok(first));
        };
        for name in split.names() {
            let key = ObjectKey { namespace: first.metadata.namespace.clone(), name };
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

    /// Returns the source's metadata, from the informer of labelled ConfigMaps or from a watch of its own.
    async fn source_metadata(&self, plugin: &ObjectKey, key: &ObjectKey, state: &mut State) -> Option<Arc<Object>> {
        let labelled = &self.informers.config_maps;
        labelled.synced().await;
        if let Some(found) = labelled.cache.get(key) {
            state.source.watch = None;
            return Some(found);
        }
        if state.source.watch.as_ref().is_none_or(|watch| watch.config_map != key.name) {
            let subscription = watch_object(&self.context, plugin, &labelled.resource, key);
            state.source.watch = Some(SourceWatch { config_map: key.name.clone(), subscription });
        }
        let informer = state.source.watch.as_ref()?.subscription.informer();
        informer.synced().await;
        informer.cache.get(key)
    }

    pub(super) async fn fetch_file(&self, path: &str, pins: &str, state: &State) -> Fetched {
        let directory = self.context.config.plugin_directory.clone();
        let limit = self.context.config.max_wasm_bytes;
        let path = path.to_owned();
        let pins = pins.to_owned();
        let loading = state.source.loading.as_ref().map(|loading| loading.version.clone());
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
        fetched.unwrap_or_else(|error| Fetched::Gone(Problem::new(reasons::SOURCE_UNREADABLE, error.to_string())))
    }
}
