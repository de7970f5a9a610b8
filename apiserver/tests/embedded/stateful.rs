//! StatefulSets with their claims, and DaemonSets.

use operetta_apiserver::ControllerName as Name;
use serde_json::{Value, json};

use crate::client::Client;

const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DB: &str = "/apis/apps/v1/namespaces/default/statefulsets/db";
const DAEMONS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn cluster() -> Client {
    Client::with_controllers([
        Name::GarbageCollector,
        Name::StatefulSets,
        Name::DaemonSets,
        Name::Volumes,
        Name::Scheduler,
        Name::Kubelet,
    ])
}

fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn stateful_set(replicas: u32) -> Value {
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});

    json!({
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": template("db", "nginx:1"),
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    })
}

/// The Pods after each change: `0r` is ready, `1` is not, `2x` is being deleted.
fn pods_history(client: &Client, since: u64) -> Vec<String> {
    let mut states: Vec<String> = Vec::new();
    for pods in client.history("", "pods", since) {
        let state = |pod: &Value| {
            let ordinal = pod["metadata"]["name"]
                .as_str()
                .and_then(|name| name.rsplit_once('-'))
                .expect("an ordinal")
                .1;

            let mark = match (
                pod["metadata"]["deletionTimestamp"].is_string(),
                &pod["status"]["phase"],
            ) {
                (true, _) => "x",
                (false, phase) if phase == "Running" => "r",
                _ => "",
            };

            format!("{ordinal}{mark}")
        };

        let now = pods.iter().map(state).collect::<Vec<_>>().join(" ");
        if states.last() != Some(&now) {
            states.push(now);
        }
    }

    states
}

#[tokio::test(start_paused = true)]
async fn stateful_set_creates_and_deletes_one_pod_after_the_other() {
    let client = cluster();
    let begun = client.revision();
    client.create(SETS, &stateful_set(3)).await;
    client.settle().await;
    assert_eq!(
        pods_history(&client, begun),
        ["0", "0r", "0r 1", "0r 1r", "0r 1r 2", "0r 1r 2r"]
    );

    let (_, found) = client.get(DB).await;
    // As kube-controller-manager 1.36.2 writes it, including the name of the revision.
    let expected = json!({
        "availableReplicas": 3, "collisionCount": 0, "currentReplicas": 3, "currentRevision": "db-57679dd759",
        "observedGeneration": 1, "readyReplicas": 3, "replicas": 3, "updateRevision": "db-57679dd759",
        "updatedReplicas": 3,
    });
    assert_eq!(found["status"], expected);

    let (_, pod) = client.get(&format!("{PODS}/db-1")).await;
    let expected = json!({
        "app": "db", "apps.kubernetes.io/pod-index": "1", "controller-revision-hash": "db-57679dd759",
        "statefulset.kubernetes.io/pod-name": "db-1",
    });
    assert_eq!(pod["metadata"]["labels"], expected);

    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("db-1"), &json!("db"))
    );

    let volume = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]);
    assert_eq!(pod["spec"]["volumes"], volume);

    assert_eq!(
        client.names(CLAIMS).await,
        ["data-db-0", "data-db-1", "data-db-2"]
    );

    let begun = client.revision();
    client.patch(DB, &json!({"spec": {"replicas": 1}})).await;
    client.pass(5000).await;
    assert_eq!(
        pods_history(&client, begun),
        ["0r 1r 2x", "0r 1r", "0r 1x", "0r"]
    );

    assert_eq!(client.names(CLAIMS).await.len(), 3, "claims stay");
}

#[tokio::test(start_paused = true)]
async fn rolling_update_of_a_stateful_set_begins_with_the_last_pod() {
    let client = cluster();
    client.create(SETS, &stateful_set(2)).await;
    client.settle().await;

    let begun = client.revision();
    let partition = json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}, "template": template("db", "nginx:2")});
    client.patch(DB, &json!({"spec": partition})).await;
    client.pass(5000).await;
    assert_eq!(
        pods_history(&client, begun),
        ["0r 1x", "0r", "0r 1", "0r 1r"]
    );

    let (_, found) = client.get(DB).await;
    let status = &found["status"];
    assert_eq!(
        (&status["currentReplicas"], &status["updatedReplicas"]),
        (&json!(1), &json!(1))
    );
    assert_ne!(status["currentRevision"], status["updateRevision"]);

    client
        .patch(
            DB,
            &json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}),
        )
        .await;
    client.pass(5000).await;

    let (_, found) = client.get(DB).await;
    assert_eq!(
        found["status"]["currentRevision"],
        found["status"]["updateRevision"]
    );

    for pod in client.list(PODS).await {
        assert_eq!(pod["spec"]["containers"][0]["image"], "nginx:2");
    }

    let revisions = client
        .list("/apis/apps/v1/namespaces/default/controllerrevisions")
        .await;
    assert_eq!(
        revisions
            .iter()
            .map(|one| &one["revision"])
            .collect::<Vec<_>>()
            .len(),
        2
    );

    // Back again: the first revision becomes the newest.
    client
        .patch(
            DB,
            &json!({"spec": {"template": template("db", "nginx:1")}}),
        )
        .await;
    client.pass(5000).await;

    let (_, found) = client.get(DB).await;
    assert_eq!(found["status"]["updateRevision"], "db-57679dd759");

    let (_, revision) = client
        .get("/apis/apps/v1/namespaces/default/controllerrevisions/db-57679dd759")
        .await;
    assert_eq!(revision["revision"], 3);
}

