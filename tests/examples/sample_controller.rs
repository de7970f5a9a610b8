//! sample-controller: the six points of Kubernetes' own.

use operetta_testkit::{AuditEvent, Host, Kind, TestNamespace, eventually, kinds, plugin_path};
use serde_json::{Value, json};

use crate::installed;

in_each_language!(
    rust: "sample-controller", go: "sample-controller-go", python: "sample-controller-python",
    typescript: "sample-controller-typescript", c: "sample-controller-c";
    (
        a_foo_gets_its_deployment_and_its_status_follows_it,
        a_deployment_that_is_changed_or_deleted_by_hand_is_put_back,
        a_deployment_of_someone_else_is_left_alone_and_reported,
        a_foo_without_a_deployment_name_is_refused_by_its_crd,
        kubectl_describe_shows_the_synced_event_once_with_its_count,
        a_deleted_foo_takes_its_deployment_with_it,
        whoever_scales_a_deployment_again_and_again_is_named,
    )
);

const FOO: Kind = Kind("samplecontroller.k8s.io/v1alpha1", "Foo");

/// A ConfigMap takes 1 MiB of a component; this leaves room for an author's own code.
#[test]
fn plugin_in_rust_has_at_most_400_kib() {
    let size = std::fs::metadata(plugin_path("sample-controller"))
        .expect("a file")
        .len();
    assert!(
        size <= 400 << 10,
        "{size} bytes: see docs/decisions/0033-size-of-rust-plugins.md"
    );
}

/// The plugin at work in a namespace of its own.
async fn running(component: &str) -> (&'static Host, TestNamespace<'static>) {
    installed("sample-controller", component).await
}

async fn create_foo(
    namespace: &TestNamespace<'_>,
    name: &str,
    deployment: &str,
    replicas: u32,
) -> Value {
    let spec = json!({"deploymentName": deployment, "replicas": replicas});
    namespace
        .create_object(FOO, json!({"metadata": {"name": name}, "spec": spec}))
        .await
}

/// Waits until as many of the Deployment's replicas are available, and the Foo says so.
async fn until_available(namespace: &TestNamespace<'_>, name: &str, replicas: u32) {
    namespace
        .until(
            FOO,
            name,
            |found| match found["status"]["availableReplicas"].as_u64() {
                Some(now) if now == u64::from(replicas) => Ok(()),
                now => Err(format!("availableReplicas is {now:?}, not {replicas}")),
            },
        )
        .await;
}

fn replicas_are(wanted: u32) -> impl Fn(&Value) -> Result<(), String> {
    move |deployment| match deployment["spec"]["replicas"].as_u64() {
        Some(now) if now == u64::from(wanted) => Ok(()),
        now => Err(format!("spec.replicas is {now:?}, not {wanted}")),
    }
}

/// How often a create of this Deployment was tried, with or without success.
fn creates(namespace: &TestNamespace<'_>, deployment: &str) -> usize {
    let audit = namespace.control_plane().audit();
    let here = |event: &&AuditEvent| {
        event.object_ref.namespace == namespace.name() && event.object_ref.name == deployment
    };
    audit.done("create", "deployments").filter(here).count()
}

