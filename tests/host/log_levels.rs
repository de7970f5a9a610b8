//! The level of a plugin's log, which an annotation of the Plugin changes at run time.

use operetta_testkit::{DropIn, eventually, kinds, wat_guest::Guest};
use serde_json::{Value, json};

use crate::{Stage, manifest};

/// A guest that logs a line at info and one at debug in each reconcile.
fn logging() -> Vec<u8> {
    let log = |level: u8| {
        format!(
            "(call $log (i32.const {level}) (global.get $text) (global.get $text_len) (i32.const 0) (i32.const 0))"
        )
    };
    let body = format!("{} {} (i32.const 16)", log(2), log(3));
    Guest::default()
        .manifest(&manifest(kinds::CONFIG_MAP))
        .text("reconciling")
        .reconcile(&body)
        .build()
}

/// Waits until the plugin has made more reconciles than this; returns their number.
async fn reconciled(stage: &Stage, before: f64) -> f64 {
    let namespace = format!("namespace=\"{}\"", stage.namespace.name());
    eventually("a reconcile", async || {
        let total = stage
            .host
            .metric("controller_runtime_reconcile_total", &[&namespace]);
        if total > before {
            Ok(total)
        } else {
            Err(format!("{total} reconciles"))
        }
    })
    .await
}

/// Returns the levels of the plugin's lines about an object, once it is reconciled.
async fn levels_of(stage: &Stage, name: &str) -> Vec<String> {
    // The ConfigMap with the component is reconciled first.
    let before = reconciled(stage, 0.0).await;
    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, json!({"metadata": {"name": name}}))
        .await;
    reconciled(stage, before).await;

    let key = format!("{}/{name}", stage.namespace.name());
    let lines = stage.host.logs(stage.namespace.name(), "log-levels");
    lines
        .into_iter()
        .filter(|line| line.key == key)
        .map(|line| line.level)
        .collect()
}

#[tokio::test]
async fn annotation_changes_level_of_a_running_plugin() {
    let stage = Stage::new("log-levels").await;

    stage
        .namespace
        .drop_in(&DropIn::new("log-levels", logging()))
        .await;
    stage
        .namespace
        .until_condition("log-levels", "Ready", "True", "Running")
        .await;

    let annotate = async |level: Value| {
        let patch = json!({"metadata": {"annotations": {"operetta.dev/log-level": level}}});
        stage
            .namespace
            .patch(kinds::PLUGIN, "log-levels", patch)
            .await;
        let level = level.as_str().unwrap_or("info").to_owned();
        eventually("the level changes", async || {
            let lines = stage.host.logs(stage.namespace.name(), "log-levels");
            let last = lines
                .into_iter()
                .rfind(|line| line.message.contains("log level is "))
                .map(|line| line.message);
            if last.as_deref().is_some_and(|last| last.contains(&level)) {
                Ok(())
            } else {
                Err(format!("{last:?}"))
            }
        })
        .await;
    };

    assert_eq!(levels_of(&stage, "by-default").await, ["info"]);
    annotate(json!("debug")).await;
    assert_eq!(levels_of(&stage, "with-debug").await, ["info", "debug"]);
    annotate(json!("warn")).await;
    assert_eq!(levels_of(&stage, "with-warn").await, Vec::<String>::new());
    annotate(json!("loud")).await;
    assert_eq!(
        levels_of(&stage, "with-nonsense").await,
        ["info"],
        "that of the configuration"
    );

    let key = format!("{}/with-debug", stage.namespace.name());
    let lines: Vec<Value> = stage
        .host
        .log()
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let of_object: Vec<&Value> = lines
        .iter()
        .filter(|line| line["key"] == json!(key))
        .collect();

    let plugin = format!("{}/log-levels", stage.namespace.name());
    let fields: Vec<_> = of_object
        .iter()
        .map(|line| (&line["level"], &line["plugin"], &line["message"]))
        .collect();
    let expected = [("INFO", "reconciling"), ("DEBUG", "reconciling")];
    let expected = expected.map(|(level, message)| (json!(level), json!(plugin), json!(message)));

    assert_eq!(
        fields,
        expected
            .iter()
            .map(|(level, plugin, message)| (level, plugin, message))
            .collect::<Vec<_>>()
    );
}
