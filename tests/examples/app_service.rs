//! app-service: a Deployment and a Service for each AppService, kept as it says.

use operetta_testkit::{Host, Kind, TestNamespace, kinds};
use serde_json::{Value, json};

use crate::{comes_to_rest, delete_until_back, installed, until_field};

in_each_language!(
    go: "app-service-go", typescript: "app-service-typescript";
    (
        an_app_service_gets_its_children_and_its_status_follows_them,
        a_changed_spec_reaches_the_children_and_the_service_keeps_its_address,
        children_deleted_by_hand_come_back,
        a_malformed_annotation_is_reported_by_name,
        a_deleted_app_service_takes_its_children_with_it,
    )
);

const APP_SERVICE: Kind = Kind("batch.example.com/v1alpha1", "AppService");
const SERVICE: Kind = Kind("v1", "Service");

async fn running(component: &str) -> (&'static Host, TestNamespace<'static>) {
    installed("app-service", component).await
}

/// Creates an AppService and waits until as many replicas are available as it wants.
async fn create(namespace: &TestNamespace<'_>, name: &str, replicas: u32) -> Value {
    let made = json!({"metadata": {"name": name}, "spec": {"replicas": replicas}});
    let made = namespace.create_object(APP_SERVICE, made).await;
    until_available(namespace, name, replicas).await;
    made
}

async fn until_available(namespace: &TestNamespace<'_>, name: &str, replicas: u32) {
    until_field(
        namespace,
        APP_SERVICE,
        name,
        "/status/availableReplicas",
        json!(replicas),
    )
    .await;
}

async fn an_app_service_gets_its_children_and_its_status_follows_them(component: &str) {
    let (host, namespace) = running(component).await;
    let made_for = create(&namespace, "one", 2).await;

    for kind in [kinds::DEPLOYMENT, SERVICE] {
        let child = namespace.get(kind, "one").await.expect("made");
        let owner = &child["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["uid"], &owner["controller"]),
            (&made_for["metadata"]["uid"], &json!(true)),
            "{}",
            kind.1
        );
    }

    let now = namespace.get(APP_SERVICE, "one").await.expect("there");
    let kept = now["metadata"]["annotations"]["spec"]
        .as_str()
        .expect("the annotation `spec`");
    assert_eq!(
        serde_json::from_str::<Value>(kept).expect("JSON"),
        now["spec"]
    );

    comes_to_rest(&namespace).await;
    host.assert_sound();
}

async fn a_changed_spec_reaches_the_children_and_the_service_keeps_its_address(component: &str) {
    let (_, namespace) = running(component).await;
    create(&namespace, "two", 1).await;

    let before = namespace.get(SERVICE, "two").await.expect("made")["spec"]["clusterIP"].clone();
    assert!(
        before
            .as_str()
            .is_some_and(|address| address.starts_with("10.")),
        "{before}"
    );

    namespace
        .patch(APP_SERVICE, "two", json!({"spec": {"replicas": 3}}))
        .await;
    until_available(&namespace, "two", 3).await;
    until_field(
        &namespace,
        kinds::DEPLOYMENT,
        "two",
        "/spec/replicas",
        json!(3),
    )
    .await;

    let now = namespace.get(APP_SERVICE, "two").await.expect("there");
    let kept = now["metadata"]["annotations"]["spec"]
        .as_str()
        .expect("the annotation `spec`");
    assert_eq!(
        serde_json::from_str::<Value>(kept).expect("JSON"),
        now["spec"]
    );

    assert_eq!(
        namespace.get(SERVICE, "two").await.expect("kept")["spec"]["clusterIP"],
        before
    );

    comes_to_rest(&namespace).await;
}

async fn children_deleted_by_hand_come_back(component: &str) {
    let (_, namespace) = running(component).await;
    create(&namespace, "three", 1).await;
    delete_until_back(&namespace, kinds::DEPLOYMENT, "three").await;
    delete_until_back(&namespace, SERVICE, "three").await;
    until_available(&namespace, "three", 1).await;
}

async fn a_malformed_annotation_is_reported_by_name(component: &str) {
    let (host, namespace) = running(component).await;
    create(&namespace, "four", 1).await;

    namespace
        .patch(
            APP_SERVICE,
            "four",
            json!({"metadata": {"annotations": {"spec": "{replicas"}}}),
        )
        .await;

    let message = namespace
        .until_degraded_by("app-service", &["four", "annotation", "spec"])
        .await;
    assert!(!message.contains("unreachable"), "{message}");

    create(&namespace, "healthy", 1).await;
    host.assert_sound();
}

async fn a_deleted_app_service_takes_its_children_with_it(component: &str) {
    let (_, namespace) = running(component).await;
    create(&namespace, "five", 1).await;
    namespace.kubectl(&["delete", "appservice/five"]);
    namespace.until_gone(kinds::DEPLOYMENT, "five").await;
    namespace.until_gone(SERVICE, "five").await;
}
