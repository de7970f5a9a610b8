//! `operetta dev [DIR]`: an API server, a host and the project's plugin in one process, built again
//! on each save.
//!
//! The API server is the embedded one, so nothing has to be installed, or that of a kubeconfig. The
//! host runs in this process as an administrator. The component is not bundled: the Plugin names
//! the file in the project's folder `build`. In TypeScript and Python an interpreter runs the
//! source instead of a build.

mod builds;
mod changes;
mod cluster;
mod host;
mod interpreter;
mod keys;
pub mod manifests;
mod session;
mod shared_cluster;
mod view;

use anyhow::{Context, Result};
use kube::Client;
use operetta_host::cluster::connect_to_apply;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use self::manifests::read_objects;
use self::{
    builds::Builder,
    cluster::Cluster,
    host::{DevHost, MANAGER},
    manifests::Manifests,
    session::Session,
    shared_cluster::SharedCluster,
    view::View,
};
use super::{build::Project, objects::Write};
use crate::args::{ClusterArgs, DevArgs};

/// Runs until `q`, SIGINT or SIGTERM.
///
/// # Errors
/// Returns an error if the folder has no project, the port is in use, the cluster has another host,
/// or the API server refuses one of the project's objects.
pub async fn dev(args: &DevArgs) -> Result<()> {
    let project = Project::find(&args.dir)?;

    let folder = match &args.manifests {
        Some(folder) => folder
            .canonicalize()
            .with_context(|| format!("failed to open {}", folder.display()))?,
        None => project.dir.clone(),
    };

    let manifests = Manifests::read(&folder, &args.namespace)?;
    let started = Started {
        project,
        manifests,
        view: View::start(),
        signals: Signals::listen()?,
        compiler_args: args.compiler_args.clone(),
    };

    match args.cluster() {
        Some(cluster) => started.on_shared_cluster(args, &cluster).await,
        None => started.on_own_cluster(args).await,
    }
}

/// The signals that end a session.
struct Signals {
    interrupted: Signal,
    terminated: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        let interrupted = signal(SignalKind::interrupt()).context("failed to handle SIGINT")?;
        let terminated = signal(SignalKind::terminate()).context("failed to handle SIGTERM")?;
        Ok(Self {
            interrupted,
            terminated,
        })
    }
}

/// A session before it has a cluster.
struct Started {
    project: Project,
    manifests: Manifests,
    view: View,
    signals: Signals,
    /// The author's arguments for the language's compiler.
    compiler_args: Vec<String>,
}

impl Started {
    /// Runs on an API server of its own, in this process.
    async fn on_own_cluster(self, args: &DevArgs) -> Result<()> {
        let cluster = Cluster::start(&self.project.dir, args).await?;
        self.view.say(&format!(
            "API server ready: export KUBECONFIG={}",
            cluster.kubeconfig.display()
        ));

        let connection = ClusterArgs {
            kubeconfig: Some(cluster.kubeconfig.clone()),
            context: None,
        };
        let client = connect_to_apply(&connection).await?;

        // A session owns its cluster.
        let write = Write {
            manager: MANAGER,
            force: true,
            dry_run: false,
        };

        host::install(&client, &args.namespace, write).await?;
        let host = DevHost::start(&connection, &self.project, None).await?;
        let ended = self.run(client, write, &host).await;
        host.stop().await;
        ended
    }

    /// Runs on a cluster of a kubeconfig.
    async fn on_shared_cluster(self, args: &DevArgs, connection: &ClusterArgs) -> Result<()> {
        let client = connect_to_apply(connection).await?;
        let namespace = &args.namespace;
        let plugin = &self.project.name;
        let cluster =
            SharedCluster::prepare(client.clone(), namespace, plugin, args.force_conflicts).await?;

        self.view.say(&format!(
            "using the cluster of {}, namespace {namespace}",
            selected(connection)
        ));

        let host = DevHost::start(connection, &self.project, Some(namespace.clone())).await?;
        let ended = self.run(client, cluster.write(), &host).await;
        let deleted = cluster.delete_plugin().await;
        host.stop().await;
        ended.and(deleted).and(cluster.leave().await)
    }

    async fn run(self, client: Client, write: Write, host: &DevHost) -> Result<()> {
        let Signals {
            mut interrupted,
            mut terminated,
        } = self.signals;

        let builder = Builder::new(self.project.clone(), host.engine(), &self.compiler_args);
        let mut session = Session::new(
            self.project,
            builder,
            self.manifests,
            client,
            write,
            self.view,
        );

        tokio::select! {
            ended = session.run() => ended,
            ended = host.ended() => ended,
            _ = interrupted.recv() => Ok(()),
            _ = terminated.recv() => Ok(()),
        }
    }
}

/// Describes the selected cluster.
fn selected(connection: &ClusterArgs) -> String {
    match (&connection.context, &connection.kubeconfig) {
        (Some(context), _) => format!("context {context}"),
        (None, Some(file)) => format!("kubeconfig {}", file.display()),
        (None, None) => "the kubeconfig".to_owned(),
    }
}
