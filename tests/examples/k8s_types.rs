//! A plugin of the small Go SDK over the types of k8s.io/api: tests/guests/k8s-types-go.

use operetta_testkit::{ControlPlane, kinds};
use serde_json::json;

use crate::{comes_to_rest, host, install, until_field};

#[tokio::test]
async fn go_plugin_over_k8s_io_api_types_reconciles_and_comes_to_rest() {
    let host = host().await;
    let namespace = ControlPlane::with_controllers()
        .await
        .namespace("k8s-types")
        .await;
    namespace.allow_all("k8s-types").await;
    install(host, &namespace, "k8s-types-go", "k8s-types").await;

    let metadata = json!({"name": "web", "labels": {"operetta-fixture": "true"}});
    let app = json!({"metadata": metadata, "data": {"image": "nginx:1"}});
    let app = namespace.create_object(kinds::CONFIG_MAP, app).await;
    let image = "/spec/template/spec/containers/0/image";

    until_field(
        &namespace,
        kinds::DEPLOYMENT,
        "web",
        image,
        json!("nginx:1"),
    )
    .await;

    let made = namespace.get(kinds::DEPLOYMENT, "web").await.expect("made");
    assert_eq!(
        made["metadata"]["ownerReferences"][0]["uid"],
        app["metadata"]["uid"]
    );
    assert_eq!(
        made["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"],
        "500m"
    );

    until_field(
        &namespace,
        kinds::CONFIG_MAP,
        "web",
        "/data/deployment",
        made["metadata"]["uid"].clone(),
    )
    .await;
    assert_eq!(
        namespace
            .until_event(kinds::CONFIG_MAP, "web", "Deployed")
            .await,
        "The Deployment was created"
    );

    // Fields that the API server has defaulted in the Deployment do not count as a difference.
    namespace.kubectl(&["set", "image", "deployment/web", "app=other"]);
    until_field(
        &namespace,
        kinds::DEPLOYMENT,
        "web",
        image,
        json!("nginx:1"),
    )
    .await;
    comes_to_rest(&namespace).await;

    namespace.delete(kinds::CONFIG_MAP, "web").await;
    namespace.until_gone(kinds::CONFIG_MAP, "web").await;
    namespace.until_gone(kinds::DEPLOYMENT, "web").await;
    host.assert_sound();
}
