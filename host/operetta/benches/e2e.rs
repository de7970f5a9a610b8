//! `make bench-e2e`: the latency from a Foo to its Deployment on a real API server, and the host's memory and CPU time.
//!
//! The sample-controller runs as a plugin of the built host. Each of five rounds creates 200 Foos, 50 a second. The
//! latency of a Foo starts when the API server has answered its creation, and ends when this program's own watch
//! receives the Deployment; a round reports the median and the 99th percentile. The host's memory is read after the
//! last round, when there are 1,000 Foos. The API server, the host and this program share the machine's cores; the API
//! server writes an audit log. `RECORDER_MIB=0` turns the flight recorder off.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, TestNamespace,
    bench::{Report, Row, Samples, number},
    guest,
};
use tokio::sync::mpsc;

const ROUNDS: usize = 5;
const FOOS: usize = 200;
const PACE: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // `cargo test --benches` passes `--test`, and only checks that the program starts.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    let control_plane = ControlPlane::start(&[]).map_err(anyhow::Error::msg)?;
    // The peers have no limit either.
    let recorder = number("RECORDER_MIB", 16);
    let config = format!("{{quotas: {{namespace: {{apiQps: 1000000}}}}, flightRecorder: {{sizeMiB: {recorder}}}}}");
    let options = HostOptions { config, ..HostOptions::default() };
    let host = Host::start(env!("CARGO_BIN_EXE_operetta"), &control_plane, &options).await;
    control_plane.apply(&std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/sample-controller/crd.yaml"
    ))?);
    let namespace = control_plane.namespace("bench").await;
    namespace.allow_all("plugin").await;
    let idle = host.memory_bytes();
    namespace.drop_in(&DropIn::new("sample-controller", guest("sample-controller"))).await;
    namespace.until_condition("sample-controller", "Ready", "True", "Running").await;
    let loaded = host.memory_bytes();

    let client = control_plane.client().await;
    let mut arrivals = watch_deployments(client.clone(), &namespace);
    let mut p50 = Vec::new();
    let mut p99 = Vec::new();
    let mut cpu = Vec::new();
    for round in 0..number("ROUNDS", ROUNDS) {
        let before = host.cpu_time();
        let mut latencies = run_round(&client, &namespace, round, &mut arrivals).await?;
        latencies.sort();
        let millis = |rank: usize| latencies[rank.min(latencies.len() - 1)].as_secs_f64() * 1e3;
        p50.push(millis(FOOS / 2));
        p99.push(millis(FOOS * 99 / 100));
        cpu.push((host.cpu_time() - before).as_secs_f64() * 1e3 / FOOS as f64);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    host.assert_sound();

    let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut report = Report::new("e2e");
    report.row(Row::new("e2e.p50", "ms", Samples::new(p50)));
    report.row(Row::new("e2e.p99", "ms", Samples::new(p99)));
    report.row(Row::new("e2e.cpu_per_object", "ms", Samples::new(cpu)));
    report.row(Row::new("e2e.rss", "MB", Samples::new(vec![megabytes(host.memory_bytes())])).target(40.0));
    report.row(Row::new("e2e.rss_loaded", "MB", Samples::new(vec![megabytes(loaded)])));
    report.row(Row::new("e2e.rss_idle", "MB", Samples::new(vec![megabytes(idle)])));
    report.finish()?;
    Ok(())
}

/// Creates a round's Foos, one each [`PACE`], and waits for all of their Deployments.
///
/// # Errors
/// Returns an error if a Foo cannot be created, or a Deployment does not arrive.
async fn run_round(
    client: &kube::Client,
    namespace: &TestNamespace<'_>,
    round: usize,
    arrivals: &mut mpsc::UnboundedReceiver<(String, Instant)>,
) -> anyhow::Result<Vec<Duration>> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("samplecontroller.k8s.io", "v1alpha1", "Foo"));
    let foos: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace.name(), &kind);
    let mut created: HashMap<String, Instant> = HashMap::new();
    let mut pace = tokio::time::interval(PACE);
    for number in 0..FOOS {
        pace.tick().await;
        let name = format!("foo-{round}-{number}");
        let wanted: DynamicObject = serde_json::from_value(serde_json::json!({
            "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo",
            "metadata": {"name": name}, "spec": {"deploymentName": name, "replicas": 1},
        }))?;
        foos.create(&PostParams::default(), &wanted).await?;
        created.insert(name, Instant::now());
    }
    let mut latencies = Vec::with_capacity(FOOS);
    while latencies.len() < FOOS {
        let (name, at) = tokio::time::timeout(Duration::from_secs(60), arrivals.recv())
            .await?
            .ok_or_else(|| anyhow::anyhow!("the watch of Deployments ended"))?;
        if let Some(start) = created.remove(&name) {
            latencies.push(at.saturating_duration_since(start));
        }
    }
    Ok(latencies)
}

/// Watches Deployments, and sends the name of each applied one and the time when the watch received it.
fn watch_deployments(
    client: kube::Client,
    namespace: &TestNamespace<'_>,
) -> mpsc::UnboundedReceiver<(String, Instant)> {
    let (arrived, arrivals) = mpsc::unbounded_channel();
    let deployments: Api<Deployment> = Api::namespaced(client, namespace.name());
    tokio::spawn(async move {
        let mut events = watcher(deployments, watcher::Config::default()).default_backoff().boxed();
        while let Ok(Some(event)) = events.try_next().await {
            if let watcher::Event::Apply(deployment) = event
                && let Some(name) = deployment.metadata.name
                && arrived.send((name, Instant::now())).is_err()
            {
                return;
            }
        }
    });
    arrivals
}
