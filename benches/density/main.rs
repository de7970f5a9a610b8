//! `make bench-density`: the cost of many idle operators, as plugins of one host and as native
//! processes.
//!
//! The operator is the sample-controller, which creates a Deployment for a Foo. Each of K tenants
//! has a namespace with one Foo and one operator, which acts as the namespace's own ServiceAccount:
//! a drop-in ConfigMap for the host, or a process (benches/peers) whose caches are restricted to
//! the namespace. The component of all plugins is the same, as is the program of all processes.
//! Every size and kind of operator gets a new control plane (cell.rs). All tenants exist before the
//! operators start, and the host's code cache is empty. When each namespace has its Deployment and
//! the operators have become idle, these are measured, for example `density.100.private` with 100
//! tenants:
//!
//! - `ready`: the time from the start of the host, or of the first process, until each namespace
//!   has its Deployment;
//! - `idle_cpu`, `server_cpu`, `etcd_cpu`: the processor time of all operators, of kube-apiserver
//!   and of etcd in a quiet window, in percent of a core;
//! - `private`, `anonymous`, `rss`: after the window, the sums of the operators' private memory
//!   (Private_Clean and Private_Dirty of smaps_rollup), anonymous memory and resident memory. The
//!   program's code is private memory of a process that runs it alone, as the host does, and of
//!   none of several processes. Code that the host maps once for each plugin counts once for each
//!   in `rss`;
//! - `server_rss`: the resident memory of kube-apiserver, whose caches contain the drop-in
//!   ConfigMaps with the component of each plugin;
//! - `watches`: the watches that kube-apiserver serves beyond those without operators;
//! - `connections`: the operators' TCP connections to kube-apiserver.
//!
//! `density.private_share` is the private memory of 100 plugins in percent of that of 100 processes
//! on controller-runtime; `density.idle` is the idle processor time of a host with 1,000 plugins.
//!
//! If the processes of a size would take more than half of the available memory, judged by the size
//! before, they are not run. Their values are extrapolated on the line through the two largest
//! sizes that were measured: the peer `controller-runtime extrapolated`. The host, the Go runtime
//! and tokio run with their defaults: GOMAXPROCS, GOGC and GOMEMLIMIT are not set. kube-apiserver
//! runs with GOGC=400, as in all benches. Operators, control plane and this program share the
//! machine's cores.
//!
//! `KS=1,10` chooses the numbers of tenants, `ONLY=operetta,kube-rs` the kinds of operators,
//! `SECONDS=5` the window and `SETTLE=5` the time before it.

mod cell;
mod operators;

use anyhow::Context;
use cell::Cell;
use operators::Operator;
use operetta_testkit::{
    bench::{Report, Row, Samples, extrapolate, is_chosen, only_starts},
    peers::Peers,
    usage,
};
use tokio::signal::unix::{SignalKind, signal};

/// The numbers of tenants.
const KS: &str = "1,10,100,1000";
/// The size at which private memory has a target, and that of the idle CPU time.
const PRIVATE_AT: usize = 100;
/// See [`PRIVATE_AT`].
const IDLE_AT: usize = 1000;
/// The host and its program in `target/peers`, which is built without the tests' features.
const OURS: (&str, &str) = ("operetta", "operetta-host");
/// The peers and their programs.
const PEERS: [(&str, &str); 2] = [
    ("controller-runtime", "peer-sample-controller"),
    ("kube-rs", "peer-kube-rs-sample-controller"),
];

/// The metrics of a cell: name, unit and value.
type Metric = (&'static str, &'static str, fn(&Cell) -> f64);
const METRICS: [Metric; 10] = [
    ("private", "MB", |cell| cell.private_mb),
    ("anonymous", "MB", |cell| cell.anonymous_mb),
    ("rss", "MB", |cell| cell.rss_mb),
    ("watches", "", |cell| cell.watches),
    ("connections", "", |cell| cell.connections),
    ("server_rss", "MB", |cell| cell.server_rss_mb),
    ("server_cpu", "%", |cell| cell.server_cpu),
    ("etcd_cpu", "%", |cell| cell.etcd_cpu),
    ("idle_cpu", "%", |cell| cell.idle_cpu),
    ("ready", "s", |cell| cell.ready_seconds),
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if only_starts() {
        return Ok(());
    }
    let mut terminated = signal(SignalKind::terminate())?;
    // The dropped future ends its processes.
    tokio::select! {
        measured = measure() => measured,
        _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
        _ = terminated.recv() => anyhow::bail!("terminated"),
    }
}

