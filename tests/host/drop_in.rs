//! From a ConfigMap to a Plugin and back.

use operetta_testkit::{DropIn, eventually, guest, kinds};
use serde_json::{Value, json};

use crate::Stage;

fn touch(name: &str) -> DropIn {
    DropIn::new(name, guest("fixture-touch-v1"))
}

#[tokio::test]
async fn drop_in_creates_and_owns_its_plugin() {
    let stage = Stage::new("owned").await;
    let config_map = stage
        .namespace
        .drop_in(&touch("touch").config(json!({"a": 1})))
        .await;
    stage.namespace.create_touchable("target").await;
    stage.namespace.until_touched("target", "v1").await;

    let plugin = stage
        .namespace
        .get(kinds::PLUGIN, "touch")
        .await
        .expect("made");

    let owner = &plugin["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"], &owner["controller"]),
        (
            &json!("ConfigMap"),
            &config_map["metadata"]["uid"],
            &json!(true)
        )
    );
    assert_eq!(plugin["spec"]["config"], json!({"a": 1}));
    assert_eq!(plugin["spec"]["serviceAccountName"], "plugin");

    stage.namespace.delete(kinds::CONFIG_MAP, "touch").await;
    stage.namespace.until_gone(kinds::PLUGIN, "touch").await;
    eventually("the host knows the plugin no more", async || {
        let output = stage.host.run(&[
            "logs",
            "touch",
            "-n",
            stage.namespace.name(),
            "--host",
            &format!("http://{}/", stage.host.admin_address()),
        ]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("runs no plugin") {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;
    stage.others_keep_working().await;
}

#[tokio::test]
async fn unlabelled_config_map_removes_its_plugin() {
    let stage = Stage::new("unlabelled").await;
    stage.namespace.drop_in(&touch("touch")).await;
    stage
        .namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;

    let unlabelled = json!({"metadata": {"labels": {"operetta.dev/plugin": null}}});
    stage
        .namespace
        .patch(kinds::CONFIG_MAP, "touch", unlabelled)
        .await;
    stage.namespace.until_gone(kinds::PLUGIN, "touch").await;
}

#[tokio::test]
async fn foreign_plugin_is_left_alone() {
    let stage = Stage::new("exists").await;
    let source = json!({"configMap": {"name": "elsewhere"}});
    let plugin = json!({"metadata": {"name": "touch"}, "spec": {"source": source, "serviceAccountName": "plugin"}});
    stage.namespace.create_object(kinds::PLUGIN, plugin).await;
    stage
        .namespace
        .until_degraded("touch", "SourceNotFound", &["elsewhere"])
        .await;

    stage.namespace.drop_in(&touch("touch")).await;
    let message = stage
        .namespace
        .until_event(kinds::CONFIG_MAP, "touch", "PluginExists")
        .await;
    assert!(message.contains("rename one of them"), "{message}");

    let plugin = stage
        .namespace
        .get(kinds::PLUGIN, "touch")
        .await
        .expect("left alone");
    assert_eq!(plugin["spec"]["source"], source);
    assert_eq!(plugin["metadata"]["ownerReferences"], Value::Null);
    stage.others_keep_working().await;

    // Once it is out of the way, the ConfigMap gets its Plugin.
    stage.namespace.delete(kinds::PLUGIN, "touch").await;
    stage
        .namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;
}

#[tokio::test]
async fn a_plugin_s_source_may_come_later() {
    let stage = Stage::new("source-later").await;
    let spec = json!({"source": {"configMap": {"name": "code"}}, "serviceAccountName": "plugin"});

    stage
        .namespace
        .create_object(
            kinds::PLUGIN,
            json!({"metadata": {"name": "touch"}, "spec": spec}),
        )
        .await;
    stage
        .namespace
        .until_degraded("touch", "SourceNotFound", &["code", stage.namespace.name()])
        .await;
    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, touch("code").code())
        .await;
    stage
        .namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;
}

#[tokio::test]
async fn the_emergency_stop_holds_and_other_changes_are_put_back_with_an_event() {
    let stage = Stage::new("overruled").await;
    let namespace = &stage.namespace;
    namespace.drop_in(&touch("touch")).await;
    namespace.create_touchable("before").await;
    namespace.until_touched("before", "v1").await;

    // As docs/operating.md teaches it.
    let stop = |value: bool| {
        let patch = json!({"spec": {"suspend": value}}).to_string();
        namespace.kubectl(&["patch", "plugin", "touch", "--type", "merge", "-p", &patch]);
    };
    stop(true);
    namespace
        .until_condition("touch", "Ready", "False", "Suspended")
        .await;

    // Neither a change of the ConfigMap nor one of the Plugin resumes it.
    let labels = json!({"metadata": {"labels": {"changed": "yes"}}});
    namespace.patch(kinds::CONFIG_MAP, "touch", labels).await;
    let patch = json!({"spec": {"serviceAccountName": "nobody"}}).to_string();
    namespace.kubectl(&["patch", "plugin", "touch", "--type", "merge", "-p", &patch]);
    let message = namespace
        .until_event(kinds::CONFIG_MAP, "touch", "PluginPutBack")
        .await;
    assert!(
        message.contains("kubectl-patch has set spec.serviceAccountName")
            && message.contains("annotation operetta.dev/service-account"),
        "{message}"
    );
    let plugin = namespace.get(kinds::PLUGIN, "touch").await.expect("there");
    assert_eq!(plugin["spec"]["serviceAccountName"], "plugin");
    assert_eq!(plugin["spec"]["suspend"], true);

    stop(false);
    namespace.create_touchable("after").await;
    namespace.until_touched("after", "v1").await;
}

#[tokio::test]
async fn a_suspended_plugin_does_nothing_until_it_is_resumed() {
    let stage = Stage::new("suspended").await;
    stage.namespace.drop_in(&touch("touch")).await;
    stage.namespace.create_touchable("before").await;
    stage.namespace.until_touched("before", "v1").await;

    let suspend =
        |value: &str| json!({"metadata": {"annotations": {"operetta.dev/suspend": value}}});
    stage
        .namespace
        .patch(kinds::CONFIG_MAP, "touch", suspend("true"))
        .await;

    stage
        .namespace
        .until_condition("touch", "Ready", "False", "Suspended")
        .await;
    stage.namespace.create_touchable("meanwhile").await;
    // That others are served shows that there was time for this one.
    stage.others_keep_working().await;
    let meanwhile = stage
        .namespace
        .get(kinds::CONFIG_MAP, "meanwhile")
        .await
        .expect("there");

    assert_eq!(meanwhile["data"], Value::Null);

    stage
        .namespace
        .patch(kinds::CONFIG_MAP, "touch", suspend("false"))
        .await;
    stage.namespace.until_touched("meanwhile", "v1").await;
    stage
        .namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;

    stage
        .namespace
        .patch(kinds::CONFIG_MAP, "touch", suspend("perhaps"))
        .await;

    let message = stage
        .namespace
        .until_event(kinds::CONFIG_MAP, "touch", "InvalidPluginConfig")
        .await;
    assert!(
        message.contains("operetta.dev/suspend is \"perhaps\""),
        "{message}"
    );
}
