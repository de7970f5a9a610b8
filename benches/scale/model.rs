//! The measured cells, the constants that the small ones give, and the model's errors.

use operetta_testkit::bench::Report;

use crate::{Sizes, row};

/// Memory and processor time of a host at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    pub rss_mb: f64,
    pub anonymous_mb: f64,
    /// In seconds since the start.
    pub cpu: f64,
}

/// A cell of objects.
pub struct Objects {
    pub count: usize,
    /// Seconds, as the next one.
    pub synced: f64,
    pub reconciled: f64,
    pub base: Reading,
    pub loaded: Reading,
    pub idle: Reading,
    pub peak_mb: f64,
    /// In percent of a core.
    pub idle_cpu: f64,
    /// The bytes that the host counts in its cache.
    pub cached: f64,
    pub server_mb: f64,
}

/// A cell of plugins.
pub struct Plugins {
    pub count: usize,
    /// Seconds from the start of the host.
    pub ready: f64,
    pub loaded: Reading,
    pub idle: Reading,
    pub peak_mb: f64,
    pub idle_cpu: f64,
    pub server_mb: f64,
}

/// A cell of keys a second.
pub struct Rate {
    pub rate: usize,
    pub achieved: f64,
    /// In percent of a core, as the next one.
    pub cpu: f64,
    pub idle_cpu: f64,
    /// In seconds.
    pub queue_mean: f64,
    /// p50 and p99 in seconds.
    pub queue: [f64; 2],
    /// The shares within 1 and 10 ms.
    pub within: [f64; 2],
    /// The seconds and megabytes of a scrape of /metrics.
    pub scrape: (f64, f64),
}

/// The cell with everything.
pub struct All {
    pub sizes: Sizes,
    pub ready: f64,
    /// Seconds since the start until everything was ready.
    pub cpu: f64,
    pub peak_mb: f64,
    pub reading: Reading,
    pub rate: Rate,
    pub server_mb: f64,
}

impl Objects {
    pub fn report(&self, report: &mut Report) {
        let mut add = |name: &str, unit, value| {
            row(
                report,
                format!("scale.objects.{}.{name}", self.count),
                unit,
                value,
            );
        };
        add("synced", "s", self.synced);
        add("reconciled", "s", self.reconciled);
        add(
            "cpu",
            "s/1000",
            (self.loaded.cpu - self.base.cpu) / self.count as f64 * 1e3,
        );
        add("base_anonymous", "MB", self.base.anonymous_mb);
        add("base_rss", "MB", self.base.rss_mb);
        add("rss", "MB", self.loaded.rss_mb);
        add("anonymous", "MB", self.loaded.anonymous_mb);
        add("peak", "MB", self.peak_mb);
        add("rss_idle", "MB", self.idle.rss_mb);
        add("anonymous_idle", "MB", self.idle.anonymous_mb);
        add("cpu_idle", "%", self.idle_cpu);
        add("cached", "B", self.cached / self.count as f64);
        add("server_rss", "MB", self.server_mb);
    }
}

impl Plugins {
    pub fn report(&self, report: &mut Report) {
        let mut add = |name: &str, unit, value| {
            row(
                report,
                format!("scale.plugins.{}.{name}", self.count),
                unit,
                value,
            );
        };
        add("ready", "s", self.ready);
        add("cpu", "s/1000", self.loaded.cpu / self.count as f64 * 1e3);
        add("rss", "MB", self.loaded.rss_mb);
        add("anonymous", "MB", self.loaded.anonymous_mb);
        add("peak", "MB", self.peak_mb);
        add("rss_idle", "MB", self.idle.rss_mb);
        add("anonymous_idle", "MB", self.idle.anonymous_mb);
        add("cpu_idle", "%", self.idle_cpu);
        add("server_rss", "MB", self.server_mb);
    }
}

impl Rate {
    fn add(&self, mut add: impl FnMut(&str, &str, f64)) {
        add("achieved", "/s", self.achieved);
        add("cpu_total", "%", self.cpu);
        add("queue_mean", "us", self.queue_mean * 1e6);
        add("queue_p50", "us", self.queue[0] * 1e6);
        add("queue_p99", "us", self.queue[1] * 1e6);
        add("queue_within_1ms", "%", self.within[0] * 100.0);
        add("queue_within_10ms", "%", self.within[1] * 100.0);
        add("scrape", "s", self.scrape.0);
        add("scrape_size", "MB", self.scrape.1);
    }

