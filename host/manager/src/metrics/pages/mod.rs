//! The metrics that processes serve themselves: pages in Prometheus' text format, which become part
//! of the host's own. A page is a tenant's text, so it is bounded, and what speaks for anybody but
//! the process is left out ([`merge`]).
//!
//! We parse the format ourselves. Of the crates that could, `openmetrics-parser` 0.5 is under the
//! LGPL, which deny.toml doesn't allow in a program that we link statically, and it builds a parse
//! tree of the whole page before samples can be counted. `prometheus-parse` 0.2 splits labels at
//! each comma and equals sign, also inside quotes, and skips lines that it can't read. Either would
//! replace the reading of a line only: families and limits would still be ours.

pub mod merge;
pub mod scrape;
mod text;

use std::collections::HashMap;

use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType, Quantile,
    Summary, Untyped,
};

use self::text::{Sample, samples};

/// The most samples of a page.
const MAX_SAMPLES: usize = 20_000;
/// The most labels of a sample.
const MAX_LABELS: usize = 32;
/// The longest name of a metric or a label, and the longest value of a label, in bytes.
const MAX_NAME: usize = 200;
const MAX_VALUE: usize = 2_048;
/// The longest help text, in bytes.
const MAX_HELP: usize = 1_024;

/// Why a page is refused as a whole, as Prometheus would refuse it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of its metrics: {why}")]
pub struct PageError {
    /// The number of the line, from 1.
    pub line: usize,
    /// The reason, without any text of the page.
    pub why: &'static str,
}

/// Reads a page in the text format 0.0.4
/// (<https://prometheus.io/docs/instrumenting/exposition_formats/>). Timestamps are dropped: the
/// samples are of now.
///
/// # Errors
/// The first line that is none of the format, or exceeds a limit.
pub fn read(page: &str) -> Result<Vec<MetricFamily>, PageError> {
    let mut reader = Reader::default();
    samples(page, |item| match item {
        text::Item::Help(name, help) => {
            let at = reader.family(name);
            help.clone_into(&mut reader.families[at].help);
            Ok(())
        }
        text::Item::Type(name, kind) => reader.set_type(name, kind),
        text::Item::Sample(sample) => reader.add(sample),
    })?;

    // A family needs more than its comments.
    let mut families = reader.families;
    families.retain(|family| !family.metric.is_empty());
    Ok(families)
}

/// Assembles families from samples.
#[derive(Default)]
struct Reader {
    families: Vec<MetricFamily>,
    /// By name, their places in `families`.
    by_name: HashMap<String, usize>,
    /// The places of the metrics of histograms and summaries, by family and labels.
    metrics: HashMap<(usize, Vec<(String, String)>), usize>,
    samples: usize,
}

impl Reader {
    fn family(&mut self, name: &str) -> usize {
        if let Some(at) = self.by_name.get(name) {
            return *at;
        }
        let family = MetricFamily {
            name: name.to_owned(),
            r#type: MetricType::Untyped.into(),
            ..MetricFamily::default()
        };
        self.families.push(family);
        let at = self.families.len() - 1;
        self.by_name.insert(name.to_owned(), at);
        at
    }

