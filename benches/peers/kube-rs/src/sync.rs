//! The first sync of all Pods, by `watcher` and `reflector` with their defaults.

use std::{
    fmt::Debug,
    hash::Hash,
    io::{self, Read},
    pin::pin,
    time::Instant,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt,
        reflector::{reflector, store::Writer},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::Outcome;

/// The label of an object whose arrival is told.
const MARKER: &str = "bench.operetta.dev/marker";

/// Says how long the reflector took to be ready since the program began, then names each marked
/// object that arrives. Ends with its input.
pub fn sync(kubeconfig: &str, peer: &str) -> Outcome<()> {
    let start = Instant::now();
    // What `#[tokio::main]` makes.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.spawn_blocking(|| {
        // The parent closes it, or is gone.
        let _ended = io::copy(&mut io::stdin().lock().take(u64::MAX), &mut io::sink());
        std::process::exit(0);
    });
    runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        match peer {
            "kube-rs" => run::<Pod>(Api::all(client), (), peer, start).await,
            "kube-rs-dynamic" => {
                let pods = ApiResource::erase::<Pod>(&());
                run::<DynamicObject>(Api::all_with(client, &pods), pods, peer, start).await
            }
            _ => Err(format!("no peer {peer:?}").into()),
        }
    })
}

async fn run<K>(api: Api<K>, kind: K::DynamicType, peer: &str, start: Instant) -> Outcome<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Unpin,
{
    let writer = Writer::new(kind);
    let store = writer.as_reader();
    let watch = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = pin!(reflector(writer, watch));
    let mut synced = false;
    while let Some(event) = events.next().await {
        // The backoff has the errors: the next event comes after them.
        match event {
            Ok(watcher::Event::InitDone) if !synced => {
                synced = true;
                let seconds = start.elapsed().as_secs_f64();
                let line = json!({
                    "metric": "informer.initial_list", "peer": peer, "unit": "s", "samples": [seconds],
                    "objects": store.len(),
                });
                println!("{line}");
            }
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object))
                if object.labels().contains_key(MARKER) =>
            {
                println!("{}", json!({"marker": object.name_any()}));
            }
            _ => {}
        }
    }
    Err("the watch ended".into())
}
