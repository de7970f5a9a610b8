//! Plugins that map events to keys themselves: what they name is woken, and what they do wrong
//! hurts nobody else.
//!
//! The guest is `fixture-mapper`: the ConfigMaps labelled `operetta-fixture=wakes` name those that
//! it counts.

use operetta_testkit::{eventually, guest, kinds, wat_guest::Guest};
use serde_json::{Value, json};

use crate::{Stage, manifest};

impl Stage {
    /// A namespace with a mapper at work, and two ConfigMaps that it counts.
    async fn mapping(prefix: &str) -> Self {
        let stage = Self::new(prefix).await;
        let limits = json!({"limits": {"memory": "16Mi", "timeoutSeconds": 2}});
        stage
            .plugin("mapper", guest("fixture-mapper"), limits)
            .await;

        stage
            .namespace
            .until_condition("mapper", "Ready", "True", "Running")
            .await;

        for name in ["a", "b"] {
            stage.namespace.create_touchable(name).await;
            stage.until_reconciled(name, 1).await;
        }
        stage
    }

    /// Creates the ConfigMap that names others, or changes its data.
    async fn index(&self, data: Value) {
        if self
            .namespace
            .get(kinds::CONFIG_MAP, "index")
            .await
            .is_some()
        {
            self.namespace
                .patch(kinds::CONFIG_MAP, "index", json!({"data": data}))
                .await;
        } else {
            let metadata = json!({"name": "index", "labels": {"operetta-fixture": "wakes"}});
            self.namespace
                .create_object(
                    kinds::CONFIG_MAP,
                    json!({"metadata": metadata, "data": data}),
                )
                .await;
        }
    }

    async fn woken(&self, name: &str) -> String {
        let found = self
            .namespace
            .get(kinds::CONFIG_MAP, name)
            .await
            .expect("it exists");

        found["data"]["woken"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until a ConfigMap was reconciled this many times.
    async fn until_reconciled(&self, name: &str, times: u32) {
        eventually(
            &format!("{name} is woken {times} times"),
            async || match self.woken(name).await {
                woken if woken == times.to_string() => Ok(()),
                woken => Err(format!("{woken:?}")),
            },
        )
        .await;
    }

    /// Waits until nothing is wrong with the mapper any more.
    async fn until_sound(&self) {
        self.namespace
            .until_condition("mapper", "Degraded", "False", "AsExpected")
            .await;
    }
}

#[tokio::test]
async fn mapped_keys_are_enqueued_on_change_and_deletion() {
    let stage = Stage::mapping("maps").await;
    stage.index(json!({"wakes": "a"})).await;
    stage.until_reconciled("a", 2).await;

    stage.index(json!({"wakes": "b"})).await;
    stage.until_reconciled("a", 3).await;
    stage.until_reconciled("b", 2).await;

    stage.namespace.delete(kinds::CONFIG_MAP, "index").await;
    stage.until_reconciled("b", 3).await;

    assert_eq!(
        stage.woken("a").await,
        "3",
        "a deletion wakes what the last state names"
    );

    stage.until_sound().await;
    stage.others_keep_working().await;
}

#[tokio::test]
async fn reports_impossible_keys_and_drops_foreign_ones() {
    let stage = Stage::mapping("maps-bad-keys").await;
    stage
        .index(json!({"wakes": "a here/there/everywhere"}))
        .await;
    stage.until_reconciled("a", 2).await;

    let words = [
        "mapping ConfigMap",
        "index failed",
        "is not an object name",
        "there/everywhere",
    ];
    stage
        .namespace
        .until_degraded("mapper", "InvalidKeys", &words)
        .await;

    // The keys that the old state names are reconciled once more.
    stage.index(json!({"wakes": "b"})).await;
    stage.until_reconciled("b", 2).await;

    stage.index(json!({"wakes": "kube-system/a b"})).await;
    stage.until_reconciled("b", 3).await;
    stage.until_sound().await;

    stage.index(json!({"wakes": "", "do": "many"})).await;
    stage
        .namespace
        .until_degraded("mapper", "InvalidKeys", &["keys, over the limit of 1000"])
        .await;

    stage.others_keep_working().await;
}

#[tokio::test]
async fn failing_mapping_degrades_its_plugin_alone() {
    let stage = Stage::mapping("maps-badly").await;
    stage.index(json!({"wakes": "a"})).await;
    stage.until_reconciled("a", 2).await;

    for (does, reason, words) in [
        ("trap", "MapTrapped", "a mapping that traps"),
        ("loop", "DeadlineExceeded", "did not end within 2 s"),
        ("allocate", "MemoryExceeded", "16 MiB"),
    ] {
        stage.index(json!({"wakes": "", "do": does})).await;
        stage
            .namespace
            .until_degraded(
                "mapper",
                reason,
                &["mapping ConfigMap", "index failed", words],
            )
            .await;
        stage.others_keep_working().await;
    }

    // Its reconciles go on as well.
    stage.namespace.create_touchable("c").await;
    stage.until_reconciled("c", 1).await;

    // What was mapped last still names `a`, whatever came meanwhile.
    stage.index(json!({"wakes": "b", "do": null})).await;
    stage.until_reconciled("a", 3).await;
    stage.until_reconciled("b", 2).await;
    stage.until_sound().await;
    stage.others_keep_working().await;
}

#[tokio::test]
async fn refuses_manifest_with_missing_mapper() {
    let stage = Stage::new("no-mapper").await;
    let mut asks: Value = serde_json::from_str(&manifest(kinds::CONFIG_MAP)).expect("JSON");
    let source = asks["controllers"][0]["for"].clone();
    asks["controllers"][0]["watches"] = json!([{"source": source, "map": {"type": "Custom"}}]);

    stage
        .plugin(
            "asks",
            Guest::default().manifest(&asks.to_string()).build(),
            json!({}),
        )
        .await;

    let words = [
        "controller \"c\"",
        "\"Custom\"",
        "does not export operetta:controller/mapper@0.1.0",
    ];
    stage
        .namespace
        .until_degraded("asks", "MissingMapper", &words)
        .await;

    stage.others_keep_working().await;
}
