//! `make bench-replicas`: what several replicas cost, and how long keys wait when one ends, on a
//! real API server.
//!
//! - `replicas.kill`, `replicas.kill_p99`: the time from `kill -9` of a plugin's replica until
//!   another one has reconciled an object that was created then, over all rounds.
//! - `replicas.stop`, `replicas.stop_max`: the longest time that a key waits while the plugin's
//!   replica stops (SIGTERM), over all rounds. Objects are created every 20 ms meanwhile.
//! - `replicas.lease_requests`: the requests for Leases of three replicas in a second.
//! - `replicas.watch_share`: the bytes of watches that the busiest of three replicas receives, in
//!   percent of those of one replica with the same plugins (watch_share.rs).
//! - `replicas.stale_writes`: the writes of a replica that was stopped for longer than its Lease
//!   (SIGSTOP) and then goes on, which the API server accepts after another replica has written, in
//!   all rounds. The peer is a program on controller-runtime with leader election
//!   (stale_writes.rs).
//!
//! The Lease lasts as long as in deploy/base, for the peer too. `ONLY=watch_share` runs one part.
//! The API server, the hosts and this program share the machine's cores.

#[path = "../../tests/replicas/stage.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod stage;
mod stale_writes;
mod watch_share;

use std::time::{Duration, Instant};

use operetta_testkit::{
    ControlPlane, TestNamespace,
    bench::{Report, Row, Samples, is_chosen, number, only_starts},
    kinds,
};
use stage::{Replica, control_plane, drop_in, longest_wait, replica_of, time_until_touched};

const ROUNDS: usize = 20;
/// The time of a round that counts the requests for Leases.
const COUNTED: Duration = Duration::from_secs(10);
/// The rounds that count them.
const COUNTS: usize = 3;
/// The user of the hosts.
const HOST: &str = "system:serviceaccount:operetta-system:operetta";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if only_starts() {
        return Ok(());
    }
    let rounds = number("ROUNDS", ROUNDS);
    let mut report = Report::new("replicas");
    if is_chosen("kill") {
        let control_plane = control_plane();
        let killed = kill(&control_plane, rounds).await;
        report.row(Row::new(
            "replicas.kill",
            "ms",
            Samples::new(killed.clone()),
        ));
        report.row(
            Row::new("replicas.kill_p99", "ms", Samples::new(vec![p99(killed)])).target(5_000.0),
        );
    }
    if is_chosen("stop") {
        let control_plane = control_plane();
        let stopped = stop(&control_plane, rounds).await;
        report.row(Row::new(
            "replicas.stop",
            "ms",
            Samples::new(stopped.clone()),
        ));
        let longest = stopped.into_iter().fold(0.0, f64::max);
        report
            .row(Row::new("replicas.stop_max", "ms", Samples::new(vec![longest])).target(1_000.0));
    }
    if is_chosen("lease_requests") {
        let requests = Samples::new(lease_requests(&control_plane()).await);
        report.row(Row::new("replicas.lease_requests", "/s", requests).target(2.0));
    }
    if is_chosen("watch_share") {
        let share = Samples::new(watch_share::measure(&control_plane()).await);
        report.row(Row::new("replicas.watch_share", "%", share).target(100.0 / 3.0 + 10.0));
    }
    if is_chosen("stale_writes") {
        let control_plane = control_plane();
        let ours = Samples::new(vec![stale_writes::of_hosts(&control_plane, rounds).await]);
        let mut row = Row::new("replicas.stale_writes", "", ours).target(0.0);
        if let Some(program) = stale_writes::peer() {
            let theirs = stale_writes::of_peers(&control_plane, &program, rounds).await;
            row = row.peer("controller-runtime", &Samples::new(vec![theirs]));
        }
        report.row(row);
    }
    report.finish()?;
    Ok(())
}

/// Returns the value below which 99 % of these are.
fn p99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * 0.99).ceil() as usize]
}

/// Runs a plugin in a namespace of its own. Returns the namespace and which of the replicas runs
/// the plugin.
async fn plugin_on<'a>(
    control_plane: &'a ControlPlane,
    replicas: &[Replica],
    round: usize,
) -> (TestNamespace<'a>, usize) {
    let namespace = control_plane.namespace(&format!("round-{round}")).await;
    namespace.allow_all("plugin").await;
    drop_in(&namespace, "touch").await;
    time_until_touched(&namespace, "before", Instant::now()).await;
    namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;
    let plugin = namespace
        .get(kinds::PLUGIN, "touch")
        .await
        .expect("a Plugin");
    let owner = replicas
        .iter()
        .position(|replica| replica.identity == replica_of(&plugin));
    (namespace, owner.expect("one of the replicas"))
}

/// Kills a plugin's replica in each round. Returns the milliseconds until another one has
/// reconciled.
async fn kill(control_plane: &ControlPlane, rounds: usize) -> Vec<f64> {
    let mut replicas = vec![Replica::start(control_plane).await];
    let mut times = Vec::new();
    for round in 0..rounds {
        replicas.push(Replica::start(control_plane).await);
        let (namespace, owner) = plugin_on(control_plane, &replicas, round).await;
        let began = Instant::now();
        replicas.remove(owner).host.kill();
        let took = time_until_touched(&namespace, "after", began).await;
        println!("kill {round}: {took:.2?}");
        times.push(took.as_secs_f64() * 1e3);
        namespace.delete_all(kinds::PLUGIN).await;
        namespace.delete_all(kinds::CONFIG_MAP).await;
    }
    times
}

/// Stops a plugin's replica in each round. Returns the longest time that a key has waited, in
/// milliseconds.
async fn stop(control_plane: &ControlPlane, rounds: usize) -> Vec<f64> {
    let mut replicas = vec![Replica::start(control_plane).await];
    let mut times = Vec::new();
    for round in 0..rounds {
        replicas.push(Replica::start(control_plane).await);
        let (namespace, owner) = plugin_on(control_plane, &replicas, round).await;
        let stopped = replicas.remove(owner);
        let stops = async {
            stopped.host.signal("TERM");
            assert!(
                stopped.host.ended().await.success(),
                "{}",
                stopped.host.log()
            );
        };
        let longest = longest_wait(&namespace, "during", stops, Duration::from_millis(500)).await;
        println!("stop {round}: {longest:.2?}");
        times.push(longest.as_secs_f64() * 1e3);
        namespace.delete_all(kinds::PLUGIN).await;
        namespace.delete_all(kinds::CONFIG_MAP).await;
    }
    times
}

/// Counts the requests for Leases of three idle replicas, per second.
async fn lease_requests(control_plane: &ControlPlane) -> Vec<f64> {
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(Replica::start(control_plane).await);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let count = || {
        let requests = control_plane.audit().requests_of(HOST, ..).into_iter();
        requests
            .filter(|(request, _)| request.ends_with(" leases"))
            .map(|(_, count)| count)
            .sum::<usize>()
    };
    let mut rates = Vec::new();
    for _ in 0..COUNTS {
        let before = count();
        let began = Instant::now();
        tokio::time::sleep(COUNTED).await;
        rates.push((count() - before) as f64 / began.elapsed().as_secs_f64());
    }
    rates
}