#[tokio::test(start_paused = true)]
async fn parallel_stateful_set_creates_all_pods_at_once() {
    let client = cluster();
    let begun = client.revision();

    let mut object = stateful_set(3);
    object["spec"]["podManagementPolicy"] = json!("Parallel");
    object["spec"]["ordinals"] = json!({"start": 5});
    client.create(SETS, &object).await;
    client.settle().await;

    let states = pods_history(&client, begun);
    assert!(states.contains(&"5 6 7".to_owned()), "{states:?}");
    assert_eq!(states.last().map(String::as_str), Some("5r 6r 7r"));
}

#[tokio::test(start_paused = true)]
async fn claims_get_volumes_that_go_with_them() {
    let client = cluster();
    client.create(SETS, &stateful_set(1)).await;

    client.settle().await;
    let (_, claim) = client.get(&format!("{CLAIMS}/data-db-0")).await;
    let expected =
        json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "phase": "Bound"});
    assert_eq!(claim["status"], expected);

    let volumes = client.list("/api/v1/persistentvolumes").await;
    assert_eq!(volumes[0]["metadata"]["name"], claim["spec"]["volumeName"]);
    assert_eq!(volumes[0]["status"]["phase"], "Bound");

    // A claim in use stays until its Pod has ended.
    client.delete(&format!("{CLAIMS}/data-db-0"), "").await;
    client.pass(5000).await;
    assert_eq!(client.names(CLAIMS).await, ["data-db-0"]);

    client.delete(DB, "").await;
    client.pass(5000).await;
    assert!(client.list(CLAIMS).await.is_empty());
    assert!(client.list("/api/v1/persistentvolumes").await.is_empty());
}

fn daemon_set(image: &str) -> Value {
    let spec =
        json!({"selector": {"matchLabels": {"app": "ds"}}, "template": template("ds", image)});
    json!({"metadata": {"name": "ds"}, "spec": spec})
}

/// The Node and the image of each Pod.
async fn daemons(client: &Client) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = client.list(PODS).await;

    let pods = pods.iter().map(|pod| {
        format!(
            "{} {}",
            text(&pod["spec"]["nodeName"]),
            text(&pod["spec"]["containers"][0]["image"])
        )
    });

    let mut pods: Vec<String> = pods.collect();
    pods.sort();
    pods
}

#[tokio::test(start_paused = true)]
async fn daemon_set_has_a_pod_on_each_node_that_takes_it() {
    let client = cluster();
    client.create(DAEMONS, &daemon_set("a")).await;

    client
        .create("/api/v1/nodes", &json!({"metadata": {"name": "other"}}))
        .await;
    let taint = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
    client
        .create(
            "/api/v1/nodes",
            &json!({"metadata": {"name": "tainted"}, "spec": {"taints": [taint]}}),
        )
        .await;

    client.settle().await;
    assert_eq!(daemons(&client).await, ["node a", "other a"]);

    let path = format!("{DAEMONS}/ds");
    let (_, found) = client.get(&path).await;
    let expected = json!({
        "currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberAvailable": 2, "numberMisscheduled": 0,
        "numberReady": 2, "observedGeneration": 1, "updatedNumberScheduled": 2,
    });
    assert_eq!(found["status"], expected);

    let begun = client.revision();
    client
        .patch(&path, &json!({"spec": {"template": template("ds", "b")}}))
        .await;
    client.pass(10_000).await;
    assert_eq!(daemons(&client).await, ["node b", "other b"]);

    for pods in client.history("", "pods", begun) {
        let serving = |pod: &&Value| {
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        };
        assert!(
            pods.iter().filter(serving).count() >= 1,
            "one may be unavailable at a time"
        );
    }

    client.delete("/api/v1/nodes/other", "").await;
    client.pass(5000).await;
    let (_, found) = client.get(&path).await;
    assert_eq!(found["status"]["desiredNumberScheduled"], 1);
}
