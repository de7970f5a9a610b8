//! Garbage collection: what becomes of the dependents of deleted objects.

use operetta_apiserver::ControllerName;
use serde_json::{Value, json};

use crate::client::Client;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn collector() -> Client {
    Client::with_controllers([ControllerName::GarbageCollector])
}

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
    })
}

/// Creates a ConfigMap with owners.
async fn create(client: &Client, name: &str, owners: &[&Value]) -> Value {
    let owners: Vec<Value> = owners.iter().map(|owner| reference(owner)).collect();
    client
        .create(
            CONFIGMAPS,
            &json!({"metadata": {"name": name, "ownerReferences": owners}}),
        )
        .await
}

async fn names(client: &Client) -> Vec<String> {
    client.settle().await;
    client.names(CONFIGMAPS).await
}

#[tokio::test(start_paused = true)]
async fn dependents_of_dependents_follow_a_deleted_owner() {
    let client = collector();
    let owner = create(&client, "owner", &[]).await;
    let other = create(&client, "other", &[]).await;
    let child = create(&client, "child", &[&owner]).await;
    create(&client, "grandchild", &[&child]).await;
    create(&client, "shared", &[&owner, &other]).await;
    assert_eq!(names(&client).await.len(), 5);

    client.delete(&format!("{CONFIGMAPS}/owner"), "").await;
    assert_eq!(names(&client).await, ["other", "shared"]);

    let (_, shared) = client.get(&format!("{CONFIGMAPS}/shared")).await;
    let owners = shared["metadata"]["ownerReferences"]
        .as_array()
        .expect("owners");
    assert_eq!(
        owners
            .iter()
            .map(|owner| &owner["name"])
            .collect::<Vec<_>>(),
        ["other"]
    );
}

