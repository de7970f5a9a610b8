//! Deployments, ReplicaSets and their Pods, with a scheduler and a stand-in for kubelets.

use operetta_apiserver::{ControllerName as Name, Controllers, store::Window};
use serde_json::{Value, json};

use crate::client::Client;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

/// Starts a server with everything Deployments need.
fn cluster() -> Client {
    Client::with_controllers([
        Name::GarbageCollector,
        Name::Deployments,
        Name::ReplicaSets,
        Name::Scheduler,
        Name::Kubelet,
        Name::DisruptionBudgets,
    ])
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn deployment(replicas: u32, image: &str) -> Value {
    let selector = json!({"matchLabels": {"app": "web"}});
    json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas, "selector": selector, "template": template(image)}})
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": template(image)}})
}

async fn conditions(client: &Client, path: &str) -> Vec<String> {
    let (_, object) = client.get(path).await;
    let conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();

    let text = |condition: &Value, name: &str| condition[name].as_str().expect("a text").to_owned();
    conditions
        .iter()
        .map(|one| {
            format!(
                "{} {} {}",
                text(one, "type"),
                text(one, "status"),
                text(one, "reason")
            )
        })
        .collect()
}

/// The messages of a reason's Events in order, with the names of ReplicaSets replaced by their
/// images.
async fn events(client: &Client, reason: &str) -> Vec<String> {
    let mut events = client.list("/api/v1/namespaces/default/events").await;
    events.retain(|event| event["reason"] == reason);

    events.sort_by_key(|event| {
        event["metadata"]["resourceVersion"]
            .as_str()
            .and_then(|text| text.parse::<u64>().ok())
    });

    let sets = client.list(SETS).await;
    let replaced = |event: &Value| {
        let mut message = event["message"].as_str().expect("a message").to_owned();
        for set in &sets {
            let image = set["spec"]["template"]["spec"]["containers"][0]["image"]
                .as_str()
                .expect("an image");
            message = message.replace(set["metadata"]["name"].as_str().expect("a name"), image);
        }
        message
    };

    events.iter().map(replaced).collect()
}

