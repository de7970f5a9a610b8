//! Copies of a server.

use serde_json::{Value, json};

use super::{
    client::Client,
    custom::{define, definition, size, version},
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn widget(size: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": size}})
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test(start_paused = true)]
async fn copy_serves_definitions_and_shares_no_later_change() {
    let origin = Client::new();
    define(&origin, &json!([version("v1", true, &size())])).await;
    origin.send("POST", MAPS, &[], &map("before")).await;

    let copy = origin.copy();
    assert_eq!(
        copy.send("POST", WIDGETS, &[], &widget(&json!(11))).await.0,
        422,
        "its rules hold"
    );
    assert_eq!(
        copy.send("POST", WIDGETS, &[], &widget(&json!(3))).await.0,
        201
    );

    assert_eq!(copy.send("POST", MAPS, &[], &map("in-copy")).await.0, 201);
    assert_eq!(
        origin.send("POST", MAPS, &[], &map("in-origin")).await.0,
        201
    );

    for (client, there, missing) in [
        (&copy, "in-copy", "in-origin"),
        (&origin, "in-origin", "in-copy"),
    ] {
        assert_eq!(client.get(&format!("{MAPS}/before")).await.0, 200);
        assert_eq!(client.get(&format!("{MAPS}/{there}")).await.0, 200);
        assert_eq!(client.get(&format!("{MAPS}/{missing}")).await.0, 404);
    }

    let (_, list) = origin.get(WIDGETS).await;
    assert_eq!(list["items"], json!([]));

    copy.send(
        "DELETE",
        &format!("{DEFINITIONS}/widgets.example.com"),
        &[],
        &Value::Null,
    )
    .await;
    copy.settle().await;

    assert_eq!(copy.get(WIDGETS).await.0, 404);
    assert_eq!(origin.get(WIDGETS).await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definition_is_served_at_once_and_without_a_gap() {
    for _ in 0..20 {
        let client = Client::new();

        let created = client
            .send(
                "POST",
                DEFINITIONS,
                &[],
                &definition(&json!([version("v1", true, &size())])),
            )
            .await;
        assert_eq!(created.0, 201);

        client.serve_definitions();
        for _ in 0..20 {
            assert_eq!(client.get(WIDGETS).await.0, 200);
        }
    }
}
