//! The host of a session: a manager in this process.

use std::{net::Ipv4Addr, sync::Arc};

use anyhow::{Context, Result};
use kube::Client;
use operetta_api::labels::PLUGINS;
use operetta_host::cluster::{
    connect_for_processes, connect_for_users, connect_observed, connector,
};
use operetta_manager::{
    admin::Listeners,
    config::{Compiler, HostConfig},
    manager::Manager,
    metrics::Metrics,
};
use operetta_wasm::Engine;
use serde_json::json;
use tokio::task::JoinHandle;

use super::{
    super::{
        build::Project,
        install,
        objects::{self, Write},
    },
    interpreter,
};
use crate::args::ClusterArgs;

/// The field manager of a session's writes.
pub const MANAGER: &str = "operetta-dev";

/// A running host.
pub struct DevHost {
    manager: Arc<Manager>,
    serving: JoinHandle<Result<()>>,
}

/// Installs what a host needs in a new cluster.
///
/// # Errors
/// Returns an error if the API server refuses an object.
pub async fn install(client: &Client, namespace: &str, write: Write) -> Result<()> {
    for definition in install::definitions()? {
        objects::apply(client, &definition, write).await?;
        objects::until_served(client, &definition).await?;
    }

    for (name, labels) in [
        ("operetta-system", json!({})),
        (namespace, json!({PLUGINS: "enabled"})),
    ] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        objects::apply(client, &namespace, write).await?;
    }

    Ok(())
}

impl DevHost {
    /// Starts a host that runs the components in the project's folder `build`. On a shared cluster
    /// it runs only the Plugins of `only_namespace`, and keeps its Leases there.
    ///
    /// # Errors
    /// Returns an error if the host cannot start.
    pub async fn start(
        cluster: &ClusterArgs,
        project: &Project,
        only_namespace: Option<String>,
    ) -> Result<Self> {
        let directory = project.dir.join("build");
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("failed to create {}", directory.display()))?;

        let config = HostConfig {
            admin_address: (Ipv4Addr::LOCALHOST, 0).into(),
            plugin_directory: Some(directory),
            compiler: Compiler::InProcess,
            interpreters: interpreter::folder(project),
            namespace: only_namespace.clone(),
            only_namespace,
            ..HostConfig::default()
        };

        let metrics = Metrics::new();
        let client = connect_observed(cluster, metrics.rest_client()).await?;
        let users = connect_for_users(cluster, metrics.rest_client()).await?;
        let of_processes = connect_for_processes(cluster, metrics.rest_client()).await?;
        let of_lease = connector(cluster, metrics.rest_client()).await?;
        let manager = Manager::new(client, config, metrics)?;
        manager.context.set_process_client(of_processes);
        manager.replicas.set_connector(of_lease);

        let listeners = Listeners::bind(&manager.context.config).await?;
        let address = listeners.admin_address()?;
        let serving = tokio::spawn(listeners.serve(manager.clone(), users));
        manager.start(address).await?;

        Ok(Self { manager, serving })
    }

    /// Returns the engine that runs the plugin.
    pub fn engine(&self) -> &Engine {
        &self.manager.context.engine
    }

    /// Waits for the host to end by itself, which it never should.
    ///
    /// # Errors
    /// Returns why it has ended.
    pub async fn ended(&self) -> Result<()> {
        let reason = self.manager.replicas.lost().await;
        anyhow::bail!("the host has ended: {reason}")
    }

    /// Stops the host, after the reconciles in flight.
    pub async fn stop(self) {
        self.manager.stop().await;
        self.serving.abort();
    }
}
