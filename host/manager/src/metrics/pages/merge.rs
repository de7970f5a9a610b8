//! Puts the metrics of processes beside the host's own.
//!
//! - Each series gets the labels `namespace` and `plugin` of its Plugin; labels of these names
//!   become `exported_namespace` and `exported_plugin`, as Prometheus does it. So no series of a
//!   process is one of the host, or of another process.
//! - A family that the host has as well is joined with the host's, if the host's series are by
//!   plugin and its type is the same. What the host says of itself (`operetta_*`, `process_*`,
//!   `rest_client_*` and so on) stays the host's alone, so that a sum over it still means the same.
//! - Where two processes disagree on the type of a family, it has none for both: no page changes
//!   what another one says.

use std::collections::{BTreeMap, HashMap, HashSet};

use operetta_core::object::ObjectKey;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::{
    LabelPair, Metric, MetricFamily, MetricType, Untyped,
};

use super::text::{
    Item, TOTAL, comment, number, open_metrics_name, sample, write_head, write_samples,
};

/// The host's own names.
const RESERVED: &str = "operetta_";

/// The families of the host whose series are by plugin, even if there are none now.
const BY_PLUGIN: [&str; 2] = ["controller_runtime_", "workqueue_"];

/// The label of the host's series that are by plugin.
const PLUGIN: &str = "plugin";

/// What decides whether series of processes stand in a family of the host.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnFamily {
    /// As Prometheus names it: a counter ends in `_total`.
    name: String,
    kind: MetricType,
    /// Whether its series are by plugin.
    is_by_plugin: bool,
}

impl OwnFamily {
    fn new(name: String, kind: MetricType) -> Self {
        let is_by_plugin = BY_PLUGIN.iter().any(|prefix| name.starts_with(prefix));
        Self {
            name,
            kind,
            is_by_plugin,
        }
    }

