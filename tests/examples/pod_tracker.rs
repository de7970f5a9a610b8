//! pod-tracker: client-go's workqueue example.

use operetta_testkit::{Host, TestNamespace, eventually, kinds};
use serde_json::{Value, json};

use crate::installed;

async fn create_pod(namespace: &TestNamespace<'_>, name: &str, annotations: Value) {
    let spec = json!({"containers": [{"name": "c", "image": "nginx"}]});
    let pod = json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec});
    namespace.create_object(kinds::POD, pod).await;
}

async fn until_logged(host: &Host, namespace: &TestNamespace<'_>, message: &str, at_least: usize) {
    eventually(
        &format!("{at_least} times {message:?} in `operetta logs`"),
        async || {
            let lines = host.logs(namespace.name(), "pod-tracker");
            let count = lines.iter().filter(|line| line.message == message).count();
            if count >= at_least {
                Ok(())
            } else {
                Err(format!("{lines:?}"))
            }
        },
    )
    .await;
}

#[tokio::test]
async fn log_shows_pod_lifecycle() {
    let (host, namespace) = installed("pod-tracker", "pod-tracker").await;
    create_pod(&namespace, "p", json!({})).await;
    until_logged(host, &namespace, "Sync/Add/Update for Pod p", 1).await;
    namespace
        .until(kinds::POD, "p", |pod| {
            if pod["status"]["phase"] == "Running" {
                Ok(())
            } else {
                Err("not running".into())
            }
        })
        .await;

    let syncs = || {
        let lines = host.logs(namespace.name(), "pod-tracker");
        lines
            .iter()
            .filter(|line| line.message == "Sync/Add/Update for Pod p")
            .count()
    };

    let before = syncs();
    namespace.kubectl(&["label", "pod/p", "changed=yes"]);
    until_logged(host, &namespace, "Sync/Add/Update for Pod p", before + 1).await;

    namespace.kubectl(&["delete", "pod/p"]);
    until_logged(
        host,
        &namespace,
        &format!("Pod {}/p does not exist anymore", namespace.name()),
        1,
    )
    .await;

    let lines = host.logs(namespace.name(), "pod-tracker");
    let key = format!("{}/p", namespace.name());
    assert!(
        lines
            .iter()
            .filter(|line| !line.key.is_empty())
            .all(|line| line.key == key && line.controller == "pod")
    );
}

#[tokio::test]
async fn failing_pod_is_dropped_after_five_retries() {
    let (host, namespace) = installed("pod-tracker", "pod-tracker").await;
    create_pod(&namespace, "healthy", json!({})).await;
    until_logged(host, &namespace, "Sync/Add/Update for Pod healthy", 1).await;

    let of_plugin = format!("namespace=\"{}\"", namespace.name());
    let terminal = || {
        host.metric(
            "controller_runtime_terminal_reconcile_errors_total",
            &[&of_plugin],
        )
    };
    assert_eq!(terminal(), 0.0);

    // Never scheduled, so that nothing but the failures brings it back.
    let key = format!("{}/failing", namespace.name());
    let spec = json!({"schedulerName": "nobody", "containers": [{"name": "c", "image": "nginx"}]});
    let annotations = json!({"pod-tracker.operetta.dev/fail": "true"});
    let pod = json!({"metadata": {"name": "failing", "annotations": annotations}, "spec": spec});
    namespace.create_object(kinds::POD, pod).await;
    let reason = "annotation pod-tracker.operetta.dev/fail is \"true\"";
    let dropping = format!("Dropping pod \"{key}\" out of the queue: {reason}");
    until_logged(host, &namespace, &dropping, 1).await;

    let lines = host.logs(namespace.name(), "pod-tracker");
    let retried = lines
        .iter()
        .filter(|line| line.key == key && line.message == "reconcile failed, retrying")
        .count();
    assert_eq!(retried, 5, "{lines:?}");
    assert_eq!(terminal(), 1.0);

    namespace
        .until_degraded("pod-tracker", "TerminalError", &[&key, "Dropping pod"])
        .await;
    until_logged(host, &namespace, "Sync/Add/Update for Pod healthy", 1).await;
    host.assert_sound();
}
