//! `make bench-server`: the embedded API server in a process of its own, beside kube-apiserver with
//! etcd.
//!
//! - `server.start`: the time from the start of the process until `kubectl get namespaces` has its
//!   answer.
//! - `server.fresh`: the time in which a server starts in a process that has started one before,
//!   without sockets.
//! - `server.rss`: the resident memory with 1,000 ConfigMaps of a kilobyte; of the peer that of
//!   both processes.
//! - `server.creates`, `server.gets`: requests per second of [`CONNECTIONS`] connections without
//!   TLS.
//! - `server.creates_tls`, `server.gets_tls`: the same with TLS, which the peer always has.
//! - `server.watch_events`: events per second that [`WATCHERS`] watchers of ConfigMaps get while
//!   [`CONNECTIONS`] connections create some.
//! - `server.watch_delay_p99`: the time from a request to create a ConfigMap until a watcher has
//!   the event, at [`PACE`].
//!
//! No server runs controllers. Clients and servers share the machine's processors; the server has
//! two threads. Without `make controlplane` there is no peer.

mod child;
mod connection;
mod load;

use std::time::{Duration, Instant};

use operetta_apiserver::{EmbeddedServer, Options, server::Environment};
use operetta_testkit::{
    bench::{Report, Row, Samples, number, only_starts},
    usage,
};

use self::{child::Server, load::Load};

const ROUNDS: usize = 5;
/// The ConfigMaps that are created in a round.
const OBJECTS: usize = 10_000;
/// The ConfigMaps whose memory is measured.
const KEPT: usize = 1000;
/// The connections that send requests.
const CONNECTIONS: usize = 8;
const WATCHERS: usize = 100;
/// The time between two creates while delays are measured.
const PACE: Duration = Duration::from_millis(20);

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if only_starts() {
        return Ok(());
    }
    let _installed = rustls::crypto::ring::default_provider().install_default();
    if let [_, serve, folder] = &arguments[..]
        && serve == child::SERVE
    {
        return child::serve(folder.as_ref());
    }
    anyhow::ensure!(
        !cfg!(debug_assertions) || std::env::var_os("DEBUG").is_some(),
        "a debug build says nothing about the server's speed: set DEBUG=1 to run it all the same"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(measure())
}

async fn measure() -> anyhow::Result<()> {
    let rounds = number("ROUNDS", ROUNDS);
    let mut report = Report::new("server");
    report.row(Row::new("server.fresh", "ms", Samples::of(rounds * 4, fresh)).target(5.0));
    let mut starts = Vec::new();
    for _ in 0..rounds {
        starts.push(Server::embedded()?.started);
    }
    let server = Server::embedded()?;
    let peer = Server::real()?;
    let row = Row::new("server.start", "ms", Samples::new(starts)).target(150.0);
    report.row(with_peer(
        row,
        peer.as_ref()
            .map(|peer| Samples::new(vec![peer.started]))
            .as_ref(),
    ));
    let mut plain = Load::new(server.plain()?, "plain").await?;
    plain.creates(KEPT).await?;
    let row = Row::new("server.rss", "MB", Samples::new(vec![megabytes(&server)])).target(40.0);
    let memory = match &peer {
        None => None,
        Some(peer) => {
            Load::new(peer.secure().await?, "kept")
                .await?
                .creates(KEPT)
                .await?;
            Some(Samples::new(vec![megabytes(peer)]))
        }
    };
    report.row(with_peer(row, memory.as_ref()));
    requests(&mut report, rounds, &mut plain).await?;
    let mut ours = Load::new(server.secure().await?, "secure").await?;
    let mut theirs = match &peer {
        None => None,
        Some(peer) => Some(Load::new(peer.secure().await?, "secure").await?),
    };
    beside_peer(&mut report, rounds, &mut ours, theirs.as_mut()).await?;
    report.finish()?;
    Ok(())
}

/// Measures requests without TLS.
async fn requests(report: &mut Report, rounds: usize, load: &mut Load) -> anyhow::Result<()> {
    let objects = number("OBJECTS", OBJECTS);
    let mut creates = Vec::new();
    let mut gets = Vec::new();
    for _ in 0..rounds {
        creates.push(load.creates(objects).await?);
        gets.push(load.gets(objects * 2).await?);
    }
    report.row(
        Row::new("server.creates", "/s", Samples::new(creates))
            .more_is_better()
            .target(5000.0),
    );
    report.row(
        Row::new("server.gets", "/s", Samples::new(gets))
            .more_is_better()
            .target(20_000.0),
    );
    Ok(())
}

/// Measures requests and watches with TLS, in turn with those of the peer.
async fn beside_peer(
    report: &mut Report,
    rounds: usize,
    ours: &mut Load,
    mut theirs: Option<&mut Load>,
) -> anyhow::Result<()> {
    let objects = number("OBJECTS", OBJECTS) / 5;
    let mut found = [Values::default(), Values::default()];
    for _ in 0..rounds {
        found[0].add(ours, objects).await?;
        if let Some(theirs) = &mut theirs {
            found[1].add(theirs, objects).await?;
        }
    }
    let [ours, theirs] = found.map(Values::samples);
    let rows = [
        ("creates_tls", "/s"),
        ("gets_tls", "/s"),
        ("watch_events", "/s"),
        ("watch_delay_p99", "ms"),
    ];
    for (at, (name, unit)) in rows.into_iter().enumerate() {
        let Some(samples) = ours.get(at) else {
            continue;
        };
        let row = Row::new(format!("server.{name}"), unit, samples.clone());
        let row = if unit == "/s" {
            row.more_is_better()
        } else {
            row
        };
        report.row(with_peer(row, theirs.get(at)));
    }
    Ok(())
}

/// What the rounds of one server have shown: creates, gets, events and delays.
#[derive(Default)]
struct Values([Vec<f64>; 4]);

impl Values {
    async fn add(&mut self, load: &mut Load, objects: usize) -> anyhow::Result<()> {
        let [creates, gets, events, delays] = &mut self.0;
        creates.push(load.creates(objects).await?);
        gets.push(load.gets(objects * 5).await?);
        let fan_out = load.fan_out(objects / 4).await?;
        events.push(fan_out.events_per_second);
        delays.push(fan_out.delay_p99.as_secs_f64() * 1e3);
        Ok(())
    }

    /// Returns the samples of each metric; none of a peer that does not run.
    fn samples(self) -> Vec<Samples> {
        self.0
            .into_iter()
            .filter(|values| !values.is_empty())
            .map(Samples::new)
            .collect()
    }
}

fn with_peer(row: Row, samples: Option<&Samples>) -> Row {
    match samples {
        Some(samples) => row.peer("kube-apiserver+etcd", samples),
        None => row,
    }
}

/// Returns the milliseconds in which a server starts in this process.
fn fresh() -> f64 {
    let began = Instant::now();
    let server =
        EmbeddedServer::start(Options::in_memory(Environment::system())).expect("a server");
    let took = began.elapsed();
    drop(server);
    took.as_secs_f64() * 1e3
}

fn megabytes(server: &Server) -> f64 {
    server
        .pids()
        .into_iter()
        .map(|pid| usage::memory_bytes(pid) as f64 / 1e6)
        .sum()
}
