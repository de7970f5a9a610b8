//! The signals of a host, as Prometheus and Grafana see them: a host that runs plugins on a real
//! API server is scraped, and Prometheus' own parser and query engine read the result.

mod kubebuilder;
mod promcheck;

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, TestNamespace, eventually, guest, kinds,
};
use serde_json::{Value, json};

use crate::promcheck::{Scrapes, check, check_file};

/// The repository, relative to the folder in which cargo runs tests.
const REPOSITORY: &str = "..";

/// The values of the dashboards' variables, with the labels that scripts/prometheus/query.go adds.
const VARIABLES: [(&str, &str); 4] = [
    ("$job", "operetta"),
    ("$namespace", "operetta-system"),
    ("$pod", "operetta-0"),
    ("$tenant", ".*"),
];

/// The metrics of alerts that a host without such a problem does not have.
const WITHOUT_PROBLEM: [&str; 3] = [
    "certwatcher_read_certificate_errors_total",
    "operetta_fight_writes_total",
    "operetta_plugin_crashes",
];

async fn host() -> Host {
    let control_plane = ControlPlane::shared().await;
    Host::shared(control_plane, &HostOptions::default()).await
}

/// Creates a namespace in which the plugin `touch` runs.
async fn tenant(prefix: &str) -> TestNamespace<'static> {
    let namespace = ControlPlane::shared().await.namespace(prefix).await;
    namespace.allow_all("plugin").await;
    namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;
    namespace
}

/// Scrapes a host before, while and after plugins work.
async fn scrapes(host: &Host) -> Scrapes {
    let scrapes = Scrapes::new();
    let good = tenant("good").await;

    let failing = ControlPlane::shared().await.namespace("failing").await;
    failing.allow_all("plugin").await;
    let trap = DropIn::new("misbehave", guest("fixture-misbehave")).config(json!({"do": "trap"}));
    failing.drop_in(&trap).await;
    failing.create_touchable("target").await;
    failing
        .until_degraded("misbehave", "ReconcileTrapped", &["trapped"])
        .await;

    for name in ["a", "b", "c"] {
        scrapes.take(host);
        good.create_touchable(name).await;
        good.until_touched(name, "v1").await;
        // A clock with milliseconds names the scrapes.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    scrapes.take(host);
    scrapes
}

fn read(path: &str) -> String {
    let path = Path::new(REPOSITORY).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Replaces the variables of a dashboard's expression.
fn substituted(expression: &str) -> String {
    VARIABLES
        .iter()
        .fold(expression.to_owned(), |text, (variable, value)| {
            text.replace(variable, value)
        })
}

/// Returns the panels of our dashboard: title and expression.
fn tenants_dashboard() -> Vec<(String, String)> {
    let dashboard: Value =
        serde_json::from_str(&read("deploy/monitoring/tenants.json")).expect("JSON");
    let mut found = Vec::new();

    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            found.push((text(&panel["title"]), text(&target["expr"])));
        }
    }

    found
}

/// Returns the alert rules.
fn alerts() -> Vec<Value> {
    let rules: Value =
        serde_yaml_ng::from_str(&read("deploy/monitoring/alerts.yaml")).expect("YAML");
    let groups = rules["spec"]["groups"].as_array().expect("groups").iter();
    groups
        .flat_map(|group| group["rules"].as_array().expect("rules").clone())
        .collect()
}

#[tokio::test]
async fn every_panel_has_data_of_a_working_host() {
    let host = host().await;
    let scrapes = scrapes(&host).await;

    let kubebuilder = kubebuilder::EXPRESSIONS
        .map(|(title, expression)| (title.to_owned(), expression.to_owned()));
    let panels: Vec<(String, String)> =
        kubebuilder.into_iter().chain(tenants_dashboard()).collect();
    let expressions: Vec<String> = panels
        .iter()
        .map(|(_, expression)| substituted(expression))
        .collect();

    let answers = scrapes.query(&expressions);
    for ((title, _), answer) in panels.iter().zip(&answers) {
        println!("{:4} series  {title}", answer.series);
    }

    let empty: Vec<_> = answers.iter().filter(|answer| answer.series == 0).collect();
    assert!(empty.is_empty(), "no data: {empty:#?}");

    let expressions: Vec<String> = alerts()
        .iter()
        .map(|rule| rule["expr"].as_str().expect("a text").into())
        .collect();
    let absent: BTreeSet<String> = scrapes
        .query(&expressions)
        .into_iter()
        .flat_map(|answer| answer.absent)
        .collect();
    let known = WITHOUT_PROBLEM.map(str::to_owned).into_iter().collect();
    assert_eq!(
        absent.difference(&known).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "alerts on unknown metrics"
    );

    let trapped = scrapes.query(&[
        r#"controller_runtime_reconcile_panics_total{plugin="misbehave"} > 0"#.to_owned(),
    ]);
    assert_eq!(trapped[0].series, 1, "{trapped:?}");
    host.assert_sound();
}

