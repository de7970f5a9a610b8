//! One form for all benches: a table for people, `target/bench/NAME.json` for programs.
//!
//! ```ignore
//! let mut report = Report::new("queue");
//! let ours = Samples::of(9, || time_of_one_round());
//! report.row(Row::new("queue.per_key", "us", ours).target(0.6).peer("client-go", theirs));
//! report.finish()?;
//! ```
//!
//! The JSON is a list of `{"metric", "unit", "operetta", "peers", "ratio", "spread", "peerSpread",
//! "ratioSpread", "target"}`: `operetta` and each peer are medians over the rounds, `ratio` is
//! operetta / peer of the medians, `spread` and `peerSpread` are the least and the greatest round,
//! `ratioSpread` the least and the greatest ratio of one round, `target` is null where there is
//! none. Peers are measured in the same run, their rounds between ours: [`Samples::interleaved`].
//!
//! Needs only std and serde_json, so that benches of crates that have nothing to do with the rest
//! of this one can include just this file: `#[path = "../../../tests/testkit/src/bench.rs"] mod
//! bench;`.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

/// The values of one metric, one per round and in their order; never empty.
#[derive(Clone, Debug)]
pub struct Samples(Vec<f64>);

#[allow(
    dead_code,
    reason = "no bench needs everything, and some take this file alone"
)]
impl Samples {
    /// Takes values measured elsewhere, in the order of the rounds.
    ///
    /// # Panics
    /// Panics if there are none.
    pub fn new(rounds: Vec<f64>) -> Self {
        assert!(!rounds.is_empty(), "a metric needs at least one round");
        Self(rounds)
    }

    /// Runs this many rounds, after one whose result is thrown away.
    pub fn of(rounds: usize, mut round: impl FnMut() -> f64) -> Self {
        round();
        Self::new((0..rounds).map(|_| round()).collect())
    }

    /// Runs the contestants in turn for this many rounds, after one whose results are thrown away.
    pub fn interleaved(rounds: usize, contestants: &mut [&mut dyn FnMut() -> f64]) -> Vec<Self> {
        let mut values = vec![Vec::new(); contestants.len()];

        for number in 0..=rounds {
            for (contestant, values) in contestants.iter_mut().zip(&mut values) {
                let value = contestant();
                if number > 0 {
                    values.push(value);
                }
            }
        }

        values.into_iter().map(Self::new).collect()
    }

    /// The median; for an even number of rounds the greater of the middle two.
    pub fn median(&self) -> f64 {
        let sorted = self.sorted();
        sorted[sorted.len() / 2]
    }

    /// The least and the greatest.
    pub fn spread(&self) -> [f64; 2] {
        let sorted = self.sorted();
        [sorted[0], sorted[sorted.len() - 1]]
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The ratios, round by round.
    fn ratios(&self, peer: &Self) -> Self {
        Self::new(
            self.0
                .iter()
                .zip(&peer.0)
                .map(|(ours, theirs)| ours / theirs)
                .collect(),
        )
    }
}

/// One metric.
#[derive(Clone, Debug)]
pub struct Row {
    metric: String,
    unit: String,
    operetta: Samples,
    peers: BTreeMap<String, Samples>,
    target: Option<f64>,
    more_is_better: bool,
}

#[allow(
    dead_code,
    reason = "no bench needs everything, and some take this file alone"
)]
impl Row {
    /// A metric for which less is better. Names of metrics are stable.
    pub fn new(metric: impl Into<String>, unit: impl Into<String>, operetta: Samples) -> Self {
        Self {
            metric: metric.into(),
            unit: unit.into(),
            operetta,
            peers: BTreeMap::new(),
            target: None,
            more_is_better: false,
        }
    }

    /// More is better.
    #[must_use]
    pub fn more_is_better(mut self) -> Self {
        self.more_is_better = true;
        self
    }

    /// What the median should reach.
    #[must_use]
    pub fn target(mut self, target: f64) -> Self {
        // Some targets are a fraction of what a peer took.
        self.target = Some((target * 1e3).round() / 1e3);
        self
    }

    /// A peer, measured in the same run.
    #[must_use]
    pub fn peer(mut self, name: impl Into<String>, samples: &Samples) -> Self {
        self.peers.insert(name.into(), samples.clone());
        self
    }

