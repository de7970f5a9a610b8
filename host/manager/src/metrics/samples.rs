//! Samples taken at a scrape, as a collector of `prometheus-client`.

use std::fmt;

use operetta_core::queue::DurationHistogram;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

/// Labels and their values, in order.
pub type Labels = Vec<(&'static str, String)>;

/// A sample's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(u64),
    /// Any other number.
    Float(f64),
    /// A histogram of durations.
    Histogram(DurationHistogram),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<DurationHistogram> for Value {
    fn from(value: DurationHistogram) -> Self {
        Self::Histogram(value)
    }
}

/// The samples of one scrape.
#[derive(Debug, Default)]
pub struct Samples(Vec<Family>);

/// The samples of one metric.
#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    metric_type: MetricType,
    samples: Vec<(Labels, Value)>,
}

impl Samples {
    /// Adds a gauge.
    pub fn gauge<V: Into<Value>>(
        &mut self,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = (Labels, V)>,
    ) {
        self.add(name, help, MetricType::Gauge, samples);
    }

    /// Adds a counter. `name` lacks the suffix `_total`, which the format adds.
    pub fn counter<V: Into<Value>>(
        &mut self,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = (Labels, V)>,
    ) {
        self.add(name, help, MetricType::Counter, samples);
    }

    /// Adds a histogram.
    pub fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = (Labels, DurationHistogram)>,
    ) {
        self.add(name, help, MetricType::Histogram, samples);
    }

    fn add<V: Into<Value>>(
        &mut self,
        name: &'static str,
        help: &'static str,
        metric_type: MetricType,
        samples: impl IntoIterator<Item = (Labels, V)>,
    ) {
        let samples = samples
            .into_iter()
            .map(|(labels, value)| (labels, value.into()))
            .collect();
        self.0.push(Family {
            name,
            help,
            metric_type,
            samples,
        });
    }
}

#[cfg(test)]
impl Samples {
    /// Returns the first sample of a metric.
    pub(super) fn value(&self, name: &str) -> Option<Value> {
        let family = self.0.iter().find(|family| family.name == name)?;
        family.samples.first().map(|(_, value)| *value)
    }
}

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Family {
            name,
            help,
            metric_type,
            samples,
        } in &self.0
        {
            let mut metric = encoder.encode_descriptor(name, help, None, *metric_type)?;
            for (labels, value) in samples {
                let mut sample = metric.encode_family(labels)?;
                match (metric_type, value) {
                    (MetricType::Counter, Value::Integer(value)) => {
                        ConstCounter::new(*value).encode(sample)?;
                    }
                    (MetricType::Counter, Value::Float(value)) => {
                        ConstCounter::new(*value).encode(sample)?;
                    }
                    (_, Value::Histogram(value)) => {
                        let buckets: Vec<_> = value.buckets().collect();
                        let sum = value.sum().as_secs_f64();
                        sample.encode_histogram::<NoLabelSet>(
                            sum,
                            value.count(),
                            &buckets,
                            None,
                        )?;
                    }
                    (_, Value::Integer(value)) => ConstGauge::new(*value).encode(sample)?,
                    (_, Value::Float(value)) => ConstGauge::new(*value).encode(sample)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::{encoding::text::encode, registry::Registry};

    use super::*;

    #[test]
    fn encodes_labels_and_counters_as_openmetrics() {
        let mut samples = Samples::default();
        samples.counter(
            "adds",
            "Adds",
            [(vec![("name", "a\"\n".to_owned())], 3_u64)],
        );
        samples.gauge("depth", "Depth", [(vec![], 0.5)]);

        let mut histogram = DurationHistogram::default();
        for millis in [1, 20, 20] {
            histogram.observe(Duration::from_millis(millis));
        }
        samples.histogram(
            "took_seconds",
            "Took",
            [(vec![("name", "b".to_owned())], histogram)],
        );

        let mut registry = Registry::default();
        registry.register_collector(Box::new(samples));
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");

        for line in [
            "# TYPE adds counter",
            "adds_total{name=\"a\\\"\\n\"} 3",
            "# TYPE depth gauge",
            "depth{} 0.5",
            "# TYPE took_seconds histogram",
            "took_seconds_sum{name=\"b\"} 0.041",
            "took_seconds_bucket{le=\"0.001\",name=\"b\"} 1",
            "took_seconds_bucket{le=\"+Inf\",name=\"b\"} 3",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} not in\n{text}"
            );
        }
    }
}
