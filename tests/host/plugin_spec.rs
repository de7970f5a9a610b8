//! The Plugin object: what its CRD takes and refuses, what an administrator overrides, and what its
//! status tells.

use std::time::Duration;

use operetta_testkit::{Kind, eventually, guest, kinds, wat_guest::Guest, within};
use serde_json::{Value, json};

use crate::{IN_EFFECT, Stage, install, manifest};

#[tokio::test]
async fn kubectl_apply_refuses_invalid_plugins() {
    let stage = Stage::new("crd").await;
    let name = stage.namespace.name();
    let source = json!({"configMap": {"name": "code"}});
    let from = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let with = |field: &str, value: &str| json!({"source": source, field: from(value)});

    let table = [
        (json!({}), "spec.source: Required value"),
        (
            json!({"source": {}}),
            "set exactly one of configMap and path",
        ),
        (
            json!({"source": {"path": "a.wasm", "configMap": {"name": "a"}}}),
            "set exactly one of configMap and path",
        ),
        (
            json!({"source": {"oci": "registry/image:1"}}),
            "oci and url are reserved",
        ),
        (
            json!({"source": {"url": "https://example.org/a.wasm"}}),
            "oci and url are reserved",
        ),
        (
            json!({"source": {"configMap": {"name": "a,metadata.namespace=b"}}}),
            "spec.source.configMap.name",
        ),
        (
            with("configFrom", r#"[{}]"#),
            "set exactly one of configMapRef and secretRef",
        ),
        (
            with(
                "configFrom",
                r#"[{"configMapRef": {"name": "a"}, "secretRef": {"name": "a"}}]"#,
            ),
            "set exactly one of configMapRef and secretRef",
        ),
        (
            with("configFrom", r#"[{"secretRef": {"name": "../a"}}]"#),
            "spec.configFrom[0].secretRef.name",
        ),
        (
            with(
                "configFrom",
                r#"[{"secretRef": {"name": "a", "targetPath": "b"}}]"#,
            ),
            "targetPath needs a key",
        ),
        (
            with("controllers", r#"[{"name": "a", "workers": 0}]"#),
            "spec.controllers[0].workers",
        ),
        (
            with("controllers", r#"[{"name": "a", "workers": 65}]"#),
            "spec.controllers[0].workers",
        ),
        (
            with("controllers", r#"[{"name": "a"}, {"name": "a"}]"#),
            "Duplicate value",
        ),
        (
            with("controllers", r#"[{"name": "a", "predicates": ["Maybe"]}]"#),
            "spec.controllers[0].predicates[0]",
        ),
        (
            with("controllers", r#"[{"name": "a", "predicates": [{}]}]"#),
            "at least 1 properties",
        ),
        (with("digest", r#""sha256:12""#), "spec.digest"),
        (
            with("serviceAccountName", r#""a/b""#),
            "spec.serviceAccountName",
        ),
        (
            with("limits", r#"{"memory": "64MB"}"#),
            "spec.limits.memory",
        ),
        (with("suspend", r#""yes""#), "spec.suspend"),
        (with("workers", "1"), "unknown field \"spec.workers\""),
    ];
    for (spec, words) in table {
        let metadata = json!({"name": "refused", "namespace": name});
        let plugin = json!({"apiVersion": "operetta.dev/v1alpha1", "kind": "Plugin", "metadata": metadata, "spec": spec});

        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), plugin.to_string()).expect("written");
        let path = file.path().to_str().expect("a path");
        let answer = stage
            .namespace
            .control_plane()
            .kubectl_output(&["apply", "-f", path]);

        let error = String::from_utf8_lossy(&answer.stderr);
        assert!(
            !answer.status.success() && error.contains(words),
            "{spec}: {words:?} is not in: {error}"
        );
    }
}

#[tokio::test]
async fn kubectl_explains_each_field() {
    let stage = Stage::new("explain").await;
    for (field, words) in [
        ("plugin", "WebAssembly component"),
        ("plugin.spec", "configFrom"),
        ("plugin.spec.source", "exactly one of these"),
        ("plugin.spec.source.path", "pluginDirectory"),
        ("plugin.spec.configFrom.secretRef", "targetPath"),
        ("plugin.spec.controllers.predicates", "must all pass"),
        ("plugin.status.usage", "peakMemoryBytes"),
        ("plugin.status.conditions.reason", "One CamelCase word"),
    ] {
        let text = stage.namespace.kubectl(&["explain", field]);
        assert!(
            text.contains(words),
            "{field}: {words:?} is not in:\n{text}"
        );
        assert!(!text.contains("<no description>"), "{field}:\n{text}");
    }
}

/// It is a safety net: nothing of the object has changed, and the filters of changes let it pass.
#[tokio::test]
async fn resync_passes_filters_of_changes() {
    const FILTERED: Kind = Kind("test.operetta.dev/v1", "Filtered");
    const WAIT: Duration = Duration::from_secs(35);
    let stage = Stage::new("resync-filtered").await;
    let namespace = &stage.namespace;
    install(namespace.control_plane(), FILTERED);

    let filters = [
        ("generation", json!("GenerationChanged")),
        ("changed", json!({"changed": "$.spec"})),
    ];
    for (name, predicate) in &filters {
        let controllers = json!([{"name": "c", "resyncSeconds": 10, "predicates": [predicate]}]);
        let wasm = Guest::default().manifest(&manifest(FILTERED)).build();
        stage
            .plugin(name, wasm, json!({"controllers": controllers}))
            .await;
        namespace
            .until_condition(name, "Ready", "True", "Running")
            .await;
    }
    namespace
        .create_object(
            FILTERED,
            json!({"metadata": {"name": "one"}, "spec": {"size": 1}}),
        )
        .await;

    let reconciles = |plugin: &str| {
        let labels = [
            format!("namespace=\"{}\"", namespace.name()),
            format!("plugin=\"{plugin}\""),
        ];
        stage.host.metric(
            "controller_runtime_reconcile_total",
            &labels.each_ref().map(String::as_str),
        )
    };
    for (name, _) in &filters {
        eventually("the object is reconciled", async || {
            match reconciles(name) {
                count if count > 0.0 => Ok(()),
                count => Err(format!("{count} reconciles")),
            }
        })
        .await;
    }

    let before = filters.each_ref().map(|(name, _)| reconciles(name));
    tokio::time::sleep(WAIT).await;
    for ((name, _), before) in filters.iter().zip(before) {
        let resyncs = reconciles(name) - before;
        println!("{name}: {resyncs} reconciles of an unchanged object in {WAIT:?}");
        assert!(resyncs >= 3.0, "{name}: {resyncs} reconciles in {WAIT:?}");
    }
}

#[tokio::test]
async fn an_administrator_s_word_on_a_controller_is_followed() {
    let stage = Stage::new("overrides").await;
    let namespace = &stage.namespace;
    namespace.create_touchable("target").await;

    let spec = |controllers: Value| json!({"controllers": controllers});
    let wrong = json!([{"name": "tuch", "workers": 2}]);
    stage
        .plugin("touch", guest("fixture-touch-v1"), spec(wrong))
        .await;

    let words = ["spec.controllers names \"tuch\"", "controllers are: touch"];
    namespace
        .until_degraded("touch", "UnknownController", &words)
        .await;
    namespace
        .until_event(kinds::PLUGIN, "touch", "UnknownController")
        .await;

    let resync = json!([{"name": "touch", "workers": 3, "resyncSeconds": 1}]);
    namespace
        .patch(kinds::PLUGIN, "touch", json!({"spec": spec(resync)}))
        .await;
    namespace.until_touched("target", "v1").await;

    let labels = [
        format!("namespace=\"{}\"", namespace.name()),
        "result=\"success\"".to_owned(),
    ];
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();

    let reconciles = || {
        stage
            .host
            .metric("controller_runtime_reconcile_total", &labels)
    };

    let before = reconciles();
    // The host takes no period under ten seconds.
    within(
        Duration::from_secs(60),
        "it is reconciled again and again",
        async || match reconciles() - before {
            more if more >= 2.0 => Ok(()),
            more => Err(format!("{more} reconciles")),
        },
    )
    .await;

    // Only changes of the generation pass now, and a ConfigMap has no generation: new objects are
    // reconciled, changed ones are not.
    let predicate = json!([{"name": "touch", "predicates": ["GenerationChanged"]}]);
    namespace
        .patch(kinds::PLUGIN, "touch", json!({"spec": spec(predicate)}))
        .await;
    namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;

    namespace.create_touchable("new").await;
    namespace.until_touched("new", "v1").await;
    namespace
        .patch(
            kinds::CONFIG_MAP,
            "new",
            json!({"data": {"touched": "by hand"}}),
        )
        .await;

    namespace.create_touchable("newer").await;
    namespace.until_touched("newer", "v1").await;

    let new = namespace
        .get(kinds::CONFIG_MAP, "new")
        .await
        .expect("it exists");
    assert_eq!(
        new["data"]["touched"], "by hand",
        "a change that the predicate holds back"
    );

    // A malformed path is reported; then comes one that sees such a change.
    let wrong = json!([{"name": "touch", "predicates": [{"changed": "data.touched"}]}]);
    namespace
        .patch(kinds::PLUGIN, "touch", json!({"spec": spec(wrong)}))
        .await;
    namespace
        .until_degraded(
            "touch",
            "InvalidPredicate",
            &["\"touch\"", "data.touched", "not a JSONPath"],
        )
        .await;

    let other = json!([{"name": "touch", "predicates": [{"changed": "$.data.other"}]}]);
    namespace
        .patch(kinds::PLUGIN, "touch", json!({"spec": spec(other)}))
        .await;

    namespace.until_touched("new", "v1").await;
    namespace
        .patch(
            kinds::CONFIG_MAP,
            "new",
            json!({"data": {"touched": "by hand"}}),
        )
        .await;

    namespace.create_touchable("newest").await;
    namespace.until_touched("newest", "v1").await;

    let new = namespace
        .get(kinds::CONFIG_MAP, "new")
        .await
        .expect("it exists");
    assert_eq!(
        new["data"]["touched"], "by hand",
        "a change that the path does not see"
    );

    namespace
        .patch(
            kinds::CONFIG_MAP,
            "new",
            json!({"data": {"other": "changed"}}),
        )
        .await;
    namespace.until_touched("new", "v1").await;
    stage.others_keep_working().await;
}

#[tokio::test]
async fn a_status_counts_and_says_what_was_used() {
    let stage = Stage::new("usage").await;
    let namespace = &stage.namespace;
    namespace.create_touchable("target").await;

    stage
        .plugin(
            "traps",
            guest("fixture-misbehave"),
            json!({"config": {"do": "trap"}}),
        )
        .await;
    namespace
        .until_degraded("traps", "ReconcileTrapped", &["a fixture that traps"])
        .await;

    namespace
        .until(kinds::PLUGIN, "traps", |plugin| {
            let of = &plugin["status"]["controllers"][0];
            let used = &plugin["status"]["usage"];
            let many = |value: &Value| value.as_i64().is_some_and(|count| count > 0);
            let counted = many(&of["reconciles"]) && many(&of["errors"]) && many(&of["failing"]);
            let said = of["lastError"]
                .as_str()
                .is_some_and(|error| error.contains("a fixture that traps"));
            let used = many(&used["calls"]) && many(&used["peakMemoryBytes"]);
            if counted && said && used {
                Ok(())
            } else {
                Err("not counted".to_owned())
            }
        })
        .await;

    let generation = namespace
        .get(kinds::PLUGIN, "traps")
        .await
        .expect("it exists")["metadata"]["generation"]
        .clone();

    namespace
        .patch(kinds::PLUGIN, "traps", json!({"spec": {"suspend": true}}))
        .await;
    within(IN_EFFECT, "the status is about the new spec", async || {
        let plugin = namespace.get(kinds::PLUGIN, "traps").await.ok_or("gone")?;
        let status = &plugin["status"];
        let wanted = generation.as_i64().unwrap_or_default() + 1;
        let observed = status["observedGeneration"] == wanted
            && status["conditions"]
                .as_array()
                .is_some_and(|all| all.iter().all(|one| one["observedGeneration"] == wanted));
        if observed {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await;

    namespace
        .until_condition("traps", "Ready", "False", "Suspended")
        .await;
    stage.others_keep_working().await;
}

/// The time within which the counts of a plugin that works again are in its status. They are
/// written once a minute; the status of an idle plugin is computed every ten minutes.
const COUNTED: Duration = Duration::from_secs(150);

#[tokio::test]
async fn counts_of_an_idle_plugin_follow_its_next_reconcile() {
    let stage = Stage::new("counts").await;
    let namespace = &stage.namespace;

    stage
        .plugin("touch", guest("fixture-touch-v1"), json!({}))
        .await;
    namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;

    let reconciles = async || {
        let plugin = namespace
            .get(kinds::PLUGIN, "touch")
            .await
            .expect("it exists");
        plugin["status"]["controllers"][0]["reconciles"]
            .as_i64()
            .unwrap_or_default()
    };

    // The second one meets a plugin that was idle when its counts were written.
    for name in ["first", "second"] {
        let before = reconciles().await;
        namespace.create_touchable(name).await;
        namespace.until_touched(name, "v1").await;

        within(
            COUNTED,
            "the status counts the reconcile",
            async || match reconciles().await {
                now if now > before => Ok(()),
                now => Err(format!("{now} reconciles")),
            },
        )
        .await;
    }
}
