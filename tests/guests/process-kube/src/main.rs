//! A small operator of kube-rs with a main of its own, for the tests of hosts that run processes. It
//! knows nothing of the host: in a Pod it would do the same.
//!
//! It copies each ConfigMap with the label copy=wanted to NAME-copy, which it owns. A ConfigMap named
//! crash makes it panic, one named leave makes it exit with 3, of which WASI 0.2 tells the host only
//! that it failed. On SIGTERM it creates the ConfigMap goodbye. With an address as its argument it
//! says there whether it is ready.

use std::{collections::BTreeMap, env, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ObjectMeta, PostParams},
    runtime::{
        Controller,
        controller::{Action, Config},
        watcher,
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to copy {0}: {1}")]
    Copy(String, #[source] kube::Error),
}

async fn reconcile(wanted: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Error> {
    let name = wanted.name_any();
    match name.as_str() {
        "crash" => panic!("a bug in the operator"),
        "leave" => {
            eprintln!("leaving");
            std::process::exit(3);
        }
        _ => {}
    }

    let maps: Api<ConfigMap> = Api::default_namespaced(client.as_ref().clone());
    let copy = ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("{name}-copy")),
            labels: Some(BTreeMap::from([("copy".to_owned(), "made".to_owned())])),
            owner_references: wanted.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: wanted.data.clone(),
        ..ConfigMap::default()
    };

    let failed = |error| Error::Copy(name.clone(), error);
    match maps.get_opt(&copy.name_any()).await.map_err(failed)? {
        None => {
            maps.create(&PostParams::default(), &copy)
                .await
                .map_err(failed)?;
        }
        Some(found) if found.data != copy.data => {
            let copy = ConfigMap {
                metadata: found.metadata,
                ..copy
            };
            maps.replace(&copy.name_any(), &PostParams::default(), &copy)
                .await
                .map_err(failed)?;
        }
        Some(_) => {}
    }
    Ok(Action::requeue(Duration::from_secs(600)))
}

fn error_policy(_: Arc<ConfigMap>, error: &Error, _: Arc<Client>) -> Action {
    tracing::warn!("{error}");
    Action::requeue(Duration::from_millis(500))
}

/// Answers each request with 200.
async fn serve(address: String) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut request = [0; 1024];
            stream.read(&mut request).await?;
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
            stream.write_all(answer.as_bytes()).await
        });
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_ansi(false)
        .without_time()
        .init();
    let client = Client::try_default().await?;
    let version = client.apiserver_version().await?;
    tracing::info!("the API server is {}.{}", version.major, version.minor);
    if let Some(address) = env::args().nth(1) {
        tokio::spawn(serve(address));
    }

    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    Controller::new(
        maps.clone(),
        watcher::Config::default().labels("copy=wanted"),
    )
    .owns(maps.clone(), watcher::Config::default().labels("copy=made"))
    .with_config(Config::default().concurrency(8))
    .shutdown_on_signal()
    .run(reconcile, error_policy, Arc::new(client))
    .for_each(|reconciled| async move {
        if let Err(error) = reconciled {
            tracing::debug!("{error}");
        }
    })
    .await;

    let goodbye = ConfigMap {
        metadata: ObjectMeta {
            name: Some("goodbye".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &goodbye).await?;
    tracing::info!("ended");
    Ok(())
}
