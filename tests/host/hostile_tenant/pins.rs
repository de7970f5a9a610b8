//! Changes of code without new consent, by a user or another plugin that may update the ConfigMap.

use operetta_testkit::{
    DropIn, Kind, TestNamespace, digest, guest, kinds,
    wat_guest::{Guest, numbered},
};
use serde_json::{Value, json};

use crate::Stage;

fn consent(value: &str) -> Value {
    json!({"metadata": {"annotations": {"operetta.dev/allow-plugins": value}}})
}

#[tokio::test]
async fn namespace_that_becomes_pinned_stops_code_without_a_digest() {
    let stage = Stage::new("pins-later").await;
    let namespace = &stage.namespace;
    let code = guest("fixture-touch-v1");
    namespace.create_touchable("before").await;
    namespace.drop_in(&DropIn::new("touch", code.clone())).await;
    namespace.until_touched("before", "v1").await;

    namespace.control_plane().kubectl(&[
        "label",
        "--overwrite",
        "namespace",
        namespace.name(),
        "operetta.dev/plugins=pinned",
    ]);
    namespace
        .until_degraded("touch", "CodeNotAllowed", &["digest"])
        .await;

    namespace.create_touchable("after").await;
    stage.others_keep_working().await;
    let after = namespace.get(kinds::CONFIG_MAP, "after").await;
    assert_eq!(after.expect("there")["data"]["touched"], Value::Null);

    let pinned = format!("touch@{}", digest(&code));
    namespace
        .patch(kinds::SERVICE_ACCOUNT, "plugin", consent(&pinned))
        .await;
    namespace.until_touched("after", "v1").await;
}

#[tokio::test]
async fn code_that_consent_does_not_name_is_not_run() {
    let stage = Stage::new("pins-consent").await;
    let namespace = &stage.namespace;
    let good = guest("fixture-touch-v1");
    let evil = guest("fixture-touch-v2");
    let pinned = format!("touch@{}", digest(&good));
    namespace
        .patch(kinds::SERVICE_ACCOUNT, "plugin", consent(&pinned))
        .await;

    namespace.create_touchable("target").await;
    namespace.drop_in(&DropIn::new("touch", good.clone())).await;
    namespace.until_touched("target", "v1").await;

    // A user who may update ConfigMaps swaps the code. The old code continues to run.
    let swapped = DropIn::new("touch", evil.clone()).object();
    namespace
        .patch(
            kinds::CONFIG_MAP,
            "touch",
            json!({"binaryData": swapped["binaryData"]}),
        )
        .await;

    let message = namespace
        .until_degraded("touch", "CodeNotAllowed", &["consents", &digest(&evil)])
        .await;
    let both = format!(
        "operetta.dev/allow-plugins={pinned},touch@{} ",
        digest(&evil)
    );
    assert!(message.contains(&both), "{message}");
    println!("swapped code: {message}");

    // The new code is not run after the Plugin is deleted and created again either.
    let label = |value: &str| json!({"metadata": {"labels": {"operetta.dev/plugin": value}}});
    namespace
        .patch(kinds::CONFIG_MAP, "touch", label("false"))
        .await;
    namespace.until_gone(kinds::PLUGIN, "touch").await;
    namespace
        .patch(kinds::CONFIG_MAP, "touch", label("true"))
        .await;
    namespace
        .until_degraded("touch", "CodeNotAllowed", &["consents", &digest(&evil)])
        .await;

    namespace.create_touchable("later").await;
    stage.others_keep_working().await;
    let later = namespace
        .get(kinds::CONFIG_MAP, "later")
        .await
        .expect("it exists");
    assert_eq!(
        later["data"]["touched"],
        Value::Null,
        "code without consent wrote to it"
    );

    // A change of the ServiceAccount's annotation allows the new code.
    let both = format!("touch@{}, touch@{}", digest(&good), digest(&evil));
    namespace
        .patch(kinds::SERVICE_ACCOUNT, "plugin", consent(&both))
        .await;
    namespace.until_touched("later", "v2").await;

    // When the consent is withdrawn, the running code stops.
    namespace
        .patch(kinds::SERVICE_ACCOUNT, "plugin", consent(&pinned))
        .await;
    namespace
        .until_degraded("touch", "CodeNotAllowed", &[])
        .await;
}

#[tokio::test]
async fn pinned_namespace_requires_digests_in_consent() {
    let stage = Stage::new("pins-namespace").await;
    let namespace = &stage.namespace;
    let name = namespace.name();

    namespace.control_plane().kubectl(&[
        "label",
        "namespace",
        name,
        "operetta.dev/plugins=pinned",
        "--overwrite",
    ]);

    let wasm = guest("fixture-touch-v1");
    namespace.create_touchable("target").await;
    namespace.drop_in(&DropIn::new("touch", wasm.clone())).await;

    let message = namespace
        .until_degraded("touch", "CodeNotAllowed", &["consent must name a digest"])
        .await;
    crate::run_what_it_says(namespace, &message);
    namespace.until_touched("target", "v1").await;
}

