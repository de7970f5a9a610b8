//! `make bench-idle`: the cost of idle plugins, on a real API server.
//!
//! The host runs [`PLUGINS`] plugins, distinct components in [`NAMESPACES`] namespaces, which have
//! the permissions that they need. When all of them have reconciled, each round of a minute
//! measures:
//!
//! - `idle.reviews`: the access reviews of the host, from the API server's audit log;
//! - `idle.requests`: all completed requests of the host, watches included;
//! - `idle.cpu`: the host's CPU time, in percent of a core.
//!
//! Then the host gets one more plugin, whose controller has a hundred selectors of Secrets, a
//! resync of a second, and no permission to list them. `idle.cpu_without_rights` is the host's CPU
//! time above the median of the earlier rounds, in percent of a core. If the plugin costs nothing,
//! it is within the noise of those rounds.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::jiff::Timestamp;
use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, TestNamespace,
    bench::{Report, Row, Samples, number, only_starts},
    guest, kinds,
    wat_guest::{Guest, numbered},
};

const PLUGINS: usize = 200;
const NAMESPACES: usize = 20;
const ROUNDS: usize = 5;
/// The length of a round, in seconds.
const SECONDS: usize = 60;
/// The host's user name.
const HOST: &str = "system:serviceaccount:operetta-system:operetta";
/// The time for the host to become idle before the first round.
const SETTLE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if only_starts() {
        return Ok(());
    }
    let rounds = number("ROUNDS", ROUNDS);
    let seconds = number("SECONDS", SECONDS);
    let control_plane = ControlPlane::start(&[]).map_err(anyhow::Error::msg)?;
    let host = Host::start(&control_plane, &HostOptions::default()).await;
    let mut namespaces = Vec::new();
    for number in 0..NAMESPACES {
        let namespace = control_plane.namespace(&format!("idle-{number}")).await;
        namespace.allow_all("plugin").await;
        namespaces.push(namespace);
    }
    run_plugins(&namespaces, number("PLUGINS", PLUGINS)).await;
    let stage = Stage {
        control_plane: &control_plane,
        host: &host,
        seconds: seconds as u64,
    };

    let mut idle = Vec::new();
    tokio::time::sleep(SETTLE).await;
    for _ in 0..rounds {
        idle.push(stage.round().await);
    }
    without_rights(&namespaces[0]).await;
    tokio::time::sleep(SETTLE).await;
    let mut refused = Vec::new();
    for _ in 0..rounds {
        refused.push(stage.round().await);
    }
    host.assert_sound();

    let of = |rounds: &[Round], value: fn(&Round) -> f64| {
        Samples::new(rounds.iter().map(value).collect())
    };
    let cpu = of(&idle, |round| round.cpu_percent);
    let beyond = refused
        .iter()
        .map(|round| round.cpu_percent - cpu.median())
        .collect();
    let mut report = Report::new("idle");
    report.row(Row::new("idle.reviews", "/min", of(&idle, |round| round.reviews)).target(60.0));
    report.row(Row::new(
        "idle.requests",
        "/min",
        of(&idle, |round| round.requests),
    ));
    report.row(Row::new("idle.cpu", "%", cpu));
    report.row(Row::new("idle.cpu_without_rights", "%", Samples::new(beyond)).target(0.1));
    report.finish()?;
    for (request, count) in &idle.last().expect("a round").by_request {
        println!("{count:>6} {request}");
    }
    Ok(())
}

/// Runs `count` plugins, creates an object in each namespace, and waits until the plugins have
/// written to it.
async fn run_plugins(namespaces: &[TestNamespace<'_>], count: usize) {
    let touch = guest("fixture-touch-v1");
    for number in 0..count {
        let name = format!("touch-{number}");
        let plugin = DropIn::compressed(&name, &numbered(&touch, number));
        namespaces[number % namespaces.len()].drop_in(&plugin).await;
    }
    for number in 0..count {
        let namespace = &namespaces[number % namespaces.len()];
        namespace
            .until_condition(&format!("touch-{number}"), "Ready", "True", "Running")
            .await;
    }
    for namespace in namespaces {
        namespace.create_touchable("object").await;
        namespace.until_touched("object", "v1").await;
    }
}

/// Runs a plugin whose ServiceAccount has no permission.
async fn without_rights(namespace: &TestNamespace<'_>) {
    namespace.consenting("powerless").await;
    let wasm = Guest::default().hundred_selectors(kinds::SECRET).build();
    namespace
        .drop_in(&DropIn::new("powerless", wasm).service_account("powerless"))
        .await;
}

/// The figures of a round, per minute.
struct Round {
    reviews: f64,
    requests: f64,
    cpu_percent: f64,
    by_request: BTreeMap<String, usize>,
}

struct Stage<'a> {
    control_plane: &'a ControlPlane,
    host: &'a Host,
    seconds: u64,
}

impl Stage<'_> {
    /// Measures one round.
    async fn round(&self) -> Round {
        let start = Timestamp::now();
        let cpu = self.host.cpu_time();
        tokio::time::sleep(Duration::from_secs(self.seconds)).await;
        let cpu = self.host.cpu_time() - cpu;
        let by_request = self
            .control_plane
            .audit()
            .requests_of(HOST, start..Timestamp::now());
        let per_minute = |count: usize| count as f64 * 60.0 / self.seconds as f64;
        let reviews = by_request
            .iter()
            .filter(|(request, _)| request.contains("accessreviews"));
        Round {
            reviews: per_minute(reviews.map(|(_, count)| count).sum()),
            requests: per_minute(by_request.values().sum()),
            cpu_percent: cpu.as_secs_f64() * 100.0 / self.seconds as f64,
            by_request,
        }
    }
}
