//! Runs the host until SIGINT or SIGTERM.

use std::{os::unix::process::parent_id, time::Duration};

use anyhow::{Context, Error, Result};
use operetta_api::reasons;
use operetta_manager::{
    admin::{Listeners, secure::SecureEndpoints},
    config::{Compiler, HostConfig},
    confinement::Confinement,
    manager::Manager,
    metrics::Metrics,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::RunArgs,
    cluster::{connect_for_processes, connect_for_users, connect_observed, connector},
    confine,
};

/// Runs the host until a signal arrives, then waits for the reconciles in flight.
///
/// # Errors
/// Returns an error if the configuration is invalid, the confinement that it requires is not
/// effective, the cluster cannot be reached, or the admin server fails.
pub async fn run(args: RunArgs, compiler: Compiler, confinement: Confinement) -> Result<()> {
    let parent = parent_id();
    raise_open_files();

    let mut config = HostConfig {
        compiler,
        ..HostConfig::read(args.config.as_deref())?
    };
    if let Some(address) = args.admin_address {
        config.admin_address = address;
    }
    config.health_address = args.health_address.or(config.health_address);
    if let Some(address) = args.secure_address {
        let certificate = config
            .secure_endpoints
            .and_then(|endpoints| endpoints.certificate);
        config.secure_endpoints = Some(SecureEndpoints {
            address,
            certificate,
        });
    }

    config.confinement = confine::verify(&config, confinement).await?;

    let metrics = Metrics::new();
    let client = connect_observed(&args.cluster, metrics.rest_client()).await?;
    let users = connect_for_users(&args.cluster, metrics.rest_client()).await?;
    let of_processes = connect_for_processes(&args.cluster, metrics.rest_client()).await?;
    let of_lease = connector(&args.cluster, metrics.rest_client()).await?;
    let manager = Manager::new(client, config, metrics)?;
    manager.context.set_process_client(of_processes);
    manager.replicas.set_connector(of_lease);

    let listeners = Listeners::bind(&manager.context.config).await?;
    let address = listeners.admin_address()?;
    tracing::info!(
        admin = address,
        pooled = manager.context.engine.is_pooled(),
        "starting operetta {}",
        env!("CARGO_PKG_VERSION")
    );
    listeners.log()?;
    if let Some(endpoint) = listeners.endpoint()? {
        manager.replicas.set_endpoint(endpoint);
    }

    let mut interrupted = signal(SignalKind::interrupt()).context("failed to handle SIGINT")?;
    let mut terminated = signal(SignalKind::terminate()).context("failed to handle SIGTERM")?;
    let serving = tokio::spawn(listeners.serve(manager.clone(), users));
    let work = async {
        manager.start(address).await?;
        tracing::info!("started plugin controller");
        serving.await.context("the admin server stopped")?
    };
    tokio::select! {
        ended = work => return ended,
        reason = manager.replicas.lost() => return Err(membership_lost(&manager, &reason)),
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        () = end_of(parent), if args.exit_with_parent => {}
    }

    tracing::info!("stopping");
    manager.stop().await;
    Ok(())
}

fn membership_lost(manager: &Manager, reason: &str) -> Error {
    let message = format!(
        "lost the membership in Lease {}: {reason}: exiting",
        manager.replicas.group_key()
    );
    reasons::LEASE_LOST.error(message).into()
}

/// Raises the limit on open files to the hard limit: each plugin holds its compiled code open, each
/// watch a connection. Many shells and service managers set a soft limit of 1,024 for programs that
/// use `select`.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, soft = limit.current, "failed to raise the limit on open files");
    }
}

/// Waits until the parent process has ended. There is no portable notification, so this polls.
async fn end_of(parent: u32) {
    while parent_id() == parent {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