#[tokio::test]
async fn malformed_digest_allows_nothing() {
    let stage = Stage::new("pins-malformed").await;
    let namespace = &stage.namespace;
    namespace
        .patch(
            kinds::SERVICE_ACCOUNT,
            "plugin",
            consent("tiny,tiny@sha256:12"),
        )
        .await;

    namespace
        .drop_in(&DropIn::new("tiny", Guest::default().build()))
        .await;
    namespace
        .until_degraded(
            "tiny",
            "ConsentMissing",
            &["tiny@sha256:12", "is not a digest"],
        )
        .await;
}

#[tokio::test]
async fn digest_pin_survives_removal_of_drop_in_label() {
    let stage = Stage::new("pins-label").await;
    let namespace = &stage.namespace;
    let good = guest("fixture-touch-v1");

    namespace.create_touchable("target").await;
    namespace.drop_in(&DropIn::new("touch", good.clone())).await;
    namespace.until_touched("target", "v1").await;
    namespace
        .patch(
            kinds::PLUGIN,
            "touch",
            json!({"spec": {"digest": digest(&good)}}),
        )
        .await;

    let evil = DropIn::new("touch", guest("fixture-touch-v2")).object();
    let label = |value: &str| json!({"metadata": {"labels": {"operetta.dev/plugin": value}}, "binaryData": evil["binaryData"]});
    namespace
        .patch(kinds::CONFIG_MAP, "touch", label("false"))
        .await;

    let suspended = |plugin: &Value| {
        if plugin["spec"]["suspend"] == true {
            Ok(())
        } else {
            Err(plugin["spec"].to_string())
        }
    };

    namespace.until(kinds::PLUGIN, "touch", suspended).await;
    namespace
        .patch(kinds::CONFIG_MAP, "touch", label("true"))
        .await;

    let message = namespace
        .until_degraded("touch", "DigestMismatch", &["spec.digest"])
        .await;
    println!("swapped code after the label was set to false and true: {message}");
}

/// A drop-in whose annotation names the digest of its component.
fn pinned(wasm: &[u8]) -> Value {
    let mut config_map = DropIn::new("touch", wasm.to_vec()).object();
    config_map["metadata"]["annotations"]["operetta.dev/component-digest"] = digest(wasm).into();
    config_map
}

/// Returns the messages of the Events about digests that do not match, with their counts.
async fn mismatches(namespace: &TestNamespace<'_>) -> Vec<(Value, Value)> {
    let events = namespace.list(kinds::EVENT).await.into_iter();
    let found = events.filter(|event| event["reason"] == "DigestMismatch");
    found
        .map(|event| (event["message"].clone(), event["count"].clone()))
        .collect()
}

#[tokio::test]
async fn swapped_bytes_under_an_unchanged_annotation_are_not_run() {
    let stage = Stage::new("pins-annotation").await;
    let namespace = &stage.namespace;
    let good = guest("fixture-touch-v1");
    let evil = guest("fixture-touch-v2");

    namespace.create_touchable("target").await;
    namespace
        .create_object(kinds::CONFIG_MAP, pinned(&good))
        .await;
    namespace.until_touched("target", "v1").await;

    let plugin = namespace
        .get(kinds::PLUGIN, "touch")
        .await
        .expect("a Plugin");
    assert_eq!(plugin["spec"]["digest"], json!(digest(&good)));

    let swapped = pinned(&evil);
    namespace
        .patch(
            kinds::CONFIG_MAP,
            "touch",
            json!({"binaryData": swapped["binaryData"]}),
        )
        .await;

    let words = [
        &*digest(&evil),
        &*digest(&good),
        "operetta.dev/component-digest",
    ];
    let message = namespace
        .until_degraded("touch", "DigestMismatch", &words)
        .await;
    println!("other bytes under an unchanged annotation: {message}");

    namespace.create_touchable("later").await;
    namespace.until_touched("later", "v1").await;

    // Both together are a roll-out, which no Event calls a mismatch.
    namespace
        .patch(kinds::CONFIG_MAP, "touch", pinned(&good))
        .await;
    namespace
        .until_condition("touch", "Degraded", "False", "AsExpected")
        .await;

    let before = mismatches(namespace).await;
    namespace.patch(kinds::CONFIG_MAP, "touch", swapped).await;
    namespace.create_touchable("last").await;
    namespace.until_touched("last", "v2").await;
    assert_eq!(mismatches(namespace).await, before);

    // The pin is the ConfigMap's own: without the label, its Plugin goes.
    let unlabelled = json!({"metadata": {"labels": {"operetta.dev/plugin": null}}});

    namespace
        .patch(kinds::CONFIG_MAP, "touch", unlabelled)
        .await;
    namespace.until_gone(kinds::PLUGIN, "touch").await;
}

