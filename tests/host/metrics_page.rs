//! docs/reference/metrics.md has each metric of a running host: `make generate-metrics` adds rows
//! for those of /metrics that it lacks. It keeps the rows of metrics that the host of the test does
//! not show, because it has no series of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use operetta_testkit::{DropIn, Kind, guest, kinds, plugin_path};
use serde_json::{Value, json};

use crate::Stage;

const PAGE: &str = "../docs/reference/metrics.md";

const INTRODUCTION: &str = "\
# Metrics

<!-- Generated from a running host: run `make generate-metrics`. -->

The host serves these at `/metrics`, in the OpenMetrics text format ([endpoints](../endpoints.md#endpoints)). Names that \
controller-runtime has are used with its meaning; the label `controller` is joined by `plugin` and `namespace`. \
A metric without a series yet is not shown. Series end with their Plugin. [Size a host](../sizing.md#once-it-runs) lists the \
questions that they answer.

| metric | type | labels | meaning |
|---|---|---|---|
";

/// A metric of a scrape.
#[derive(Default)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

impl Family {
    /// Returns the metric's name with the suffix that its samples have.
    fn full_name(&self, name: &str) -> String {
        let suffix = if self.kind == "counter" { "_total" } else { "" };
        format!("{name}{suffix}")
    }

    /// Formats its row. `known` are the labels in the page, for a metric without a sample in this
    /// run.
    fn row(&self, name: &str, known: &str) -> String {
        let labels = self
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect::<Vec<_>>()
            .join(", ");

        let labels = if labels.is_empty() { known } else { &labels };
        format!(
            "| `{name}` | {} | {labels} | {} |\n",
            self.kind,
            self.help.replace('|', "\\|")
        )
    }
}

/// Reads a text in the OpenMetrics format.
fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();

    for line in text.lines() {
        if let Some((name, help)) = line
            .strip_prefix("# HELP ")
            .and_then(|rest| rest.split_once(' '))
        {
            name.clone_into(&mut current);
            // The format ends each help with a full stop of its own.
            help.trim_end_matches('.')
                .clone_into(&mut families.entry(current.clone()).or_default().help);
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            kind.clone_into(&mut families.entry(name.to_owned()).or_default().kind);
        } else if !line.starts_with('#') {
            families
                .entry(current.clone())
                .or_default()
                .labels
                .extend(label_names(line));
        }
    }

    families
}

/// Returns the names of a sample's labels, without a bucket's.
fn label_names(sample: &str) -> BTreeSet<String> {
    let Some((_, labels)) = sample.split_once('{') else {
        return BTreeSet::new();
    };

    let mut names = BTreeSet::new();
    let mut name = String::new();
    let mut is_value = false;
    let mut is_escaped = false;

    for letter in labels.chars() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_value = !is_value,
            _ if is_value => {}
            '}' => break,
            ',' => name.clear(),
            '=' => {
                names.insert(std::mem::take(&mut name));
            }
            letter => name.push(letter),
        }
    }

    names.remove("le");
    names
}

/// The metrics of all scrapes so far.
#[derive(Default)]
struct Found(BTreeMap<String, Family>);

impl Found {
    fn scrape(&mut self, stage: &Stage) {
        for (name, family) in families(&stage.host.metrics()) {
            let known = self.0.entry(name).or_default();
            known.labels.extend(family.labels);
            known.kind = family.kind;
            known.help = family.help;
        }
    }

    /// Returns the rows by the name of the metric. `kept` are those of the page.
    fn rows(&self, kept: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let row = |(name, family): (&String, &Family)| {
            let suffixed = family.full_name(name);
            let labels = kept
                .get(&suffixed)
                .and_then(|row| row.split(" | ").nth(2))
                .unwrap_or("–");
            let row = family.row(&suffixed, labels);
            (suffixed, row)
        };
        self.0.iter().map(row).collect()
    }
}

