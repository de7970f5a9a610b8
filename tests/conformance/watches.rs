//! Behaviours of watches: mapping functions and pruned fields. The ConfigMaps labelled
//! `conformance=wake` name the cases to reconcile.

use operetta_testkit::kinds;
use serde_json::{Value, json};

use crate::{
    cases::QUIET,
    stage::{Ended, Stage},
};

impl Stage {
    /// Creates a ConfigMap that the plugin's function maps to cases.
    async fn waker(&self, name: &str, data: Value) {
        let metadata = json!({"name": name, "labels": {"conformance": "wake"}});
        self.namespace
            .create_object(
                kinds::CONFIG_MAP,
                json!({"metadata": metadata, "data": data}),
            )
            .await;
    }

    async fn change(&self, name: &str, data: Value) {
        self.namespace
            .patch(kinds::CONFIG_MAP, name, json!({"data": data}))
            .await;
    }
}

/// Checks that exactly the changes of a mapped object reconcile the case.
pub async fn shown(stage: &Stage, id: &str) -> Result<(), Ended> {
    let target = &format!("{id}-target");
    if id == "get-pruned" {
        stage.waker(target, json!({"pruned": "still here"})).await;
        return stage.saw(id, json!({"target": target}), "still here").await;
    }

    stage.config_map(target, json!({"runs": ""})).await;
    stage.begin(id, json!({"target": target})).await;
    stage.ran(target, "0 ").await?;

    let waker = &format!("{id}-waker");
    let runs = match id {
        "map-keys" => {
            stage
                .waker(waker, json!({"wakes": format!("{id} no-such-case")}))
                .await;
            stage.ran(target, "0 0 ").await?;
            stage.change(waker, json!({"wakes": "no-such-case"})).await;
            stage.ran(target, "0 0 0 ").await?;
            stage.change(waker, json!({"wakes": "another"})).await;
            "0 0 0 "
        }
        "map-deleted" => {
            stage.waker(waker, json!({"wakes": id})).await;
            stage.ran(target, "0 0 ").await?;
            stage.namespace.delete(kinds::CONFIG_MAP, waker).await;
            "0 0 0 "
        }
        "map-error" => {
            stage
                .waker(waker, json!({"wakes": id, "fail": "yes"}))
                .await;
            stage
                .namespace
                .until_degraded_by("conformance", &["mapping ConfigMap", "no keys today"])
                .await;
            stage.ran(target, "0 ").await?;
            stage.change(waker, json!({"fail": null})).await;
            "0 0 "
        }
        "map-pruned" => {
            stage.waker(waker, json!({"wakes": "", "pruned": id})).await;
            tokio::time::sleep(QUIET).await;
            stage.ran(target, "0 ").await?;
            stage.change(waker, json!({"wakes": id})).await;
            "0 0 "
        }
        other => return Err(Ended::Failed(format!("the test does not know {other}"))),
    };

    stage.ran(target, runs).await?;
    tokio::time::sleep(QUIET).await;
    Ok(stage.ran(target, runs).await?)
}
