//! Time until a plugin is at work, and the cost of a swap of its code: `make bench-start`, on a real API server.
//!
//! - `start.cold`: from the answer to the creation of the ConfigMap with the component until the plugin's first write is there;
//!   the code is new to the host, which compiles it in a process of its own.
//! - `start.cached`: the same of code that the host has compiled before.
//! - `start.swap`: the longest time without a reconcile while the code of a plugin is swapped that has [`OBJECTS`] objects, each
//!   reconciled again after one to two seconds (`start.rate`: how many that are in a second). That the new code is called
//!   for each object is seen in the plugin's log, or the bench ends with an error: none is lost.
//! - `start.no_swap`: the same longest time without a swap, which is how finely it is seen.
//!
//! The component of the first two is the fixture `touch`, with another number in a custom section each time. API server,
//! host and this program share the machine's cores.

use std::{
    collections::HashSet,
    sync::Arc,
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
    wat_guest::{Guest, numbered},
};
use serde_json::json;
use tokio::sync::mpsc;

const ROUNDS: usize = 9;
/// A thousand reconciles in a second.
const OBJECTS: usize = 1500;
const PATIENCE: Duration = Duration::from_secs(60);

/// Tells of each object that the plugin has written.
type Written = mpsc::UnboundedReceiver<(String, Instant)>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // `cargo test --benches` only asks whether it starts.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let rounds = number("ROUNDS", ROUNDS);
    let control_plane = ControlPlane::start(&[]).map_err(anyhow::Error::msg)?;
    let options = HostOptions { compiles_anew: true, ..HostOptions::default() };
    let host = Arc::new(Host::start(env!("CARGO_BIN_EXE_operetta"), &control_plane, &options).await);
    let namespace = control_plane.namespace("bench").await;
    namespace.allow_all("plugin").await;
    let mut written = watch(control_plane.client().await, &namespace);
    let touch = guest("fixture-touch-v1");

    let mut cold = Vec::new();
    let mut cached = Vec::new();
    // The first round is thrown away: the API server makes its caches.
    for round in 0..=rounds {
        let plugin = DropIn::new("touch", numbered(&touch, round));
        for (times, how) in [(&mut cold, "cold"), (&mut cached, "cached")] {
            let name = format!("{how}-{round}");
            namespace.create_touchable(&name).await;
            namespace.drop_in(&plugin).await;
            let started = Instant::now();
            let at = until(&mut written, &name).await?;
            if round > 0 {
                times.push(at.saturating_duration_since(started).as_secs_f64() * 1e3);
            }
            namespace.delete(kinds::CONFIG_MAP, "touch").await;
            namespace.until_gone(kinds::PLUGIN, "touch").await;
            namespace.delete(kinds::CONFIG_MAP, &name).await;
            // Or it would touch the next one's object, which is there before the next plugin.
            while host.metric("operetta_plugins_loaded", &[]) > 0.0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    let (swapped, steady, rates) = swaps(&control_plane, &host, rounds).await?;
    host.assert_sound();
    let mut report = Report::new("start");
    report.row(Row::new("start.cold", "ms", Samples::new(cold)).target(300.0));
    report.row(Row::new("start.cached", "ms", Samples::new(cached)).target(20.0));
    report.row(Row::new("start.swap", "ms", Samples::new(swapped)).target(50.0));
    report.row(Row::new("start.no_swap", "ms", Samples::new(steady)));
    report.row(Row::new("start.rate", "/s", Samples::new(rates)).more_is_better());
    report.finish()?;
    Ok(())
}

/// A plugin that is called for each object again after one to two seconds, by its name, and says its version in the log.
fn poll(version: usize) -> DropIn {
    let source = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespaces": "Own"});
    let controllers = json!([{"name": "poll", "for": source}]);
    let manifest = json!({"apiVersion": "operetta.dev/v1alpha1", "kind": "Manifest", "controllers": controllers});
    let guest = Guest::default().manifest(&manifest.to_string()).text(&format!("version {version}")).reconcile(
        "(call $log (i32.const 2) (global.get $text) (global.get $text_len) (i32.const 0) (i32.const 0))
         (i32.store8 (i32.const 20) (i32.const 2)) (i32.store (i32.const 24) (i32.add (i32.const 1000) (i32.rem_u
           (i32.load (i32.sub (i32.add (local.get $name) (local.get $name_len)) (i32.const 4))) (i32.const 1000))))
         (i32.const 16)",
    );
    DropIn::new("poll", guest.build())
}

/// What a host did while it was watched.
struct Watched {
    /// The longest time without a reconcile that ended, as far as asking for the count tells.
    longest: Duration,
    per_second: f64,
}

/// Asks the host for the count of reconciles again and again, for so long.
fn watch_count(host: &Host, time: Duration) -> Watched {
    let count = || host.metric("controller_runtime_reconcile_total", &["controller=\"poll\""]);
    let started = Instant::now();
    let first = count();
    let mut last = first;
    let mut since = Instant::now();
    let mut longest = Duration::ZERO;
    while started.elapsed() < time {
        let now = count();
        if now > last {
            longest = longest.max(since.elapsed());
            (last, since) = (now, Instant::now());
        }
    }
    Watched { longest: longest.max(since.elapsed()), per_second: (last - first) / started.elapsed().as_secs_f64() }
}

/// Waits until the code of this version was called for each object; an object that is not is lost.
async fn until_all(host: &Host, namespace: &TestNamespace<'_>, version: usize) -> anyhow::Result<()> {
    let started = Instant::now();
    let message = format!("version {version}");
    let mut called = HashSet::new();
    while called.len() < OBJECTS {
        let lines = host.logs(namespace.name(), "poll").into_iter().filter(|line| line.message == message);
        called.extend(lines.map(|line| line.key).filter(|key| key.contains("/object-")));
        let lost = OBJECTS - called.len();
        anyhow::ensure!(started.elapsed() < PATIENCE, "{lost} of {OBJECTS} objects were not reconciled after the swap");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Swaps the code of a plugin that has [`OBJECTS`] objects, once in each round: the longest pauses with a swap, those without
/// one, and the reconciles per second.
async fn swaps(
    control_plane: &ControlPlane,
    host: &Arc<Host>,
    rounds: usize,
) -> anyhow::Result<(Vec<f64>, Vec<f64>, Vec<f64>)> {
    let namespace = control_plane.namespace("polls").await;
    namespace.allow_all("plugin").await;
    for at in 0..OBJECTS {
        namespace.create_object(kinds::CONFIG_MAP, json!({"metadata": {"name": format!("object-{at}")}})).await;
    }
    namespace.drop_in(&poll(0)).await;
    until_all(host, &namespace, 0).await?;
    let mut swapped = Vec::new();
    let mut steady = Vec::new();
    let mut rates = Vec::new();
    for version in 1..=rounds {
        for (longest, swap) in [(&mut steady, false), (&mut swapped, true)] {
            let counting = host.clone();
            let counted = tokio::task::spawn_blocking(move || watch_count(&counting, Duration::from_secs(5)));
            tokio::time::sleep(Duration::from_secs(1)).await;
            if swap {
                namespace.patch(kinds::CONFIG_MAP, "poll", poll(version).code()).await;
            }
            let counted = counted.await?;
            longest.push(counted.longest.as_secs_f64() * 1e3);
            if !swap {
                rates.push(counted.per_second);
            }
        }
        until_all(host, &namespace, version).await?;
    }
    Ok((swapped, steady, rates))
}

/// Waits until an object was written; when that was.
async fn until(written: &mut Written, name: &str) -> anyhow::Result<Instant> {
    loop {
        match tokio::time::timeout(PATIENCE, written.recv()).await {
            Ok(Some((found, at))) if found == name => return Ok(at),
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
                && let (Some(name), Some(data)) = (map.metadata.name, map.data)
                && data.contains_key("touched")
                && tell.send((name, Instant::now())).is_err()
            {
                return;
            }
        }
    });
    written
}
