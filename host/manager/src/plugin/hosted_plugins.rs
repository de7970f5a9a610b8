//! The Plugins the host has seen, by key.

use std::{collections::HashMap, sync::Arc, time::Duration};

use operetta_core::{
    gate::permit::RequestPermit,
    object::{ObjectKey, kind::GroupVersionKind},
    replicas::{Fence, Shard},
};
use parking_lot::Mutex;

use crate::{
    authz::allowed_code::AllowedCode,
    context::Context,
    plugin::{
        hosted_plugin::HostedPlugin,
        status::{
            health::{Health, HealthSinks},
            hot_loop::LoopReporter,
            records::PluginRecords,
            report::COUNTS_INTERVAL,
        },
    },
    traces::Traces,
};

/// How long changes of a plugin's health are collected into one reconcile of the Plugin.
const HEALTH_DELAY: Duration = Duration::from_millis(500);

/// The state of all Plugins.
pub struct HostedPlugins {
    context: Arc<Context>,
    /// The parent of all plugins' permits. It is paused while consent can't be watched, and ends
    /// with this replica's Lease.
    pub consent: Arc<RequestPermit>,
    by_key: Mutex<HashMap<ObjectKey, Arc<HostedPlugin>>>,
    /// Traces of reconciles, if configured.
    traces: Option<Arc<Traces>>,
}

impl HostedPlugins {
    /// Creates an empty map. No plugin may act while the fence is closed.
    pub fn new(context: Arc<Context>, fence: Arc<Fence>, traces: Option<Arc<Traces>>) -> Arc<Self> {
        Arc::new(Self {
            context,
            consent: RequestPermit::fenced(fence),
            by_key: Mutex::default(),
            traces,
        })
    }

    /// Returns a Plugin's state, or creates it with this uid.
    pub fn get_or_create(&self, plugin: &ObjectKey, uid: &str) -> Arc<HostedPlugin> {
        self.by_key
            .lock()
            .entry(plugin.clone())
            .or_insert_with(|| self.create(plugin, uid))
            .clone()
    }

    /// Returns a Plugin's state, if the host has seen the Plugin.
    pub fn get(&self, plugin: &ObjectKey) -> Option<Arc<HostedPlugin>> {
        self.by_key.lock().get(plugin).cloned()
    }

    /// Revokes the Plugin's permit, if there is one, and enqueues the Plugin.
    pub fn revoke(&self, plugin: &ObjectKey, why: &str) {
        if let Some(hosted) = self.get(plugin) {
            hosted.permit().revoke(why);
        }
        self.context.queue.enqueue(plugin);
    }

    /// Revokes the permits of shards owned by another replica, and enqueues the Plugin.
    pub fn revoke_shards(&self, plugin: &ObjectKey, shards: &[Shard]) {
        if let Some(hosted) = self.get(plugin) {
            hosted.revoke_shards(shards);
        }
        self.context.queue.enqueue(plugin);
    }

    /// Reports whether consent allows a Plugin's running code; true if there is none.
    pub fn permit_running_code(&self, plugin: &ObjectKey, allowed: &AllowedCode) -> bool {
        self.get(plugin)
            .is_none_or(|hosted| hosted.permits_running_code(allowed))
    }

    /// Returns the number of Plugins.
    pub fn count(&self) -> usize {
        self.by_key.lock().len()
    }

    /// Returns all Plugins and their states.
    pub fn all(&self) -> Vec<(ObjectKey, Arc<HostedPlugin>)> {
        self.by_key
            .lock()
            .iter()
            .map(|(key, hosted)| (key.clone(), hosted.clone()))
            .collect()
    }

    /// Stops a Plugin that this replica no longer runs, and drops its state.
    pub async fn remove(&self, plugin: &ObjectKey, why: &str) {
        let Some(hosted) = self.by_key.lock().remove(plugin) else {
            return;
        };
        hosted.permit().revoke(why);
        if let Some(running) = hosted.state.lock().await.running.take() {
            running.stop(self.context.shutdown_time());
        }

        self.context.logs.remove(plugin);
        self.context.metrics.forget(plugin);
        tracing::info!(%plugin, "stopped");
    }

    fn create(&self, plugin: &ObjectKey, uid: &str) -> Arc<HostedPlugin> {
        let log = self
            .context
            .logs
            .get_or_create(plugin, self.context.config.plugin_log_level.into());
        let enqueue_after = |delay| {
            let queue = self.context.queue.clone();
            let key = plugin.clone();
            Box::new(move || queue.enqueue_after(&key, delay))
        };
        let registry = self.context.cluster.registry.clone();
        let cached = move |kind: &GroupVersionKind, key: &ObjectKey| {
            registry
                .of_kind(kind)
                .into_iter()
                .find_map(|informer| informer.cache.get(key))
        };
        let recorder = self.context.recorder.clone();
        let records = PluginRecords::new(recorder, self.traces.clone(), Box::new(cached.clone()));

        let cached_uid = move |kind: &GroupVersionKind, key: &ObjectKey| {
            Some(cached(kind, key)?.uid().to_owned())
        };
        let sinks = HealthSinks {
            log: log.clone(),
            metrics: self.context.metrics.clone(),
            loops: LoopReporter {
                events: self.context.cluster.recorder.clone(),
                cached_uid: Box::new(cached_uid),
            },
            records,
            changed: enqueue_after(HEALTH_DELAY),
            counted: enqueue_after(COUNTS_INTERVAL),
        };

        HostedPlugin::new(
            uid,
            log,
            Health::new(plugin.clone(), sinks),
            self.consent.clone(),
        )
    }
}
