//! One object.

use operetta_testkit::{Kind, any_schema, crd, eventually, kinds};
use serde_json::{Value, json};

use crate::Stage;

#[tokio::test]
async fn values_of_a_secret_are_never_sent() {
    let stage = Stage::new("secret").await;
    let name = stage.namespace.name();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": name},
        "data": {"password": "aHVudGVyMg=="},
    });

    // kubectl keeps all of it in an annotation.
    stage
        .namespace
        .control_plane()
        .apply_by_force(&secret.to_string());
    let annotation = format!("kubectl.kubernetes.io/last-applied-configuration={secret}");
    stage
        .namespace
        .kubectl(&["annotate", "secret", "login", &annotation]);

    let administrator = stage.administrator("administrator");
    let path = format!("/page/api/objects/core/v1/secrets/{name}/login");
    let mut events = administrator.events(&path).await;
    let shown = [
        administrator.get(&path).await.body,
        administrator.get(&path.replace("/api/", "/")).await.body,
        events.until("object", |_| true).await.to_string(),
        administrator
            .get(&format!("/page/api/kinds/core/v1/secrets?namespace={name}"))
            .await
            .body,
    ];

    for text in shown {
        assert!(
            text.contains("login") && !text.contains("aHVudGVyMg") && !text.contains("hunter2"),
            "{text}"
        );
    }

    let object = administrator.get(&path).await.json();
    let yaml = object["yaml"].as_str().expect("a text");
    assert!(
        yaml.contains("•••• (7 bytes)") && !yaml.contains("managedFields"),
        "{yaml}"
    );
}

/// As many objects of this size as fit into a list of 8 MiB.
const BULK: usize = 31;
const BULK_BYTES: usize = 250_000;

#[tokio::test]
async fn many_readers_of_large_lists_share_the_memory() {
    let stage = Stage::new("bulk").await;
    let annotations = json!({"bulk": "x".repeat(BULK_BYTES)});
    for number in 0..BULK {
        for kind in [kinds::CONFIG_MAP, kinds::SECRET, kinds::SERVICE_ACCOUNT] {
            let metadata = json!({"name": format!("bulk-{number}"), "annotations": annotations});
            let object = json!({"metadata": metadata});
            stage.namespace.create_object(kind, object).await;
        }
    }

    let resources = ["configmaps", "secrets", "serviceaccounts"];
    let greedy = [
        stage.user("one", &resources),
        stage.user("other", &resources),
    ];
    let honest = Stage::new("honest").await;
    honest
        .namespace
        .create_object(kinds::CONFIG_MAP, json!({"metadata": {"name": "small"}}))
        .await;
    let reader = honest.user("reader", &["configmaps"]);
    let path = |namespace: &str, name: &str| {
        format!("/page/api/objects/core/v1/configmaps/{namespace}/{name}")
    };
    let own = path(honest.namespace.name(), "small");
    let reads_own = async || {
        let answer = reader.get(&own).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    reads_own().await;
    let before = stage.host.memory_bytes();

    let bulk = path(stage.namespace.name(), "bulk-0");
    let requests = (0..200).map(|number| greedy[number % greedy.len()].get(&bulk));
    let attack = futures::future::join_all(requests);
    let reads = async {
        for _ in 0..20 {
            reads_own().await;
        }
    };
    let (answers, ()) = tokio::join!(attack, reads);

    let failed = answers.iter().find(|answer| answer.status != 200);
    assert!(failed.is_none(), "{failed:?}");
    let grown = stage.host.peak_memory_bytes().saturating_sub(before);
    assert!(grown < 256 << 20, "by {} MiB", grown >> 20);
    stage.host.assert_sound();
}

#[tokio::test]
async fn object_is_followed_with_what_is_around_it() {
    let stage = Stage::new("object").await;
    let name = stage.namespace.name();
    let parent = stage
        .namespace
        .create_object(kinds::CONFIG_MAP, json!({"metadata": {"name": "parent"}}))
        .await;
    let uid = parent["metadata"]["uid"].as_str().expect("a uid");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": uid});
    let child = json!({"metadata": {"name": "child", "ownerReferences": [owner]}});
    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, child)
        .await;

    let involved = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "namespace": name, "uid": uid});
    let event = json!({
        "metadata": {"name": "event"}, "involvedObject": involved, "reason": "Tested", "message": "<b>bold</b>", "type": "Warning",
    });
    stage.namespace.create_object(kinds::EVENT, event).await;

    let user = stage.user("user", &["configmaps", "events"]);
    let path = format!("/page/api/objects/core/v1/configmaps/{name}/parent");
    let mut events = user.events(&path).await;
    let around = events
        .until("object", |object| {
            object["events"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
        })
        .await;
    assert_eq!(around["children"][0]["name"], "child", "{around}");
    assert_eq!(around["children"][0]["plural"], "configmaps", "{around}");
    assert_eq!(around["events"][0]["reason"], "Tested", "{around}");

    // The user may not read Secrets, in which children are searched as well.
    let forbidden = around["forbidden"].as_array().expect("refusals");
    assert!(
        forbidden
            .iter()
            .any(|text| text.as_str().is_some_and(|text| text.contains("secrets"))),
        "{around}"
    );

    let child = user.get(&path.replace("parent", "child")).await.json();
    let href = format!("/page/objects/core/v1/configmaps/{name}/parent");
    assert_eq!(
        (
            child["owners"][0]["name"].as_str(),
            child["owners"][0]["href"].as_str()
        ),
        (Some("parent"), Some(&*href))
    );

    let html = user.get(&href).await.body;
    assert!(
        html.contains("&lt;b&gt;bold&lt;/b&gt;") && !html.contains("<b>bold"),
        "{html}"
    );

    stage
        .namespace
        .patch(
            kinds::CONFIG_MAP,
            "parent",
            json!({"data": {"new": "value"}}),
        )
        .await;

    events
        .until("object", |object| {
            object["yaml"]
                .as_str()
                .is_some_and(|yaml| yaml.contains("new: value"))
        })
        .await;

    stage.namespace.delete(kinds::CONFIG_MAP, "parent").await;
    events.until("deleted", |_| true).await;
    events.end().await;
    assert_eq!(user.get(&path).await.status, 404);
    stage.host.assert_sound();
}