/// One kind of operator with its measured sizes.
struct Contestant {
    name: &'static str,
    operator: Operator,
    cells: Vec<(usize, Cell)>,
}

impl Contestant {
    fn at(&self, size: usize) -> Option<&Cell> {
        self.cells
            .iter()
            .find(|(measured, _)| *measured == size)
            .map(|(_, cell)| cell)
    }

    /// Reports whether so many processes take at most half of the available memory, judged by the
    /// size before.
    fn fits(&self, size: usize) -> bool {
        let Some((measured, cell)) = self.cells.last() else {
            return true;
        };
        let expected = cell.private_mb / *measured as f64 * size as f64;
        let available = usage::megabytes(usage::available_bytes());
        let fits = expected <= available / 2.0;
        if !fits {
            println!(
                "{size} on {}: not run, {expected:.0} of {available:.0} MB available",
                self.name
            );
        }
        fits
    }

    /// Measures a size, unless it does not fit.
    async fn measure(&mut self, size: usize) -> anyhow::Result<()> {
        if matches!(self.operator, Operator::Process(_)) && !self.fits(size) {
            return Ok(());
        }
        let cell = cell::measure(&self.operator, size).await;
        let cell = cell.with_context(|| format!("{size} on {}", self.name))?;
        println!("{size} on {}: {cell:.2?}", self.name);
        self.cells.push((size, cell));
        Ok(())
    }
}

async fn measure() -> anyhow::Result<()> {
    let sizes = std::env::var("KS")
        .ok()
        .filter(|sizes| !sizes.is_empty())
        .unwrap_or_else(|| KS.to_owned());
    let mut sizes = sizes
        .split(',')
        .map(str::parse)
        .collect::<Result<Vec<usize>, _>>()
        .context("KS")?;
    sizes.sort_unstable();

    let programs = Peers::build_part(&["e2e"]);
    let host = programs
        .program(OURS.0, OURS.1)
        .context("the host was not built")?;
    let mut ours = Contestant {
        name: OURS.0,
        operator: Operator::Plugin(host),
        cells: Vec::new(),
    };
    let mut peers = Vec::new();
    for (name, program) in PEERS {
        if let Some(program) = programs.program(name, program) {
            peers.push(Contestant {
                name,
                operator: Operator::Process(program),
                cells: Vec::new(),
            });
        }
    }
    for &size in &sizes {
        if is_chosen(ours.name) {
            ours.measure(size).await?;
        }
        for peer in peers.iter_mut().filter(|peer| is_chosen(peer.name)) {
            peer.measure(size).await?;
        }
    }
    let mut report = Report::new("density");
    for (size, cell) in &ours.cells {
        for metric in METRICS {
            report.row(row(*size, cell, metric, &peers));
        }
    }
    targets(&mut report, &ours, &peers);
    report.finish()?;
    Ok(())
}

/// Returns the row of a metric with a number of tenants.
fn row(size: usize, cell: &Cell, (name, unit, value): Metric, peers: &[Contestant]) -> Row {
    let mut row = Row::new(
        format!("density.{size}.{name}"),
        unit,
        Samples::new(vec![value(cell)]),
    );
    for peer in peers {
        let measured: Vec<_> = peer
            .cells
            .iter()
            .map(|(size, cell)| (*size, value(cell)))
            .collect();
        if let Some(cell) = peer.at(size) {
            row = row.peer(peer.name, &Samples::new(vec![value(cell)]));
        } else if let Some(extrapolated) = extrapolate(&measured, size) {
            row = row.peer(
                format!("{} extrapolated", peer.name),
                &Samples::new(vec![extrapolated]),
            );
        }
    }
    row
}

/// Adds the rows that have targets, if their sizes were measured.
fn targets(report: &mut Report, ours: &Contestant, peers: &[Contestant]) {
    let go = peers
        .iter()
        .find(|peer| peer.name == PEERS[0].0)
        .and_then(|peer| peer.at(PRIVATE_AT));
    if let (Some(ours), Some(go)) = (ours.at(PRIVATE_AT), go) {
        let share = ours.private_mb / go.private_mb * 100.0;
        report.row(
            Row::new("density.private_share", "%", Samples::new(vec![share])).target(100.0 / 50.0),
        );
    }
    if let Some(ours) = ours.at(IDLE_AT) {
        report.row(Row::new("density.idle", "%", Samples::new(vec![ours.idle_cpu])).target(0.5));
    }
}
