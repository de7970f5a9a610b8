//! `operetta dev [DIR]`: an API server, a host and the project's plugin in one process, built again on each save.
//!
//! The API server is the embedded one, so nothing has to be installed. The host runs in this process as an administrator.
//! The component is not bundled: the Plugin names the file in the project's folder `build`. In TypeScript and Python an
//! interpreter runs the source instead of a build.

mod builds;
mod changes;
mod cluster;
mod host;
mod interpreter;
mod keys;
mod manifests;
mod session;
mod view;

use anyhow::{Context, Result};
use operetta_kube::client::connect::connect;
use tokio::signal::unix::{SignalKind, signal};

pub use self::manifests::read_objects;
use self::{cluster::Cluster, host::DevHost, manifests::Manifests, session::Session, view::View};
use super::build::Project;
use crate::args::DevArgs;

/// Runs until `q`, SIGINT or SIGTERM.
///
/// # Errors
/// Returns an error if the folder has no project, the port is in use, or the API server refuses one of the project's objects.
pub async fn dev(args: &DevArgs) -> Result<()> {
    let project = Project::find(&args.dir)?;
    let folder = match &args.manifests {
        Some(folder) => folder.canonicalize().with_context(|| format!("failed to open {}", folder.display()))?,
        None => project.dir.clone(),
    };
    let manifests = Manifests::read(&folder, &args.namespace)?;
    let view = View::start();
    let mut interrupted = signal(SignalKind::interrupt()).context("failed to handle SIGINT")?;
    let mut terminated = signal(SignalKind::terminate()).context("failed to handle SIGTERM")?;
    let cluster = Cluster::start(&project.dir, args).await?;
    view.say(&format!("API server ready: export KUBECONFIG={}", cluster.kubeconfig.display()));
    let client = connect(Some(&cluster.kubeconfig), None).await?;
    let host = DevHost::start(&client, &cluster.kubeconfig, &project.dir, &args.namespace).await?;
    let mut session = Session::new(project, host.engine(), manifests, client, &args.namespace, view);
    tokio::select! {
        ended = session.run() => ended?,
        ended = host.ended() => ended?,
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    host.stop().await;
    Ok(())
}