#[tokio::test]
async fn prometheus_takes_every_metric() {
    let host = host().await;
    tenant("accepted").await;
    let scrapes = Scrapes::new();
    let file = scrapes.take(&host);
    let (accepted, output) = check_file("metrics", &file);
    assert!(accepted, "{output}");
    println!("{output}");

    let text = fs::read_to_string(&file).expect("a scrape");
    for (broken, why) in [
        (text.replace("# EOF\n", ""), "EOF"),
        (
            text.replacen("# HELP workqueue_depth ", "# HELP other ", 1),
            "workqueue_depth",
        ),
        (format!("x_total 1\n{text}"), ""),
        (
            text.replacen("workqueue_adds_total{", "workqueue_adds_total{name=\"", 1),
            "",
        ),
    ] {
        let (accepted, output) = check("metrics", &broken);
        assert!(!accepted && output.contains(why), "{why}: {output}");
    }
}

#[tokio::test]
async fn series_end_with_their_plugin() {
    let host = host().await;
    let namespace = tenant("deleted").await;
    let label = format!("namespace=\"{}\"", namespace.name());
    let lines = || {
        host.metrics()
            .lines()
            .filter(|line| line.contains(&label))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let names: BTreeSet<String> = lines()
        .iter()
        .filter_map(|line| line.split('{').next().map(str::to_owned))
        .collect();

    for name in [
        "controller_runtime_reconcile_total",
        "workqueue_depth",
        "operetta_plugin_calls_total",
    ] {
        assert!(names.contains(name), "{names:?}");
    }

    namespace.delete(kinds::CONFIG_MAP, "touch").await;
    namespace.until_gone(kinds::PLUGIN, "touch").await;
    eventually("the series end", async || match lines() {
        left if left.iter().any(|line| line.contains("plugin=\"touch\"")) => Err(left.join("\n")),
        _ => Ok(()),
    })
    .await;
}

#[tokio::test]
async fn native_histograms_are_those_of_controller_runtime() {
    let host = host().await;
    let namespace = tenant("native").await;
    namespace.create_touchable("target").await;
    namespace.until_touched("target", "v1").await;

    let scrape = tempfile::NamedTempFile::new().expect("a file");
    fs::write(scrape.path(), host.protobuf_metrics()).expect("written");
    let (is_valid, output) = check_file("native", scrape.path());
    assert!(is_valid, "{output}");

    let expected = [
        "controller_runtime_reconcile_time_seconds",
        "rest_client_request_duration_seconds",
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn alerts_are_valid_and_name_their_runbooks() {
    let file = Path::new(REPOSITORY).join("deploy/monitoring/alerts.yaml");
    let (accepted, output) = check_file("rules", &file);
    assert!(accepted, "{output}");

    let text = read("deploy/monitoring/alerts.yaml");
    for (from, to) in [
        ("> 0.5", "> 0.5)"),
        ("{{ $value |", "{{ $other |"),
        ("for: 15m", "for: soon"),
    ] {
        assert!(
            !check("rules", &text.replacen(from, to, 1)).0,
            "{to} is taken"
        );
    }
    let page = read("docs/alerts.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("### "));
    let sections: BTreeSet<String> = headings
        .map(|heading| heading.to_lowercase().replace(' ', "-"))
        .collect();

    let alerts = alerts();
    let mut named = BTreeSet::new();
    for rule in &alerts {
        let link = rule["annotations"]["runbook_url"].as_str().expect("a link");
        let anchor = link
            .strip_prefix("docs/alerts.md#")
            .unwrap_or_else(|| panic!("{link} is another page"));
        assert!(
            sections.contains(anchor),
            "docs/alerts.md has no section {anchor}"
        );
        assert_eq!(
            anchor,
            rule["alert"].as_str().expect("a name").to_lowercase()
        );
        assert!(
            rule["annotations"]["summary"].is_string() && rule["labels"]["severity"].is_string(),
            "{rule}"
        );
        named.insert(anchor.to_owned());
    }

    let unused: Vec<_> = sections
        .iter()
        .filter(|name| name.starts_with("operetta"))
        .collect();
    assert_eq!(
        unused.len(),
        named.len(),
        "runbooks {unused:?}, alerts {named:?}"
    );
}
