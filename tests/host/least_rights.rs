//! The least permissions that `operetta rbac` finds: views of some namespaces, and code that
//! changes.

use operetta_testkit::{ControlPlane, DropIn, Kind, eventually, guest, wat_guest::Guest};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Stage;

/// Returns what `operetta rbac` prints about a plugin, once the plugin has done something.
async fn printed(stage: &Stage, plugin: &str, args: &[&str]) -> String {
    eventually(
        &format!("operetta rbac {plugin} prints roles"),
        async || {
            let output = stage
                .host
                .run(&[&["rbac", plugin, "-n", stage.namespace.name()], args].concat());
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            if output.status.success() {
                Ok(text(&output.stdout))
            } else {
                Err(text(&output.stderr))
            }
        },
    )
    .await
}

/// The first line: what the rest is about, and since when.
fn head(printed: &str) -> &str {
    printed.lines().next().unwrap_or_default()
}

/// Each role's kind, namespace and rules, of the printed ones.
fn roles(printed: &str) -> Vec<(String, String, String)> {
    let documents: Vec<Value> = serde_yaml_ng::Deserializer::from_str(printed)
        .map(|document| Value::deserialize(document).expect("YAML"))
        .collect();
    let roles = documents.iter().filter(|object| !object["rules"].is_null());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();

    let rule = |rule: &Value| {
        let all = |field: &str| {
            let texts = rule[field].as_array().into_iter().flatten();
            texts
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(",")
        };
        format!("{} {}", all("verbs"), all("resources"))
    };
    roles
        .map(|role| {
            let rules: Vec<String> = role["rules"]
                .as_array()
                .into_iter()
                .flatten()
                .map(rule)
                .collect();
            (
                text(&role["kind"]),
                text(&role["metadata"]["namespace"]),
                rules.join("; "),
            )
        })
        .collect()
}

#[tokio::test]
async fn partial_watch_needs_only_its_namespaces() {
    let stage = Stage::new("least-view").await;
    let hidden = Stage::new("least-hidden").await;
    let control_plane = ControlPlane::shared().await;
    let empty = control_plane.namespace("least-empty").await;

    for namespace in [&stage.namespace, &hidden.namespace] {
        namespace.create_touchable("everywhere").await;
    }
    // A namespace that is still empty, but in which it would see what comes.
    let binding = json!({
        "metadata": {"name": "sees"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": stage.namespace.name(), "name": "plugin"}],
    });
    empty
        .create_object(Kind("rbac.authorization.k8s.io/v1", "RoleBinding"), binding)
        .await;

    let source =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": "operetta-fixture=true"});
    let reads =
        "(call $get_own (local.get $namespace) (local.get $namespace_len) (local.get $name) (local.get $name_len))
                 i32.const 16";

    let guest = Guest::default()
        .controllers(&json!([{"name": "c", "for": source}]))
        .reconcile(reads);
    stage
        .namespace
        .drop_in(&DropIn::new("wide", guest.build()))
        .await;

    let printed_now = printed(&stage, "wide", &[]).await;
    let home = stage.namespace.name().to_owned();
    let place = empty.name().to_owned();
    let mut wanted = vec![
        (
            "Role".to_owned(),
            home,
            "get pods; list,watch configmaps".to_owned(),
        ),
        ("Role".to_owned(), place, "list,watch configmaps".to_owned()),
    ];

    let sorted = |mut roles: Vec<(String, String, String)>| {
        roles.iter_mut().for_each(|(.., rules)| {
            let mut each: Vec<&str> = rules.split("; ").collect();
            each.sort_unstable();
            *rules = each.join("; ");
        });
        roles.sort();
        roles
    };

    wanted.sort();
    assert_eq!(sorted(roles(&printed_now)), wanted, "{printed_now}");
    assert!(!printed_now.contains("lacks:"), "{printed_now}");

    let everywhere = printed(&stage, "wide", &["-A"]).await;
    let wanted = [(
        "ClusterRole".to_owned(),
        String::new(),
        "get pods; list,watch configmaps".to_owned(),
    )];
    assert_eq!(sorted(roles(&everywhere)), wanted, "{everywhere}");
}

#[tokio::test]
async fn what_was_done_stays_known_when_the_code_changes() {
    let stage = Stage::new("least-swap").await;
    stage.namespace.create_touchable("a").await;

    stage
        .namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    stage.namespace.until_touched("a", "v1").await;
    let before = printed(&stage, "touch", &[]).await;
    assert_eq!(roles(&before).len(), 1, "{before}");

    let newer = DropIn::new("touch", guest("fixture-touch-v2")).object();
    let patch = json!({"binaryData": newer["binaryData"]});
    stage
        .namespace
        .patch(Kind("v1", "ConfigMap"), "touch", patch)
        .await;
    stage.namespace.until_touched("a", "v2").await;

    let after = printed(&stage, "touch", &[]).await;
    assert_eq!(head(&after), head(&before), "since when it records");
    assert_eq!(roles(&after), roles(&before));
}
