//! Sources of a plugin without permissions, which the host must not watch.

use operetta_testkit::{DropIn, Kind, kinds, wat_guest::Guest};

use crate::{Stage, install, run_what_it_says};

const WIDGET: Kind = Kind("test.operetta.dev/v1", "Withheld");

#[tokio::test]
async fn sources_without_permission_start_no_watch() {
    let stage = Stage::new("withheld").await;
    let control_plane = stage.namespace.control_plane();
    install(control_plane, WIDGET);
    stage.namespace.consenting("powerless").await;
    let wasm = Guest::default().hundred_selectors(WIDGET).build();
    stage.namespace.drop_in(&DropIn::new("powerless", wasm).service_account("powerless")).await;
    let message = stage.namespace.until_degraded("powerless", "Forbidden", &["may not list and watch withhelds"]).await;
    let audit = control_plane.audit();
    let lists = audit.done("list", "withhelds").count();
    let watches = audit.open_watches("withhelds").len();
    println!("a hundred sources without permission: {lists} lists, {watches} watches; {message}");
    assert_eq!(lists, 0, "the host listed withhelds");
    assert_eq!(watches, 0, "the host watches withhelds");
    // Once the permissions are granted, the plugin runs.
    run_what_it_says(&stage.namespace, &message);
    stage.namespace.until_condition("powerless", "Ready", "True", "Running").await;
    assert!(!control_plane.audit().open_watches("withhelds").is_empty());
    let plugin = stage.namespace.get(kinds::PLUGIN, "powerless").await.expect("a Plugin");
    assert!(plugin["status"]["digest"].is_string());
}
