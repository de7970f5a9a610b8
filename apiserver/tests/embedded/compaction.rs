//! Compaction: how long past changes can be listed and watched, and what a client gets afterwards.

use operetta_apiserver::Controllers;
use serde_json::{Value, json};

use crate::client::Client;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// The milliseconds between two compactions.
const INTERVAL: u64 = 5 * 60 * 1000;

fn revision(object: &Value) -> &str {
    object["metadata"]["resourceVersion"]
        .as_str()
        .expect("a revision")
}

/// Returns the events of a short watch after a revision.
async fn events(client: &Client, path: &str, revision: &str) -> Vec<Value> {
    let watch = format!("{path}?watch=1&timeoutSeconds=1&resourceVersion={revision}");
    let answer = client.send_bytes("GET", &watch, &[], "").await;
    assert_eq!(answer.code, 200, "{watch}");

    answer
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn change_can_be_watched_for_five_minutes_and_expires_within_ten() {
    let client = Client::with(Controllers::none());
    client.settle().await;
    let created = client
        .create(CONFIGMAPS, &json!({"metadata": {"name": "a"}}))
        .await;
    let path = format!("{CONFIGMAPS}/a");
    client.patch(&path, &json!({"data": {"a": "1"}})).await;
    let deleted = client
        .create(CONFIGMAPS, &json!({"metadata": {"name": "b"}}))
        .await;
    client.delete(&format!("{CONFIGMAPS}/b"), "").await;

    client.pass(2 * INTERVAL - 10_000).await;
    let kinds: Vec<Value> = events(&client, CONFIGMAPS, revision(&created))
        .await
        .into_iter()
        .map(|mut event| event["type"].take())
        .collect();
    assert_eq!(kinds, ["MODIFIED", "ADDED", "DELETED"]);

    client.pass(20_000).await;
    let found = events(&client, CONFIGMAPS, revision(&deleted)).await;
    let [error] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(error["type"], "ERROR");
    assert_eq!(
        (&error["object"]["code"], &error["object"]["reason"]),
        (&json!(410), &json!("Expired"))
    );

    let exact = format!(
        "{CONFIGMAPS}?resourceVersionMatch=Exact&resourceVersion={}",
        revision(&deleted)
    );
    assert_eq!(client.get(&exact).await.0, 410);
}

#[tokio::test(start_paused = true)]
async fn watch_that_has_seen_everything_outlives_compaction() {
    let client = Client::with(Controllers::none());
    client.settle().await;
    client
        .create(CONFIGMAPS, &json!({"metadata": {"name": "a"}}))
        .await;
    let (_, list) = client.get(CONFIGMAPS).await;
    let (_, secrets) = client.get(SECRETS).await;

    let watch = format!(
        "{CONFIGMAPS}?watch=1&timeoutSeconds=1300&resourceVersion={}",
        revision(&list)
    );
    let (answer, ()) = tokio::join!(client.send_bytes("GET", &watch, &[], ""), async {
        client.pass(4 * INTERVAL).await;
        client
            .create(CONFIGMAPS, &json!({"metadata": {"name": "b"}}))
            .await;
        client
            .create(SECRETS, &json!({"metadata": {"name": "c"}}))
            .await;
    });

    let lines: Vec<Value> = answer
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["object"]["metadata"]["name"], "b");

    // The last change of Secrets is younger than the compactions, and nothing before it is missing.
    let found = events(&client, SECRETS, revision(&secrets)).await;
    assert_eq!(found[0]["object"]["metadata"]["name"], "c");
}
