//! `make bench-e2e`: Kubernetes' sample-controller as a plugin, on controller-runtime and on kube-rs, side by side.
//!
//! In each round each of them gets a new API server with etcd and its own turn; who begins changes with the round. The
//! program that creates Foos is the same for all, and so is what they do: a Deployment, a status and an Event for each
//! Foo, with two workers. After [`WARM_UP`] Foos come two loads: paced, 50 Foos a second, and flat out, as many at once
//! as [`load::AT_ONCE`] creators can. The latency of a Foo starts when the API server has answered its creation, and
//! ends when this program's own watch receives the Deployment.
//!
//! Processor time is user and system time of the controller's process, until it has been left alone for [`SETTLE`].
//! Requests, conflicts and bytes are read at the API server: its audit log and its metrics. Memory is read at the end.
//! The API server, the controller and this program share the machine's cores. The programs are release builds
//! (`scripts/peers.sh e2e`). `RECORDER_MIB=0` turns the host's flight recorder off, `ONLY=operetta,kube-rs` leaves
//! others out, and `HOLD=1` waits before each load until a line is read, for a profiler.

mod contestant;
mod figures;
mod load;
mod plot;
mod server;

use std::{collections::BTreeMap, time::Duration};

use operetta_testkit::{ControlPlane, bench::number};

use crate::{
    contestant::{Contestant, Name, Programs},
    figures::Figures,
    load::Load,
    server::Requests,
};

const ROUNDS: usize = 3;
const WARM_UP: usize = 50;
const PACED: usize = 300;
const FLAT_OUT: usize = 1_000;
const PACE: Duration = Duration::from_millis(20);
/// The time after the last Deployment in which statuses and Events are still written.
const SETTLE: Duration = Duration::from_secs(8);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // `cargo test --benches` passes `--test`, and only checks that the program starts.
    if std::env::args().any(|argument| argument == "--test") {
        return Ok(());
    }
    if cfg!(debug_assertions) {
        anyhow::bail!("a debug build of this bench measures the debug build: run `make bench-e2e`");
    }
    let programs = Programs::build();
    let names = programs.names()?;
    let mut rounds: BTreeMap<Name, Vec<Figures>> = BTreeMap::new();
    for round in 0..number("ROUNDS", ROUNDS) {
        for turn in 0..names.len() {
            let name = names[(round + turn) % names.len()];
            let figures = turn_of(name, &programs).await?;
            println!("round {round}, {name}: {figures}");
            rounds.entry(name).or_default().push(figures);
        }
    }
    let plot = figures::report(&rounds)?.with_extension("svg");
    plot::draw(&rounds, &plot)?;
    println!("plot: {}", plot.display());
    Ok(())
}

/// Measures one controller on an API server of its own.
async fn turn_of(name: Name, programs: &Programs) -> anyhow::Result<Figures> {
    let control_plane = ControlPlane::start(&[]).map_err(anyhow::Error::msg)?;
    control_plane.apply(&std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/sample-controller/crd.yaml"
    ))?);
    let namespace = control_plane.namespace("bench").await;
    let contestant = Contestant::start(name, programs, &namespace).await;
    let mut load = Load::begin(control_plane.client().await, namespace.name()).await?;
    let mut figures = Figures { rss_idle: contestant.rss_idle(), ..Figures::default() };

    load.paced(WARM_UP, PACE).await?;
    tokio::time::sleep(SETTLE).await;
    contestant.hold("paced");
    let requests = Requests::begin(&control_plane).await;
    let cpu = contestant.cpu_time();
    figures.latencies = load.paced(PACED, PACE).await?;
    tokio::time::sleep(SETTLE).await;
    figures.paced_cpu = (contestant.cpu_time() - cpu) / PACED as u32;

    contestant.hold("flat out");
    let cpu = contestant.cpu_time();
    let foos = number("FOOS", FLAT_OUT);
    figures.rate = foos as f64 / load.flat_out(foos).await?.as_secs_f64();
    tokio::time::sleep(SETTLE).await;
    figures.flat_cpu = (contestant.cpu_time() - cpu) / foos as u32;

    figures.server = requests.end(PACED + foos).await;
    figures.memory = contestant.memory();
    contestant.assert_sound();
    Ok(figures)
}
