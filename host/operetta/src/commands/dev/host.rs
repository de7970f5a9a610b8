//! The host of a session: a manager in this process.

use std::{net::Ipv4Addr, path::Path, sync::Arc};

use anyhow::{Context, Result};
use kube::Client;
use operetta_kube::client::connect::connect_observed;
use operetta_manager::{admin::Listeners, config::HostConfig, manager::Manager, metrics::Metrics};
use operetta_wasm::Engine;
use serde_json::json;
use tokio::task::JoinHandle;

use super::{
    super::{
        install,
        objects::{self, Write},
    },
    interpreter,
};

/// The writes of this command: a session owns its cluster.
pub const WRITE: Write = Write { manager: "operetta-dev", force: true, dry_run: false };

/// A running host.
pub struct DevHost {
    manager: Arc<Manager>,
    serving: JoinHandle<Result<()>>,
}

impl DevHost {
    /// Installs what a host needs, and starts one that runs the components in the project's folder `build`.
    ///
    /// # Errors
    /// Returns an error if the API server refuses an object, or the host cannot start.
    pub async fn start(client: &Client, kubeconfig: &Path, project: &Path, namespace: &str) -> Result<Self> {
        for definition in install::definitions()? {
            objects::apply(client, &definition, WRITE).await?;
            objects::until_served(client, &definition).await?;
        }
        for (name, labels) in [("operetta-system", json!({})), (namespace, json!({"operetta.dev/plugins": "enabled"}))]
        {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
            objects::apply(client, &namespace, WRITE).await?;
        }
        let directory = project.join("build");
        std::fs::create_dir_all(&directory).with_context(|| format!("failed to create {}", directory.display()))?;
        let config = HostConfig {
            admin_address: (Ipv4Addr::LOCALHOST, 0).into(),
            plugin_directory: Some(directory),
            compile_here: true,
            interpreters: interpreter::folder(),
            ..HostConfig::default()
        };
        let metrics = Metrics::new();
        let client = connect_observed(Some(kubeconfig), None, metrics.rest_client()).await?;
        let manager = Manager::new(client, config, metrics)?;
        let listeners = Listeners::bind(&manager.context.config).await?;
        let address = listeners.admin_address()?;
        let serving = tokio::spawn(listeners.serve(manager.clone()));
        manager.start(address).await?;
        Ok(Self { manager, serving })
    }

    /// Returns the engine that runs the plugin.
    pub fn engine(&self) -> &Engine {
        &self.manager.context.engine
    }

    /// Waits until the host ends by itself, which it should not.
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