async fn a_foo_gets_its_deployment_and_its_status_follows_it(component: &str) {
    let (host, namespace) = running(component).await;
    let made_for = create_foo(&namespace, "one", "one-deployment", 2).await;
    until_available(&namespace, "one", 2).await;

    let made = namespace
        .get(kinds::DEPLOYMENT, "one-deployment")
        .await
        .expect("made");
    let owner = &made["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], made_for["metadata"]["uid"]);
    assert_eq!(
        (&owner["controller"], &owner["blockOwnerDeletion"]),
        (&json!(true), &json!(true))
    );

    assert_eq!(
        made["spec"]["selector"]["matchLabels"],
        json!({"app": "nginx", "controller": "one"})
    );
    assert_eq!(
        made["spec"]["template"]["spec"]["containers"][0]["image"],
        "nginx:latest"
    );

    namespace
        .patch(FOO, "one", json!({"spec": {"replicas": 3}}))
        .await;
    until_available(&namespace, "one", 3).await;

    namespace
        .until(kinds::DEPLOYMENT, "one-deployment", replicas_are(3))
        .await;
    assert!(
        namespace
            .plugin_condition("sample-controller", "Degraded")
            .await
            .is_some_and(|degraded| degraded.status == "False")
    );

    host.assert_sound();
}

async fn a_deployment_that_is_changed_or_deleted_by_hand_is_put_back(component: &str) {
    let (_, namespace) = running(component).await;
    create_foo(&namespace, "two", "two-deployment", 1).await;
    until_available(&namespace, "two", 1).await;

    namespace.kubectl(&["scale", "deployment/two-deployment", "--replicas=5"]);
    namespace
        .until(kinds::DEPLOYMENT, "two-deployment", replicas_are(1))
        .await;

    let before = namespace
        .get(kinds::DEPLOYMENT, "two-deployment")
        .await
        .expect("there");

    namespace.kubectl(&["delete", "deployment/two-deployment"]);
    namespace
        .until(kinds::DEPLOYMENT, "two-deployment", |now| {
            if now["metadata"]["uid"] == before["metadata"]["uid"] {
                Err("the old one".to_owned())
            } else {
                Ok(())
            }
        })
        .await;

    until_available(&namespace, "two", 1).await;
    assert_eq!(creates(&namespace, "two-deployment"), 2);
}

async fn a_deployment_of_someone_else_is_left_alone_and_reported(component: &str) {
    let (_, namespace) = running(component).await;
    namespace.kubectl(&[
        "create",
        "deployment",
        "taken",
        "--image=busybox",
        "--replicas=1",
    ]);

    create_foo(&namespace, "three", "taken", 4).await;
    eventually("the Event ErrResourceExists", async || {
        let described = namespace.kubectl(&["describe", "foo/three"]);
        let wanted = [
            "Warning",
            "ErrResourceExists",
            "Resource \"taken\" already exists and is not managed by Foo",
        ];
        if wanted.iter().all(|part| described.contains(part)) {
            Ok(())
        } else {
            Err(described)
        }
    })
    .await;

    // Retried with backoff: a person will have to look.
    namespace
        .until_degraded(
            "sample-controller",
            "ReconcileFailing",
            &["three", "is not managed by Foo"],
        )
        .await;

    let taken = namespace
        .get(kinds::DEPLOYMENT, "taken")
        .await
        .expect("there");
    assert_eq!(
        (
            &taken["spec"]["replicas"],
            &taken["metadata"]["ownerReferences"]
        ),
        (&json!(1), &Value::Null)
    );

    namespace.kubectl(&["delete", "deployment/taken"]);
    until_available(&namespace, "three", 4).await;
    namespace
        .until_condition("sample-controller", "Degraded", "False", "AsExpected")
        .await;
}

async fn a_foo_without_a_deployment_name_is_refused_by_its_crd(component: &str) {
    let (_, namespace) = running(component).await;
    for spec in [
        json!({"deploymentName": ""}),
        json!({}),
        json!({"deploymentName": "d", "replicas": 11}),
    ] {
        let wrong =
            json!({"apiVersion": FOO.0, "kind": FOO.1, "metadata": {"name": "four"}, "spec": spec});
        let file = namespace.control_plane().folder().join("four.json");
        std::fs::write(&file, wrong.to_string()).expect("written");

        let args = [
            "-n",
            namespace.name(),
            "apply",
            "-f",
            file.to_str().expect("a path"),
        ];

        let refused = namespace.control_plane().kubectl_output(&args);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && said.contains("is invalid: spec."),
            "{spec}: {said}"
        );
    }
}

async fn kubectl_describe_shows_the_synced_event_once_with_its_count(component: &str) {
    let (_, namespace) = running(component).await;
    create_foo(&namespace, "five", "five", 1).await;
    until_available(&namespace, "five", 1).await;

    for replicas in [2, 3, 4] {
        namespace
            .patch(FOO, "five", json!({"spec": {"replicas": replicas}}))
            .await;
        until_available(&namespace, "five", replicas).await;
    }

    let line = eventually("a line like `Normal Synced (x4 over 9s)`", async || {
        let described = namespace.kubectl(&["describe", "foo/five"]);
        let synced: Vec<&str> = described
            .lines()
            .filter(|line| line.contains("Synced"))
            .collect();
        match synced.as_slice() {
            [line] if line.contains("(x") && line.contains(" over ") => Ok((*line).to_owned()),
            _ => Err(described),
        }
    })
    .await;
    assert!(
        line.contains("Normal") && line.contains("Foo synced successfully"),
        "{line}"
    );
    assert!(
        line.contains("sample-controller"),
        "the column From names the plugin: {line}"
    );
}

async fn a_deleted_foo_takes_its_deployment_with_it(component: &str) {
    let (_, namespace) = running(component).await;
    create_foo(&namespace, "six", "six", 1).await;
    until_available(&namespace, "six", 1).await;
    namespace.kubectl(&["delete", "foo/six"]);
    namespace.until_gone(kinds::DEPLOYMENT, "six").await;
}

async fn whoever_scales_a_deployment_again_and_again_is_named(component: &str) {
    let (_, namespace) = running(component).await;
    create_foo(&namespace, "seven", "seven", 1).await;
    until_available(&namespace, "seven", 1).await;

    let patch = json!({"spec": {"replicas": 5}}).to_string();
    // The first time only shows what the controller wants; five more times are a fight.
    for _ in 0..6 {
        namespace.kubectl(&[
            "patch",
            "deployment/seven",
            "--field-manager=gitops",
            "-p",
            &patch,
        ]);
        namespace
            .until(kinds::DEPLOYMENT, "seven", replicas_are(1))
            .await;
    }

    let message = namespace
        .until_event(kinds::DEPLOYMENT, "seven", "FightingControllers")
        .await;
    for words in [
        "/sample-controller (controller ",
        "field manager \"gitops\"",
        ".spec.replicas of Deployment.apps/v1",
    ] {
        assert!(message.contains(words), "{words:?} is not in: {message}");
    }
}
