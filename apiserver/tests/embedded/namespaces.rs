//! What every namespace gets, and how it is deleted.

use operetta_apiserver::{ControllerName, Controllers};
use serde_json::{Value, json};

use crate::client::Client;

async fn create_namespace(client: &Client, name: &str) {
    client
        .create("/api/v1/namespaces", &json!({"metadata": {"name": name}}))
        .await;
}

/// A namespace's conditions as type, status, reason and message.
fn conditions(namespace: &Value) -> Vec<[&str; 4]> {
    let conditions = namespace["status"]["conditions"]
        .as_array()
        .expect("conditions");
    let text = |condition: &'_ Value, name: &str| condition[name].as_str().map(str::to_owned);
    assert!(
        conditions
            .iter()
            .all(|condition| text(condition, "lastTransitionTime").is_some())
    );

    let member = |condition: &'static str| condition;
    conditions
        .iter()
        .map(|condition| {
            ["type", "status", "reason", "message"]
                .map(|name| condition[member(name)].as_str().expect("a text"))
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn deleted_namespace_takes_its_objects_along() {
    let client = Client::with_controllers([ControllerName::Namespaces]);
    create_namespace(&client, "t").await;

    client
        .create(
            "/api/v1/namespaces/t/configmaps",
            &json!({"metadata": {"name": "a"}}),
        )
        .await;
    client
        .create(
            "/api/v1/namespaces/t/secrets",
            &json!({"metadata": {"name": "a"}}),
        )
        .await;
    client
        .create(
            "/apis/coordination.k8s.io/v1/namespaces/t/leases",
            &json!({"metadata": {"name": "a"}}),
        )
        .await;
    client
        .create(
            "/api/v1/namespaces/default/configmaps",
            &json!({"metadata": {"name": "other"}}),
        )
        .await;

    client.delete("/api/v1/namespaces/t", "").await;
    client.settle().await;
    assert_eq!(client.get("/api/v1/namespaces/t").await.0, 404);

    for resource in [
        "/api/v1/configmaps",
        "/api/v1/secrets",
        "/apis/coordination.k8s.io/v1/leases",
    ] {
        let left = client.list(resource).await;
        assert!(
            left.iter()
                .all(|object| object["metadata"]["namespace"] != "t"),
            "{resource}: {left:?}"
        );
    }

    assert_eq!(
        client.names("/api/v1/namespaces/default/configmaps").await,
        ["other"]
    );
}

#[tokio::test(start_paused = true)]
async fn namespace_waits_for_objects_with_finalizers() {
    let client = Client::with_controllers([ControllerName::Namespaces]);
    create_namespace(&client, "t").await;

    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    client
        .create("/api/v1/namespaces/t/configmaps", &held)
        .await;

    client.delete("/api/v1/namespaces/t", "").await;
    client.settle().await;
    let (_, namespace) = client.get("/api/v1/namespaces/t").await;

    // As kube-controller-manager 1.36.2 writes it.
    let expected = [
        [
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ],
        [
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ],
        [
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ],
        [
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ],
        [
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
        ],
    ];
    assert_eq!(conditions(&namespace), expected);

    let (code, _) = client
        .send(
            "POST",
            "/api/v1/namespaces/t/configmaps",
            &[],
            &json!({"metadata": {"name": "late"}}),
        )
        .await;
    assert_eq!(code, 403);
    client
        .patch(
            "/api/v1/namespaces/t/configmaps/held",
            &json!({"metadata": {"finalizers": null}}),
        )
        .await;

    client.settle().await;
    assert_eq!(client.get("/api/v1/namespaces/t").await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn namespaces_get_an_account_and_the_certificate() {
    let mut controllers = Controllers::only([
        ControllerName::ServiceAccounts,
        ControllerName::RootCertificate,
    ]);
    controllers.root_certificate = Some("PEM".into());

    let client = Client::with(controllers);
    create_namespace(&client, "t").await;
    client.settle().await;

    for namespace in ["default", "kube-system", "t"] {
        let path = format!("/api/v1/namespaces/{namespace}");
        assert_eq!(
            client.names(&format!("{path}/serviceaccounts")).await,
            ["default"]
        );

        let (_, certificate) = client
            .get(&format!("{path}/configmaps/kube-root-ca.crt"))
            .await;
        assert_eq!(certificate["data"], json!({"ca.crt": "PEM"}));
    }

    client
        .delete("/api/v1/namespaces/t/serviceaccounts/default", "")
        .await;
    let changed = json!({"data": {"ca.crt": "other"}});
    client
        .patch("/api/v1/namespaces/t/configmaps/kube-root-ca.crt", &changed)
        .await;
    client.settle().await;

    assert_eq!(
        client.names("/api/v1/namespaces/t/serviceaccounts").await,
        ["default"]
    );

    let (_, certificate) = client
        .get("/api/v1/namespaces/t/configmaps/kube-root-ca.crt")
        .await;
    assert_eq!(certificate["data"]["ca.crt"], "PEM");
}
