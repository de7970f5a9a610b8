//! `make bench-e2e`: Kubernetes' sample-controller as a plugin, on controller-runtime and on
//! kube-rs, side by side. `make bench-cloud`: the kubebuilder project cloud-manager as a plugin,
//! and the same code as a program.
//!
//! In each round each of them gets a new API server with etcd and its own turn; who begins changes
//! with the round. The program that creates objects is the same for all, and so is what they do for
//! each, with two workers: see [`Subject`]. After a warm-up come two loads: paced, so many objects
//! a second, and flat out, as many at once as [`load::AT_ONCE`] creators can. The latency of an
//! object starts when the API server has answered its creation, and ends when this program's own
//! watch receives the end of its work: the Deployment of a Foo, a CloudManager that is ready.
//!
//! Processor time is user and system time of the controller's process, until it has been left alone
//! for [`SETTLE`]. Requests, conflicts and bytes are read at the API server: its audit log and its
//! metrics. Memory is read at the end. The API server, the controller and this program share the
//! machine's cores. The programs in Rust are built in the profile `production` (`scripts/peers.sh
//! e2e`). `RECORDER_MIB=0` turns the host's flight recorder off, `ONLY=operetta,kube-rs` leaves
//! others out, and `HOLD=1` waits before each load until a line is read, for a profiler.

mod arrivals;
mod contestant;
mod figures;
mod load;
mod plot;
mod server;
mod subject;

use std::{collections::BTreeMap, time::Duration};

use operetta_testkit::{
    ControlPlane,
    bench::{number, only_starts},
    usage,
};

use crate::{
    contestant::{Contestant, Name, Programs},
    figures::Figures,
    load::Load,
    server::Requests,
    subject::{Loads, Subject},
};

const ROUNDS: usize = 3;
/// The time after the end of the last object's work in which statuses and Events are still written.
const SETTLE: Duration = Duration::from_secs(8);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if only_starts() {
        return Ok(());
    }
    if cfg!(debug_assertions) {
        anyhow::bail!("a debug build of this bench measures the debug build: run `make bench-e2e`");
    }
    let subject = Subject::chosen()?;
    let programs = Programs::build(subject);
    let names = programs.names()?;
    let mut rounds: BTreeMap<Name, Vec<Figures>> = BTreeMap::new();
    for round in 0..number("ROUNDS", ROUNDS) {
        for turn in 0..names.len() {
            let name = names[(round + turn) % names.len()];
            let figures = turn_of(subject, name, &programs).await?;
            println!("round {round}, {name}: {figures}");
            rounds.entry(name).or_default().push(figures);
        }
    }
    let report = figures::report(subject, &rounds)?;
    if subject == Subject::SampleController {
        let plot = report.with_extension("svg");
        plot::draw(&rounds, &plot)?;
        println!("plot: {}", plot.display());
    }
    Ok(())
}

/// Measures one controller on an API server of its own.
async fn turn_of(subject: Subject, name: Name, programs: &Programs) -> anyhow::Result<Figures> {
    let control_plane = ControlPlane::start(&[]).map_err(anyhow::Error::msg)?;
    control_plane.apply(&subject.crd()?);
    let namespace = control_plane.namespace("bench").await;
    let contestant = Contestant::start(name, programs, &namespace).await;
    let mut load = Load::begin(subject, control_plane.client().await, namespace.name()).await?;
    let mut figures = Figures {
        rss_idle: contestant.rss_idle(),
        ..Figures::default()
    };
    let Loads {
        warm_up,
        paced,
        pace,
        flat_out,
    } = subject.loads();

    load.paced(warm_up, pace).await?;
    tokio::time::sleep(SETTLE).await;
    contestant.hold("paced");
    let requests = Requests::begin(&control_plane).await;
    let cpu = contestant.cpu_time();
    figures.latencies = load.paced(paced, pace).await?;
    tokio::time::sleep(SETTLE).await;
    figures.paced_cpu = (contestant.cpu_time() - cpu) / paced as u32;
    figures.paced_conflicts = requests.conflicts(subject);

    contestant.hold("flat out");
    let server = control_plane.pid("kube-apiserver");
    let cpu = contestant.cpu_time();
    let server_cpu = usage::cpu_time(server);
    let objects = number("FOOS", flat_out);
    figures.rate = objects as f64 / load.flat_out(objects).await?.as_secs_f64();
    tokio::time::sleep(SETTLE).await;
    figures.flat_cpu = (contestant.cpu_time() - cpu) / objects as u32;
    figures.server_cpu = (usage::cpu_time(server) - server_cpu) / objects as u32;

    figures.server = requests.end(subject, paced + objects).await;
    figures.memory = contestant.memory();
    contestant.assert_sound();
    Ok(figures)
}
