//! cloud-manager: a small stack brought up in phases, each waiting for the one before.

use operetta_testkit::{Host, Kind, TestNamespace, kinds};
use serde_json::{Value, json};

use crate::{comes_to_rest, delete_until_back, installed, until_field};

in_each_language!(
    go: "cloud-manager-go", python: "cloud-manager-python";
    (
        a_cloud_goes_from_empty_to_ready,
        a_renamed_child_is_replaced_and_the_old_one_deleted,
        children_deleted_by_hand_come_back,
        a_deleted_cloud_takes_every_child_with_it,
    )
);

const CLOUD: Kind = Kind("cloudmanagercontroller.huayun.com/v1", "CloudManager");
const STATEFUL_SET: Kind = Kind("apps/v1", "StatefulSet");

async fn running(component: &str) -> (&'static Host, TestNamespace<'static>) {
    installed("cloud-manager", component).await
}

/// Creates a CloudManager and waits until it is ready.
async fn create(namespace: &TestNamespace<'_>, name: &str) -> Value {
    let storage = json!({"class": "kwok-volume", "accessModes": ["ReadWriteOnce"], "size": "1Gi"});
    let spec = json!({
        "front": {"deployment": {"name": format!("{name}-front"), "image": "nginx"}},
        "identity": {"deployment": {"name": format!("{name}-identity"), "image": "busybox"}},
        "db": {
            "statefulSet": {"name": format!("{name}-db"), "image": "mariadb", "storage": storage},
            "rootPass": "s3cret",
        },
    });

    let made = namespace
        .create_object(CLOUD, json!({"metadata": {"name": name}, "spec": spec}))
        .await;
    until_ready(namespace, name).await;
    made
}

async fn until_ready(namespace: &TestNamespace<'_>, name: &str) {
    until_field(namespace, CLOUD, name, "/status/phase", json!("ready")).await;
}

async fn a_cloud_goes_from_empty_to_ready(component: &str) {
    let (host, namespace) = running(component).await;
    let made_for = create(&namespace, "one").await;

    let front = namespace
        .get(kinds::DEPLOYMENT, "one-front")
        .await
        .expect("made");
    assert_eq!(
        front["spec"]["template"]["spec"]["containers"][0]["name"],
        "front-container"
    );
    assert_eq!(
        front["spec"]["template"]["metadata"]["labels"]["app"],
        "front"
    );
    assert_eq!(
        front["metadata"]["ownerReferences"][0]["uid"],
        made_for["metadata"]["uid"]
    );

    let identity = namespace
        .get(kinds::DEPLOYMENT, "one-identity")
        .await
        .expect("made");
    assert_eq!(
        identity["spec"]["template"]["spec"]["containers"][0]["command"],
        json!(["/bin/sh", "-c", "sleep 60m"])
    );

    let secret = namespace
        .get(kinds::SECRET, "one-dbauth")
        .await
        .expect("made");
    let root = |text: &str| json!(k8s_openapi::ByteString(text.as_bytes().to_vec()));
    assert_eq!(
        (&secret["data"]["username"], &secret["data"]["password"]),
        (&root("root"), &root("s3cret"))
    );

    let database = namespace.get(STATEFUL_SET, "one-db").await.expect("made");
    assert_eq!(
        database["spec"]["volumeClaimTemplates"][0]["metadata"]["name"],
        "datadir"
    );
    let variable = &database["spec"]["template"]["spec"]["containers"][0]["env"][0];
    assert_eq!(
        variable["valueFrom"]["secretKeyRef"],
        json!({"name": "one-dbauth", "key": "password"})
    );

    let column = namespace.kubectl(&["get", "cloudmanager/one", "--no-headers"]);
    assert!(
        column.split_whitespace().any(|word| word == "ready"),
        "the column Status: {column}"
    );

    let message = namespace.until_event(CLOUD, "one", "Updated").await;
    assert_eq!(message, "Update cm.status.phase: ready");

    comes_to_rest(&namespace).await;
    host.assert_sound();
}

async fn a_renamed_child_is_replaced_and_the_old_one_deleted(component: &str) {
    let (_, namespace) = running(component).await;
    create(&namespace, "two").await;
    create(&namespace, "other").await;

    let renamed = json!({"spec": {"front": {"deployment": {"name": "two-renamed"}}}});
    namespace.patch(CLOUD, "two", renamed).await;
    namespace
        .until(kinds::DEPLOYMENT, "two-renamed", |_| Ok(()))
        .await;
    namespace.until_gone(kinds::DEPLOYMENT, "two-front").await;

    let message = namespace.until_event(CLOUD, "two", "Deleted").await;
    assert_eq!(message, "Deleted deployment \"two-front\"");
    assert!(
        namespace
            .get(kinds::DEPLOYMENT, "other-front")
            .await
            .is_some(),
        "of another CloudManager"
    );

    until_ready(&namespace, "two").await;
    comes_to_rest(&namespace).await;
}

async fn children_deleted_by_hand_come_back(component: &str) {
    let (_, namespace) = running(component).await;
    create(&namespace, "three").await;
    delete_until_back(&namespace, kinds::DEPLOYMENT, "three-identity").await;
    delete_until_back(&namespace, STATEFUL_SET, "three-db").await;
    until_ready(&namespace, "three").await;
}

async fn a_deleted_cloud_takes_every_child_with_it(component: &str) {
    let (_, namespace) = running(component).await;
    create(&namespace, "four").await;
    namespace.kubectl(&["delete", "cloudmanager/four"]);

    for (kind, name) in [
        (kinds::DEPLOYMENT, "four-front"),
        (kinds::DEPLOYMENT, "four-identity"),
        (kinds::SECRET, "four-dbauth"),
        (STATEFUL_SET, "four-db"),
    ] {
        namespace.until_gone(kind, name).await;
    }
}
