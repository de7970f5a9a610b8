//! The premises of a test: `add` and `define`.

use serde_json::{Value, json};

use super::{Server, map};

fn foo(name: &str) -> Value {
    json!({"apiVersion": "e.dev/v1", "kind": "Foo", "metadata": {"name": name, "namespace": "ns"}, "spec": {"size": 1}})
}

fn foo_kind() -> Value {
    json!({"apiVersion": "e.dev/v1", "kind": "Foo"})
}

#[test]
fn added_object_keeps_status_and_given_metadata() {
    let server = Server::start();
    let mut connection = server.open();
    let mut object = foo("a");
    object["status"] = json!({"ready": true});
    object["metadata"]["uid"] = "u-1".into();
    object["metadata"]["generation"] = 7.into();
    object["metadata"]["resourceVersion"] = "9".into();
    object["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();

    let added = connection.ok(&json!({"call": "add", "object": object}));
    assert_eq!(added["status"], json!({"ready": true}));
    let metadata = &added["metadata"];
    assert_eq!(
        (&metadata["uid"], &metadata["generation"]),
        (&json!("u-1"), &json!(7))
    );
    assert_eq!(metadata["creationTimestamp"], "2020-01-01T00:00:00Z");

    let key = json!({"namespace": "ns", "name": "a"});
    for read in ["cached", "live"] {
        let got =
            connection.ok(&json!({"call": "get", "kind": foo_kind(), "key": key, "read": read}));
        assert_eq!(got["metadata"]["uid"], "u-1", "{read}");
        assert_eq!(
            got["metadata"]["resourceVersion"], metadata["resourceVersion"],
            "{read}"
        );
    }

    let plain = connection.ok(&json!({"call": "add", "object": foo("b")}));
    assert_eq!(plain["metadata"]["generation"], 1);
    assert!(
        plain["metadata"]["uid"]
            .as_str()
            .is_some_and(|uid| uid.len() == 36),
        "{plain}"
    );
}

#[test]
fn added_object_may_be_in_deletion() {
    let server = Server::start();
    let mut connection = server.open();
    let mut object = map("a", &json!({}));
    object["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
    let failure = connection.failure(&json!({"call": "add", "object": object}));
    assert!(
        failure.contains("only while it has finalizers"),
        "{failure}"
    );

    object["metadata"]["finalizers"] = json!(["e.dev/f"]);
    let mut added = connection.ok(&json!({"call": "add", "object": object}));
    assert_eq!(
        added["metadata"]["deletionTimestamp"],
        "2020-01-01T00:00:00Z"
    );

    added["metadata"]["finalizers"] = json!([]);
    let key = json!({"namespace": "ns", "name": "a"});
    connection
        .ok(&json!({"call": "update", "kind": super::map_kind(), "key": key, "object": added}));
    assert_eq!(
        connection.refused(&super::get("a", "cached")).0,
        "not-found"
    );
}

#[test]
fn kind_without_definition_gets_one_with_its_first_object() {
    let server = Server::start();
    let mut connection = server.open();
    let list = json!({"call": "list", "kind": foo_kind(), "options": {}});
    let (case, message) = connection.refused(&list);
    assert!(
        case == "not-found" && message.contains("does not serve Foo.e.dev/v1"),
        "{message}"
    );

    connection
        .ok(&json!({"call": "create", "kind": foo_kind(), "namespace": "ns", "object": foo("a")}));
    assert_eq!(
        connection.ok(&list)["items"].as_array().map(Vec::len),
        Some(1)
    );

    let cluster_scoped =
        json!({"apiVersion": "e.dev/v1", "kind": "Bar", "metadata": {"name": "b"}});
    connection.ok(&json!({"call": "add", "object": cluster_scoped}));
    let request = json!({"method": "GET", "path": "/apis/e.dev/v1/bars/b"});
    assert_eq!(
        connection.ok(&json!({"call": "send", "request": request}))["status"],
        200
    );

    let newer = json!({"apiVersion": "e.dev/v2", "kind": "Foo", "metadata": {"name": "c", "namespace": "ns"}});
    connection.ok(&json!({"call": "add", "object": newer}));
    assert_eq!(
        connection.ok(&list)["items"].as_array().map(Vec::len),
        Some(2)
    );

    let built_in =
        json!({"apiVersion": "apps/v1", "kind": "Deploymint", "metadata": {"name": "b"}});
    let failure = connection.failure(&json!({"call": "add", "object": built_in}));
    assert!(
        failure.contains("does not serve Deploymint.apps/v1"),
        "{failure}"
    );
}

#[test]
fn defined_kind_has_its_plural_scope_and_status() {
    let server = Server::start();
    let mut connection = server.open();
    let define = |plural: &str| json!({"call": "define", "kind": foo_kind(), "plural": plural, "namespaced": true, "status": false});
    connection.ok(&json!({"call": "define", "kind": foo_kind(), "namespaced": false}));
    connection.ok(&define("fooes"));

    let mut object = foo("a");
    object["status"] = "mine".into();
    let created = connection
        .ok(&json!({"call": "create", "kind": foo_kind(), "namespace": "ns", "object": object}));
    assert_eq!(created["status"], "mine", "a field as others");

    let request = json!({"method": "GET", "path": "/apis/e.dev/v1/namespaces/ns/fooes/a"});
    assert_eq!(
        connection.ok(&json!({"call": "send", "request": request}))["status"],
        200
    );

    let failure = connection.failure(&define("foos"));
    assert!(failure.contains("it has objects as \"fooes\""), "{failure}");
}

#[test]
fn namespace_is_there_for_its_objects_and_can_be_added_after_them() {
    let server = Server::start();
    let mut connection = server.open();
    connection.ok(&json!({"call": "add", "object": map("a", &json!({}))}));
    for name in ["ns", "default", "new"] {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": "red"}},
        });

        let add = json!({"call": "add", "object": namespace});
        assert_eq!(connection.ok(&add)["metadata"]["labels"]["team"], "red");
        let failure = connection.failure(&add);
        assert!(
            failure.starts_with(&format!("add Namespace.v1 {name}: AlreadyExists (409)")),
            "{failure}"
        );
    }

    connection.ok(&super::get("a", "live"));
}

