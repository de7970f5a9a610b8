//! Attacks with configuration that is small as text and large in memory.

use operetta_testkit::{DropIn, guest, hostile::yaml_bomb, kinds, wat_guest::Guest};
use serde_json::{Value, json};

use crate::Stage;

/// Returns a drop-in ConfigMap with this `config.yaml`.
fn with_yaml(name: &str, account: &str, yaml: &str) -> Value {
    let mut object = DropIn::new(name, Guest::default().build())
        .service_account(account)
        .object();
    object["data"] = json!({"config.yaml": yaml});
    object
}

#[tokio::test]
async fn yaml_aliases_are_refused_and_not_expanded() {
    let stage = Stage::new("yaml-bomb").await;
    let bomb = yaml_bomb();
    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, with_yaml("bomb", "plugin", &bomb))
        .await;

    let event = stage
        .namespace
        .until_event(kinds::CONFIG_MAP, "bomb", "InvalidPluginConfig")
        .await;
    assert!(
        event.contains("config.yaml uses YAML anchors, aliases or merge keys"),
        "{event}"
    );

    println!("a YAML bomb of {} KB: {event}", bomb.len() / 1000);
    stage.others_keep_working().await;
}

#[tokio::test]
async fn configuration_is_not_read_without_consent() {
    let stage = Stage::new("yaml-no-consent").await;
    let account = json!({"metadata": {"name": "nobody"}});
    stage
        .namespace
        .create_object(kinds::SERVICE_ACCOUNT, account)
        .await;

    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, with_yaml("bomb", "nobody", &yaml_bomb()))
        .await;
    let message = stage
        .namespace
        .until_degraded("bomb", "ConsentMissing", &["operetta.dev/allow-plugins"])
        .await;
    println!("a YAML bomb without consent: {message}");

    let plugin = stage
        .namespace
        .get(kinds::PLUGIN, "bomb")
        .await
        .expect("a Plugin");
    assert!(plugin["spec"]["config"].is_null(), "{plugin}");

    // Once consent is given, the host reads the configuration, although the ConfigMap has not
    // changed.
    let consent = json!({"metadata": {"annotations": {"operetta.dev/allow-plugins": "bomb"}}});
    stage
        .namespace
        .patch(kinds::SERVICE_ACCOUNT, "nobody", consent)
        .await;
    stage
        .namespace
        .until_event(kinds::CONFIG_MAP, "bomb", "InvalidPluginConfig")
        .await;
}

#[tokio::test]
async fn plugin_with_too_many_values_is_refused() {
    let stage = Stage::new("deep-config").await;
    let many: Vec<Value> = vec![json!({"": 0}); 40_000];
    stage
        .plugin(
            "many",
            guest("fixture-touch-v1"),
            json!({"config": {"many": many}}),
        )
        .await;

    let message = stage
        .namespace
        .until_degraded("many", "InvalidPlugin", &["values", "shorten spec.config"])
        .await;

    println!("a configuration of 80,000 values: {message}");
    stage.others_keep_working().await;
}
