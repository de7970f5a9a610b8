//! Services and the availability of their Pods: EndpointSlices, budgets and evictions.

use operetta_apiserver::ControllerName as Name;
use serde_json::{Value, json};

use crate::client::Client;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn workloads() -> Vec<Name> {
    vec![
        Name::Deployments,
        Name::ReplicaSets,
        Name::Scheduler,
        Name::Kubelet,
        Name::GarbageCollector,
    ]
}

async fn deploy(client: &Client, replicas: u32) {
    let port = json!({"name": "http", "containerPort": 8080, "protocol": "TCP"});
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx", "ports": [port]}]},
    });

    let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    client
        .create(
            DEPLOYMENTS,
            &json!({"metadata": {"name": "web"}, "spec": spec}),
        )
        .await;
}

async fn evict(client: &Client, pod: &str) -> (u16, Value) {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
    client
        .send("POST", &format!("{PODS}/{pod}/eviction"), &[], &body)
        .await
}

#[tokio::test(start_paused = true)]
async fn slices_have_the_addresses_of_selected_pods() {
    let mut names = workloads();
    names.push(Name::EndpointSlices);
    let client = Client::with_controllers(names);

    let ports = json!([{"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 81, "targetPort": 9090}]);
    let service =
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}});
    client
        .create("/api/v1/namespaces/default/services", &service)
        .await;

    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slices = async || client.list(path).await;

    client.settle().await;
    let empty = slices().await;
    assert!(
        empty.len() == 1 && empty[0]["endpoints"].as_array().is_none_or(Vec::is_empty),
        "{empty:?}"
    );

    deploy(&client, 2).await;
    client.settle().await;
    let slice = &slices().await[0];

    let ports = json!([
        {"name": "a", "port": 8080, "protocol": "TCP"}, {"name": "b", "port": 9090, "protocol": "TCP"},
    ]);
    assert_eq!(slice["ports"], ports);

    let labels = json!({
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": "web",
    });
    assert_eq!(
        (&slice["metadata"]["labels"], &slice["addressType"]),
        (&labels, &json!("IPv4"))
    );

    let pods = client.list(PODS).await;
    for (endpoint, pod) in slice["endpoints"]
        .as_array()
        .expect("endpoints")
        .iter()
        .zip(&pods)
    {
        assert_eq!(endpoint["addresses"][0], pod["status"]["podIP"]);
        assert_eq!(
            endpoint["conditions"],
            json!({"ready": true, "serving": true, "terminating": false})
        );
        assert_eq!(endpoint["targetRef"]["uid"], pod["metadata"]["uid"]);
    }

    client
        .patch(
            &format!("{DEPLOYMENTS}/web"),
            &json!({"spec": {"replicas": 1}}),
        )
        .await;

    client.pass(5000).await;
    assert_eq!(
        slices().await[0]["endpoints"].as_array().map(Vec::len),
        Some(1)
    );

    client
        .delete("/api/v1/namespaces/default/services/web", "")
        .await;

    client.settle().await;
    assert!(slices().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn evictions_stop_at_the_disruption_budget() {
    let mut names = workloads();
    names.push(Name::DisruptionBudgets);
    let client = Client::with_controllers(names);

    deploy(&client, 3).await;
    let spec = json!({"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}});
    client
        .create(BUDGETS, &json!({"metadata": {"name": "web"}, "spec": spec}))
        .await;

    client.settle().await;
    let (_, budget) = client.get(&format!("{BUDGETS}/web")).await;
    let mut status = budget["status"].clone();

    let condition = &mut status["conditions"][0];
    assert!(
        condition
            .as_object_mut()
            .and_then(|members| members.remove("lastTransitionTime"))
            .is_some()
    );

    // As kube-controller-manager 1.36.2 writes it.
    let condition = json!({
        "message": "", "observedGeneration": 1, "reason": "SufficientPods", "status": "True",
        "type": "DisruptionAllowed",
    });
    let expected = json!({
        "conditions": [condition], "currentHealthy": 3, "desiredHealthy": 2, "disruptionsAllowed": 1,
        "expectedPods": 3, "observedGeneration": 1,
    });
    assert_eq!(status, expected);

    let pods = client.names(PODS).await;
    let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    assert_eq!(evict(&client, &pods[0]).await, (201, success));

    let (_, evicted) = client.get(&format!("{PODS}/{}", pods[0])).await;
    let conditions = evicted["status"]["conditions"]
        .as_array()
        .expect("conditions");
    assert!(
        conditions
            .iter()
            .any(|one| one["reason"] == "EvictionByEvictionAPI"),
        "{evicted}"
    );

    let (code, refused) = evict(&client, &pods[1]).await;

    // As kube-apiserver 1.36.2 answers.
    let cause = json!({
        "reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods and has 3 currently",
    });

    assert_eq!((code, &refused["reason"]), (429, &json!("TooManyRequests")));
    assert_eq!(
        refused["message"],
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    assert_eq!(refused["details"], json!({"causes": [cause]}));

    // The Deployment replaces the Pod, and the next one may go.
    client.pass(5000).await;
    assert_eq!(evict(&client, &pods[1]).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_budget_are_not_evicted_without_its_controller() {
    let client = Client::with_controllers(workloads());
    deploy(&client, 1).await;
    client.settle().await;
    let pods = client.names(PODS).await;

    let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    client
        .create(BUDGETS, &json!({"metadata": {"name": "web"}, "spec": spec}))
        .await;
    let (code, refused) = evict(&client, &pods[0]).await;
    assert_eq!(code, 501, "{refused}");

    client.delete(&format!("{BUDGETS}/web"), "").await;
    assert_eq!(evict(&client, &pods[0]).await.0, 201);
}
