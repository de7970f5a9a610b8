//! Sources of a plugin without permissions, which the host must not watch, and sources that ask for
//! constant work.

use std::time::Duration;

use operetta_testkit::{DropIn, Kind, eventually, kinds, wat_guest::Guest};
use serde_json::json;

use crate::{Stage, install, run_what_it_says};

const WIDGET: Kind = Kind("test.operetta.dev/v1", "Withheld");
const RESYNCED: Kind = Kind("test.operetta.dev/v1", "Resynced");

#[tokio::test]
async fn sources_without_permission_start_no_watch() {
    let stage = Stage::new("withheld").await;
    let control_plane = stage.namespace.control_plane();
    install(control_plane, WIDGET);
    stage.namespace.consenting("powerless").await;

    let wasm = Guest::default().hundred_selectors(WIDGET).build();
    stage
        .namespace
        .drop_in(&DropIn::new("powerless", wasm).service_account("powerless"))
        .await;
    let message = stage
        .namespace
        .until_degraded(
            "powerless",
            "Forbidden",
            &["may not list and watch withhelds"],
        )
        .await;

    let audit = control_plane.audit();
    let lists = audit.done("list", "withhelds").count();
    let watches = audit.open_watches("withhelds").len();
    println!("a hundred sources without permission: {lists} lists, {watches} watches; {message}");
    assert_eq!(lists, 0, "the host listed withhelds");
    assert_eq!(watches, 0, "the host watches withhelds");

    // Once the permissions are granted, the plugin runs.
    run_what_it_says(&stage.namespace, &message);
    stage
        .namespace
        .until_condition("powerless", "Ready", "True", "Running")
        .await;
    assert!(!control_plane.audit().open_watches("withhelds").is_empty());

    let plugin = stage
        .namespace
        .get(kinds::PLUGIN, "powerless")
        .await
        .expect("a Plugin");
    assert!(plugin["status"]["digest"].is_string());
}

#[tokio::test]
async fn resync_of_a_second_comes_no_more_often_than_every_ten() {
    const WAIT: Duration = Duration::from_secs(8);
    let stage = Stage::new("resynced").await;
    install(stage.namespace.control_plane(), RESYNCED);
    let source = json!({"apiVersion": RESYNCED.0, "kind": RESYNCED.1, "namespaces": "Own"});
    let controllers = json!([{"name": "c", "for": source, "resyncSeconds": 1}]);

    stage
        .namespace
        .drop_in(&DropIn::new(
            "resyncs",
            Guest::default().controllers(&controllers).build(),
        ))
        .await;
    stage
        .namespace
        .until_condition("resyncs", "Ready", "True", "Running")
        .await;
    stage
        .namespace
        .create_object(RESYNCED, json!({"metadata": {"name": "one"}}))
        .await;

    let of_namespace = format!("namespace=\"{}\"", stage.namespace.name());
    let reconciles = || {
        stage
            .host
            .metric("controller_runtime_reconcile_total", &[&of_namespace])
    };

    eventually("the object is reconciled", async || match reconciles() {
        count if count > 0.0 => Ok(()),
        count => Err(format!("{count} reconciles")),
    })
    .await;

    let before = reconciles();
    tokio::time::sleep(WAIT).await;
    let resyncs = reconciles() - before;
    println!("with a resync of one second, {resyncs} reconciles of an object in {WAIT:?}");

    // At most one resync falls into this time. Changes of permissions may restart the watches once.
    assert!(resyncs <= 3.0, "{resyncs} reconciles");
    stage.others_keep_working().await;
}
