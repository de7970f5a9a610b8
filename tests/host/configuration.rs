//! Configuration from ConfigMaps and Secrets: read as the plugin's ServiceAccount, and anew
//! whenever it changes.

use operetta_testkit::{eventually, guest, kinds, within};
use serde_json::{Value, json};

use crate::{IN_EFFECT, Stage, run_what_it_says};

fn secret(name: &str, word: &str) -> Value {
    json!({"metadata": {"name": name}, "stringData": {"config.json": json!({"word": word}).to_string()}})
}

/// A namespace whose ServiceAccount `plugin` may handle ConfigMaps, and read no Secret.
async fn stage(prefix: &str) -> Stage {
    let stage = Stage::new(prefix).await;
    stage
        .namespace
        .kubectl(&["delete", "rolebinding", "plugin-may-do-all"]);

    let role = [
        "create",
        "role",
        "maps",
        "--verb=get,list,watch,update",
        "--resource=configmaps",
    ];
    stage.namespace.kubectl(&role);
    let account = format!("--serviceaccount={}:plugin", stage.namespace.name());
    stage
        .namespace
        .kubectl(&["create", "rolebinding", "maps", "--role=maps", &account]);

    stage.namespace.create_touchable("target").await;
    stage
}

#[tokio::test]
async fn unreadable_secret_configures_nothing() {
    let stage = stage("secret").await;
    let namespace = &stage.namespace;
    namespace
        .create_object(kinds::SECRET, secret("hidden", "s3cret"))
        .await;

    let from = json!([{"secretRef": {"name": "hidden"}}]);
    stage
        .plugin(
            "reads",
            guest("fixture-misbehave"),
            json!({"configFrom": from}),
        )
        .await;

    let words = [
        "may not get Secret \"hidden\"",
        "--resource=secrets --resource-name=hidden",
    ];
    let message = namespace
        .until_degraded("reads", "ConfigForbidden", &words)
        .await;

    namespace
        .until_condition("reads", "Ready", "False", "ConfigForbidden")
        .await;
    namespace
        .until_event(kinds::PLUGIN, "reads", "ConfigForbidden")
        .await;

    let target = namespace
        .get(kinds::CONFIG_MAP, "target")
        .await
        .expect("it exists");
    assert!(
        target["data"]["touched"].is_null(),
        "it was not started: {target}"
    );

    run_what_it_says(namespace, &message);
    namespace.until_touched("target", "s3cret").await;
    namespace
        .until_condition("reads", "Ready", "True", "Running")
        .await;

    // Revoked: the plugin is stopped, not left with what it may not read any more.
    let binding = message
        .split_whitespace()
        .skip_while(|word| *word != "rolebinding")
        .nth(1)
        .expect("a name");
    namespace.kubectl(&["delete", "rolebinding", binding]);
    within(IN_EFFECT, "the status", async || {
        match namespace.plugin_condition("reads", "Ready").await {
            Some(now) if now.status == "False" && now.reason == "ConfigForbidden" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    let account = format!("--serviceaccount={}:plugin", namespace.name());
    namespace.kubectl(&[
        "create",
        "rolebinding",
        binding,
        &format!("--role={binding}"),
        &account,
    ]);
    namespace
        .until_condition("reads", "Ready", "True", "Running")
        .await;

    let plugin = namespace
        .get(kinds::PLUGIN, "reads")
        .await
        .expect("it exists")
        .to_string();
    assert!(
        !plugin.contains("s3cret") && !stage.host.log().contains("s3cret"),
        "a secret is told: {plugin}"
    );

    stage.others_keep_working().await;
}

#[tokio::test]
async fn changed_configuration_reaches_all_objects() {
    let stage = stage("reload").await;
    let namespace = &stage.namespace;
    namespace.kubectl(&[
        "create",
        "role",
        "secrets",
        "--verb=get",
        "--resource=secrets",
    ]);

    let account = format!("--serviceaccount={}:plugin", namespace.name());
    namespace.kubectl(&[
        "create",
        "rolebinding",
        "secrets",
        "--role=secrets",
        &account,
    ]);

    let map = |text: &str| json!({"metadata": {"name": "settings"}, "data": {"plugin.yaml": text}});
    namespace
        .create_object(kinds::CONFIG_MAP, map("word: mapped"))
        .await;

    let from = json!([
        {"configMapRef": {"name": "settings", "key": "plugin.yaml"}},
        {"secretRef": {"name": "later", "key": "word", "targetPath": "word", "optional": true}},
    ]);
    stage
        .plugin(
            "reads",
            guest("fixture-misbehave"),
            json!({"configFrom": from}),
        )
        .await;
    namespace.until_touched("target", "mapped").await;

    namespace
        .patch(kinds::CONFIG_MAP, "settings", map("word: mapped again"))
        .await;
    namespace.until_touched("target", "mapped again").await;

    let later = json!({"metadata": {"name": "later"}, "stringData": {"word": "from the secret"}});
    namespace.create_object(kinds::SECRET, later).await;
    namespace.until_touched("target", "from the secret").await;

    namespace
        .patch(
            kinds::PLUGIN,
            "reads",
            json!({"spec": {"config": {"word": "the spec's own"}}}),
        )
        .await;
    namespace.until_touched("target", "the spec's own").await;

    // The status says what can no longer be read, and what ran goes on.
    namespace
        .patch(kinds::CONFIG_MAP, "settings", map("hunter2"))
        .await;

    let words = [
        "ConfigMap \"settings\"",
        "plugin.yaml is not a YAML mapping",
        "still running with the previous configuration",
    ];
    let message = namespace
        .until_degraded("reads", "InvalidConfig", &words)
        .await;
    assert!(!message.contains("hunter2"), "{message}");

    namespace.create_touchable("meanwhile").await;
    namespace.until_touched("meanwhile", "the spec's own").await;

    namespace.delete(kinds::CONFIG_MAP, "settings").await;
    namespace
        .until_degraded(
            "reads",
            "ConfigNotFound",
            &["ConfigMap \"settings\" of spec.configFrom"],
        )
        .await;
    namespace
        .until_condition("reads", "Ready", "True", "Running")
        .await;

    namespace.create_object(kinds::CONFIG_MAP, map("{}")).await;
    namespace
        .until_condition("reads", "Degraded", "False", "AsExpected")
        .await;

    // What no Plugin names any longer is not watched.
    namespace
        .patch(
            kinds::PLUGIN,
            "reads",
            json!({"spec": {"configFrom": null}}),
        )
        .await;

    let of_settings = format!(
        "namespace=\"{}\",labels=\"\",fields=\"metadata.name=settings\"",
        namespace.name()
    );
    eventually("the watch ends", async || {
        if stage.host.metrics().contains(&of_settings) {
            Err(of_settings.clone())
        } else {
            Ok(())
        }
    })
    .await;

    stage.others_keep_working().await;
}
