//! Each call of the protocol.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Server, get, map, map_kind};

#[test]
fn connection_without_the_token_is_closed() {
    let server = Server::start();
    for first in [
        r#"{"call":"open","token":"x"}"#,
        r#"{"call":"open"}"#,
        r#"{"call":"dump"}"#,
        "garbage",
    ] {
        assert_eq!(server.connect().line(first), None, "{first}");
    }
}

#[test]
fn line_that_is_no_call_fails_and_the_connection_stays() {
    let server = Server::start();
    let mut connection = server.open();
    for (line, expected) in [
        ("garbage", "not a request of the protocol"),
        (r#"{"call":"fly"}"#, "unknown variant `fly`"),
        (
            r#"{"call":"get","kind":{"apiVersion":"v1"}}"#,
            "missing field `kind`",
        ),
        (r#"{"call":"dump","more":1}"#, "unknown field `more`"),
    ] {
        let answer = connection.line(line).expect("an answer");
        assert!(
            answer["failure"]
                .as_str()
                .expect("a failure")
                .contains(expected),
            "{line}: {answer}"
        );
    }

    let both = json!({"call": "create", "kind": map_kind(), "namespace": "ns", "object": {}, "text": "{}"});
    assert_eq!(
        connection.failure(&both),
        r#"create ConfigMap.v1 ns/: one of "object" and "text" is needed"#
    );

    assert_eq!(connection.refused(&get("a", "cached")).0, "not-found");
}

#[test]
fn connections_have_clusters_of_their_own() {
    let server = Server::start();
    let (mut one, mut other) = (server.open(), server.open());
    one.ok(&json!({"call": "add", "object": map("a", &json!({}))}));
    one.ok(&get("a", "cached"));

    for read in ["cached", "live"] {
        let (case, message) = other.refused(&get("a", read));
        assert_eq!(
            (&*case, &*message),
            ("not-found", "configmaps \"a\" not found")
        );
    }
}

#[test]
fn controllers_run_where_they_are_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = "garbage-collector,namespaces";
    let server = Server::with(folder.path(), &["--controllers", names]);
    let mut connection = server.open();
    let owner = connection.ok(&json!({"call": "add", "object": map("owner", &json!({}))}));
    let mut owned = map("owned", &json!({}));
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    connection.ok(&json!({"call": "add", "object": owned}));
    connection.ok(&json!({"call": "add", "object": map("other", &json!({}))}));

    let key = |name: &str| json!({"namespace": "ns", "name": name});
    connection.ok(&json!({"call": "delete", "kind": map_kind(), "key": key("owner")}));
    until_gone(&mut connection, &get("owned", "live"));
    connection.ok(&get("other", "live"));

    let namespace = json!({"apiVersion": "v1", "kind": "Namespace"});
    let name = json!({"name": "ns"});
    connection.ok(&json!({"call": "delete", "kind": namespace, "key": name}));
    until_gone(&mut connection, &get("other", "live"));
    let read = json!({"call": "get", "kind": namespace, "key": name, "read": "live"});
    until_gone(&mut connection, &read);
}

/// Waits until a read finds nothing.
fn until_gone(connection: &mut crate::Connection, read: &serde_json::Value) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = connection.answer(read);
        if answer["error"]["type"] == "not-found" {
            return;
        }
        assert!(Instant::now() < end, "{read}: {answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn writes_are_seen_by_reads_that_follow() {
    let server = Server::start();
    let mut connection = server.open();
    let kind = map_kind();
    let key = json!({"namespace": "ns", "name": "a"});
    let create = json!({"call": "create", "kind": kind, "namespace": "ns", "object": map("a", &json!({"n": "0"}))});
    let mut object = connection.ok(&create);
    assert_eq!(connection.refused(&create).0, "already-exists");

    for n in 1..20 {
        object["data"]["n"] = n.to_string().into();
        object =
            connection.ok(&json!({"call": "update", "kind": kind, "key": key, "object": object}));
        for read in ["cached", "live"] {
            assert_eq!(
                connection.ok(&get("a", read))["data"]["n"],
                n.to_string(),
                "{read}"
            );
        }
        let list = json!({"call": "list", "kind": kind, "options": {"namespace": "ns"}});
        assert_eq!(connection.ok(&list)["items"][0]["data"]["n"], n.to_string());
    }

    connection.ok(&json!({"call": "delete", "kind": kind, "key": key}));
    assert_eq!(connection.refused(&get("a", "cached")).0, "not-found");
    connection.ok(&create);
    assert_eq!(connection.ok(&get("a", "cached"))["data"]["n"], "0");
}

#[test]
fn cached_reads_see_deletions_of_a_collection() {
    let server = Server::start();
    let mut connection = server.open();
    for name in ["a", "b"] {
        connection.ok(&json!({"call": "add", "object": map(name, &json!({}))}));
    }

    let list = json!({"call": "list", "kind": map_kind(), "options": {"namespace": "ns"}});
    assert_eq!(
        connection.ok(&list)["items"].as_array().map(Vec::len),
        Some(2)
    );

    let request = json!({"method": "DELETE", "path": "/api/v1/namespaces/ns/configmaps"});
    assert_eq!(
        connection.ok(&json!({"call": "send", "request": request}))["status"],
        200
    );

    assert_eq!(connection.ok(&list)["items"], json!([]));
}

#[test]
fn stale_update_and_wrong_precondition_conflict() {
    let server = Server::start();
    let mut connection = server.open();
    let stale = connection.ok(&json!({"call": "add", "object": map("a", &json!({}))}));
    let key = json!({"namespace": "ns", "name": "a"});
    let merge = |body| json!({"call": "patch", "kind": map_kind(), "key": key, "type": "merge", "body": body});
    connection.ok(&merge(json!({"data": {"x": "y"}})));

    let update = json!({"call": "update", "kind": map_kind(), "key": key, "object": stale});
    let answer = connection.answer(&update);
    assert_eq!(answer["error"]["type"], "conflict");
    assert_eq!(answer["error"]["status"]["code"], 409);
    assert_eq!(answer["error"]["status"]["retryAfterSeconds"], json!(null));

    let delete =
        json!({"call": "delete", "kind": map_kind(), "key": key, "options": {"uid": "other"}});
    assert_eq!(connection.refused(&delete).0, "conflict");
}

#[test]
fn patches_of_each_type_apply() {
    let server = Server::start();
    let mut connection = server.open();
    connection.ok(&json!({"call": "add", "object": map("a", &json!({"x": "1", "y": "2"}))}));
    let key = json!({"namespace": "ns", "name": "a"});

    let patch = |kind: &str, body| json!({"call": "patch", "kind": map_kind(), "key": key, "type": kind, "body": body});
    assert_eq!(
        connection.ok(&patch("merge", json!({"data": {"x": null}})))["data"],
        json!({"y": "2"})
    );

    let json_patch = json!([{"op": "add", "path": "/data/z", "value": "3"}]);
    assert_eq!(
        connection.ok(&patch("json", json_patch))["data"],
        json!({"y": "2", "z": "3"})
    );

    let mut apply = patch(
        "apply",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"y": "5"}}),
    );
    apply["options"] = json!({"fieldManager": "other"});
    let (case, message) = connection.refused(&apply);
    assert!(
        case == "conflict" && message.contains("conflict with \"operetta-test\""),
        "{case}: {message}"
    );

    apply["force"] = true.into();
    assert_eq!(connection.ok(&apply)["data"]["y"], "5");

    let broken =
        json!({"call": "patch", "kind": map_kind(), "key": key, "type": "merge", "text": "{"});
    assert_eq!(connection.refused(&broken).0, "bad-request");
}

