//! A key that its own plugin wakes for ever is slowed, then quarantined; the plugin's other keys
//! and other plugins go on, and a change from outside ends it.
//!
//! The shared host quarantines after three waits, which are 7 s.

use std::time::Duration;

use operetta_testkit::{DropIn, eventually, guest, kinds, throughout};
use serde_json::json;

use crate::Stage;

impl Stage {
    /// Returns a namespace with the plugin `loops`, whose object `bad` loops in this way.
    async fn looping(how: &str) -> Self {
        let stage = Self::new(&format!("hot-loop-{how}")).await;
        let labels = json!({"operetta-fixture": "true"});
        let bad = json!({"metadata": {"name": "bad", "labels": labels}, "data": {"loop": how}});
        stage.namespace.create_object(kinds::CONFIG_MAP, bad).await;

        let plugin =
            DropIn::new("loops", guest("fixture-misbehave")).config(json!({"do": "hot-loop"}));
        stage.namespace.drop_in(&plugin).await;
        stage
    }

    /// Returns a metric of the plugin `loops`.
    fn of_loops(&self, metric: &str) -> f64 {
        let labels = [
            "plugin=\"loops\"".to_owned(),
            format!("namespace=\"{}\"", self.namespace.name()),
        ];
        self.host
            .metric(metric, &labels.each_ref().map(String::as_str))
    }

    /// Checks that another key of the plugin is reconciled.
    async fn its_others_keep_working(&self, name: &str) {
        self.namespace.create_touchable(name).await;
        self.namespace.until_touched(name, "yes").await;
    }

    async fn reconciles(&self) -> i64 {
        self.of_loops("controller_runtime_reconcile_total") as i64
    }
}

#[tokio::test]
async fn self_triggering_key_is_quarantined_alone() {
    let stage = Stage::looping("write").await;
    let namespace = stage.namespace.name();
    let told = stage
        .namespace
        .until_event(kinds::CONFIG_MAP, "bad", "HotLoop")
        .await;

    let what = format!(
        "Plugin {namespace}/loops (controller \"misbehave\") reconciles this object in a loop: "
    );
    assert!(
        told.starts_with(&what)
            && told.contains("by the plugin's own writes and 0 by its requeues"),
        "{told}"
    );
    stage.its_others_keep_working("while-slowed").await;

    let told = stage
        .namespace
        .until_event(kinds::CONFIG_MAP, "bad", "Quarantined")
        .await;
    assert!(
        told.starts_with(&what) && told.contains("10 minutes"),
        "{told}"
    );
    let bad = format!("{namespace}/bad");

    let words = [
        "controller \"misbehave\"",
        bad.as_str(),
        "write only if something differs",
    ];
    stage
        .namespace
        .until_degraded("loops", "Quarantined", &words)
        .await;

    assert_eq!(stage.of_loops("operetta_quarantined_keys"), 1.0);
    assert_eq!(stage.of_loops("operetta_hot_loop_slowed_total"), 3.0);

    let lines = stage.host.logs(namespace, "loops");
    let told = lines
        .iter()
        .filter(|line| line.level == "warn" && line.message.contains("in a loop"))
        .count();
    assert_eq!(told, 2, "{lines:?}");

    let before = stage.reconciles().await;

    throughout(
        Duration::from_secs(3),
        "it is not reconciled",
        async || match stage.reconciles().await {
            now if now == before => Ok(()),
            now => Err(format!("{} reconciles", now - before)),
        },
    )
    .await;
    stage.its_others_keep_working("while-quarantined").await;
    stage.others_keep_working().await;

    // Somebody mends it.
    stage
        .namespace
        .patch(kinds::CONFIG_MAP, "bad", json!({"data": {"loop": "no"}}))
        .await;
    stage.namespace.until_touched("bad", "yes").await;
    stage
        .namespace
        .until_condition("loops", "Degraded", "False", "AsExpected")
        .await;
    assert_eq!(stage.of_loops("operetta_quarantined_keys"), 0.0);
}

#[tokio::test]
async fn new_configuration_releases_a_requeue_loop() {
    let stage = Stage::looping("requeue").await;
    let told = stage
        .namespace
        .until_event(kinds::CONFIG_MAP, "bad", "HotLoop")
        .await;
    assert!(
        told.contains("0 of them triggered by the plugin's own writes"),
        "{told}"
    );
    stage.its_others_keep_working("while-slowed").await;

    eventually("it is held", async || {
        match stage.of_loops("operetta_quarantined_keys") {
            1.0 => Ok(()),
            count => Err(format!("{count} keys are quarantined")),
        }
    })
    .await;

    let plugin = DropIn::new("loops", guest("fixture-misbehave"))
        .config(json!({"do": "touch", "word": "mended"}));
    let config = plugin.object()["data"].clone();
    stage
        .namespace
        .patch(kinds::CONFIG_MAP, "loops", json!({"data": config}))
        .await;

    stage.namespace.until_touched("bad", "mended").await;
    stage
        .namespace
        .until_condition("loops", "Degraded", "False", "AsExpected")
        .await;
    stage.others_keep_working().await;
}
