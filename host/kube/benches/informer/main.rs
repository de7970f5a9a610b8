//! The start of an informer: `make bench-informer`, on a real API server of its own with nothing
//! else at work.
//!
//! - `informer.initial_list`: seconds from the start of a program until its informer has synced
//!   20,000 Pods; `informer.initial_cpu` is the processor time that it has used by then,
//!   `informer.initial_rss` what is resident two seconds later, `informer.initial_peak_rss` the
//!   most that was.
//! - `informer.relist_peak`: the most that is resident during a relist, over what was before. The
//!   API server is killed after writes that the watch has not seen: back again it does not know the
//!   watch's resourceVersion any more.
//! - `informer.thousand_kinds`: seconds until informers on 1,000 custom kinds, in 100 groups, have
//!   synced.
//!
//! Each contestant is a fresh process in each round, in turn, and looked at from outside. Ours is
//! this program itself: one informer of an `InformerRegistry`, on the host's allocator and runtime,
//! and as `operetta-one-thread` on a runtime of one thread. The peers keep the same Pods:
//! client-go's shared informer typed in JSON (`client-go`, what a clientset does that receives
//! nothing, and what the targets are of), typed in protobuf, and unstructured; kube-rs's watcher
//! and reflector with Pod and with DynamicObject. All have one handler that looks at a label.
//!
//! `PODS`, `KINDS` and `ROUNDS` take other numbers, to see whether it works; 0 kinds leave the last
//! metric out.

mod contestant;
mod load;

use std::{collections::BTreeMap, path::Path, process::Stdio, time::Duration};

use operetta_testkit::{
    ControlPlane,
    bench::{Report, Row, Samples, number, only_starts},
    peers::{Peers, Process},
    usage,
};

/// The host's: what comes back to the system after a sync counts.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const OURS: &str = "operetta";
const CONTESTANTS: &[&str] = &[
    OURS,
    "operetta-one-thread",
    "client-go",
    "client-go-protobuf",
    "client-go-unstructured",
    "kube-rs",
    "kube-rs-dynamic",
];
/// Until a process has given back what it gives back.
const SETTLED: Duration = Duration::from_secs(2);
/// With how much of client-go's time, processor time and memory it shall do.
const TARGETS: [f64; 3] = [1.05, 0.5, 0.4];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if only_starts() {
        return Ok(());
    }
    if arguments.first().is_some_and(|argument| argument == "sync") {
        return contestant::sync(&arguments[1..]);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(bench())
}

async fn bench() -> anyhow::Result<()> {
    let pods = number("PODS", 20_000);
    let kinds = number("KINDS", 1_000);
    let rounds = number("ROUNDS", 5);
    let field = Field {
        peers: Peers::build(),
        control_plane: ControlPlane::start(&[]).map_err(anyhow::Error::msg)?,
    };
    let client = field.control_plane.client().await;
    let start = std::time::Instant::now();
    let bytes = load::create_pods(&client, pods).await?;
    println!(
        "{pods} Pods of {bytes} bytes, made in {:.0} s",
        start.elapsed().as_secs_f64()
    );

    let mut report = Report::new("informer");
    for row in field.initial(pods, rounds)? {
        report.row(row);
    }
    if let Some(row) = field.relist_peak(pods, rounds.min(3)).await? {
        report.row(row);
    }
    if kinds > 0 {
        // The API server was killed since: the other client's connections are gone.
        load::create_kinds(&field.control_plane.client().await, kinds).await?;
        report.row(field.thousand_kinds(kinds, rounds.min(3))?);
    }
    println!("{}", report.finish()?.display());
    Ok(())
}

/// What the contestants meet on.
struct Field {
    peers: Peers,
    control_plane: ControlPlane,
}

/// What one process needed to sync.
struct Synced {
    process: Process,
    seconds: f64,
    cpu_seconds: f64,
}

impl Field {
    /// Starts a contestant and waits until it has synced; None when it was not built.
    fn start(&self, name: &str, kinds: usize, expected: usize) -> anyhow::Result<Option<Synced>> {
        let program = match name {
            _ if name.starts_with(OURS) => Some(std::env::current_exe()?),
            _ if name.starts_with("kube-rs") => self.peers.program(name, "peer-kube-rs"),
            _ => self.peers.program(name, "peer-go"),
        };
        let Some(program) = program else {
            return Ok(None);
        };
        let kubeconfig = self
            .control_plane
            .kubeconfig()
            .to_string_lossy()
            .into_owned();
        let kinds = kinds.to_string();
        let mut arguments = vec!["sync", "--kubeconfig", &kubeconfig, "--peer", name];
        if kinds != "0" {
            arguments.extend(["--kinds", &kinds]);
        }
        let mut process = Process::start(name, Path::new(&program), &arguments, Stdio::piped());
        let line = process.line();
        let cpu_seconds = usage::cpu_time(process.pid()).as_secs_f64();
        let seconds = line["samples"][0].as_f64();
        let objects = line["objects"].as_u64();
        let objects = objects
            .and_then(|objects| usize::try_from(objects).ok())
            .unwrap_or_default();
        anyhow::ensure!(
            objects == expected,
            "{name} has {objects} objects of {expected}: {line}"
        );
        let seconds = seconds.ok_or_else(|| anyhow::anyhow!("{name} says {line}"))?;
        Ok(Some(Synced {
            process,
            seconds,
            cpu_seconds,
        }))
    }