/// Returns the rows of a page by the name of their metric.
fn rows(page: &str) -> BTreeMap<String, String> {
    let named = |line: &str| {
        Some((
            line.strip_prefix("| `")?.split_once('`')?.0.to_owned(),
            format!("{line}\n"),
        ))
    };
    page.lines().filter_map(named).collect()
}

/// Brings about what the metrics of failures count: a field conflict, a hot loop and errors; and
/// splits a plugin. The series end with the Plugins, so it scrapes before it deletes them.
async fn fail(stage: &Stage, found: &mut Found) {
    let namespace = &stage.namespace;
    for (plugin, code) in [("one", "fixture-touch-v1"), ("two", "fixture-touch-v2")] {
        namespace.drop_in(&DropIn::new(plugin, guest(code))).await;
        namespace
            .until_condition(plugin, "Ready", "True", "Running")
            .await;
    }

    namespace.create_touchable("target").await;
    namespace
        .until_event(kinds::CONFIG_MAP, "target", "FightingControllers")
        .await;

    namespace
        .patch(kinds::PLUGIN, "one", json!({"spec": {"shards": 2}}))
        .await;

    let is_split = |plugin: &Value| match plugin["status"]["shards"].as_array().map(Vec::len) {
        Some(2) => Ok(()),
        shards => Err(format!("it has {shards:?} shards")),
    };
    namespace.until(kinds::PLUGIN, "one", is_split).await;

    namespace
        .until_condition("one", "Ready", "True", "Running")
        .await;

    found.scrape(stage);
    let looping = json!({"metadata": {"name": "bad", "labels": {"operetta-fixture": "true"}}, "data": {"loop": "write"}});

    for plugin in ["one", "two"] {
        namespace.delete(kinds::CONFIG_MAP, plugin).await;
    }

    namespace.create_object(kinds::CONFIG_MAP, looping).await;
    let loops = DropIn::new("loops", guest("fixture-misbehave")).config(json!({"do": "hot-loop"}));
    namespace.drop_in(&loops).await;

    namespace
        .until_event(kinds::CONFIG_MAP, "bad", "HotLoop")
        .await;

    let tracker = fs::read(plugin_path("pod-tracker")).expect("the component");
    namespace.drop_in(&DropIn::new("tracker", tracker)).await;
    let pod = json!({
        "metadata": {"name": "broken", "annotations": {"pod-tracker.operetta.dev/fail": "true"}},
        "spec": {"serviceAccountName": "plugin", "containers": [{"name": "c", "image": "nginx"}]},
    });
    namespace.create_object(Kind("v1", "Pod"), pod).await;

    namespace
        .until_degraded("tracker", "TerminalError", &[])
        .await;

    found.scrape(stage);
}

#[tokio::test]
async fn page_lists_each_metric_of_a_host() {
    let stage = Stage::new("metrics-page").await;
    let mut found = Found::default();
    fail(&stage, &mut found).await;

    let kept = rows(&fs::read_to_string(PAGE).unwrap_or_default());
    let mut expected = kept.clone();
    expected.extend(found.rows(&kept));

    if std::env::var_os("UPDATE_GENERATED").is_some() {
        let all: String = expected.values().map(String::as_str).collect();
        fs::write(PAGE, format!("{INTRODUCTION}{all}")).expect("written");
    } else {
        let missing: Vec<_> = expected
            .values()
            .filter(|row| !kept.values().any(|kept| kept == *row))
            .collect();
        let page = "docs/reference/metrics.md is out of date: run `make generate-metrics`. It lacks these rows";
        assert!(missing.is_empty(), "{page}: {missing:#?}");
    }

    stage.host.assert_sound();
}

#[test]
fn names_of_labels_are_read_beside_their_values() {
    let names = |sample: &str| {
        label_names(sample)
            .into_iter()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        names(r#"a_bucket{le="0.1",name="x,y=\"z\"}",kind="Pod.v1"} 3"#),
        "kind name"
    );
    assert_eq!(names("a 3"), "");
}
