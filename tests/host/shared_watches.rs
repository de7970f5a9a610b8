//! Watches on the wire: one per kind, however many plugins need it, and none once nobody does.

use operetta_testkit::{ControlPlane, DropIn, Kind, eventually, kinds, wat_guest::Guest};
use serde_json::json;

use crate::{Stage, install, manifest};

async fn until_open_watches(control_plane: &ControlPlane, resource: &str, wanted: usize) {
    eventually(
        &format!("{wanted} open watches of {resource}"),
        async || {
            let audit = control_plane.audit();
            let open = audit.open_watches(resource);
            if open.len() == wanted {
                Ok(())
            } else {
                Err(format!("{open:?}"))
            }
        },
    )
    .await;
}

#[tokio::test]
async fn two_plugins_on_a_kind_share_one_watch() {
    const SHARED: Kind = Kind("test.operetta.dev/v1", "Shared");
    let one = Stage::new("sharing-one").await;
    let two = Stage::new("sharing-two").await;
    let control_plane = one.namespace.control_plane();
    install(control_plane, SHARED);

    let guest = Guest::default()
        .manifest(&manifest(SHARED))
        .reconcile("(call $retry (i32.const 64) (i32.const 2))");
    let code = guest.build();

    for stage in [&one, &two] {
        stage
            .namespace
            .drop_in(&DropIn::new("shares", code.clone()))
            .await;
        stage
            .namespace
            .until_condition("shares", "Ready", "True", "Running")
            .await;
    }

    // Both are served by it.
    for stage in [&one, &two] {
        stage
            .namespace
            .create_object(SHARED, json!({"metadata": {"name": "thing"}}))
            .await;
        stage
            .namespace
            .until_degraded("shares", "ReconcileFailing", &["thing"])
            .await;
    }

    let audit = control_plane.audit();
    let open = audit.open_watches("shareds");
    assert_eq!(open.len(), 1, "{open:?}");

    one.namespace.delete(kinds::CONFIG_MAP, "shares").await;
    one.namespace.until_gone(kinds::PLUGIN, "shares").await;
    two.namespace
        .create_object(SHARED, json!({"metadata": {"name": "another"}}))
        .await;
    two.namespace
        .until(kinds::PLUGIN, "shares", |plugin| {
            match &plugin["status"]["controllers"][0]["failing"] {
                failing if *failing == 2 => Ok(()),
                failing => Err(format!("{failing} keys fail, not 2")),
            }
        })
        .await;
    until_open_watches(control_plane, "shareds", 1).await;

    two.namespace.delete(kinds::CONFIG_MAP, "shares").await;
    two.namespace.until_gone(kinds::PLUGIN, "shares").await;
    until_open_watches(control_plane, "shareds", 0).await;
    two.others_keep_working().await;
}

#[tokio::test]
async fn a_suspended_plugin_watches_nothing() {
    const IDLE: Kind = Kind("test.operetta.dev/v1", "Idle");
    let stage = Stage::new("idle").await;
    let control_plane = stage.namespace.control_plane();
    install(control_plane, IDLE);

    let guest = Guest::default().manifest(&manifest(IDLE));
    stage
        .namespace
        .drop_in(&DropIn::new("idle", guest.build()))
        .await;
    stage
        .namespace
        .until_condition("idle", "Ready", "True", "Running")
        .await;

    until_open_watches(control_plane, "idles", 1).await;
    let suspend = json!({"metadata": {"annotations": {"operetta.dev/suspend": "true"}}});
    stage
        .namespace
        .patch(kinds::CONFIG_MAP, "idle", suspend)
        .await;
    until_open_watches(control_plane, "idles", 0).await;
}
