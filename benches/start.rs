//! `make bench-start`: the time until a plugin's first write, and the cost of a swap of its code,
//! on a real API server.
//!
//! - `start.cold`: the time from the response to the creation of the component's ConfigMap until
//!   the plugin's first write arrives. The host does not know the code, and compiles it in a
//!   separate process.
//! - `start.cached`: the same time for code that the host has compiled before.
//! - `start.swap`: the longest time in which no reconcile ends while the host swaps a plugin's
//!   code. The plugin has [`OBJECTS`] objects, each of which it requeues after one to two seconds.
//! - `start.no_swap`: the same time without a swap, which is the resolution of the measurement.
//! - `start.rate`: the reconciles per second without a swap.
//!
//! After each swap the plugin's log must show that the new code was called for each object;
//! otherwise the benchmark fails.
//!
//! The component of the first two is the fixture `touch`, with a different number in a custom
//! section in each round. The API server, the host and this program share the machine's cores.

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
    bench::{Report, Row, Samples, number, only_starts},
    guest, kinds,
    wat_guest::{Guest, numbered},
};
use serde_json::json;
use tokio::sync::mpsc;

const ROUNDS: usize = 9;
/// The number of objects of the polling plugin, which makes about a thousand reconciles per second.
const OBJECTS: usize = 1500;
/// The longest wait for a write or a reconcile.
const PATIENCE: Duration = Duration::from_secs(60);

/// Receives the name of each object that the plugin has written, and the time when the watch
/// received it.
type Written = mpsc::UnboundedReceiver<(String, Instant)>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if only_starts() {
        return Ok(());
    }
    let rounds = number("ROUNDS", ROUNDS);
    let control_plane = ControlPlane::start(&[]).map_err(anyhow::Error::msg)?;
    let options = HostOptions {
        compiles_anew: true,
        ..HostOptions::default()
    };
    let host = Arc::new(Host::start(&control_plane, &options).await);
    let namespace = control_plane.namespace("bench").await;
    namespace.allow_all("plugin").await;
    let mut written = watch(control_plane.client().await, &namespace);
    let touch = guest("fixture-touch-v1");

    let mut cold = Vec::new();
    let mut cached = Vec::new();
    // The first round is discarded, because the API server fills its caches in it.
    for round in 0..=rounds {
        for (times, how) in [(&mut cold, "cold"), (&mut cached, "cached")] {
            let name = format!("{how}-{round}");
            // Each has a name of its own, because the host slows down changes of one Plugin
            // (`PluginQueue`).
            let plugin = format!("touch-{name}");
            namespace.create_touchable(&name).await;
            namespace
                .drop_in(&DropIn::new(&plugin, numbered(&touch, round)))
                .await;
            let started = Instant::now();
            let at = until(&mut written, &name).await?;
            if round > 0 {
                times.push(at.saturating_duration_since(started).as_secs_f64() * 1e3);
            }
            namespace.delete(kinds::CONFIG_MAP, &plugin).await;
            namespace.until_gone(kinds::PLUGIN, &plugin).await;
            namespace.delete(kinds::CONFIG_MAP, &name).await;
            // Otherwise this plugin would touch the object of the next one, which is created before
            // that plugin.
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

/// Returns a plugin that requeues each object after one to two seconds, depending on its name, and
/// logs its version.
fn poll(version: usize) -> DropIn {
    let source = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespaces": "Own"});
    let controllers = json!([{"name": "poll", "for": source}]);
    let guest = Guest::default().controllers(&controllers).text(&format!("version {version}")).reconcile(
        "(call $log (i32.const 2) (global.get $text) (global.get $text_len) (i32.const 0) (i32.const 0))
         (i32.store8 (i32.const 20) (i32.const 2)) (i32.store (i32.const 24) (i32.add (i32.const 1000) (i32.rem_u
           (i32.load (i32.sub (i32.add (local.get $name) (local.get $name_len)) (i32.const 4))) (i32.const 1000))))
         (i32.const 16)",
    );
    DropIn::new("poll", guest.build())
}

/// The reconciles of a host during a measurement.
struct Watched {
    /// The longest time in which no reconcile ended, at the resolution of reading the metric.
    longest: Duration,
    per_second: f64,
}

/// Reads the host's count of reconciles repeatedly, for `time`.
fn watch_count(host: &Host, time: Duration) -> Watched {
    let count = || {
        host.metric(
            "controller_runtime_reconcile_total",
            &["controller=\"poll\""],
        )
    };
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
    Watched {
        longest: longest.max(since.elapsed()),
        per_second: (last - first) / started.elapsed().as_secs_f64(),
    }
}

/// Waits until the code of this version was called for each object.
///
/// # Errors
/// Returns an error if an object was not reconciled within [`PATIENCE`].
async fn until_all(
    host: &Host,
    namespace: &TestNamespace<'_>,
    version: usize,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let message = format!("version {version}");
    let mut called = HashSet::new();
    while called.len() < OBJECTS {
        let lines = host
            .logs(namespace.name(), "poll")
            .into_iter()
            .filter(|line| line.message == message);
        called.extend(
            lines
                .map(|line| line.key)
                .filter(|key| key.contains("/object-")),
        );
        let lost = OBJECTS - called.len();
        anyhow::ensure!(
            started.elapsed() < PATIENCE,
            "{lost} of {OBJECTS} objects were not reconciled after the swap"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Swaps the code of a plugin with [`OBJECTS`] objects once in each round. Returns the longest
/// pauses with a swap in milliseconds, those without one, and the reconciles per second.
///
/// # Errors
/// Returns an error if an object is not reconciled after a swap.
async fn swaps(
    control_plane: &ControlPlane,
    host: &Arc<Host>,
    rounds: usize,
) -> anyhow::Result<(Vec<f64>, Vec<f64>, Vec<f64>)> {
    let namespace = control_plane.namespace("polls").await;
    namespace.allow_all("plugin").await;
    for at in 0..OBJECTS {
        namespace
            .create_object(
                kinds::CONFIG_MAP,
                json!({"metadata": {"name": format!("object-{at}")}}),
            )
            .await;
    }
    namespace.drop_in(&poll(0)).await;
    until_all(host, &namespace, 0).await?;
    let mut swapped = Vec::new();
    let mut steady = Vec::new();
    let mut rates = Vec::new();
    for version in 1..=rounds {
        for (longest, swap) in [(&mut steady, false), (&mut swapped, true)] {
            let counting = host.clone();
            let counted =
                tokio::task::spawn_blocking(move || watch_count(&counting, Duration::from_secs(5)));
            tokio::time::sleep(Duration::from_secs(1)).await;
            if swap {
                namespace
                    .patch(kinds::CONFIG_MAP, "poll", poll(version).code())
                    .await;
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

/// Waits until an object was written, and returns the time.
///
/// # Errors
/// Returns an error if it is not written within [`PATIENCE`].
async fn until(written: &mut Written, name: &str) -> anyhow::Result<Instant> {
    loop {
        match tokio::time::timeout(PATIENCE, written.recv()).await {
            Ok(Some((found, at))) if found == name => return Ok(at),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => anyhow::bail!("{name} was not written"),
        }
    }
}

/// Watches ConfigMaps, and sends each one that the plugin has written.
fn watch(client: kube::Client, namespace: &TestNamespace<'_>) -> Written {
    let (tell, written) = mpsc::unbounded_channel();
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace.name());
    tokio::spawn(async move {
        let mut events = watcher(maps, watcher::Config::default())
            .default_backoff()
            .boxed();
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