    pub fn report(&self, report: &mut Report) {
        let mut add = |name: &str, unit: &str, value| {
            row(
                report,
                format!("scale.rate.{}.{name}", self.rate),
                unit,
                value,
            );
        };
        self.add(&mut add);
        add("cpu_idle", "%", self.idle_cpu);
    }
}

impl All {
    pub fn report(&self, report: &mut Report) {
        let mut add =
            |name: &str, unit: &str, value| row(report, format!("scale.all.{name}"), unit, value);
        add("ready", "s", self.ready);
        add("start_cpu", "s", self.cpu);
        add("rss", "MB", self.reading.rss_mb);
        add("anonymous", "MB", self.reading.anonymous_mb);
        add("peak", "MB", self.peak_mb);
        add("server_rss", "MB", self.server_mb);
        self.rate.add(add);
    }
}

/// The straight lines through the two small cells of each kind, and what is compared with them.
#[derive(Default)]
pub struct Model {
    objects: Vec<Point>,
    plugins: Vec<Point>,
    rates: Vec<Point>,
    /// The name, its unit, the model's value and the measured one.
    compared: Vec<(String, &'static str, f64, f64)>,
}

/// The values of a cell of this size: anonymous memory and peak in MB, seconds, processor seconds,
/// and percent of a core.
type Point = (f64, [f64; 5]);
const ANONYMOUS: usize = 0;
const PEAK: usize = 1;
const SECONDS: usize = 2;
const START_CPU: usize = 3;
const CPU: usize = 4;
/// The name and unit of each.
const VALUES: [(&str, &str); 5] = [
    ("anonymous", "MB"),
    ("peak", "MB"),
    ("ready", "s"),
    ("start_cpu", "s"),
    ("cpu", "%"),
];

/// A line, or a curve: the value at zero, what one more adds, and what each pair adds.
#[derive(Clone, Copy)]
struct Line {
    fixed: f64,
    each: f64,
    pair: f64,
}

impl Line {
    fn at(self, size: f64) -> f64 {
        self.fixed + self.added(size)
    }

    fn added(self, size: f64) -> f64 {
        self.each * size + self.pair * size * size
    }
}

/// Returns the line of a value through the points of the small cells; see [`line`].
type Fit = fn(&[Point], usize) -> Option<Line>;

/// Returns the line through the points of two small cells; None unless both were measured.
fn line(points: &[Point], value: usize) -> Option<Line> {
    let [(small, below), (large, above)] = points else {
        return None;
    };
    let each = (above[value] - below[value]) / (large - small);
    Some(Line {
        fixed: below[value] - each * small,
        each,
        pair: 0.0,
    })
}

/// Returns what plugins take: a line, but the curve through zero and two points for the times of a
/// start, in which each plugin costs more the more there are.
fn plugin_line(points: &[Point], value: usize) -> Option<Line> {
    let [(small, below), (large, above)] = points else {
        return None;
    };
    if value != SECONDS && value != START_CPU {
        return line(points, value);
    }
    let (slope_small, slope_large) = (below[value] / small, above[value] / large);
    let pair = (slope_large - slope_small) / (large - small);
    Some(Line {
        fixed: 0.0,
        each: slope_small - pair * small,
        pair,
    })
}

impl Model {
    pub fn objects(&mut self, cell: &Objects, is_small: bool) {
        let cpu = cell.loaded.cpu - cell.base.cpu;
        let point = [
            cell.idle.anonymous_mb,
            cell.peak_mb,
            cell.reconciled,
            cpu,
            cell.idle_cpu,
        ];
        match is_small {
            true => self.objects.push((cell.count as f64, point)),
            false => self.compare("objects", cell.count, &point, |model, value| {
                line(&model.objects, value)
            }),
        }
    }

