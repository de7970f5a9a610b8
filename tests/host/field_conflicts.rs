//! Controllers that set a field back again and again: both are named, with the object and the
//! field; other writes are not reported.

use operetta_testkit::{DropIn, TestNamespace, guest, kinds};
use serde_json::json;

use crate::Stage;

const REASON: &str = "FightingControllers";

/// Sets `data.touched` to another value, as somebody outside of the host would, and waits until the
/// plugin has set it back. It does so this many times.
async fn set_by(namespace: &TestNamespace<'_>, manager: &str, name: &str, times: u32) {
    let patch = json!({"data": {"touched": "theirs"}}).to_string();
    let manager = format!("--field-manager={manager}");

    for _ in 0..times {
        namespace.kubectl(&[
            "patch",
            "configmap",
            name,
            "--type=merge",
            &manager,
            "-p",
            &patch,
        ]);
        namespace.until_touched(name, "v1").await;
    }
}

/// Returns how many field conflicts of a plugin were counted.
fn counted(stage: &Stage, plugin: &str, against: &str) -> f64 {
    let labels = [
        format!("plugin=\"{plugin}\""),
        format!("namespace=\"{}\"", stage.namespace.name()),
        "kind=\"ConfigMap.v1\"".to_owned(),
        format!("against=\"{against}\""),
    ];

    stage.host.metric(
        "operetta_fights_total",
        &labels.each_ref().map(String::as_str),
    )
}

#[tokio::test]
async fn field_conflict_is_reported_everywhere() {
    let stage = Stage::new("field-conflict").await;
    let name = stage.namespace.name();

    for (plugin, code) in [("one", "fixture-touch-v1"), ("two", "fixture-touch-v2")] {
        stage
            .namespace
            .drop_in(&DropIn::new(plugin, guest(code)))
            .await;
        stage
            .namespace
            .until_condition(plugin, "Ready", "True", "Running")
            .await;
    }

    stage.namespace.create_touchable("target").await;
    let both = format!(
        "Plugin {name}/one (controller \"touch\") and Plugin {name}/two (controller \"touch\")"
    );
    let what = format!("{both} conflict over .data.touched of ConfigMap.v1 {name}/target: ");

    for (kind, about) in [
        (kinds::CONFIG_MAP, "target"),
        (kinds::PLUGIN, "one"),
        (kinds::PLUGIN, "two"),
    ] {
        let message = stage.namespace.until_event(kind, about, REASON).await;
        assert!(message.starts_with(&what), "{message}");
    }

    let described = stage.namespace.kubectl(&["describe", "plugin", "two"]);
    assert!(described.contains(REASON), "{described}");

    for plugin in ["one", "two"] {
        assert_eq!(
            counted(&stage, plugin, "plugin"),
            1.0,
            "it is one conflict, however long it lasts"
        );
        stage.namespace.delete(kinds::CONFIG_MAP, plugin).await;
        stage.namespace.until_gone(kinds::PLUGIN, plugin).await;
    }

    stage.others_keep_working().await;
}

#[tokio::test]
async fn outside_writer_is_named_and_drift_is_no_conflict() {
    let stage = Stage::new("field-conflict-outside").await;
    let counts =
        |name: &str| DropIn::new(name, guest("fixture-misbehave")).config(json!({"do": "count"}));

    stage
        .namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;

    stage.namespace.drop_in(&counts("counts")).await;
    stage.namespace.drop_in(&counts("counts-too")).await;

    stage.namespace.create_touchable("peaceful").await;
    stage.namespace.until_touched("peaceful", "v1").await;

    let until_counted = |name| {
        stage.namespace.until(
            kinds::CONFIG_MAP,
            name,
            |found| match found["data"]["count"].as_str() {
                Some("20") => Ok(()),
                count => Err(format!("the count is {count:?}")),
            },
        )
    };
    until_counted("peaceful").await;
    set_by(&stage.namespace, "people", "peaceful", 2).await;

    stage.namespace.create_touchable("target").await;
    stage.namespace.until_touched("target", "v1").await;
    until_counted("target").await;

    // The first time only shows what the plugin wants.
    set_by(&stage.namespace, "gitops", "target", 6).await;
    let name = stage.namespace.name();
    let what = format!(
        "Plugin {name}/touch (controller \"touch\") and a writer with field manager \"gitops\" conflict over .data.touched \
         of ConfigMap.v1 {name}/target: "
    );

    for (kind, about) in [(kinds::PLUGIN, "touch"), (kinds::CONFIG_MAP, "target")] {
        let message = stage.namespace.until_event(kind, about, REASON).await;
        assert!(message.starts_with(&what), "{message}");
    }

    assert_eq!(counted(&stage, "touch", "outside"), 1.0);
    // Events come in their order: whatever was told before is there by now.
    let events = stage.namespace.list(kinds::EVENT).await;
    let told = events.iter().filter(|event| event["reason"] == REASON);
    let messages: Vec<_> = told
        .map(|event| event["message"].as_str().unwrap_or_default())
        .collect();
    assert!(
        messages.len() == 2 && messages.iter().all(|message| message.starts_with(&what)),
        "{messages:?}"
    );

    stage.others_keep_working().await;
}
