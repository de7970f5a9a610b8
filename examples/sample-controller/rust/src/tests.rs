//! Tests of the sample-controller on a test server (`operetta test`).

use operetta_sdk::k8s_openapi::api::apps::v1::DeploymentStatus;
use operetta_sdk::testing::{Cluster, RecordedEvent, Verb, Write};
use operetta_sdk::{ApiError, ErrorKind, Kind, Patch};

use super::*;

const KEY: (&str, &str) = ("default", "example-foo");

fn foo() -> Foo {
    Foo::new(
        KEY,
        FooSpec {
            deployment_name: "example-foo".to_owned(),
            replicas: Some(2),
        },
    )
}

fn reconcile(cluster: &Cluster) -> Result<Action, Error> {
    cluster.reconcile(&plugin(), "foo", KEY)
}

fn deployment(cluster: &Cluster) -> Deployment {
    cluster.get(KEY).expect("a Deployment")
}

fn replicas_of(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref()?.replicas
}

fn written(cluster: &Cluster) -> Vec<String> {
    cluster.writes().iter().map(Write::to_string).collect()
}

fn reasons(events: &[RecordedEvent]) -> Vec<(EventType, &str, &str)> {
    events
        .iter()
        .map(|event| (event.kind, &*event.reason, &*event.note))
        .collect()
}

const SYNCED: (EventType, &str, &str) = (EventType::Normal, "Synced", "Foo synced successfully");

#[test]
fn foo_gets_its_deployment() {
    let cluster = Cluster::new().with(foo());
    assert_eq!(reconcile(&cluster).expect("syncs"), Action::done());

    let deployment = deployment(&cluster);
    let foo: Foo = cluster.get(KEY).expect("a Foo");
    assert_eq!(
        deployment.metadata.owner_references,
        Some(vec![owner_reference(&foo)])
    );
    let labels = BTreeMap::from(
        [("app", "nginx"), ("controller", "example-foo")].map(|(k, v)| (k.into(), v.into())),
    );
    let spec = deployment.spec.expect("a spec");
    assert_eq!(spec.replicas, Some(2));
    assert_eq!(spec.selector.match_labels.as_ref(), Some(&labels));
    assert_eq!(
        spec.template.metadata.and_then(|metadata| metadata.labels),
        Some(labels)
    );
    let container = &spec.template.spec.expect("a pod").containers[0];
    assert_eq!(
        (&*container.name, container.image.as_deref()),
        ("nginx", Some("nginx:latest"))
    );

    assert_eq!(
        foo.status,
        Some(FooStatus {
            available_replicas: 0
        })
    );
    assert_eq!(
        written(&cluster),
        [
            "Create Deployment default/example-foo",
            "UpdateStatus Foo default/example-foo"
        ]
    );
    assert_eq!(reasons(&cluster.events()), [SYNCED]);
}

#[test]
fn sync_without_changes_writes_only_event() {
    let cluster = Cluster::new().with(foo());
    reconcile(&cluster).expect("syncs");
    written(&cluster);
    cluster.events();
    reconcile(&cluster).expect("syncs");
    assert_eq!(written(&cluster), [""; 0]);
    assert_eq!(reasons(&cluster.events()), [SYNCED]);
}

#[test]
fn deleted_foo_is_done() {
    let cluster = Cluster::new();
    assert_eq!(reconcile(&cluster).expect("is done"), Action::done());
    assert_eq!(written(&cluster), [""; 0]);
}

#[test]
#[should_panic = "spec.deploymentName: Invalid value"]
fn definition_refuses_empty_deployment_name() {
    let mut foo = foo();
    foo.spec.deployment_name.clear();
    drop(Cluster::new().with(foo));
}

#[test]
fn foreign_deployment_is_kept_with_warning() {
    let mut theirs = new_deployment(&foo());
    theirs.metadata.owner_references = None;
    let cluster = Cluster::new().with(foo()).with(theirs);
    let error = reconcile(&cluster).expect_err("not ours");
    assert!(!error.is_terminal(), "it may become free");
    let message = "Resource \"example-foo\" already exists and is not managed by Foo";
    assert_eq!(error.to_string(), message);
    assert_eq!(
        reasons(&cluster.events()),
        [(EventType::Warning, "ErrResourceExists", message)]
    );
    assert_eq!(written(&cluster), [""; 0]);
}

#[test]
fn corrects_replicas_of_deployment() {
    let cluster = Cluster::new().with(foo());
    reconcile(&cluster).expect("syncs");
    for (kind, replicas, wanted) in [(Deployment::gvk(), 5, 2), (Foo::gvk(), 3, 3)] {
        let patch = BTreeMap::from([("spec", BTreeMap::from([("replicas", replicas)]))]);
        cluster
            .context()
            .dynamic(&kind)
            .patch(KEY, Patch::merge(&patch))
            .expect("patches");
        reconcile(&cluster).expect("syncs");
        assert_eq!(
            replicas_of(&deployment(&cluster)),
            Some(wanted),
            "{kind} set to {replicas}"
        );
    }
}

#[test]
fn keeps_deployment_replicas_if_foo_has_none() {
    let mut foo = foo();
    foo.spec.replicas = None;
    let cluster = Cluster::new().with(foo);
    reconcile(&cluster).expect("syncs");
    let mut scaled = deployment(&cluster);
    scaled.spec.get_or_insert_default().replicas = Some(7);
    cluster.context().update(&scaled).expect("scales");
    reconcile(&cluster).expect("syncs");
    assert_eq!(replicas_of(&deployment(&cluster)), Some(7));
}

#[test]
fn status_follows_deployment() {
    let cluster = Cluster::new().with(foo());
    reconcile(&cluster).expect("syncs");
    let mut ready = deployment(&cluster);
    ready.status = Some(DeploymentStatus {
        replicas: Some(2),
        ready_replicas: Some(2),
        available_replicas: Some(2),
        ..DeploymentStatus::default()
    });
    cluster.context().update_status(&ready).expect("is ready");
    reconcile(&cluster).expect("syncs");
    let foo: Foo = cluster.get(KEY).expect("a Foo");
    assert_eq!(
        foo.status,
        Some(FooStatus {
            available_replicas: 2
        })
    );
    assert_eq!(foo.metadata.generation, Some(1), "the spec was not touched");
}

#[test]
fn recreates_deleted_deployment() {
    let cluster = Cluster::new().with(foo());
    reconcile(&cluster).expect("syncs");
    cluster
        .context()
        .delete(&deployment(&cluster))
        .expect("deletes");
    reconcile(&cluster).expect("syncs");
    assert_eq!(replicas_of(&deployment(&cluster)), Some(2));
}

#[test]
fn api_server_failure_is_retried() {
    let cluster = Cluster::new().with(foo());
    cluster.fail_next(
        Verb::Create,
        ApiError::new(ErrorKind::Unavailable, "etcd is down"),
    );
    let error = reconcile(&cluster).expect_err("down");
    assert!(!error.is_terminal());
    assert_eq!(
        error.api().map(ApiError::kind),
        Some(ErrorKind::Unavailable)
    );
    assert!(cluster.events().is_empty());
}

#[test]
fn changed_deployments_enqueue_their_foo() {
    let manifest = plugin().manifest();
    let owns = r#""owns":[{"apiVersion":"apps/v1","kind":"Deployment","namespaces":"Own","predicates":["ResourceVersionChanged"]}]"#;
    assert!(manifest.contains(owns), "{manifest}");
}
