//! The figures of a run, and the report.

use std::{path::PathBuf, time::Duration};

use operetta_testkit::bench::{Report, Row, Samples};

use crate::{
    disturb::{Kind, Mark},
    readings::Reading,
    verdict::Verdict,
};

/// The growth of memory and of file descriptors that counts as flat.
const FLAT: f64 = 1.10;

/// What a run has measured.
pub struct Figures {
    /// The time of the load.
    pub time: Duration,
    /// Foos created in a second, flat out.
    pub flat_rate: f64,
    /// Foos created in a second under the load.
    pub rate: f64,
    /// All Foos that were created.
    pub foos: usize,
    pub readings: Vec<Reading>,
    pub marks: Vec<Mark>,
    pub verdict: Verdict,
    /// Attempts to create a Deployment that existed already.
    pub conflicts: usize,
    /// Requests of everybody to the API server.
    pub requests: usize,
    pub audit_bytes: u64,
}

/// A value of a reading.
type Value = fn(&Reading) -> f64;

const LEVELS: [(&str, &str, Value, Option<f64>); 4] = [
    ("rss", "MB", |reading| reading.rss, Some(FLAT)),
    ("anonymous", "MB", |reading| reading.anonymous, Some(FLAT)),
    ("fds", "", |reading| reading.files, Some(FLAT)),
    ("threads", "", |reading| reading.threads, None),
];

impl Figures {
    /// Returns the values of a tenth of the run; the first has the number 0. A short run has none
    /// in some tenths.
    fn tenth(&self, number: u32, value: Value) -> Vec<f64> {
        let from = self.time * number / 10;
        let to = self.time * (number + 1) / 10;
        let readings = self
            .readings
            .iter()
            .filter(|reading| from <= reading.at && reading.at < to);
        readings.map(value).collect()
    }

    /// Returns a time of all disturbances of a kind, in seconds.
    fn times(&self, kind: Kind, time: fn(&Mark) -> Duration) -> Vec<f64> {
        let marks = self.marks.iter().filter(|mark| mark.kind == kind);
        marks.map(|mark| time(mark).as_secs_f64()).collect()
    }

    /// Prints the table and writes `target/bench/soak.json`. Returns its path.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn report(&self) -> anyhow::Result<PathBuf> {
        let mut report = Report::new("soak");
        let mut row = |name: &str, unit: &str, values: Vec<f64>| {
            let row = Row::new(format!("soak.{name}"), unit, Samples::new(values));
            report.row(if unit == "/s" {
                row.more_is_better()
            } else {
                row
            });
        };
        row("flat_rate", "/s", vec![self.flat_rate]);
        row("rate", "/s", vec![self.rate]);
        row("foos", "", vec![self.foos as f64]);
        let last = self.readings.last().map(|reading| reading.metrics);
        row(
            "reconciles",
            "",
            last.iter().map(|metrics| metrics.reconciles).collect(),
        );
        row(
            "retries",
            "",
            last.iter().map(|metrics| metrics.errors).collect(),
        );
        row("conflicts", "", vec![self.conflicts as f64]);
        row(
            "requests",
            "/Foo",
            vec![self.requests as f64 / self.foos as f64],
        );
        row(
            "audit",
            "B/Foo",
            vec![self.audit_bytes as f64 / self.foos as f64],
        );
        row(
            "disk",
            "MB",
            vec![
                self.readings
                    .iter()
                    .map(|reading| reading.disk)
                    .fold(0.0, f64::max),
            ],
        );
        for (name, times) in [
            ("swap", self.times(Kind::Swap, |mark| mark.took)),
            ("outage", self.times(Kind::Restart, |mark| mark.took)),
            (
                "recovery",
                self.times(Kind::Restart, |mark| mark.until_deployed),
            ),
        ] {
            if !times.is_empty() {
                row(name, "s", times);
            }
        }
        for (name, faults) in [("lost", &self.verdict.lost), ("twice", &self.verdict.twice)] {
            report.row(
                Row::new(
                    format!("soak.{name}"),
                    "",
                    Samples::new(vec![faults.len() as f64]),
                )
                .target(0.0),
            );
        }
        self.levels(&mut report)?;
        Ok(report.finish()?)
    }

    /// Adds the levels of the host's memory, file descriptors and threads, and their growth.
    fn levels(&self, report: &mut Report) -> anyhow::Result<()> {
        for (name, unit, value, target) in LEVELS {
            let early = self.tenth(1, value);
            let late = self.tenth(9, value);
            anyhow::ensure!(!early.is_empty() && !late.is_empty(), "too few readings");
            let early = Samples::new(early);
            let late = Samples::new(late);
            let growth = Row::new(
                format!("soak.{name}_growth"),
                "",
                Samples::new(vec![late.median() / early.median()]),
            );
            report.row(Row::new(format!("soak.{name}_early"), unit, early));
            report.row(Row::new(format!("soak.{name}"), unit, late));
            report.row(match target {
                Some(target) => growth.target(target),
                None => growth,
            });
        }
        Ok(())
    }
}