    fn json(&self) -> Value {
        let operetta = self.operetta.median();
        json!({
            "metric": self.metric, "unit": self.unit, "operetta": operetta, "peers": self.of_peers(Samples::median),
            "ratio": self.of_peers(|peer| operetta / peer.median()), "spread": self.operetta.spread(),
            "peerSpread": self.of_peers(Samples::spread),
            "ratioSpread": self.of_peers(|peer| self.operetta.ratios(peer).spread()), "target": self.target,
        })
    }

    fn of_peers<T>(&self, figure: impl Fn(&Samples) -> T) -> BTreeMap<&str, T> {
        self.peers
            .iter()
            .map(|(name, peer)| (name.as_str(), figure(peer)))
            .collect()
    }

    fn verdict(&self) -> String {
        let median = self.operetta.median();
        match self.target {
            None => String::new(),
            Some(target) if (median <= target) != self.more_is_better || median == target => {
                format!("{target} reached")
            }
            Some(target) => format!("{target} MISSED"),
        }
    }
}

/// The rows of one bench.
#[derive(Clone, Debug)]
pub struct Report {
    name: String,
    rows: Vec<Row>,
}

impl Report {
    /// The report of `make bench-NAME`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a metric.
    pub fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Prints the table and writes `target/bench/NAME.json` under the workspace's root.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn finish(self) -> io::Result<PathBuf> {
        println!("{self}");
        self.write()
    }

    /// Writes `target/bench/NAME.json` without the table, for benches that print one of their own.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(self) -> io::Result<PathBuf> {
        let path = reports_folder()?.join(format!("{}.json", self.name));
        let rows: Vec<_> = self.rows.iter().map(Row::json).collect();
        fs::write(&path, format!("{:#}\n", Value::from(rows)))?;
        Ok(path)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<32} {:<8} {:>12}   {:<24} target",
            "metric", "unit", "operetta", "least .. greatest"
        )?;
        for row in &self.rows {
            let spread = |of: &Samples| of.spread().map(short).join(" .. ");
            let median = short(row.operetta.median());
            let ours = spread(&row.operetta);
            writeln!(
                f,
                "{:<32} {:<8} {median:>12}   {ours:<24} {}",
                row.metric,
                row.unit,
                row.verdict()
            )?;

            for (name, peer) in &row.peers {
                let [least, greatest] = row.operetta.ratios(peer).spread();
                let ratio = row.operetta.median() / peer.median();
                let ratio = match ratio.is_finite() {
                    true => format!("operetta/{name} = {ratio:.2} ({least:.2} .. {greatest:.2})"),
                    false => String::new(),
                };

                let theirs = spread(peer);
                writeln!(
                    f,
                    "{:<32} {:<8} {:>12}   {theirs:<24} {ratio}",
                    format!("  {name}"),
                    "",
                    short(peer.median())
                )?;
            }
        }

        Ok(())
    }
}

/// Extrapolates to a size beyond those measured, on the straight line through the two largest, but
/// never below the value of the largest; None if fewer than two were measured. `measured` has pairs
/// of size and value.
#[allow(
    dead_code,
    reason = "no bench needs everything, and some take this file alone"
)]
pub fn extrapolate(measured: &[(usize, f64)], size: usize) -> Option<f64> {
    let mut measured = measured.to_vec();
    measured.sort_by_key(|(size, _)| *size);

    let [.., (small, below), (large, value)] = measured[..] else {
        return None;
    };

    (large > small).then(|| {
        value + (value - below).max(0.0) / (large - small) as f64 * (size as f64 - large as f64)
    })
}

/// A size that an environment variable may override: small ones show whether a bench works.
///
/// # Panics
/// Panics if the variable is not a number.
pub fn number(name: &str, otherwise: usize) -> usize {
    let Ok(text) = std::env::var(name) else {
        return otherwise;
    };
    text.parse()
        .unwrap_or_else(|_| panic!("{name}={text} is no number"))
}