#[test]
fn lists_select_by_labels_owner_index_and_page() {
    let server = Server::start();
    let mut connection = server.open();
    let index =
        json!({"name": "colour", "apiVersion": "v1", "kind": "ConfigMap", "path": ".data.colour"});
    let controllers = json!([{"name": "c", "for": {"apiVersion": "v1", "kind": "ConfigMap"}}]);
    let manifest = json!({
        "apiVersion": "operetta.dev/v1alpha1", "kind": "Manifest", "controllers": controllers, "indexes": [index],
    });

    connection.ok(&json!({"call": "manifest", "manifest": manifest.to_string()}));
    for (name, colour) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let mut object = map(name, &json!({"colour": colour}));
        object["metadata"]["labels"] = json!({"colour": colour});
        if name == "b" {
            object["metadata"]["ownerReferences"] = json!([
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u-1", "controller": true},
            ]);
        }
        connection.ok(&json!({"call": "add", "object": object}));
    }

    let mut names = |options: serde_json::Value| {
        let page = connection.ok(&json!({"call": "list", "kind": map_kind(), "options": options}));
        let items = page["items"].as_array().expect("items").clone();
        items
            .iter()
            .map(|item| {
                item["metadata"]["name"]
                    .as_str()
                    .expect("a name")
                    .to_owned()
            })
            .collect::<String>()
    };

    assert_eq!(
        names(json!({"namespace": "ns", "labels": "colour=red"})),
        "ac"
    );
    assert_eq!(
        names(json!({"selection": {"type": "by-owner", "uid": "u-1"}})),
        "b"
    );
    assert_eq!(
        names(json!({"selection": {"type": "by-index", "index": "colour", "value": "blue"}})),
        "b"
    );
    assert_eq!(
        names(json!({"namespace": "ns", "fields": "metadata.name=c", "read": "live"})),
        "c"
    );

    let page = json!({"call": "list", "kind": map_kind(), "options": {
        "namespace": "ns", "limit": 2, "projection": [".data.colour"],
    }});
    let page = connection.ok(&page);
    assert!(page["continueToken"].is_string(), "{page}");
    assert_eq!(
        page["items"][0]["metadata"].get("labels"),
        None,
        "only what was asked for"
    );

    let unknown = json!({"selection": {"type": "by-index", "index": "size", "value": "x"}});
    let (case, message) =
        connection.refused(&json!({"call": "list", "kind": map_kind(), "options": unknown}));
    assert!(
        case == "bad-request" && message.contains("declares no index \"size\""),
        "{message}"
    );
}