#[tokio::test]
async fn annotation_does_not_replace_a_digest_set_on_the_plugin() {
    let stage = Stage::new("pins-both").await;
    let namespace = &stage.namespace;
    let good = guest("fixture-touch-v1");
    let evil = guest("fixture-touch-v2");

    namespace.create_touchable("target").await;
    namespace.drop_in(&DropIn::new("touch", good.clone())).await;
    namespace.until_touched("target", "v1").await;
    namespace
        .patch(
            kinds::PLUGIN,
            "touch",
            json!({"spec": {"digest": digest(&good)}}),
        )
        .await;

    namespace
        .patch(kinds::CONFIG_MAP, "touch", pinned(&evil))
        .await;

    let message = namespace
        .until_event(kinds::CONFIG_MAP, "touch", "DigestMismatch")
        .await;
    assert!(message.contains(&digest(&good)), "{message}");

    namespace
        .until_degraded("touch", "DigestMismatch", &[&digest(&evil)])
        .await;
    let plugin = namespace
        .get(kinds::PLUGIN, "touch")
        .await
        .expect("a Plugin");
    assert_eq!(plugin["spec"]["digest"], json!(digest(&good)));

    namespace.create_touchable("later").await;
    namespace.until_touched("later", "v1").await;
}

/// Runs a plugin in `home` that replaces the code in the ConfigMap `touch` of another namespace, or
/// of the same one. Its ServiceAccount may patch ConfigMaps there, and nothing else.
async fn rewriter(home: &TestNamespace<'_>, victim: &TestNamespace<'_>, code: &[u8]) {
    home.consenting("rewriter").await;
    let account = format!("--serviceaccount={}:rewriter", home.name());
    let verbs = "--verb=get,list,watch,patch";

    for namespace in [home, victim] {
        let role = format!("rewriter-of-{}", home.name());
        if namespace
            .get(Kind("rbac.authorization.k8s.io/v1", "Role"), &role)
            .await
            .is_none()
        {
            namespace.kubectl(&["create", "role", &role, verbs, "--resource=configmaps"]);
            namespace.kubectl(&[
                "create",
                "rolebinding",
                &role,
                &format!("--role={role}"),
                &account,
            ]);
        }
    }

    let mut files = DropIn::compressed("touch", code).object()["binaryData"].clone();
    files["touch.wasm"] = Value::Null;
    let request = json!({
        "method": "PATCH", "path": format!("/api/v1/namespaces/{}/configmaps/touch", victim.name()),
        "contentType": "application/merge-patch+json", "body": json!({"binaryData": files}).to_string(),
    });

    let config = json!({"do": "send", "requests": [request]});
    let rewriter =
        DropIn::compressed("rewriter", &guest("fixture-misbehave")).service_account("rewriter");
    home.drop_in(&rewriter.config(config)).await;
    home.create_touchable("trigger").await;
}

#[tokio::test]
async fn config_map_rewritten_by_a_neighbour_is_not_run() {
    let stage = Stage::new("pins-rewritten").await;
    let namespace = &stage.namespace;
    let neighbour = namespace.control_plane().namespace("pins-neighbour").await;
    let good = guest("fixture-touch-v1");

    namespace
        .patch(
            kinds::SERVICE_ACCOUNT,
            "plugin",
            consent(&format!("touch@{}", digest(&good))),
        )
        .await;
    namespace.create_touchable("target").await;
    namespace.drop_in(&DropIn::new("touch", good)).await;
    namespace.until_touched("target", "v1").await;

    for (number, home) in [namespace, &neighbour].into_iter().enumerate() {
        let evil = numbered(&guest("fixture-touch-v2"), number);
        rewriter(home, namespace, &evil).await;
        let words = ["consents", &*digest(&evil), "still running"];
        let message = namespace
            .until_degraded("touch", "CodeNotAllowed", &words)
            .await;
        println!(
            "code that a plugin of {} has swapped: {message}",
            home.name()
        );

        // The code that consent names continues to run, and the other has written nothing.
        let name = format!("after-{number}");
        namespace.create_touchable(&name).await;
        namespace.until_touched(&name, "v1").await;

        // The second one must not find the first at work.
        home.delete(kinds::CONFIG_MAP, "rewriter").await;
    }

    stage.others_keep_working().await;
    for map in namespace.list(kinds::CONFIG_MAP).await {
        assert_ne!(map["data"]["touched"], "v2", "{}", map["metadata"]["name"]);
    }
}