#[tokio::test]
async fn name_with_markup_is_text_and_has_a_page() {
    let stage = Stage::new("names").await;
    let name = format!("<img src=x onerror=alert(1)>{}", stage.namespace.name());
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": []});

    // The name must be escaped in a path, which an apply needs.
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), role.to_string()).expect("written");
    stage
        .namespace
        .control_plane()
        .kubectl(&["create", "-f", &file.path().display().to_string()]);

    let administrator = stage.administrator("administrator");
    let html = administrator
        .get("/page/kinds/rbac.authorization.k8s.io/v1/clusterroles")
        .await
        .body;
    assert!(
        html.contains("&lt;img src=x onerror=alert(1)&gt;") && !html.contains("<img"),
        "{html}"
    );

    let start = html
        .find("/page/objects/rbac.authorization.k8s.io/v1/clusterroles/_/%3Cimg")
        .expect("a link");
    let href = html[start..].split('"').next().expect("its end");

    let page = administrator.get(href).await;
    assert!(
        page.status == 200 && page.body.contains("&lt;img src=x") && !page.body.contains("<img"),
        "{page:?}"
    );

    stage
        .namespace
        .control_plane()
        .kubectl(&["delete", "clusterrole", &name]);
}

#[tokio::test]
async fn large_object_is_cut_and_listed() {
    let stage = Stage::new("large").await;
    stage
        .namespace
        .control_plane()
        .apply(&crd("page.test", "Bulk", "bulks", "Namespaced", &any_schema()).to_string());
    let kind = Kind("page.test/v1", "Bulk");
    let text = "a long text ".repeat(120_000);
    let large = json!({"metadata": {"name": "large"}, "spec": {"text": text}, "status": {"phase": "Running"}});

    eventually("the kind is served", async || {
        let found = stage
            .namespace
            .control_plane()
            .kubectl_output(&["get", "bulks.page.test"]);
        if found.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&found.stderr).into_owned())
        }
    })
    .await;
    stage.namespace.create_object(kind, large).await;

    let administrator = stage.administrator("administrator");
    let name = stage.namespace.name();
    let object = administrator
        .get(&format!(
            "/page/api/objects/page.test/v1/bulks/{name}/large"
        ))
        .await
        .json();
    let yaml = object["yaml"].as_str().expect("a text");
    assert!(
        object["cut"] == true && yaml.len() <= 256 << 10,
        "{}",
        yaml.len()
    );

    let mut rows = administrator
        .events(&format!(
            "/page/api/kinds/page.test/v1/bulks?namespace={name}"
        ))
        .await;
    let row = rows.until("rows", |_| true).await;
    assert!(
        row["rows"][0]["name"] == "large" && row.to_string().len() < 10_000,
        "{}",
        row.to_string().len()
    );

    let count = |value: &Value| value["count"].as_u64();
    assert_eq!(count(&rows.until("synced", |_| true).await), Some(1));
    stage.host.assert_sound();
}

#[tokio::test]
async fn only_plugins_that_get_an_object_are_listed() {
    let stage = Stage::new("reached").await;
    stage.plugin().await;
    let other = Stage::new("beyond").await;
    for namespace in [&stage.namespace, &other.namespace] {
        let object = json!({"metadata": {"name": "seen"}});
        namespace.create_object(kinds::CONFIG_MAP, object).await;
    }

    let administrator = stage.administrator("administrator");
    let own = stage.namespace.name();
    let plugins = async |namespace: &str| -> Vec<Value> {
        let path = format!("/page/api/objects/core/v1/configmaps/{namespace}/seen");
        let object = administrator.get(&path).await.json();
        let all = object["plugins"].as_array().cloned().expect("Plugins");
        // The host runs those of other tests, too.
        all.into_iter()
            .filter(|plugin| plugin["namespace"] == own)
            .collect()
    };
    let touch = json!({"namespace": own, "name": "touch", "controller": "touch"});
    eventually("the page knows the status", async || {
        let found = plugins(own).await;
        let is_touch = found == [touch.clone()];
        is_touch.then_some(()).ok_or(format!("{found:?}"))
    })
    .await;
    assert_eq!(plugins(other.namespace.name()).await, [] as [Value; 0]);

    // Now its rights reach the other namespace, but its controller is for its own.
    let account = format!("--serviceaccount={own}:plugin");
    other.namespace.kubectl(&[
        "create",
        "rolebinding",
        "plugin",
        "--clusterrole=cluster-admin",
        &account,
    ]);
    assert_eq!(plugins(other.namespace.name()).await, [] as [Value; 0]);

    // Without its rights, it gets nothing in its own namespace either.
    stage
        .namespace
        .kubectl(&["delete", "rolebinding", "plugin-may-do-all"]);
    eventually("its rights are gone", async || {
        match plugins(own).await.as_slice() {
            [] => Ok(()),
            some => Err(format!("{some:?}")),
        }
    })
    .await;
    stage.host.assert_sound();
}