    fn set_type(&mut self, name: &str, kind: MetricType) -> Result<(), &'static str> {
        let at = self.family(name);
        let family = &mut self.families[at];
        if !family.metric.is_empty() {
            return Err("a TYPE stands before the samples");
        }
        family.r#type = kind.into();
        Ok(())
    }

    fn kind(&self, name: &str) -> Option<(usize, MetricType)> {
        let at = *self.by_name.get(name)?;
        Some((at, self.families[at].r#type()))
    }

    /// The family that a sample belongs to, and the part of it that the sample is.
    fn place(&mut self, name: &str) -> Result<(usize, Part), &'static str> {
        match self.kind(name) {
            Some((_, MetricType::Histogram)) => {
                return Err("a histogram has _bucket, _sum and _count only");
            }
            Some((at, MetricType::Summary)) => return Ok((at, Part::Quantile)),
            Some((at, _)) => return Ok((at, Part::Value)),
            None => {}
        }

        for (suffix, part) in [
            ("_bucket", Part::Bucket),
            ("_sum", Part::Sum),
            ("_count", Part::Count),
        ] {
            let family = name.strip_suffix(suffix).and_then(|name| self.kind(name));
            match (family, part) {
                (Some((at, MetricType::Histogram)), part) => return Ok((at, part)),
                (Some((at, MetricType::Summary)), Part::Sum | Part::Count) => {
                    return Ok((at, part));
                }
                _ => {}
            }
        }

        Ok((self.family(name), Part::Value))
    }

    fn add(&mut self, sample: Sample<'_>) -> Result<(), &'static str> {
        self.samples += 1;
        if self.samples > MAX_SAMPLES {
            return Err("it has more than 20000 samples");
        }

        let Sample {
            name,
            mut labels,
            value,
        } = sample;

        let (at, part) = self.place(name)?;
        labels.sort_unstable();
        if labels.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err("a label stands twice in a sample");
        }

        if let Part::Value = part {
            let family = &mut self.families[at];
            let mut metric = Metric {
                label: pairs(&labels),
                ..Metric::default()
            };

            match family.r#type() {
                MetricType::Counter => {
                    metric.counter = Some(Counter {
                        value,
                        ..Counter::default()
                    });
                }
                MetricType::Gauge => metric.gauge = Some(Gauge { value }),
                _ => metric.untyped = Some(Untyped { value }),
            }
            family.metric.push(metric);
            return Ok(());
        }

        let mut take = |name: &str| {
            let at = labels.iter().position(|(label, _)| label == name)?;
            labels.remove(at).1.parse::<f64>().ok()
        };

        let bound = match part {
            Part::Bucket => Some(take("le").ok_or("a bucket has no bound le")?),
            Part::Quantile => Some(take("quantile").ok_or("a quantile has no label quantile")?),
            _ => None,
        };
        let metric = self.metric(at, labels);

        match (&mut metric.histogram, &mut metric.summary) {
            (Some(histogram), _) => match (part, bound) {
                (Part::Sum, _) => histogram.sample_sum = value,
                (Part::Count, _) => histogram.sample_count = whole(value),
                (_, Some(upper_bound)) => histogram.bucket.push(Bucket {
                    cumulative_count: whole(value),
                    upper_bound,
                    ..Bucket::default()
                }),
                _ => {}
            },
            (None, Some(summary)) => match (part, bound) {
                (Part::Sum, _) => summary.sample_sum = value,
                (Part::Count, _) => summary.sample_count = whole(value),
                (_, Some(quantile)) => summary.quantile.push(Quantile { quantile, value }),
                _ => {}
            },
            (None, None) => {}
        }
        Ok(())
    }

    /// The histogram or summary with these labels.
    fn metric(&mut self, family: usize, labels: Vec<(String, String)>) -> &mut Metric {
        let metrics = &mut self.families[family];
        let label = pairs(&labels);
        let at = *self.metrics.entry((family, labels)).or_insert_with(|| {
            let is_histogram = metrics.r#type() == MetricType::Histogram;
            metrics.metric.push(Metric {
                label,
                histogram: is_histogram.then(Histogram::default),
                summary: (!is_histogram).then(Summary::default),
                ..Metric::default()
            });
            metrics.metric.len() - 1
        });
        &mut metrics.metric[at]
    }
}

/// What a sample is in its family.
#[derive(Clone, Copy)]
enum Part {
    Value,
    Bucket,
    Quantile,
    Sum,
    Count,
}

fn pairs(labels: &[(String, String)]) -> Vec<LabelPair> {
    let pair = |(name, value): &(String, String)| LabelPair {
        name: name.clone(),
        value: value.clone(),
    };
    labels.iter().map(pair).collect()
}

