//! How soon a plugin is at work, and what a swap of its code costs: `make bench-start`, on a real API server.
//!
//! - `start.cold`: from the creation of the ConfigMap with the component until the plugin's first write is there; the code is new
//!   to the host, which compiles it in a process of its own.
//! - `start.cached`: the same of code that the host has compiled before.
//! - `start.swap_longest`: [`OBJECTS`] ConfigMaps are created, [`PACE`] apart; in the middle of it the plugin's code is swapped
//!   for another one. The longest time from a creation to the plugin's write. Every object has to be written once at least,
//!   or the bench ends with an error.
//! - `start.swap_usual`: the median of the same.
//!
//! The component is the fixture `touch`, with another number in a custom section each time. API server, host and this program
//! share the machine's cores.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, TestNamespace,
    bench::{Report, Row, Samples, number},
    guest, kinds,
    wat_guest::numbered,
};
use tokio::sync::mpsc;

const ROUNDS: usize = 9;
const OBJECTS: usize = 600;
const PACE: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// Tells of each object that the plugin has written, with the value.
type Written = mpsc::UnboundedReceiver<(String, String, Instant)>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // `cargo test --benches` only asks whether it starts.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let rounds = number("ROUNDS", ROUNDS);
    let control_plane = ControlPlane::start(&[]).map_err(anyhow::Error::msg)?;
    let options = HostOptions { compiles_anew: true, ..HostOptions::default() };
    let host = Host::start(env!("CARGO_BIN_EXE_operetta"), &control_plane, &options).await;
    let namespace = control_plane.namespace("bench").await;
    namespace.allow_all("plugin").await;
    let mut written = watch(control_plane.client().await, &namespace);
    let [touch, other] = ["fixture-touch-v1", "fixture-touch-v2"].map(guest);

    let (mut cold, mut cached) = (Vec::new(), Vec::new());
    // The first round is thrown away: the API server makes its caches.
    for round in 0..=rounds {
        let plugin = DropIn::new("touch", numbered(&touch, round));
        for (times, how) in [(&mut cold, "cold"), (&mut cached, "cached")] {
            let name = format!("{how}-{round}");
            namespace.create_touchable(&name).await;
            let started = Instant::now();
            namespace.drop_in(&plugin).await;
            let at = until(&mut written, &name).await?;
            if round > 0 {
                times.push((at - started).as_secs_f64() * 1e3);
            }
            namespace.delete(kinds::CONFIG_MAP, "touch").await;
            namespace.until_gone(kinds::PLUGIN, "touch").await;
            namespace.delete(kinds::CONFIG_MAP, &name).await;
        }
    }
    namespace.drop_in(&DropIn::new("touch", touch)).await;
    namespace.until_condition("touch", "Ready", "True", "Running").await;
    let (mut longest, mut usual) = (Vec::new(), Vec::new());
    for round in 0..rounds.min(3) {
        let code = DropIn::new("touch", numbered(&other, round)).code();
        let mut took = swap(&namespace, &mut written, round, code).await?;
        took.sort_unstable();
        longest.push(took[took.len() - 1].as_secs_f64() * 1e3);
        usual.push(took[took.len() / 2].as_secs_f64() * 1e3);
    }
    host.assert_sound();
    let mut report = Report::new("start");
    report.row(Row::new("start.cold", "ms", Samples::new(cold)).target(300.0));
    report.row(Row::new("start.cached", "ms", Samples::new(cached)).target(20.0));
    report.row(Row::new("start.swap_longest", "ms", Samples::new(longest)).target(50.0));
    report.row(Row::new("start.swap_usual", "ms", Samples::new(usual)));
    report.finish()?;
    Ok(())
}

/// Creates objects, swaps the code in the middle; how long each waited.
async fn swap(
    namespace: &TestNamespace<'_>,
    written: &mut Written,
    round: usize,
    code: serde_json::Value,
) -> anyhow::Result<Vec<Duration>> {
    let name = |at: usize| format!("swap-{round}-{at}");
    let creating = async {
        let mut created = HashMap::new();
        let mut pace = tokio::time::interval(PACE);
        for at in 0..OBJECTS {
            pace.tick().await;
            created.insert(name(at), Instant::now());
            if at == OBJECTS / 2 {
                namespace.patch(kinds::CONFIG_MAP, "touch", code.clone()).await;
            }
            namespace.create_touchable(&name(at)).await;
        }
        created
    };
    let arriving = async {
        let mut first: HashMap<String, Instant> = HashMap::new();
        while first.len() < OBJECTS {
            let arrived = tokio::time::timeout(PATIENCE, written.recv()).await;
            let Ok(Some((name, _, at))) = arrived else {
                anyhow::bail!("{} of {OBJECTS} objects were written, and then none", first.len());
            };
            if name.starts_with(&format!("swap-{round}-")) {
                first.entry(name).or_insert(at);
            }
        }
        Ok(first)
    };
    let (created, first) = tokio::join!(creating, arriving);
    let first = first?;
    let waited = created.iter().filter_map(|(name, at)| Some(first.get(name)?.saturating_duration_since(*at)));
    Ok(waited.collect())
}

/// Waits until an object was written; when that was.
async fn until(written: &mut Written, name: &str) -> anyhow::Result<Instant> {
    loop {
        match tokio::time::timeout(PATIENCE, written.recv()).await {
            Ok(Some((found, _, at))) if found == name => return Ok(at),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => anyhow::bail!("{name} was not written"),
        }
    }
}

fn watch(client: kube::Client, namespace: &TestNamespace<'_>) -> Written {
    let (tell, written) = mpsc::unbounded_channel();
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace.name());
    tokio::spawn(async move {
        let mut events = watcher(maps, watcher::Config::default()).default_backoff().boxed();
        while let Ok(Some(event)) = events.try_next().await {
            if let watcher::Event::Apply(map) = event
                && let (Some(name), Some(mut data)) = (map.metadata.name, map.data)
                && let Some(value) = data.remove("touched")
                && tell.send((name, value, Instant::now())).is_err()
            {
                return;
            }
        }
    });
    written
}