    fn initial(&self, pods: usize, rounds: usize) -> anyhow::Result<Vec<Row>> {
        let mut measured: BTreeMap<&str, [Vec<f64>; 4]> = BTreeMap::new();
        for round in 0..=rounds {
            for name in CONTESTANTS {
                let Some(synced) = self.start(name, 0, pods)? else {
                    continue;
                };
                std::thread::sleep(SETTLED);
                let pid = synced.process.pid();
                let memory =
                    [usage::memory_bytes(pid), usage::peak_memory_bytes(pid)].map(megabytes);
                if round > 0 {
                    let values = measured.entry(name).or_default();
                    let round = [synced.seconds, synced.cpu_seconds, memory[0], memory[1]];
                    values
                        .iter_mut()
                        .zip(round)
                        .for_each(|(values, value)| values.push(value));
                }
            }
        }
        let metrics = [
            ("list", "s"),
            ("cpu", "s"),
            ("rss", "MB"),
            ("peak_rss", "MB"),
        ];
        let rows = metrics.iter().enumerate().map(|(at, (metric, unit))| {
            let samples: BTreeMap<_, _> = measured
                .iter()
                .map(|(name, values)| (*name, Samples::new(values[at].clone())))
                .collect();
            let mut row = row_of(format!("informer.initial_{metric}"), unit, &samples);
            if let (Some(share), Some(reference)) = (TARGETS.get(at), samples.get("client-go")) {
                row = row.target(share * reference.median());
            }
            row
        });
        Ok(rows.collect())
    }

    /// None when not everybody listed again: then there is nothing to compare.
    async fn relist_peak(&self, pods: usize, rounds: usize) -> anyhow::Result<Option<Row>> {
        let mut contestants = Vec::new();
        for name in [OURS, "client-go", "kube-rs"] {
            if let Some(synced) = self.start(name, 0, pods)? {
                contestants.push((name, synced.process, Vec::new()));
            }
        }
        for round in 0..rounds {
            tokio::time::sleep(SETTLED).await;
            let steady: Vec<u64> = contestants
                .iter()
                .map(|(_, one, _)| usage::memory_bytes(one.pid()))
                .collect();
            contestants
                .iter()
                .for_each(|(_, process, _)| usage::forget_peak(process.pid()));
            let lists_before = load::lists(&self.control_plane);
            load::forget_watches(&self.control_plane).await?;
            load::create_marker(&self.control_plane.client().await, round).await?;
            for ((name, process, values), steady) in contestants.iter_mut().zip(steady) {
                // Who relists may tell of the markers before once more.
                let expected = load::marker(round);
                let delivered = (0..=round).any(|_| process.line()["marker"] == expected);
                anyhow::ensure!(delivered, "{name} does not deliver {expected}");
                values.push(usage::peak_memory_bytes(process.pid()) as f64 / steady as f64);
            }
            let lists = load::lists(&self.control_plane) - lists_before;
            if lists < contestants.len() {
                println!(
                    "without informer.relist_peak: {lists} lists of {} contestants",
                    contestants.len()
                );
                return Ok(None);
            }
        }
        let samples = contestants
            .into_iter()
            .map(|(name, _, values)| (name, Samples::new(values)))
            .collect();
        Ok(Some(
            row_of("informer.relist_peak".into(), "x", &samples).target(1.3),
        ))
    }

    fn thousand_kinds(&self, kinds: usize, rounds: usize) -> anyhow::Result<Row> {
        let mut samples: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for _ in 0..rounds {
            for name in [OURS, "client-go"] {
                if let Some(synced) = self.start(name, kinds, 0)? {
                    samples.entry(name).or_default().push(synced.seconds);
                }
            }
        }
        let samples = samples
            .into_iter()
            .map(|(name, values)| (name, Samples::new(values)))
            .collect();
        Ok(row_of("informer.thousand_kinds".into(), "s", &samples).target(10.0))
    }
}

/// A row of ours and of the others. Ours is always there.
fn row_of(metric: String, unit: &str, samples: &BTreeMap<&str, Samples>) -> Row {
    let row = Row::new(metric, unit, samples[OURS].clone());
    let peers = samples.iter().filter(|(name, _)| **name != OURS);
    peers.fold(row, |row, (name, samples)| row.peer(*name, samples))
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