#[tokio::test(start_paused = true)]
async fn deployment_becomes_available_as_in_a_cluster() {
    let client = cluster();
    client.create(DEPLOYMENTS, &deployment(3, "a")).await;
    client.settle().await;

    let (_, found) = client.get(WEB).await;
    let mut status = found["status"].clone();
    assert_eq!(
        conditions(&client, WEB).await,
        [
            "Available True MinimumReplicasAvailable",
            "Progressing True NewReplicaSetAvailable"
        ]
    );

    status
        .as_object_mut()
        .expect("a status")
        .remove("conditions");
    // As kube-controller-manager 1.36.2 writes it.
    let expected = json!({
        "availableReplicas": 3, "observedGeneration": 1, "readyReplicas": 3, "replicas": 3, "terminatingReplicas": 0,
        "updatedReplicas": 3,
    });
    assert_eq!(status, expected);

    assert_eq!(
        found["metadata"]["annotations"],
        json!({"deployment.kubernetes.io/revision": "1"})
    );

    let sets = client.list(SETS).await;
    let set = &sets[0];

    let expected = json!({
        "availableReplicas": 3, "fullyLabeledReplicas": 3, "observedGeneration": 1, "readyReplicas": 3, "replicas": 3,
        "terminatingReplicas": 0,
    });
    assert_eq!((sets.len(), &set["status"]), (1, &expected));

    let expected = json!({
        "deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/max-replicas": "4",
        "deployment.kubernetes.io/revision": "1",
    });
    assert_eq!(set["metadata"]["annotations"], expected);

    let hash = set["metadata"]["labels"]["pod-template-hash"]
        .as_str()
        .expect("a hash");
    assert_eq!(set["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(
        set["spec"]["selector"]["matchLabels"],
        json!({"app": "web", "pod-template-hash": hash})
    );

    let managers = set["metadata"]["managedFields"]
        .as_array()
        .expect("managers");
    assert!(
        managers
            .iter()
            .all(|manager| manager["manager"] == "kube-controller-manager"),
        "{managers:?}"
    );

    let pods = client.list(PODS).await;
    assert_eq!(pods.len(), 3);
    let mut addresses: Vec<&Value> = pods.iter().map(|pod| &pod["status"]["podIP"]).collect();
    addresses.dedup();
    assert_eq!(addresses.len(), 3);

    for pod in &pods {
        assert_eq!(
            (&pod["status"]["phase"], &pod["spec"]["nodeName"]),
            (&json!("Running"), &json!("node"))
        );
        assert_eq!(
            pod["metadata"]["ownerReferences"][0]["uid"],
            set["metadata"]["uid"]
        );
    }

    assert_eq!(events(&client, "Scheduled").await.len(), 3);
    assert_eq!(events(&client, "SuccessfulCreate").await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn rolling_update_takes_the_steps_of_a_cluster() {
    let client = cluster();
    client.create(DEPLOYMENTS, &deployment(3, "a")).await;
    client.settle().await;

    client.patch(WEB, &image("b")).await;
    client.pass(5000).await;

    // The Events of kube-controller-manager 1.36.2 with kwok.
    let expected = [
        "Scaled up replica set a from 0 to 3",
        "Scaled up replica set b from 0 to 1",
        "Scaled down replica set a from 3 to 2",
        "Scaled up replica set b from 1 to 2",
        "Scaled down replica set a from 2 to 1",
        "Scaled up replica set b from 2 to 3",
        "Scaled down replica set a from 1 to 0",
    ];
    assert_eq!(events(&client, "ScalingReplicaSet").await, expected);
    assert_eq!(client.list(PODS).await.len(), 3);

    // Back to the previous template: its ReplicaSet gets the next revision.
    client.patch(WEB, &image("a")).await;
    client.pass(5000).await;

    let (_, found) = client.get(WEB).await;
    assert_eq!(
        found["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "3"
    );
    assert_eq!(found["status"]["updatedReplicas"], 3);

    let sets = client.list(SETS).await;
    let set = sets
        .iter()
        .find(|set| set["spec"]["replicas"] == 3)
        .expect("the active one");

    let annotations = &set["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    assert_eq!(
        annotations["deployment.kubernetes.io/revision-history"],
        "1"
    );

    assert_eq!(sets.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn rolling_update_keeps_its_margins_at_each_moment() {
    let client = cluster();
    let mut object = deployment(5, "a");
    object["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": "20%"}});

    client.create(DEPLOYMENTS, &object).await;
    client.settle().await;

    let begun = client.revision();
    client.patch(WEB, &image("b")).await;
    client.pass(5000).await;

    for sets in client.history("apps", "replicasets", begun) {
        let wanted: i64 = sets
            .iter()
            .filter_map(|set| set["spec"]["replicas"].as_i64())
            .sum();
        assert!((4..=7).contains(&wanted), "{wanted} Pods are wanted");
    }

    for pods in client.history("", "pods", begun) {
        let is_serving = |pod: &&Value| {
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        };
        let serving = pods.iter().filter(is_serving).count();
        assert!(serving >= 4, "only {serving} Pods serve");
    }

    let (_, found) = client.get(WEB).await;
    assert_eq!(
        (
            &found["status"]["updatedReplicas"],
            &found["status"]["replicas"]
        ),
        (&json!(5), &json!(5))
    );
}

#[tokio::test(start_paused = true)]
async fn recreated_deployment_ends_all_old_pods_first() {
    let client = cluster();
    let mut object = deployment(3, "a");
    object["spec"]["strategy"] = json!({"type": "Recreate"});

    client.create(DEPLOYMENTS, &object).await;
    client.settle().await;

    let begun = client.revision();
    client.patch(WEB, &image("b")).await;
    client.pass(5000).await;

    let image_of = |pod: &Value| pod["spec"]["containers"][0]["image"].clone();
    let mut seen_new = false;

    for pods in client.history("", "pods", begun) {
        let images: Vec<Value> = pods.iter().map(image_of).collect();
        assert!(
            !images.contains(&json!("a")) || !images.contains(&json!("b")),
            "{images:?}"
        );
        seen_new |= images.contains(&json!("b"));
    }

    assert!(seen_new);
    let (_, found) = client.get(WEB).await;
    assert_eq!(found["status"]["availableReplicas"], 3);
}

#[tokio::test(start_paused = true)]
async fn paused_deployment_scales_and_does_not_roll_out() {
    let client = cluster();
    client.create(DEPLOYMENTS, &deployment(1, "a")).await;
    client.settle().await;

    client
        .patch(
            WEB,
            &json!({"spec": {"paused": true, "replicas": 4, "template": template("b")}}),
        )
        .await;
    client.pass(5000).await;

    assert_eq!(client.list(SETS).await.len(), 1);
    assert_eq!(client.list(PODS).await.len(), 4);
    assert!(
        conditions(&client, WEB)
            .await
            .contains(&"Progressing Unknown DeploymentPaused".to_owned())
    );

    client.patch(WEB, &json!({"spec": {"paused": false}})).await;
    client.pass(5000).await;
    assert_eq!(client.list(SETS).await.len(), 2);

    let pods = client.list(PODS).await;
    assert!(
        pods.iter()
            .all(|pod| pod["spec"]["containers"][0]["image"] == "b"),
        "{pods:?}"
    );

    assert!(
        conditions(&client, WEB)
            .await
            .contains(&"Progressing True NewReplicaSetAvailable".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn scaling_during_a_rollout_keeps_the_shares() {
    // Without a kubelet, new Pods never become ready, so the rollout stops halfway.
    let client = Client::with_controllers([Name::Deployments, Name::ReplicaSets]);
    client.create(DEPLOYMENTS, &deployment(10, "a")).await;
    client.settle().await;

    for name in client.names(PODS).await {
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        client.patch(&format!("{PODS}/{name}/status"), &ready).await;
    }

    client.settle().await;
    client.patch(WEB, &image("b")).await;
    client.settle().await;

    let sizes = async || {
        let mut sizes: Vec<_> = client
            .list(SETS)
            .await
            .iter()
            .map(|set| set["spec"]["replicas"].clone())
            .collect();
        sizes.sort_by_key(Value::as_i64);
        sizes
    };

    // A quarter more, rounded up, and a quarter less, rounded down.
    assert_eq!(sizes().await, [5, 8]);

    client.patch(WEB, &json!({"spec": {"replicas": 20}})).await;
    client.settle().await;
    assert_eq!(sizes().await, [10, 15]);
}

#[tokio::test(start_paused = true)]
async fn rollout_without_progress_exceeds_its_deadline() {
    let client = Client::with_controllers([Name::Deployments, Name::ReplicaSets]);
    let mut object = deployment(1, "a");
    object["spec"]["progressDeadlineSeconds"] = json!(60);

    client.create(DEPLOYMENTS, &object).await;
    client.pass(59_000).await;
    assert!(
        conditions(&client, WEB)
            .await
            .contains(&"Progressing True ReplicaSetUpdated".to_owned())
    );

    client.pass(5000).await;
    assert!(
        conditions(&client, WEB)
            .await
            .contains(&"Progressing False ProgressDeadlineExceeded".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn history_is_as_long_as_its_limit() {
    let client = cluster();
    let mut object = deployment(1, "a");
    object["spec"]["revisionHistoryLimit"] = json!(2);
    client.create(DEPLOYMENTS, &object).await;

    for name in ["b", "c", "d", "e"] {
        client.pass(5000).await;
        client.patch(WEB, &image(name)).await;
    }

    client.pass(5000).await;
    let sets = client.list(SETS).await;
    let mut images: Vec<_> = sets
        .iter()
        .map(|set| &set["spec"]["template"]["spec"]["containers"][0]["image"])
        .collect();

    images.sort_by_key(|image| image.as_str());
    assert_eq!(images, ["c", "d", "e"]);
}

#[tokio::test(start_paused = true)]
async fn available_pods_have_been_ready_for_a_time() {
    let client = cluster();
    let mut object = deployment(1, "a");
    object["spec"]["minReadySeconds"] = json!(30);
    client.create(DEPLOYMENTS, &object).await;

    client.pass(29_000).await;
    let (_, found) = client.get(WEB).await;
    assert_eq!(
        (
            &found["status"]["readyReplicas"],
            &found["status"]["availableReplicas"]
        ),
        (&json!(1), &Value::Null)
    );

    client.pass(2000).await;
    let (_, found) = client.get(WEB).await;
    assert_eq!(found["status"]["availableReplicas"], 1);
}

#[tokio::test(start_paused = true)]
async fn deleted_deployment_takes_its_pods_along() {
    let client = cluster();
    client.create(DEPLOYMENTS, &deployment(3, "a")).await;
    client.settle().await;

    client.delete(WEB, "Foreground").await;
    client.settle().await;

    // Its Pods have a grace period.
    assert_eq!(client.get(WEB).await.0, 200);

    client.pass(2000).await;
    assert_eq!(client.get(WEB).await.0, 404);
    assert!(client.list(PODS).await.is_empty());
    assert!(client.list(SETS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn replica_set_adopts_and_releases_pods_by_their_labels() {
    let client = cluster();
    let pod = json!({"metadata": {"name": "lone", "labels": {"app": "web"}}, "spec": template("a")["spec"]});

    client.create(PODS, &pod).await;
    let mut set = deployment(2, "a");
    set["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    client.create(SETS, &set).await;
    client.settle().await;

    let pods = client.list(PODS).await;
    assert_eq!(pods.len(), 2);
    assert!(
        pods.iter()
            .all(|pod| pod["metadata"]["ownerReferences"][0]["name"] == "web"),
        "{pods:?}"
    );

    client
        .patch(
            &format!("{PODS}/lone"),
            &json!({"metadata": {"labels": {"app": "other"}}}),
        )
        .await;
    client.settle().await;

    let (_, lone) = client.get(&format!("{PODS}/lone")).await;
    assert_eq!(lone["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(client.list(PODS).await.len(), 3);

    client
        .patch(&format!("{SETS}/web"), &json!({"spec": {"replicas": 0}}))
        .await;
    client.pass(2000).await;
    assert_eq!(client.names(PODS).await, ["lone"]);
}

#[tokio::test(start_paused = true)]
async fn pods_wait_for_a_node_that_takes_them() {
    let client = Client::with_controllers([Name::Scheduler, Name::Kubelet]);
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"disk": "fast"}},
    });

    client.create(PODS, &pod).await;
    client.settle().await;

    let (_, found) = client.get(&format!("{PODS}/p")).await;
    let condition = &found["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("PodScheduled"), &json!("Unschedulable"))
    );

    client
        .create(
            "/api/v1/nodes",
            &json!({"metadata": {"name": "fast", "labels": {"disk": "fast"}}}),
        )
        .await;
    client.settle().await;

    let (_, found) = client.get(&format!("{PODS}/p")).await;
    assert_eq!(
        (&found["spec"]["nodeName"], &found["status"]["phase"]),
        (&json!("fast"), &json!("Running"))
    );

    let (code, refused) = client
        .send(
            "POST",
            &format!("{PODS}/p/binding"),
            &[],
            &json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node"}}),
        )
        .await;

    let message = r#"Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "fast""#;
    assert_eq!((code, &refused["message"]), (409, &json!(message)));
}

/// Runs a cluster for a while, and returns everything it has.
async fn run_for_a_while() -> Vec<Value> {
    let client = Client::with(Controllers::all());
    client.create(DEPLOYMENTS, &deployment(3, "a")).await;
    client.pass(5000).await;

    client.patch(WEB, &image("b")).await;
    client
        .create("/api/v1/namespaces", &json!({"metadata": {"name": "t"}}))
        .await;
    client.pass(5000).await;

    client.delete("/api/v1/namespaces/t", "").await;
    client.patch(WEB, &json!({"spec": {"replicas": 1}})).await;
    client.pass(5000).await;

    let mut objects = Vec::new();
    for path in [
        DEPLOYMENTS,
        SETS,
        PODS,
        "/api/v1/events",
        "/api/v1/nodes",
        "/api/v1/serviceaccounts",
    ] {
        objects.extend(client.list(path).await);
    }

    objects
}

#[tokio::test(start_paused = true)]
async fn same_run_has_the_same_result() {
    let first = run_for_a_while().await;
    assert!(first.len() > 20, "{} objects", first.len());

    // This includes names, UIDs, revisions and times.
    assert_eq!(first, run_for_a_while().await);
}

#[tokio::test(start_paused = true)]
async fn controllers_recover_from_changes_that_they_missed() {
    let names = Controllers::only([
        Name::Deployments,
        Name::ReplicaSets,
        Name::Scheduler,
        Name::Kubelet,
    ]);

    let client = Client::with_window(
        names,
        Window {
            events: 3,
            bytes: usize::MAX,
        },
    );

    client.create(DEPLOYMENTS, &deployment(10, "a")).await;
    client.pass(5000).await;
    client.patch(WEB, &image("b")).await;
    client.pass(10_000).await;

    let (_, found) = client.get(WEB).await;
    assert_eq!(
        (
            &found["status"]["availableReplicas"],
            &found["status"]["updatedReplicas"]
        ),
        (&json!(10), &json!(10))
    );
    assert_eq!(client.list(PODS).await.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn controllers_decide_on_the_latest_state() {
    let client = Client::with_controllers([Name::ReplicaSets]);
    client.settle().await;

    // Enough changes that they do not come all at once, with two of the ReplicaSet far apart.
    let configmaps = "/api/v1/namespaces/default/configmaps";
    client.create(SETS, &deployment(1, "a")).await;
    for number in 0..1500 {
        client
            .create(
                configmaps,
                &json!({"metadata": {"name": format!("a-{number}")}}),
            )
            .await;
    }

    client
        .patch(
            &format!("{SETS}/web"),
            &json!({"metadata": {"annotations": {"a": "b"}}}),
        )
        .await;

    for number in 0..1500 {
        client
            .create(
                configmaps,
                &json!({"metadata": {"name": format!("b-{number}")}}),
            )
            .await;
    }

    client.settle().await;
    assert_eq!(events(&client, "SuccessfulCreate").await.len(), 1);
}