#[test]
fn definitions_of_the_project_validate_and_are_complete() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("crd.yaml"),
        include_str!("../../examples/sample-controller/crd.yaml"),
    )
    .expect("written");
    let server = Server::in_folder(folder.path());
    let mut connection = server.open();

    let foo = |spec: Value| {
        json!({
            "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo",
            "metadata": {"name": "a", "namespace": "ns"}, "spec": spec,
        })
    };

    let failure =
        connection.failure(&json!({"call": "add", "object": foo(json!({"replicas": "two"}))}));
    assert!(failure.contains("spec.replicas"), "{failure}");
    connection
        .ok(&json!({"call": "add", "object": foo(json!({"deploymentName": "d", "replicas": 1}))}));

    let kind = json!({"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Fu"});
    let create = json!({"call": "create", "kind": kind, "namespace": "ns", "object": {"metadata": {"name": "a"}}});
    assert_eq!(
        connection.refused(&create).0,
        "not-found",
        "a typing mistake is no new kind"
    );

    let define = |plural: &str, status: bool| {
        let kind = json!({"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo"});
        json!({"call": "define", "kind": kind, "plural": plural, "status": status})
    };

    connection.ok(&define("foos", true));
    for wrong in [define("fooes", true), define("foos", false)] {
        let failure = connection.failure(&wrong);
        assert!(
            failure.contains("defined as \"foos\", with a status, by the project's crd.yaml"),
            "{failure}"
        );
    }

    let failure =
        connection.failure(&json!({"call": "add", "object": foo(json!({"replicas": "two"}))}));
    assert!(
        failure.contains("spec.replicas"),
        "its schema is still in force: {failure}"
    );
}
