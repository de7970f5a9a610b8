//! Two hosts that are installed in different namespaces of one cluster.

use std::time::Duration;

use operetta_testkit::{ControlPlane, HostOptions, eventually, kinds, run_what_it_says};
use serde_json::Value;

use crate::stage::{CONFIG, Replica, control_plane, drop_in, options, replica_of, until_run_by};

/// The namespace of the second installation.
const OTHER: &str = "second-system";

/// Returns the options of a host of the second installation, which has the permissions of an
/// administrator.
fn second(control_plane: &ControlPlane) -> HostOptions {
    HostOptions {
        config: format!("{CONFIG}\nnamespace: {OTHER}"),
        kubeconfig: Some(control_plane.kubeconfig().to_owned()),
        is_installed: true,
        ..options()
    }
}

#[tokio::test]
async fn plugins_of_one_installation_are_left_alone_by_the_other() {
    let control_plane = control_plane();
    let first = Replica::start(&control_plane).await;
    let namespace = control_plane.namespace("installed-twice").await;
    namespace.allow_all("plugin").await;
    drop_in(&namespace, "touch").await;
    until_run_by(&namespace, "touch", &first).await;

    let group = |plugin: &Value| {
        plugin["status"]["group"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let plugin = namespace
        .get(kinds::PLUGIN, "touch")
        .await
        .expect("a Plugin");
    assert_eq!(group(&plugin), "operetta-system/operetta");

    control_plane.kubectl(&["create", "namespace", OTHER]);
    let second = Replica::start_with(&control_plane, second(&control_plane)).await;

    let message = namespace
        .until_event(kinds::PLUGIN, "touch", "OtherInstallation")
        .await;
    assert!(
        message.contains("its Lease operetta-system/operetta has members"),
        "{message}"
    );
    println!("{message}");

    namespace.create_touchable("target").await;
    namespace.until_touched("target", "v1").await;
    assert!(
        !second.host.log().contains("claimed"),
        "{}",
        second.host.log()
    );
    assert!(
        !second.host.log().contains("\"update\""),
        "{}",
        second.host.log()
    );

    // The first one is killed. Nobody acts for it until an administrator says that it is gone.
    first.host.kill();
    tokio::time::sleep(Duration::from_secs(12)).await;
    let plugin = namespace
        .get(kinds::PLUGIN, "touch")
        .await
        .expect("a Plugin");
    assert_eq!(replica_of(&plugin), first.identity);

    run_what_it_says(&control_plane, &[], "kubectl ", &message);
    until_run_by(&namespace, "touch", &second).await;
    eventually("the Plugin names the second installation", async || {
        let plugin = namespace
            .get(kinds::PLUGIN, "touch")
            .await
            .expect("a Plugin");
        if group(&plugin) == format!("{OTHER}/operetta") {
            Ok(())
        } else {
            Err(plugin["status"].to_string())
        }
    })
    .await;

    second.host.assert_sound();
}
