//! `operetta run`: the host, until SIGINT or SIGTERM.

use std::{os::unix::process::parent_id, time::Duration};

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use crate::{args::RunArgs, logging};
use operetta_manager::{admin, config::HostConfig, manager::Host};

/// Runs until a signal comes, then lets the reconciles in flight end.
pub async fn run(args: RunArgs) -> Result<()> {
    let parent = parent_id();
    logging::start();
    raise_open_files();
    let mut config = HostConfig::read(args.config.as_deref())?;
    if let Some(address) = args.admin_address {
        config.admin_address = address;
    }
    let client =
        operetta_kube::client::connect::connect(args.cluster.kubeconfig.as_deref(), args.cluster.context.as_deref())
            .await?;
    let host = Host::new(client, config)?;
    let (listener, address) = admin::bind(&host).await?;
    tracing::info!(admin = address, pooled = host.engine.is_pooled(), "operetta {} starts", env!("CARGO_PKG_VERSION"));
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let mut terminated = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let serving = tokio::spawn(admin::serve(host.clone(), listener));
    let work = async {
        host.start(address).await?;
        tracing::info!("looking after Plugins");
        serving.await.context("the admin server stopped")?
    };
    tokio::select! {
        ended = work => return ended,
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        () = end_of(parent), if args.exit_with_parent => {}
    }
    tracing::info!("stopping");
    host.stop().await;
    Ok(())
}

/// Takes as many open files as the process may have: each plugin holds its compiled code open, each watch a connection. Many
/// shells and service managers give 1,024 and allow more, for programs that still use `select`.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, soft = limit.current, "the limit on open files stays as it is");
    }
}

/// Waits until the parent process is another one. Nothing portable tells of that, so it asks.
async fn end_of(parent: u32) {
    while parent_id() == parent {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
