//! What a case found, and the table and rows of all.

use std::fmt;

use operetta_testkit::bench::{Row, Samples};
use serde::Deserialize;

use crate::{Outcomes, contestant::Name};

/// What a controller found in one case.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Outcome {
    /// How many reads missed the write before them.
    old: usize,
    /// How long each read took, in milliseconds.
    waits: Vec<f64>,
    /// Why the case ended early.
    #[serde(default)]
    refused: Option<String>,
}

impl Outcome {
    /// Reports whether the case ended early.
    pub fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Returns the share of old reads in percent; None if the case ended early.
    fn old(&self) -> Option<f64> {
        let is_whole = self.refused.is_none() && !self.waits.is_empty();
        is_whole.then(|| self.old as f64 / self.waits.len() as f64 * 100.0)
    }

    /// Returns the time in milliseconds that `share` of the reads keep; None if the case ended early.
    fn wait(&self, share: f64) -> Option<f64> {
        self.old()?;
        let mut waits = self.waits.clone();
        waits.sort_by(f64::total_cmp);
        let rank = ((waits.len() - 1) as f64 * share).ceil() as usize;
        waits.get(rank).copied()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.refused, self.wait(0.5), self.wait(0.99)) {
            (None, Some(p50), Some(p99)) => write!(
                f,
                "{} of {} old, p50 {p50:.2} ms, p99 {p99:.2} ms",
                self.old,
                self.waits.len()
            ),
            (refused, ..) => write!(f, "refused: {}", refused.as_deref().unwrap_or("no read")),
        }
    }
}

/// Prints a line for each case: old reads of all, and the times at p50 and p99.
pub fn print(outcomes: &Outcomes) {
    let columns = Name::ALL.map(|name| format!("{name:<40}"));
    println!("{:<40} {}", "old reads, p50/p99 in ms", columns.concat());

    for (case, of_case) in outcomes {
        let cell = |name: Name| {
            let outcome = of_case.get(&name);
            let text = outcome.map_or_else(String::new, |outcome| {
                match (outcome.wait(0.5), outcome.wait(0.99)) {
                    (Some(p50), Some(p99)) => {
                        format!("{}/{} {p50:.2}/{p99:.2}", outcome.old, outcome.waits.len())
                    }
                    _ => "refused".to_owned(),
                }
            });
            format!("{text:<40}")
        };
        let of = format!("{} ms, {}, {}", case.lag, case.form, case.read);
        println!("{of:<40} {}", Name::ALL.map(cell).concat());
    }
}

/// Returns the rows of the report. A case that Operetta refuses has none.
pub fn rows(outcomes: &Outcomes) -> Vec<Row> {
    type Figure = fn(&Outcome) -> Option<f64>;
    let figures: [(&str, &str, Figure); 3] = [
        ("old", "%", Outcome::old),
        ("p50", "ms", |outcome| outcome.wait(0.5)),
        ("p99", "ms", |outcome| outcome.wait(0.99)),
    ];

    let mut rows = Vec::new();
    for (case, of_case) in outcomes {
        for (figure, unit, value) in figures {
            let samples =
                |name: &Name| value(of_case.get(name)?).map(|value| Samples::new(vec![value]));
            let Some(ours) = samples(&Name::Operetta) else {
                continue;
            };
            let metric = format!("lag.{}ms.{}.{}.{figure}", case.lag, case.form, case.read);
            let mut row = Row::new(metric, unit, ours);
            if figure == "old" {
                row = row.target(0.0);
            }
            for name in &Name::ALL[1..] {
                if let Some(theirs) = samples(name) {
                    row = row.peer(name.to_string(), &theirs);
                }
            }
            rows.push(row);
        }
    }
    rows
}