    pub fn plugins(&mut self, cell: &Plugins, is_small: bool) {
        let point = [
            cell.idle.anonymous_mb,
            cell.peak_mb,
            cell.ready,
            cell.loaded.cpu,
            cell.idle_cpu,
        ];
        match is_small {
            true => self.plugins.push((cell.count as f64, point)),
            false => self.compare("plugins", cell.count, &point, |model, value| {
                plugin_line(&model.plugins, value)
            }),
        }
    }

    pub fn rate(&mut self, cell: &Rate, is_small: bool) {
        if is_small {
            self.rates
                .push((cell.achieved, [0.0, 0.0, 0.0, 0.0, cell.cpu]));
        } else if let Some(line) = line(&self.rates, CPU) {
            self.compared
                .push(("rate.cpu".to_owned(), "%", line.at(cell.achieved), cell.cpu));
        }
    }

    /// Compares the host with everything: the fixed part of objects is that of a host with one
    /// plugin, and the rest is added to it.
    pub fn all(&mut self, cell: &All) {
        let objects = cell.sizes.objects as f64;
        let plugins = cell.sizes.plugins as f64;
        let measured = [
            cell.reading.anonymous_mb,
            cell.peak_mb,
            cell.ready,
            cell.cpu,
        ];
        for (value, measured) in measured.into_iter().enumerate() {
            let lines = (
                line(&self.objects, value),
                plugin_line(&self.plugins, value),
            );
            let (Some(object), Some(plugin)) = lines else {
                return;
            };
            let (name, unit) = VALUES[value];
            let model = object.at(objects) + plugin.added(plugins);
            self.compared
                .push((format!("all.{name}"), unit, model, measured));
        }
        if let (Some(key), Some(plugin)) = (line(&self.rates, CPU), line(&self.plugins, CPU)) {
            let model = key.at(cell.rate.achieved) + plugin.added(plugins);
            self.compared
                .push(("all.cpu".to_owned(), "%", model, cell.rate.cpu));
        }
    }

    /// Compares a full cell with the line of the small ones.
    fn compare(
        &mut self,
        cells: &str,
        size: usize,
        measured: &[f64; 5],
        line: impl Fn(&Self, usize) -> Option<Line>,
    ) {
        for (value, (name, unit)) in VALUES.into_iter().enumerate() {
            if let Some(line) = line(self, value) {
                self.compared.push((
                    format!("{cells}.{name}"),
                    unit,
                    line.at(size as f64),
                    measured[value],
                ));
            }
        }
    }

    /// Adds the constants, the model's values and their errors.
    pub fn report(&self, report: &mut Report) {
        let parts: [(&str, &[Point], Fit); 3] = [
            ("object", &self.objects, line),
            ("plugin", &self.plugins, plugin_line),
            ("key", &self.rates, line),
        ];
        for (part, points, fit) in parts {
            let values = if part == "key" {
                CPU..CPU + 1
            } else {
                ANONYMOUS..CPU + 1
            };
            for value in values {
                let Some(line) = fit(points, value) else {
                    continue;
                };
                let (name, unit) = VALUES[value];
                row(
                    report,
                    format!("scale.constant.{part}.{name}_fixed"),
                    unit,
                    line.fixed,
                );
                // In bytes, microseconds, or percent of a core.
                let (unit, factor) = match value {
                    ANONYMOUS | PEAK => ("B", f64::from(1 << 20)),
                    SECONDS | START_CPU => ("us", 1e6),
                    _ if part == "key" => ("us", 1e4),
                    _ => (unit, 1.0),
                };
                row(
                    report,
                    format!("scale.constant.{part}.{name}"),
                    unit,
                    line.each * factor,
                );
                if line.pair != 0.0 {
                    row(
                        report,
                        format!("scale.constant.{part}.{name}_pair"),
                        unit,
                        line.pair * factor,
                    );
                }
            }
        }
        for (name, unit, model, measured) in &self.compared {
            row(report, format!("scale.model.{name}"), unit, *model);
            row(report, format!("scale.measured.{name}"), unit, *measured);
            // Idle times of some ticks have no meaningful error.
            if *measured > 0.0 {
                row(
                    report,
                    format!("scale.error.{name}"),
                    "%",
                    (model / measured - 1.0) * 100.0,
                );
            }
        }
    }
}
