//! The bytes of watches that each replica receives.
//!
//! Each plugin watches ConfigMaps with a label selector of its own, so that each has a watch of its
//! own. Through a proxy in front of each replica, all bytes of its watches are counted while every
//! plugin's object changes some times: first with one replica, then with three. This includes
//! the host's own watches.

use std::time::Duration;

use operetta_testkit::{
    ControlPlane, DropIn, FaultProxy, Host, HostOptions, TestNamespace, bench::number, kinds,
    wat_guest::Guest, within,
};
use serde_json::json;

use crate::stage::{CONFIG, replica_of};

const PLUGINS: usize = 300;
const NAMESPACES: usize = 30;
/// The changes of each object in a round.
const CHANGES: usize = 5;
/// The longest time until all plugins are compiled and run.
const LIMIT: Duration = Duration::from_secs(1_200);
/// The time for events to arrive.
const SETTLE: Duration = Duration::from_secs(3);

/// A host behind a proxy that counts.
struct Counted {
    host: Host,
    proxy: FaultProxy,
}

impl Counted {
    async fn start(control_plane: &ControlPlane) -> Self {
        let proxy = FaultProxy::start(control_plane).await;
        let kubeconfig = Some(proxy.kubeconfig_of(control_plane, "operetta-system", "operetta"));
        let config = CONFIG.to_owned();
        let options = HostOptions {
            config,
            kubeconfig,
            beside_another: true,
            is_installed: true,
            ..HostOptions::default()
        };
        let host = Host::start(control_plane, &options).await;
        Self { host, proxy }
    }
}

/// Returns the bytes of the busiest of three replicas, in percent of those of one.
pub async fn measure(control_plane: &ControlPlane) -> Vec<f64> {
    control_plane.install_host();
    let plugins = number("PLUGINS", PLUGINS);
    let mut replicas = vec![Counted::start(control_plane).await];
    let mut namespaces = Vec::new();
    for number in 0..NAMESPACES {
        let namespace = control_plane.namespace(&format!("watch-{number}")).await;
        namespace.allow_all("plugin").await;
        namespaces.push(namespace);
    }
    for at in 0..plugins {
        let namespace = &namespaces[at % NAMESPACES];
        namespace.drop_in(&DropIn::new(&name(at), guest(at))).await;
        let object =
            json!({"metadata": {"name": format!("object-{at}"), "labels": {"team": name(at)}}});
        namespace.create_object(kinds::CONFIG_MAP, object).await;
    }
    until_spread(&namespaces, plugins, &replicas).await;
    let alone = churn(&namespaces, plugins, &replicas).await[0];
    for _ in 0..2 {
        replicas.push(Counted::start(control_plane).await);
    }
    until_spread(&namespaces, plugins, &replicas).await;
    let shared = churn(&namespaces, plugins, &replicas).await;
    println!("watch bytes of {plugins} plugins: {alone} with one replica, {shared:?} with three");
    let busiest = shared.into_iter().max().unwrap_or_default();
    replicas
        .iter()
        .for_each(|replica| replica.host.assert_sound());
    vec![busiest as f64 / alone as f64 * 100.0]
}

fn name(at: usize) -> String {
    format!("plugin-{at}")
}

/// A plugin that does nothing with the ConfigMaps of its team.
fn guest(at: usize) -> Vec<u8> {
    let source = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespaces": "Own", "labelSelector": format!("team={}", name(at))});
    Guest::default()
        .controllers(&json!([{"name": "c", "for": source}]))
        .build()
}

/// Waits until all plugins run, and each replica has some of them for a while.
async fn until_spread(namespaces: &[TestNamespace<'_>], plugins: usize, replicas: &[Counted]) {
    let mut before: Vec<String> = Vec::new();
    within(LIMIT, "the plugins are spread", async || {
        let mut owners = Vec::new();
        for namespace in namespaces {
            for plugin in namespace.list(kinds::PLUGIN).await {
                let conditions = plugin["status"]["conditions"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                let is_ready = |condition: &serde_json::Value| {
                    condition["type"] == "Ready" && condition["status"] == "True"
                };
                if conditions.iter().any(is_ready) {
                    owners.push(replica_of(&plugin).to_owned());
                }
            }
        }
        let is_same = owners == before;
        before.clone_from(&owners);
        let identities = replicas
            .iter()
            .filter_map(|replica| replica.host.logged("identity"));
        let counts: Vec<usize> = identities
            .map(|identity| owners.iter().filter(|owner| **owner == identity).count())
            .collect();
        let is_spread = counts
            .iter()
            .all(|count| *count >= plugins / replicas.len() / 2);
        if !is_same || owners.len() < plugins || !is_spread {
            tokio::time::sleep(Duration::from_secs(2)).await;
            return Err(format!(
                "{} of {plugins} are ready: {counts:?}",
                owners.len()
            ));
        }
        println!("plugins of each replica: {counts:?}");
        Ok(())
    })
    .await;
}

/// Changes all objects, and returns the bytes that each replica has received meanwhile.
async fn churn(namespaces: &[TestNamespace<'_>], plugins: usize, replicas: &[Counted]) -> Vec<u64> {
    let bytes = || {
        replicas
            .iter()
            .map(|replica| replica.proxy.watched_bytes())
            .collect::<Vec<_>>()
    };
    tokio::time::sleep(SETTLE).await;
    let before = bytes();
    for change in 0..CHANGES {
        for at in 0..plugins {
            let patch = json!({"data": {"change": change.to_string(), "text": "x".repeat(1_000)}});
            namespaces[at % NAMESPACES]
                .patch(kinds::CONFIG_MAP, &format!("object-{at}"), patch)
                .await;
        }
    }
    tokio::time::sleep(SETTLE).await;
    bytes()
        .into_iter()
        .zip(before)
        .map(|(after, before)| after - before)
        .collect()
}
