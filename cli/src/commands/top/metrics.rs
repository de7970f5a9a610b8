//! Reads plugins' counts from a host's metrics, in the OpenMetrics text format. No I/O.
//!
//! Only the metrics that `operetta top` shows are read; a line that is not understood is skipped.

use std::collections::HashMap;

use operetta_core::object::ObjectKey;

/// The counts of each plugin at a host.
pub type Scrape = HashMap<ObjectKey, Counts>;

/// The counts of a plugin since its host started it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Processor time in seconds.
    pub cpu: f64,
    /// Reconciles, failed ones included.
    pub reconciles: f64,
    /// Failed reconciles.
    pub errors: f64,
    /// The histogram of durations, by ascending bounds.
    pub buckets: Vec<Bucket>,
    /// The keys that wait in the queues now.
    pub queue: f64,
    /// The peak linear memory of one instance, in bytes.
    pub memory: f64,
    /// The bytes that are cached now.
    pub cached: f64,
}

/// A bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The upper bound in seconds.
    pub bound: f64,
    /// The number of reconciles up to this bound.
    pub count: f64,
}

/// Reads the counts of each plugin.
pub fn read(text: &str) -> Scrape {
    let mut scrape = Scrape::new();
    for sample in text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(Sample::read)
    {
        let (Some(namespace), Some(plugin)) = (sample.label("namespace"), sample.label("plugin"))
        else {
            continue;
        };

        let value = sample.value;
        let counts = scrape
            .entry(ObjectKey::namespaced(namespace, plugin))
            .or_default();

        match sample.name {
            "operetta_plugin_cpu_seconds_total" => counts.cpu += value,
            "controller_runtime_reconcile_total" => counts.reconciles += value,
            "controller_runtime_reconcile_errors_total" => counts.errors += value,
            "controller_runtime_reconcile_time_seconds_bucket" => {
                if let Some(bound) = sample.label("le").and_then(|bound| bound.parse().ok()) {
                    add_to_bucket(&mut counts.buckets, bound, value);
                }
            }
            "workqueue_depth" => counts.queue += value,
            "operetta_plugin_peak_memory_bytes" => counts.memory = counts.memory.max(value),
            "operetta_plugin_cached_bytes" => counts.cached += value,
            _ => {}
        }
    }

    scrape
}

/// Adds the count of one controller to the bucket with this bound.
pub fn add_to_bucket(buckets: &mut Vec<Bucket>, bound: f64, count: f64) {
    match buckets.binary_search_by(|bucket| bucket.bound.total_cmp(&bound)) {
        Ok(at) => buckets[at].count += count,
        Err(at) => buckets.insert(at, Bucket { bound, count }),
    }
}

/// A line of the text format.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

impl<'a> Sample<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let end = line.find(['{', ' '])?;
        let (name, mut rest) = line.split_at(end);

        let mut labels = Vec::new();

        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            while !rest.starts_with('}') {
                let (label, after) = rest.trim_start_matches(',').split_once("=\"")?;
                let (value, after) = quoted(after)?;
                labels.push((label, value));
                rest = after;
            }
            rest = &rest[1..];
        }

        let value = rest.split_whitespace().next()?.parse::<f64>().ok()?;

        Some(Self {
            name,
            labels,
            value,
        })
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(label, _)| *label == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Reads a label's value up to its closing quote. Returns the rest as well.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();

    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            letter => value.push(letter),
        }
    }

    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_controllers_of_a_plugin_are_added() {
        let scrape = read(
            r#"# TYPE controller_runtime_reconcile counter
controller_runtime_reconcile_total{controller="a",plugin="p",namespace="n",result="success"} 7
controller_runtime_reconcile_total{controller="b",plugin="p",namespace="n",result="error"} 2
controller_runtime_reconcile_errors_total{controller="b",plugin="p",namespace="n"} 2
controller_runtime_reconcile_time_seconds_bucket{le="+Inf",controller="a",plugin="p",namespace="n"} 9
controller_runtime_reconcile_time_seconds_bucket{le="0.005",controller="a",plugin="p",namespace="n"} 5 # {trace_id="x y"} 0.1
controller_runtime_reconcile_time_seconds_bucket{le="0.005",controller="b",plugin="p",namespace="n"} 1
workqueue_depth{name="a",plugin="p",namespace="n",priority="0"} 3
workqueue_depth{name="a",plugin="p",namespace="n",priority="-100"} 4
operetta_plugin_cpu_seconds_total{plugin="p",namespace="n"} 1.5e-1
operetta_plugin_peak_memory_bytes{plugin="p",namespace="n"} 1048576
operetta_plugin_cached_bytes{plugin="q",namespace="n"} 10
operetta_plugins_loaded 2
# EOF
"#,
        );

        let bucket = |bound, count| Bucket { bound, count };
        let expected = Counts {
            cpu: 0.15,
            reconciles: 9.0,
            errors: 2.0,
            buckets: vec![bucket(0.005, 6.0), bucket(f64::INFINITY, 9.0)],
            queue: 7.0,
            memory: 1_048_576.0,
            cached: 0.0,
        };

        assert_eq!(scrape[&ObjectKey::namespaced("n", "p")], expected);
        assert_eq!(scrape.len(), 2);
    }

    #[test]
    fn damaged_lines_are_skipped() {
        for line in [
            "",
            "a",
            "a{",
            "a{b=\"c",
            "a{b=\"c\"",
            "a{b=\"c\"} x",
            "a{b}",
            "operetta_plugin_cpu_seconds_total{plugin=\"p\"} 1",
            "operetta_plugin_cpu_seconds_total{plugin=\"p\\",
        ] {
            assert_eq!(read(line), Scrape::new(), "{line}");
        }

        let escaped = read(r#"workqueue_depth{plugin="a\"b\\\n",namespace="n"} 1"#);
        assert_eq!(
            escaped.keys().next().map(|key| key.name.as_str()),
            Some("a\"b\\\n")
        );
    }
}