/// A count as a whole number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a float saturates, and makes 0 of what is no number"
)]
fn whole(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(page: &str) -> (usize, &'static str) {
        let error = read(page).expect_err(page);
        (error.line, error.why)
    }

    #[test]
    fn page_of_a_client_library_is_read() {
        let page = "\
# HELP reconcile_total Reconciles\\nby \\\\result
# TYPE reconcile_total counter
reconcile_total{result=\"ok\",name=\"a \\\"b\\\"\\n\\\\\"} 3
reconcile_total{ result = \"error\" , } +Inf 1700000000000
# TYPE depth gauge
depth -1.5e-3
# A comment, and an empty line.

# TYPE took_seconds histogram
took_seconds_bucket{le=\"0.1\"} 1
took_seconds_bucket{le=\"+Inf\"} 3
took_seconds_sum 2.5
took_seconds_count 3
# TYPE gc_seconds summary
gc_seconds{quantile=\"0.5\"} 0.25
gc_seconds_sum 1
gc_seconds_count 4
took_seconds_count_of_something 7
odd NaN
";
        let families = read(page).expect("a page");
        let names: Vec<_> = families
            .iter()
            .map(|family| (family.name.as_str(), family.r#type()))
            .collect();
        assert_eq!(
            names,
            [
                ("reconcile_total", MetricType::Counter),
                ("depth", MetricType::Gauge),
                ("took_seconds", MetricType::Histogram),
                ("gc_seconds", MetricType::Summary),
                ("took_seconds_count_of_something", MetricType::Untyped),
                ("odd", MetricType::Untyped),
            ]
        );
        assert_eq!(families[0].help, "Reconciles\nby \\result");
        let label = &families[0].metric[0].label[0];
        assert_eq!((&*label.name, &*label.value), ("name", "a \"b\"\n\\"));
        let counter = families[0].metric[1].counter.as_ref();
        assert_eq!(counter.map(|counter| counter.value), Some(f64::INFINITY));

        let histogram = families[2].metric[0].histogram.clone().expect("one");
        assert_eq!((histogram.sample_count, histogram.bucket.len()), (3, 2));
        let summary = families[3].metric[0].summary.clone().expect("one");
        assert_eq!((summary.sample_count, summary.quantile.len()), (4, 1));
    }

    #[test]
    fn line_that_is_none_refuses_the_page() {
        let many = "a 1\n".repeat(MAX_SAMPLES + 1);
        let labels: String = (0..=MAX_LABELS).map(|at| format!("l{at}=\"\",")).collect();
        let long = "a".repeat(MAX_NAME + 1);
        for (page, line) in [
            ("a", 1),
            ("a 1\na{", 2),
            ("a{b} 1", 1),
            ("a{b=\"c} 1", 1),
            ("a{b=\"\\x\"} 1", 1),
            ("a{b=\"\" c=\"\"} 1", 1),
            ("a{b=\"\",b=\"\"} 1", 1),
            ("a{__name__=\"b\"} 1", 1),
            ("a{0=\"\"} 1", 1),
            ("0a 1", 1),
            ("a-b 1", 1),
            ("a one", 1),
            ("a 1 now", 1),
            ("a 1 2 3", 1),
            ("\n# TYPE a thing\na 1", 2),
            ("a 1\n# TYPE a counter", 2),
            ("# TYPE a histogram\na 1", 2),
            ("# TYPE a histogram\na_bucket 1", 2),
            ("# TYPE a summary\na{quantile=\"x\"} 1", 2),
            (&many, MAX_SAMPLES + 1),
            (&format!("a{{{labels}}} 1"), 1),
            (&format!("{long} 1"), 1),
            (&format!("a{{b=\"{}\"}} 1", "x".repeat(MAX_VALUE + 1)), 1),
        ] {
            let (at, why) = error(page);
            assert_eq!(at, line, "{page:.60}: {why}");
        }
    }
}
