//! The figures of a turn, and the report of all.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use operetta_testkit::{
    bench::{Report, Row, Samples},
    usage::megabytes,
};

use crate::{
    contestant::{Memory, Name},
    server::ServerFigures,
    subject::Subject,
};

/// What a turn of one controller measured.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// From the creation of an object to the end of its work in the paced load, the least first.
    pub latencies: Vec<Duration>,
    /// Processor time of an object in the paced load.
    pub paced_cpu: Duration,
    /// Objects per second, flat out.
    pub rate: f64,
    /// Processor time of an object, flat out.
    pub flat_cpu: Duration,
    /// Processor time of kube-apiserver for an object, flat out.
    pub server_cpu: Duration,
    /// The responses 409 in the paced load.
    pub paced_conflicts: f64,
    /// Memory at the end.
    pub memory: Memory,
    /// Resident memory of the host before it had a plugin, in bytes.
    pub rss_idle: Option<u64>,
    /// Requests, bytes and conflicts at the API server.
    pub server: ServerFigures,
}

impl Figures {
    /// Returns the latency that `share` of the objects keep, in milliseconds.
    pub fn latency(&self, share: f64) -> f64 {
        let rank = (self.latencies.len() as f64 * share) as usize;
        self.latencies
            .get(rank.min(self.latencies.len().saturating_sub(1)))
            .copied()
            .map_or(f64::NAN, millis)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "p50 {:.2} ms, p99 {:.2} ms, {:.2} ms CPU an object; flat out {:.0}/s, {:.2} ms CPU an object; {:.1} MB, anonymous {:.1} MB; {:?}",
            self.latency(0.5),
            self.latency(0.99),
            millis(self.paced_cpu),
            self.rate,
            millis(self.flat_cpu),
            megabytes(self.memory.rss),
            megabytes(self.memory.anonymous),
            self.server.by_request,
        )
    }
}

/// A metric: its name, its unit, its value, and the parts of the peers' values that are wanted at
/// most, or at least.
struct Metric {
    name: &'static str,
    unit: &'static str,
    value: fn(&Figures) -> f64,
    wanted: Wanted,
    more_is_better: bool,
}

/// The parts of what controller-runtime and kube-rs take that are wanted.
type Wanted = &'static [(Name, f64)];

const fn less(
    name: &'static str,
    unit: &'static str,
    value: fn(&Figures) -> f64,
    wanted: Wanted,
) -> Metric {
    Metric {
        name,
        unit,
        value,
        wanted,
        more_is_better: false,
    }
}

const METRICS: [Metric; 14] = [
    less(
        "p50",
        "ms",
        |of| of.latency(0.5),
        &[(Name::ControllerRuntime, 0.8)],
    ),
    less("p90", "ms", |of| of.latency(0.9), &[]),
    less(
        "p99",
        "ms",
        |of| of.latency(0.99),
        &[(Name::ControllerRuntime, 0.8)],
    ),
    less(
        "cpu_per_object",
        "ms",
        |of| millis(of.paced_cpu),
        &[(Name::ControllerRuntime, 0.5), (Name::KubeRs, 0.8)],
    ),
    Metric {
        name: "flat_rate",
        unit: "/s",
        value: |of| of.rate,
        wanted: &[(Name::ControllerRuntime, 1.25), (Name::KubeRs, 1.25)],
        more_is_better: true,
    },
    less(
        "flat_cpu",
        "ms",
        |of| millis(of.flat_cpu),
        &[(Name::ControllerRuntime, 0.5), (Name::KubeRs, 0.7)],
    ),
    less("flat_server_cpu", "ms", |of| millis(of.server_cpu), &[]),
    less(
        "rss",
        "MB",
        |of| megabytes(of.memory.rss),
        &[(Name::ControllerRuntime, 0.6), (Name::KubeRs, 0.6)],
    ),
    less("anonymous", "MB", |of| megabytes(of.memory.anonymous), &[]),
    less("requests", "/object", |of| of.server.requests, &[]),
    less("bytes", "B/object", |of| of.server.bytes, &[]),
    less("conflicts", "", |of| of.server.conflicts, &[]),
    less("paced_conflicts", "", |of| of.paced_conflicts, &[]),
    less(
        "rss_idle",
        "MB",
        |of| of.rss_idle.map_or(f64::NAN, megabytes),
        &[],
    ),
];

/// Prints the table and writes it to `target/bench`, `e2e.json` for the sample-controller. Returns
/// its path. The targets are those of the sample-controller.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn report(subject: Subject, rounds: &BTreeMap<Name, Vec<Figures>>) -> anyhow::Result<PathBuf> {
    let mut report = Report::new(subject.report());
    for metric in METRICS {
        let samples = |name: &Name| {
            let values: Vec<f64> = rounds.get(name)?.iter().map(metric.value).collect();
            values
                .iter()
                .all(|value| value.is_finite())
                .then(|| Samples::new(values))
        };
        let Some(ours) = samples(&Name::Operetta) else {
            continue;
        };
        let mut row = Row::new(
            format!("{}.{}", subject.report(), metric.name),
            metric.unit,
            ours,
        );
        let wanted = metric
            .wanted
            .iter()
            .filter_map(|(name, part)| Some(samples(name)?.median() * part));
        let strictest = if metric.more_is_better {
            wanted.reduce(f64::max)
        } else {
            wanted.reduce(f64::min)
        };
        if metric.more_is_better {
            row = row.more_is_better();
        }
        if let Some(target) = strictest.filter(|_| subject == Subject::SampleController) {
            row = row.target(target);
        }
        for name in &subject.controllers()[1..] {
            if let Some(theirs) = samples(name) {
                row = row.peer(name.to_string(), &theirs);
            }
        }
        report.row(row);
    }
    Ok(report.finish()?)
}

/// Returns a time in milliseconds.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
