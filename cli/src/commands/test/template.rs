//! The origin of clusters: an API server with the project's definitions. Each cluster is a copy of
//! it.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result, anyhow, bail};
use operetta_apiserver::{Controllers, EmbeddedServer, Options, server::Environment};

use super::{
    cluster::{Cluster, PATH, message_of},
    definitions::Definitions,
};

pub struct Template {
    server: EmbeddedServer,
    complete_groups: Arc<Vec<String>>,
    /// Those that run in each cluster.
    controllers: Controllers,
}

impl Template {
    /// Starts an API server with a project's definitions. These controllers run in each cluster.
    ///
    /// # Errors
    /// Returns an error that names the file, and the definition that the API server refuses.
    pub async fn new(definitions: &Definitions, controllers: Controllers) -> Result<Self> {
        let server = EmbeddedServer::start(options(Controllers::none()))
            .context("failed to start the API server")?;

        let mut complete_groups = server.resources().groups();
        let groups = definitions
            .objects
            .iter()
            .filter_map(|definition| definition["spec"]["group"].as_str());
        complete_groups.extend(groups.map(str::to_owned));

        let template = Self {
            server,
            complete_groups: Arc::new(complete_groups),
            controllers,
        };

        let file = definitions.file.as_deref().unwrap_or(Path::new("crd.yaml"));
        template
            .define(definitions)
            .await
            .with_context(|| format!("{} is refused", file.display()))?;

        Ok(template)
    }

    async fn define(&self, definitions: &Definitions) -> Result<()> {
        let mut cluster = self.join(self.server.clone())?;

        for definition in &definitions.objects {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();

            let sent = cluster
                .send("POST", PATH, Some(definition.to_string()))
                .await;
            let response = sent.map_err(|error| anyhow!(error))?;

            if response.status != 201 {
                bail!(
                    "CustomResourceDefinition {name}: {}",
                    message_of(&response.body)
                );
            }
        }

        self.server.serve_definitions();
        Ok(())
    }

    /// Starts a fresh cluster.
    ///
    /// # Errors
    /// Returns an error if no client can be built.
    pub fn cluster(&self) -> Result<Cluster> {
        self.join(self.server.copy(options(self.controllers.clone())))
    }

    fn join(&self, server: EmbeddedServer) -> Result<Cluster> {
        Cluster::new(server, self.complete_groups.clone()).map_err(|error| anyhow!("{error}"))
    }
}

fn options(controllers: Controllers) -> Options {
    Options {
        controllers,
        ..Options::in_memory(Environment::system())
    }
}