/// Sizes that an environment variable may override, as `5,30`.
///
/// # Panics
/// Panics if a part of the variable is not a number.
#[allow(
    dead_code,
    reason = "no bench needs everything, and some take this file alone"
)]
pub fn numbers(name: &str, otherwise: &[usize]) -> Vec<usize> {
    let text = std::env::var(name).unwrap_or_default();
    if text.is_empty() {
        return otherwise.to_vec();
    }

    let parse = |part: &str| {
        part.trim()
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text}: {part:?} is no number"))
    };
    text.split(',').map(parse).collect()
}

/// Reports whether `ONLY` names this contestant, or is unset.
#[allow(
    dead_code,
    reason = "no bench needs everything, and some take this file alone"
)]
pub fn is_chosen(name: &str) -> bool {
    let only = std::env::var("ONLY").unwrap_or_default();
    only.is_empty() || only.split(',').any(|chosen| chosen == name)
}

/// Reports whether a bench need not run: `cargo test --benches` passes `--test`, and only checks
/// that the program starts.
#[allow(
    dead_code,
    reason = "no bench needs everything, and some take this file alone"
)]
pub fn only_starts() -> bool {
    std::env::args().any(|argument| argument == "--test")
}

/// Four significant digits, which is more than any bench here can promise.
fn short(value: f64) -> String {
    let digits = if value == 0.0 {
        0.0
    } else {
        value.abs().log10().floor() + 1.0
    };

    format!("{value:.*}", (4.0 - digits).clamp(0.0, 6.0) as usize)
}

/// Returns the folder of the reports, which it creates.
///
/// # Errors
/// Returns an error if it cannot be created.
pub fn reports_folder() -> io::Result<PathBuf> {
    let folder = workspace_root().join("target/bench");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The nearest directory above the crate being run that holds the lock file.
pub(crate) fn workspace_root() -> PathBuf {
    let start =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let root = start
        .ancestors()
        .find(|directory| directory.join("Cargo.lock").exists());
    root.map_or_else(|| start.clone(), Path::to_path_buf)
}

#[cfg(test)]
#[allow(
    unused_imports,
    reason = "a bench that takes this file alone has no test harness"
)]
mod tests {
    use super::*;

    #[test]
    fn a_row_s_json_has_the_agreed_fields() {
        let row = Row::new("queue.per_key", "us", Samples::new(vec![0.5, 0.25, 1.0])).target(0.6);
        let row = row.peer("client-go", &Samples::new(vec![2.0, 4.0, 2.0]));

        let expected = json!({
            "metric": "queue.per_key", "unit": "us", "operetta": 0.5, "peers": {"client-go": 2.0},
            "ratio": {"client-go": 0.25}, "spread": [0.25, 1.0], "peerSpread": {"client-go": [2.0, 4.0]},
            "ratioSpread": {"client-go": [0.0625, 0.5]}, "target": 0.6,
        });
        assert_eq!(row.json(), expected);

        let without = Row::new("a", "b", Samples::new(vec![1.0])).json();
        assert!(without["target"].is_null());
    }

    #[test]
    fn a_missed_target_is_printed_as_missed() {
        let row = |target| Row::new("a", "us", Samples::new(vec![1.0])).target(target);
        assert_eq!(
            [row(1.0), row(2.0), row(0.5)].map(|row| row.verdict()),
            ["1 reached", "2 reached", "0.5 MISSED"]
        );

        assert_eq!(row(2.0).more_is_better().verdict(), "2 MISSED");
        assert_eq!(row(0.5).more_is_better().verdict(), "0.5 reached");
    }

    #[test]
    fn extrapolates_on_line_through_two_largest_sizes() {
        assert_eq!(
            extrapolate(&[(100, 300.0), (1, 90.0), (10, 30.0)], 1000),
            Some(3_000.0)
        );

        assert_eq!(
            extrapolate(&[(10, 30.0), (100, 20.0)], 1000),
            Some(20.0),
            "more of them do not cost less"
        );

        assert_eq!(extrapolate(&[(100, 300.0)], 1000), None);
        assert_eq!(extrapolate(&[], 1000), None);
    }

    #[test]
    fn numbers_are_short_and_never_rounded_away() {
        assert_eq!(
            [0.0, 0.41234, 12.3456, 123_456.7, 0.000_12].map(short),
            ["0.0000", "0.4123", "12.35", "123457", "0.000120"]
        );
    }
}
