//! The API server dies while somebody watches: what changed meanwhile is printed once when it is
//! back.

use std::collections::BTreeMap;

use operetta_testkit::{ControlPlane, kinds};
use serde_json::json;

use crate::{Watching, config_map};

/// What kubectl says there is now, as `NAME DATA`.
fn there(control_plane: &ControlPlane, namespace: &str) -> BTreeMap<String, String> {
    let args = [
        "get",
        "cm",
        "-n",
        namespace,
        "-l",
        "app=web",
        "--no-headers",
    ];

    rows(
        &control_plane
            .kubectl(&args)
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    )
}

fn rows(lines: &[String]) -> BTreeMap<String, String> {
    let row = |line: &String| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.next()?))
    };
    lines.iter().filter_map(row).collect()
}

/// The last row of each object that is not deleted, of lines with the change in front.
fn last_rows(lines: &[String]) -> BTreeMap<String, String> {
    let mut last = BTreeMap::new();

    for line in lines.iter().skip(1) {
        let (change, row) = line
            .split_once(char::is_whitespace)
            .expect("a change and a row");

        for (name, data) in rows(&[row.to_owned()]) {
            if change == "DELETED" {
                last.remove(&name)
            } else {
                last.insert(name, data)
            };
        }
    }
    last
}

fn of<'a>(lines: &'a [String], name: &str) -> Vec<&'a str> {
    let about = lines
        .iter()
        .filter(|line| line.split_whitespace().nth(1) == Some(name));
    about
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[tokio::test]
async fn prints_changes_of_an_outage_once() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let namespace = control_plane.namespace("outage").await;
    let kind = kinds::CONFIG_MAP;
    for name in ["stays", "changes", "goes", "leaves"] {
        namespace
            .create_object(kind, config_map(name, json!({"a": "1"})))
            .await;
    }
    let args = [
        "cm",
        "-n",
        namespace.name(),
        "-l",
        "app=web",
        "--output-watch-events",
    ];

    let mut ours = Watching::operetta(&control_plane, &args);
    let mut json = Watching::operetta(&control_plane, &[&args[..], &["-o", "json"]].concat());
    let mut kubectls = Watching::kubectl(&control_plane, &args);

    for watching in [&mut ours, &mut kubectls] {
        watching.until_lines(5).await;
    }
    json.until_lines(4).await;

    // They are stopped while it dies and comes back, so that they surely miss it.
    ours.signal("-STOP");
    json.signal("-STOP");
    control_plane.kill_apiserver();
    control_plane.wait_ready().await;

    namespace
        .patch(kind, "changes", json!({"data": {"b": "2"}}))
        .await;
    namespace.delete(kind, "goes").await;
    namespace
        .patch(
            kind,
            "leaves",
            json!({"metadata": {"labels": {"app": "other"}}}),
        )
        .await;

    namespace
        .create_object(kind, config_map("comes", json!({})))
        .await;
    namespace
        .create_object(kind, config_map("flashes", json!({})))
        .await;
    namespace.delete(kind, "flashes").await;

    ours.signal("-CONT");
    json.signal("-CONT");

    let changed = [
        ("changes", "MODIFIED"),
        ("goes", "DELETED"),
        ("leaves", "DELETED"),
        ("comes", "ADDED"),
    ];
    let told = |lines: &[String]| {
        changed
            .iter()
            .all(|(name, change)| of(lines, name).last() == Some(change))
    };

    let lines = ours.until("what changed meanwhile", told).await;
    assert_eq!(
        last_rows(&lines),
        there(&control_plane, namespace.name()),
        "{lines:?}"
    );
    for (name, wanted) in [
        ("stays", &["ADDED"][..]),
        ("changes", &["ADDED", "MODIFIED"]),
        ("goes", &["ADDED", "DELETED"]),
        ("leaves", &["ADDED", "DELETED"]),
        ("comes", &["ADDED"]),
    ] {
        assert_eq!(of(&lines, name), wanted, "{name} in {lines:?}");
    }

    // This is told if the API server still knew of it, completely or not at all.
    assert!(
        of(&lines, "flashes").is_empty() || of(&lines, "flashes") == ["ADDED", "DELETED"],
        "{lines:?}"
    );

    let deleted = |lines: &[String], name: &str| {
        lines.iter().any(|line| {
            line.contains("\"DELETED\"") && line.contains(&format!("\"name\":\"{name}\""))
        })
    };
    let printed = json
        .until("the deletions", |lines| {
            deleted(lines, "goes") && deleted(lines, "leaves")
        })
        .await;

    let events: Vec<serde_json::Value> = printed
        .iter()
        .map(|line| serde_json::from_str(line).expect("an event"))
        .collect();

    let deleted = events.iter().filter(|event| event["type"] == "DELETED");
    let mut deleted: Vec<_> = deleted
        .filter_map(|event| event["object"]["metadata"]["name"].as_str())
        .collect();
    deleted.retain(|name| *name != "flashes");
    deleted.sort_unstable();
    assert_eq!(deleted, ["goes", "leaves"]);

    // kubectl has ended with its connection. Ours goes on, even if it was awake.
    kubectls.until_end().await;
    control_plane.kill_apiserver();
    control_plane.wait_ready().await;
    namespace.delete(kind, "stays").await;

    let lines = ours
        .until("the deletion", |lines| {
            of(lines, "stays") == ["ADDED", "DELETED"]
        })
        .await;
    assert_eq!(
        last_rows(&lines),
        there(&control_plane, namespace.name()),
        "{lines:?}"
    );
    assert_eq!(of(&lines, "changes"), ["ADDED", "MODIFIED"], "{lines:?}");
    let complained = ours.complained();
    let warned = complained
        .lines()
        .all(|line| line.starts_with("warning: watch of configmaps failed, retrying"));
    assert!(warned && !complained.contains("panicked"), "{complained}");
}