#[test]
fn raw_requests_are_answered_as_the_api_server_does() {
    let server = Server::start();
    let mut connection = server.open();
    let mut send =
        |request: serde_json::Value| connection.ok(&json!({"call": "send", "request": request}));

    let body = map("a", &json!({"x": "1"})).to_string();
    let created =
        send(json!({"method": "POST", "path": "/api/v1/namespaces/ns/configmaps", "body": body}));
    assert_eq!(
        (&created["status"], &created["contentType"]),
        (&json!(201), &json!("application/json"))
    );

    let get =
        json!({"method": "GET", "path": "/api/v1/namespaces/ns/configmaps/a", "cached": true});
    assert!(
        send(get)["body"]
            .as_str()
            .expect("a body")
            .contains("\"x\":\"1\"")
    );

    assert_eq!(
        send(json!({"method": "GET", "path": "/api/v1/watch/pods"}))["status"],
        405
    );
    assert_eq!(
        send(json!({"method": "GET", "path": "/version"}))["status"],
        200
    );
}

#[test]
fn invalid_object_is_refused_with_its_fields() {
    let server = Server::start();
    let mut connection = server.open();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "ns"}});
    let kind = json!({"apiVersion": "apps/v1", "kind": "Deployment"});

    let answer = connection
        .answer(&json!({"call": "create", "kind": kind, "namespace": "ns", "object": deployment}));
    assert_eq!(answer["error"]["type"], "invalid");
    let causes = answer["error"]["status"]["causes"]
        .as_array()
        .expect("causes");
    assert!(
        causes.iter().any(|cause| cause["field"] == "spec.selector"),
        "{answer}"
    );

    let failure = connection.failure(&json!({"call": "add", "object": deployment}));
    assert!(
        failure.starts_with("add Deployment.apps/v1 ns/a: ") && failure.contains("spec.selector"),
        "{failure}"
    );
}

#[test]
fn dump_has_objects_and_calls_without_secrets() {
    let server = Server::start();
    let mut connection = server.open();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns"},
        "stringData": {"password": "hunter2"},
    });
    connection.ok(&json!({"call": "add", "object": secret}));
    connection.ok(&json!({"call": "add", "object": map("a", &json!({"x": "seen"}))}));
    connection.refused(&get("none", "live"));

    let dump = connection.ok(&json!({"call": "dump"}));
    let dump = dump.as_str().expect("text");
    assert!(
        dump.contains("x: seen") && dump.contains("password: (left out)"),
        "{dump}"
    );

    assert!(
        !dump.contains("hunter2") && !dump.contains("aHVudGVyMg"),
        "{dump}"
    );
    assert!(
        !dump.contains("kind: Namespace") && !dump.contains("ClusterRole"),
        "{dump}"
    );

    assert!(dump.contains("  add ConfigMap.v1 ns/a\n"), "{dump}");
    assert!(
        dump.contains(
            "  get ConfigMap.v1 ns/none: NotFound (404): configmaps \"none\" not found\n"
        ),
        "{dump}"
    );
}