#[tokio::test(start_paused = true)]
async fn owner_with_another_uid_is_absent() {
    let client = collector();
    let owner = create(&client, "owner", &[]).await;
    let mut earlier = owner.clone();
    earlier["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000".into();
    create(&client, "of-earlier", &[&earlier]).await;
    create(&client, "of-owner", &[&owner]).await;
    assert_eq!(names(&client).await, ["of-owner", "owner"]);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_blocking_dependents() {
    let client = collector();
    let owner = create(&client, "owner", &[]).await;
    create(&client, "child", &[&owner]).await;
    let held = create(&client, "held", &[&owner]).await;
    client
        .patch(
            &format!("{CONFIGMAPS}/held"),
            &json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        )
        .await;

    let grandchild = create(&client, "grandchild", &[&held]).await;
    assert!(grandchild["metadata"]["uid"].is_string());

    client
        .delete(&format!("{CONFIGMAPS}/owner"), "Foreground")
        .await;
    assert_eq!(names(&client).await, ["held", "owner"]);

    let (_, found) = client.get(&format!("{CONFIGMAPS}/owner")).await;
    assert_eq!(
        found["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );

    let (_, found) = client.get(&format!("{CONFIGMAPS}/held")).await;
    // Its own dependents went first, so the collector's finalizer is gone and the other one remains.
    assert_eq!(found["metadata"]["finalizers"], json!(["example.com/hold"]));

    client
        .patch(
            &format!("{CONFIGMAPS}/held"),
            &json!({"metadata": {"finalizers": null}}),
        )
        .await;
    assert_eq!(names(&client).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_does_not_wait_for_other_dependents() {
    let client = collector();
    let owner = create(&client, "owner", &[]).await;
    create(&client, "held", &[&owner]).await;

    let finalizers = json!({"metadata": {
        "finalizers": ["example.com/hold"],
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": false,
        }],
    }});
    client
        .patch(&format!("{CONFIGMAPS}/held"), &finalizers)
        .await;

    client
        .delete(&format!("{CONFIGMAPS}/owner"), "Foreground")
        .await;
    assert_eq!(names(&client).await, ["held"]);

    let (_, found) = client.get(&format!("{CONFIGMAPS}/held")).await;
    assert!(
        found["metadata"]["deletionTimestamp"].is_string(),
        "its owner is gone: {found}"
    );
}

#[tokio::test(start_paused = true)]
async fn orphaned_dependents_stay_without_a_reference() {
    let client = collector();
    let owner = create(&client, "owner", &[]).await;
    create(&client, "child", &[&owner]).await;

    client
        .delete(&format!("{CONFIGMAPS}/owner"), "Orphan")
        .await;
    assert_eq!(names(&client).await, ["child"]);

    let (_, child) = client.get(&format!("{CONFIGMAPS}/child")).await;
    assert_eq!(child["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(
        child["metadata"]["managedFields"],
        Value::Null,
        "nobody set a field that is left"
    );
}

#[tokio::test(start_paused = true)]
async fn owner_is_looked_for_where_its_kind_lives() {
    let client = collector();
    for name in ["a", "b"] {
        client
            .create("/api/v1/namespaces", &json!({"metadata": {"name": name}}))
            .await;
    }

    let in_a = client
        .create(
            "/api/v1/namespaces/a/configmaps",
            &json!({"metadata": {"name": "owner"}}),
        )
        .await;
    let (_, cluster) = client.get("/api/v1/namespaces/b").await;

    let with = |name: &str, owner: &Value| json!({"metadata": {"name": name, "ownerReferences": [reference(owner)]}});
    client
        .create(
            "/api/v1/namespaces/b/configmaps",
            &with("of-other-namespace", &in_a),
        )
        .await;
    client
        .create(
            "/api/v1/namespaces/b/configmaps",
            &with("of-cluster", &cluster),
        )
        .await;

    // A namespaced owner of a cluster-scoped object cannot be looked up, so nothing happens.
    client
        .create("/api/v1/namespaces", &with("of-namespaced", &in_a))
        .await;
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "uid": "1"}});
    client
        .create(
            "/api/v1/namespaces/b/configmaps",
            &with("of-unknown-kind", &unknown),
        )
        .await;

    client.settle().await;
    assert_eq!(
        client.names("/api/v1/namespaces/b/configmaps").await,
        ["of-cluster", "of-unknown-kind"]
    );

    assert_eq!(client.get("/api/v1/namespaces/of-namespaced").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn dependents_of_deleted_custom_objects_follow() {
    let client = collector();
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });

    client
        .create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            &definition,
        )
        .await;
    client.settle().await;

    let widgets = "/apis/example.com/v1/widgets";
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let widget = client.create(widgets, &object).await;
    create(&client, "child", &[&widget]).await;
    assert_eq!(names(&client).await, ["child"]);

    client.delete(&format!("{widgets}/w"), "Background").await;
    assert_eq!(names(&client).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn owner_in_another_namespace_is_reported() {
    let client = Client::with_controllers([ControllerName::GarbageCollector]);
    for namespace in ["one", "two"] {
        client
            .create(
                "/api/v1/namespaces",
                &json!({"metadata": {"name": namespace}}),
            )
            .await;
    }

    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    let owner = client
        .create(&maps("one"), &json!({"metadata": {"name": "owner"}}))
        .await;
    let uid = owner["metadata"]["uid"].as_str().expect("a UID");
    let references =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);

    // Besides the owner in its own namespace, one dependent has it from the start, and a Node gets
    // it later.
    let dependent = |name: &str| json!({"metadata": {"name": name, "ownerReferences": references}});
    client.create(&maps("one"), &dependent("near")).await;
    client.create(&maps("two"), &dependent("far")).await;
    client
        .create("/api/v1/nodes", &json!({"metadata": {"name": "node"}}))
        .await;
    client.settle().await;
    client
        .patch(
            "/api/v1/nodes/node",
            &json!({"metadata": {"ownerReferences": references}}),
        )
        .await;
    client.settle().await;

    let events = client.list("/api/v1/events").await;
    let mut shown: Vec<_> = events
        .iter()
        .map(|event| {
            let about = &event["involvedObject"];
            json!([
                event["metadata"]["namespace"],
                about["kind"],
                about["name"],
                event["type"],
                event["reason"],
                event["message"],
                event["source"]["component"],
            ])
        })
        .collect();
    shown.sort_by_key(|event| event[2].to_string());

    let message = |namespace: &str| {
        format!(
            "ownerRef [v1/ConfigMap, namespace: {namespace}, name: owner, uid: {uid}] does not exist in namespace \"{namespace}\""
        )
    };
    let (reason, component) = ("OwnerRefInvalidNamespace", "garbage-collector-controller");
    assert_eq!(
        shown,
        [
            json!([
                "two",
                "ConfigMap",
                "far",
                "Warning",
                reason,
                message("two"),
                component
            ]),
            json!([
                "default",
                "Node",
                "node",
                "Warning",
                reason,
                message(""),
                component
            ]),
        ]
    );

    // The owner is looked for in the dependent's namespace, where there is none.
    assert_eq!(client.names(&maps("two")).await, Vec::<String>::new());
    assert_eq!(client.names(&maps("one")).await, ["near", "owner"]);
}
