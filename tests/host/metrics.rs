//! The metrics of a running host, as a parser of OpenMetrics reads them.

use std::collections::BTreeMap;

use operetta_testkit::{DropIn, guest};

use crate::Stage;

/// The suffixes of the samples of each type.
fn suffixes(kind: &str) -> &'static [&'static str] {
    match kind {
        "counter" => &["_total", "_created"],
        "histogram" => &["_bucket", "_sum", "_count", "_created"],
        "info" => &["_info"],
        _ => &[""],
    }
}

#[tokio::test]
async fn metrics_are_openmetrics_without_clashing_names() {
    let stage = Stage::new("metrics").await;
    stage.namespace.create_touchable("target").await;

    stage
        .namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    stage.namespace.until_touched("target", "v1").await;

    let text = stage.host.metrics();
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a name and a type");
        assert_eq!(types.insert(name, kind), None, "{name} has two types");
    }

    let mut of_samples: BTreeMap<String, &str> = BTreeMap::new();
    for (name, kind) in &types {
        for suffix in suffixes(kind) {
            let other = of_samples.insert(format!("{name}{suffix}"), name);
            assert_eq!(other, None, "{name}{suffix} is a sample of two metrics");
        }
    }

    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for line in &samples {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        assert!(of_samples.contains_key(name), "{line} is of no type");
    }

    println!("{} metrics with {} samples", types.len(), samples.len());
    assert!(of_samples.contains_key("workqueue_adds_total"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
}
