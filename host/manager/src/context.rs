//! What all plugins of a host share. It doesn't know about any controller.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::Result;
use kube::Client;
use operetta_core::{conflict::FieldConflicts, recorder::Recorder};
use operetta_wasm::Engine;

use crate::{
    cluster::Cluster,
    config::HostConfig,
    conflict::ConflictReporter,
    logs::{audit::AuditLog, store::LogStore},
    metrics::Metrics,
    plugin::{process::network::ApiServerTls, queue::PluginQueue},
    tenancy::tenants::Tenants,
};

/// What all plugins of a host share.
pub struct Context {
    /// The host's configuration.
    pub config: HostConfig,
    /// The connection to the API server.
    pub cluster: Cluster,
    /// The sandbox.
    pub engine: Engine,
    /// How the plugins share the host: weights, quotas and accounts of namespaces and plugins.
    pub tenants: Tenants,
    /// The plugins' logs.
    pub logs: LogStore,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The audit log of plugins' writes.
    pub audit: Arc<AuditLog>,
    /// Detects field conflicts between writers.
    pub conflicts: Arc<FieldConflicts>,
    /// The flight recorder.
    pub recorder: Arc<Recorder>,
    /// The queue of Plugins to reconcile.
    pub queue: PluginQueue,
    /// The client of processes' requests, whose streams may be silent for long.
    process_client: OnceLock<Client>,
    /// The certificate of the API server that processes see.
    pub process_tls: Arc<ApiServerTls>,
    /// The address of the admin endpoints, once the host has started.
    pub admin_address: OnceLock<String>,
}

impl Context {
    /// Creates the context without starting a watch or a plugin.
    ///
    /// # Errors
    /// When the configuration can't be used; the message names the field.
    pub fn new(
        client: Client,
        config: HostConfig,
        metrics: Arc<Metrics>,
        engine: Engine,
        recorder: Arc<Recorder>,
    ) -> Result<Arc<Self>> {
        let cluster = Cluster::new(client, &config, &recorder)?;
        let reporter = ConflictReporter {
            events: cluster.recorder.clone(),
            metrics: metrics.clone(),
            informers: cluster.registry.clone(),
        };
        let queue = PluginQueue::new();
        let quotas = config.quotas.clone();
        let memory_bytes = config.plugin_memory_bytes();

        Ok(Arc::new(Self {
            conflicts: FieldConflicts::new(Arc::new(reporter)),
            audit: Arc::new(AuditLog::open(config.audit_file.as_deref())?),
            engine,
            recorder,
            tenants: Tenants::start(quotas, crate::poll_slots(), memory_bytes, queue.clone())?,
            config,
            cluster,
            logs: LogStore::default(),
            metrics,
            queue,
            process_client: OnceLock::new(),
            process_tls: Arc::new(ApiServerTls::generate()?),
            admin_address: OnceLock::new(),
        }))
    }

    /// Returns how long in-flight reconciles may take when their plugin stops.
    pub fn shutdown_time(&self) -> Duration {
        Duration::from_secs(self.config.shutdown_seconds)
    }

    /// Sends processes' requests with this client from now on, instead of the host's own.
    pub fn set_process_client(&self, client: Client) {
        // It is set once, at the start.
        let _first = self.process_client.set(client);
    }

    /// Returns the client of processes' requests.
    pub fn process_client(&self) -> &Client {
        self.process_client.get().unwrap_or(&self.cluster.client)
    }

    /// Returns the address of the admin endpoints, or an empty string before the host has started.
    pub fn admin_address(&self) -> &str {
        self.admin_address.get().map_or("", String::as_str)
    }
}