    /// Describes a family.
    pub fn of(family: &MetricFamily) -> Self {
        let mut own = Self::new(family.name.clone(), family.r#type());
        if own.depends_on_labels() {
            let mut labels = family.metric.iter().flat_map(|metric| &metric.label);
            own.is_by_plugin = labels.any(|pair| pair.name == PLUGIN);
        }
        own
    }

    /// Describes the families of the host's own page in OpenMetrics' text. Its series are not read
    /// unless they matter: a large host has a hundred thousand of them.
    pub fn in_text(page: &str) -> Vec<Self> {
        let mut families: Vec<Self> = Vec::new();
        for line in page.lines() {
            if let Some(text) = line.strip_prefix('#') {
                if let Ok(Some(Item::Type(name, kind))) = comment(text) {
                    let suffix = match kind {
                        MetricType::Counter => TOTAL,
                        _ => "",
                    };
                    families.push(Self::new(format!("{name}{suffix}"), kind));
                }
                continue;
            }

            if let Some(own) = families.last_mut()
                && own.depends_on_labels()
                && let Ok(series) = sample(line)
            {
                own.is_by_plugin = series.labels.iter().any(|(name, _)| name == PLUGIN);
            }
        }
        families
    }

    /// Whether the name doesn't say that series are by plugin, and a label may.
    fn depends_on_labels(&self) -> bool {
        !self.is_by_plugin && !self.name.starts_with(RESERVED)
    }
}

/// What a process serves.
#[derive(Clone, Debug)]
pub struct Page {
    /// The Plugin.
    pub plugin: ObjectKey,
    /// Its families, as it named them.
    pub families: Vec<MetricFamily>,
}

/// The metrics of processes that the host serves.
#[derive(Debug, Default)]
pub struct Merged {
    families: BTreeMap<String, MetricFamily>,
    /// How many families of a Plugin are left out.
    pub left_out: BTreeMap<ObjectKey, u64>,
}

/// Decides which families of these pages are served beside the host's own.
pub fn merge(own: Vec<OwnFamily>, pages: Vec<Page>) -> Merged {
    let mut series: HashMap<String, String> = HashMap::new();
    for OwnFamily { name, kind, .. } in &own {
        claim(&mut series, name, *kind);
    }
    let own: HashMap<String, OwnFamily> = own
        .into_iter()
        .map(|family| (family.name.clone(), family))
        .collect();
    let mut merged = Merged::default();

    let mut by_name: BTreeMap<String, Vec<(ObjectKey, MetricFamily)>> = BTreeMap::new();
    for Page { plugin, families } in pages {
        for mut family in families {
            for metric in &mut family.metric {
                label(metric, &plugin);
            }
            let known = by_name.entry(family.name.clone()).or_default();
            known.push((plugin.clone(), family));
        }
    }

    for (name, mut families) in by_name {
        if let Some(own) = own.get(&name) {
            families.retain(|(plugin, family)| {
                let fits = own.is_by_plugin && family.r#type() == own.kind;
                merged.count(plugin, !fits);
                fits
            });
        } else if name.starts_with(RESERVED) {
            families
                .drain(..)
                .for_each(|(plugin, _)| merged.count(&plugin, true));
        }

        let types: HashSet<i32> = families.iter().map(|(_, family)| family.r#type).collect();
        for (plugin, family) in families {
            let parts = match types.len() {
                0 | 1 => vec![family],
                _ => untyped(family),
            };
            for part in parts {
                let fits = claim(&mut series, &part.name, part.r#type());
                merged.count(&plugin, !fits);
                if fits {
                    merged.add(part);
                }
            }
        }
    }
    merged
}

impl Merged {
    fn count(&mut self, plugin: &ObjectKey, is_left_out: bool) {
        if is_left_out {
            *self.left_out.entry(plugin.clone()).or_default() += 1;
        }
    }

    fn add(&mut self, family: MetricFamily) {
        match self.families.get_mut(&family.name) {
            Some(known) => known.metric.extend(family.metric),
            None => drop(self.families.insert(family.name.clone(), family)),
        }
    }

    /// Adds them to the host's own families.
    pub fn join(mut self, own: &mut Vec<MetricFamily>) {
        for family in own.iter_mut() {
            if let Some(more) = self.families.remove(&family.name) {
                family.metric.extend(more.metric);
            }
        }
        own.extend(self.families.into_values());
    }

    /// Adds them to the host's own page in OpenMetrics' text, which has no `# EOF` yet.
    pub fn join_text(mut self, own: &str) -> String {
        let mut by_family: HashMap<String, MetricFamily> = std::mem::take(&mut self.families)
            .into_values()
            .map(|family| {
                let (name, _) = open_metrics_name(&family.name, family.r#type());
                (name.to_owned(), family)
            })
            .collect();

        let mut out = String::with_capacity(own.len());
        let mut current = "";
        for line in own.lines() {
            // HELP, TYPE and UNIT stand together before the samples of a family.
            let named = line
                .strip_prefix("# ")
                .and_then(|rest| rest.split(' ').nth(1));
            if let Some(name) = named.filter(|name| *name != current) {
                if let Some(family) = by_family.remove(current) {
                    write_samples(&mut out, &family);
                }
                current = name;
            }
            out.push_str(line);
            out.push('\n');
        }

        if let Some(family) = by_family.remove(current) {
            write_samples(&mut out, &family);
        }

        let mut others: Vec<_> = by_family.into_values().collect();
        others.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        for family in others {
            write_head(&mut out, &family);
            write_samples(&mut out, &family);
        }
        out
    }
}

/// Labels a metric with its Plugin.
fn label(metric: &mut Metric, plugin: &ObjectKey) {
    for name in ["namespace", "plugin"] {
        let mut free = name.to_owned();
        while metric.label.iter().any(|pair| pair.name == free) {
            free = format!("exported_{free}");
        }
        if let Some(pair) = metric.label.iter_mut().find(|pair| pair.name == name) {
            pair.name = free;
        }
    }
    let namespace = plugin.namespace.clone().unwrap_or_default();
    for (name, value) in [("namespace", namespace), ("plugin", plugin.name.clone())] {
        metric.label.push(LabelPair {
            name: name.to_owned(),
            value,
        });
    }
}

/// Claims the names that a family's series and its comments have. Reports whether they are free, or
/// the family's own.
fn claim(series: &mut HashMap<String, String>, name: &str, kind: MetricType) -> bool {
    let suffixes: &[&str] = match kind {
        MetricType::Histogram | MetricType::GaugeHistogram => &["", "_bucket", "_sum", "_count"],
        MetricType::Summary => &["", "_sum", "_count"],
        _ => &[""],
    };
    let mut names: Vec<String> = suffixes
        .iter()
        .map(|suffix| format!("{name}{suffix}"))
        .collect();
    // In OpenMetrics the family of x_total is x.
    names.push(open_metrics_name(name, kind).0.to_owned());

    let is_free = |claimed: &String| series.get(claimed).is_none_or(|owner| owner == name);
    if !names.iter().all(is_free) {
        return false;
    }
    series.extend(names.into_iter().map(|claimed| (claimed, name.to_owned())));
    true
}

/// The same series without a type, in families of their own names.
fn untyped(family: MetricFamily) -> Vec<MetricFamily> {
    let mut parts: BTreeMap<String, Vec<Metric>> = BTreeMap::new();

    let mut add = |suffix: &str, labels: &[LabelPair], bound: Option<(&str, f64)>, value: f64| {
        let mut label = labels.to_vec();
        label.extend(bound.map(|(name, bound)| LabelPair {
            name: name.to_owned(),
            value: number(bound),
        }));
        let metrics = parts.entry(format!("{}{suffix}", family.name)).or_default();
        metrics.push(Metric {
            label,
            untyped: Some(Untyped { value }),
            ..Metric::default()
        });
    };

    for metric in &family.metric {
        let labels = &metric.label;
        let values = [
            metric.counter.as_ref().map(|counter| counter.value),
            metric.gauge.as_ref().map(|gauge| gauge.value),
            metric.untyped.as_ref().map(|untyped| untyped.value),
        ];

        for value in values.into_iter().flatten() {
            add("", labels, None, value);
        }

        if let Some(histogram) = &metric.histogram {
            for bucket in &histogram.bucket {
                let bound = Some(("le", bucket.upper_bound));
                add("_bucket", labels, bound, float(bucket.cumulative_count));
            }
            add("_sum", labels, None, histogram.sample_sum);
            add("_count", labels, None, float(histogram.sample_count));
        }

        if let Some(summary) = &metric.summary {
            for quantile in &summary.quantile {
                let bound = Some(("quantile", quantile.quantile));
                add("", labels, bound, quantile.value);
            }
            add("_sum", labels, None, summary.sample_sum);
            add("_count", labels, None, float(summary.sample_count));
        }
    }

    let part = |(name, metric)| MetricFamily {
        name,
        metric,
        r#type: MetricType::Untyped.into(),
        ..MetricFamily::default()
    };
    parts.into_iter().map(part).collect()
}

#[allow(
    clippy::cast_precision_loss,
    reason = "Prometheus keeps counts as floats"
)]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::{super::read, *};

    fn page(name: &str, text: &str) -> Page {
        Page {
            plugin: ObjectKey::namespaced("team", name),
            families: read(text).expect("a page"),
        }
    }

    fn joined(own: &str, pages: Vec<Page>) -> (String, BTreeMap<ObjectKey, u64>) {
        let merged = merge(OwnFamily::in_text(own), pages);
        let left_out = merged.left_out.clone();
        (merged.join_text(own), left_out)
    }

    const OWN: &str = "\
# TYPE process_open_fds gauge
process_open_fds 7
# TYPE reconciles counter
reconciles_total{plugin=\"other\",namespace=\"n\"} 1
# TYPE depth gauge
depth{plugin=\"other\",namespace=\"n\"} 1
";

    #[test]
    fn families_of_both_stand_together_with_the_plugins_labels() {
        let own = page(
            "op",
            "# HELP reconciles_total Mine.\n# TYPE reconciles_total counter\nreconciles_total{plugin=\"x\"} 5\n\
             # HELP jobs Jobs\\n\n# TYPE jobs gauge\njobs 2\n\
             # TYPE t histogram\nt_bucket{le=\"+Inf\",a=\"b\"} 1\nt_sum{a=\"b\"} 0.5\nt_count{a=\"b\"} 1\n",
        );
        let (text, left_out) = joined(OWN, vec![own]);
        assert_eq!(
            text,
            "\
# TYPE process_open_fds gauge
process_open_fds 7
# TYPE reconciles counter
reconciles_total{plugin=\"other\",namespace=\"n\"} 1
reconciles_total{exported_plugin=\"x\",namespace=\"team\",plugin=\"op\"} 5.0
# TYPE depth gauge
depth{plugin=\"other\",namespace=\"n\"} 1
# HELP jobs Jobs\\n
# TYPE jobs gauge
jobs{namespace=\"team\",plugin=\"op\"} 2.0
# TYPE t histogram
t_bucket{le=\"+Inf\",a=\"b\",namespace=\"team\",plugin=\"op\"} 1
t_sum{a=\"b\",namespace=\"team\",plugin=\"op\"} 0.5
t_count{a=\"b\",namespace=\"team\",plugin=\"op\"} 1
"
        );
        assert!(left_out.is_empty(), "{left_out:?}");
    }

    #[test]
    fn what_the_host_says_of_itself_is_left_alone() {
        let evil = page(
            "evil",
            "# TYPE process_open_fds gauge\nprocess_open_fds 9\n\
             operetta_plugins_loaded 9\n\
             # TYPE depth counter\ndepth 9\n\
             # TYPE reconciles gauge\nreconciles 9\n\
             exported 1\n",
        );
        let (text, left_out) = joined(OWN, vec![evil]);
        assert!(!text.contains(" 9"), "{text}");
        assert!(
            text.contains("exported{namespace=\"team\",plugin=\"evil\"} 1.0"),
            "{text}"
        );
        assert_eq!(left_out.values().sum::<u64>(), 4, "{left_out:?}");
    }

    #[test]
    fn labels_cannot_name_another_plugin() {
        let evil = page(
            "evil",
            "a{plugin=\"victim\",namespace=\"other\",exported_plugin=\"x\"} 1\n",
        );
        let (text, _) = joined("", vec![evil]);
        let labels = "exported_plugin=\"x\",exported_namespace=\"other\",exported_exported_plugin=\"victim\"";
        for label in labels.split(',') {
            assert!(text.contains(label), "{text}");
        }
        assert!(
            text.contains(",namespace=\"team\",plugin=\"evil\"} 1.0"),
            "{text}"
        );
        assert!(
            !text.contains(",plugin=\"victim\"") && !text.contains("{plugin=\"victim\""),
            "{text}"
        );
    }

    #[test]
    fn processes_that_disagree_on_a_type_keep_their_series() {
        let one = page(
            "one",
            "# TYPE x histogram\nx_bucket{le=\"1\"} 2\nx_sum 3\nx_count 2\n",
        );
        let two = page("two", "# TYPE x gauge\nx 4\n");
        let (text, left_out) = joined("", vec![one, two]);
        for line in [
            "# TYPE x unknown",
            "x{namespace=\"team\",plugin=\"two\"} 4.0",
            "# TYPE x_bucket unknown",
            "x_bucket{namespace=\"team\",plugin=\"one\",le=\"1.0\"} 2.0",
            "x_sum{namespace=\"team\",plugin=\"one\"} 3.0",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} not in\n{text}"
            );
        }
        assert!(left_out.is_empty(), "{left_out:?}");
    }

    #[test]
    fn protobuf_has_the_same_families() {
        // The format of pages has a counter's _total in its TYPE as well.
        let own = OWN.replace("# TYPE reconciles", "# TYPE reconciles_total");
        let mut own = read(&own).expect("a page");
        let page = page("op", "# TYPE depth gauge\ndepth 2\nnew 1\n");
        let described = own.iter().map(OwnFamily::of).collect();
        merge(described, vec![page]).join(&mut own);
        let sizes: Vec<_> = own
            .iter()
            .map(|family| (&*family.name, family.metric.len()))
            .collect();
        assert_eq!(
            sizes,
            [
                ("process_open_fds", 1),
                ("reconciles_total", 1),
                ("depth", 2),
                ("new", 1)
            ]
        );
    }
}
