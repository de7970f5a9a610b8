//! Ours in the field: a process that syncs an informer as the host does, and says how long that
//! took.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, future, stream};
use operetta_core::object::kind::GroupVersionKind;
use operetta_kube::{
    client::{
        api_client::{ApiClient, Identity},
        connect::connect,
    },
    discovery::Discovery,
    informer::{Handler, Scope, registry::InformerRegistry},
};
use serde_json::json;
use tokio::runtime::Builder;

use crate::load::{MARKER, kind};

/// Kinds that are looked up at once.
const LOOKUPS: usize = 32;

/// `--kubeconfig F --peer NAME [--kinds N]`: one line when the informers have synced, one for each
/// marked object that comes later; ends with its input.
pub fn sync(arguments: &[String]) -> anyhow::Result<()> {
    let start = Instant::now();
    let value = |name: &str| {
        arguments
            .iter()
            .skip_while(|argument| *argument != name)
            .nth(1)
    };
    let of = |name: &str| value(name).ok_or_else(|| anyhow::anyhow!("{name} is missing"));
    let kubeconfig = of("--kubeconfig")?;
    let name = of("--peer")?;
    let kinds = match value("--kinds") {
        Some(count) => (0..count.parse()?).map(kind).collect(),
        None => vec![GroupVersionKind::new("v1", "Pod")],
    };
    std::thread::spawn(|| {
        let _ended = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(0);
    });
    let runtime = if name == "operetta-one-thread" {
        Builder::new_current_thread().enable_all().build()?
    } else {
        // As the host makes it.
        let workers = std::thread::available_parallelism()?.get();
        let mut runtime = Builder::new_multi_thread();
        runtime
            .worker_threads(workers)
            .event_interval(1)
            .global_queue_interval(1)
            .enable_all()
            .build()?
    };
    runtime.block_on(async {
        let client = connect(Some(kubeconfig.as_ref()), None).await?;
        let api_client = ApiClient::new(client, &Identity::Host).map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let discovery = Discovery::new(api_client.clone());
        let registry = InformerRegistry::new(api_client);
        // Kept: a subscription that is dropped ends its watch.
        let subscriptions: Vec<_> = stream::iter(kinds)
            .map(|kind| {
                let discovery = discovery.clone();
                let registry = registry.clone();
                async move {
                    let resource = discovery.resolve(&kind).await.map_err(|error| anyhow::anyhow!("{error:?}"))?;
                    let informer = registry.informer(&resource, Scope::everything());
                    Ok::<_, anyhow::Error>(informer.subscribe(delivered(), None))
                }
            })
            .buffer_unordered(LOOKUPS)
            .try_collect()
            .await?;
        future::join_all(subscriptions.iter().map(|subscription| subscription.informer().synced())).await;
        let seconds = start.elapsed().as_secs_f64();
        let objects: usize = subscriptions.iter().map(|one| one.informer().cache.store.len()).sum();
        let line = json!({"metric": "informer.initial_list", "peer": name, "samples": [seconds], "objects": objects});
        println!("{line}");
        loop {
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
    })
}

/// Names each marked object.
fn delivered() -> Handler {
    Arc::new(|event| {
        let object = event.object();
        if object.label(MARKER).is_some() {
            println!("{}", json!({"marker": object.key().name}));
        }
    })
}
