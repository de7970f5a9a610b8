//! Tests of the behaviours on a test's cluster. The host's conformance test runs all of them on a
//! real API server.

use operetta_sdk::testing::Cluster;
use operetta_sdk::{DynamicObject, MapEvent, ObjectKey, Request};

use super::*;
use crate::widget::{Widget, WidgetSpec};

const NAMESPACE: &str = "ns";

fn metadata(name: &str) -> ObjectMeta {
    let uid = Some(format!("uid-of-{name}"));
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some(NAMESPACE.into()),
        uid,
        ..ObjectMeta::default()
    }
}

fn map(name: &str, data: &[(&str, &str)], label: Option<&str>) -> ConfigMap {
    let data = data
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let mut map = ConfigMap {
        metadata: metadata(name),
        data: Some(data),
        ..ConfigMap::default()
    };
    if let Some(label) = label {
        map.labels_mut().insert("set".to_owned(), label.to_owned());
    }
    map
}

/// Returns a cluster with the objects that the behaviours need.
fn cluster() -> Cluster {
    let widget = |name: &str, spec: serde_json::Value| {
        DynamicObject::new(&Widget::gvk(), (NAMESPACE, name)).with("spec", spec)
    };
    let mut owned = map("owned", &[("word", "o"), ("colour", "blue")], None);
    let mut labelled = map("u", &[("word", "world"), ("other", "x")], Some("a"));
    labelled
        .labels_mut()
        .insert("app".to_owned(), "web".to_owned());
    operetta_sdk::set_controller_reference(&map("owner", &[], None), &mut owned).expect("owned");
    Cluster::new()
        .with_config(json!({"word": "configured"}))
        .with(map(
            "t",
            &[("word", "hello"), ("other", "x"), ("big", "y")],
            Some("a"),
        ))
        .with(labelled)
        .with(map(
            "v",
            &[("word", "w"), ("pruned", "still here")],
            Some("a"),
        ))
        .with(owned)
        .with(widget(
            "w",
            json!({"big": 9_007_199_254_740_993_i64, "size": "1500m"}),
        ))
        .with(widget("with-note", json!({"note": "n"})))
        .with(widget("no-note", json!({})))
        .with(Widget {
            metadata: metadata("null-note"),
            spec: WidgetSpec::default(),
            status: None,
        })
}

/// Runs a case and returns its `result` and `saw`.
fn run(cluster: &Cluster, id: &str, arguments: &[(&str, &str)]) -> (String, String) {
    let cluster = cluster.clone().with(map(id, arguments, None));
    assert_eq!(
        cluster
            .reconcile(&plugin(), "cases", (NAMESPACE, id))
            .expect(id),
        Action::done()
    );
    let case: ConfigMap = cluster.get((NAMESPACE, id)).expect("the case");
    let of = |name| word_of(&case, name).unwrap_or_default().to_owned();
    (of("result"), of("saw"))
}

#[test]
fn each_behaviour_has_expected_observation() {
    let target = ("target", "t");
    let selector = ("selector", "set=a");
    for (id, arguments, saw) in [
        ("get-cached", vec![target], "hello"),
        ("get-live", vec![target], "hello"),
        ("list-labels", vec![selector], "t,u,v"),
        ("list-fields", vec![target], "t"),
        ("list-empty", vec![("selector", "set=none")], "0"),
        ("list-paged", vec![selector], "t,u,v 2"),
        ("list-index", vec![("colour", "blue")], "list-index,owned"),
        ("list-label-index", vec![("app", "web")], "u"),
        ("list-owner-index", vec![("owner", "owner")], "owned"),
        ("list-owner", vec![("uid", "uid-of-owner")], "owned"),
        (
            "list-projection",
            vec![selector],
            "t=hello,u=world,v=w false",
        ),
        ("read-own-write", vec![], "1 2 true not-found"),
        ("create-dry-run", vec![], "dry-made"),
        ("update", vec![target], "updated"),
        ("update-status", vec![("target", "w")], "ready false"),
        ("patch-merge", vec![target], "big=y,word=merged"),
        ("patch-json", vec![target], "patched"),
        ("delete", vec![target], "deleted"),
        ("delete-precondition", vec![target], "conflict 409 Conflict"),
        ("error-not-found", vec![], "not-found 404 NotFound"),
        (
            "error-already-exists",
            vec![target],
            "already-exists 409 AlreadyExists",
        ),
        (
            "error-conflict",
            vec![("target", "u")],
            "conflict 409 Conflict",
        ),
        ("error-bad-request", vec![], "bad-request 400 BadRequest"),
        ("raw-get", vec![target], "200 hello"),
        ("raw-post", vec![], "201 raw-made"),
        ("raw-error", vec![], "404 NotFound"),
        ("raw-watch", vec![], "405 MethodNotAllowed"),
        ("event", vec![], "emitted"),
        ("log", vec![], "logged"),
        ("config", vec![], "configured"),
        ("create-or-update", vec![], "created unchanged updated"),
        ("owner-reference", vec![], "created"),
        ("get-pruned", vec![("target", "v")], "still here"),
        ("unicode", vec![target], "hello"),
        ("big", vec![target], "5"),
        ("null-or-missing", vec![], "missing missing missing"),
        ("int64", vec![("target", "w")], "9007199254740993"),
        ("quantity", vec![("target", "w")], "1500m"),
    ] {
        assert_eq!(
            run(&cluster(), id, &arguments),
            ("ok".to_owned(), saw.to_owned()),
            "{id}"
        );
    }
}

#[test]
fn has_every_listed_behaviour() {
    #[derive(serde::Deserialize)]
    struct Behaviour {
        id: String,
    }
    let all: Vec<Behaviour> =
        serde_json::from_str(include_str!("../../../conformance/behaviours.json")).expect("a list");
    for Behaviour { id } in all.iter().filter(|behaviour| behaviour.id != "finalizer") {
        if !id.starts_with("result-") && !id.starts_with("map-") {
            let (result, _) = run(&cluster(), id, &[]);
            assert!(!result.contains("does not know"), "{id}: {result}");
        }
    }
}

#[test]
fn skips_case_with_result() {
    let cluster = cluster().with(map("create", &[("result", "ok")], None));
    cluster
        .reconcile(&plugin(), "cases", (NAMESPACE, "create"))
        .expect("done");
    assert!(cluster.writes().is_empty());
}

#[test]
fn appends_run_and_returns_named_result() {
    let cluster = Cluster::new().with(map("runs", &[], None));
    let cluster = cluster.with(map("result-error", &[("target", "runs")], None));
    let run = |retries| {
        let key = ObjectKey::namespaced(NAMESPACE, "result-error");
        cluster.reconcile_request(
            &plugin(),
            Request {
                retries,
                ..Request::new("cases", key)
            },
        )
    };
    assert_eq!(run(0).expect_err("fails").to_string(), "no luck yet");
    assert!(run(1).is_err());
    assert_eq!(run(2).expect("works"), Action::done());
    assert_eq!(
        word_of(&cluster.get((NAMESPACE, "runs")).expect("there"), "runs"),
        Some("0 1 2 ")
    );
}

#[test]
fn mapping_function_returns_named_cases() {
    let mut waker = map(
        "waker",
        &[("wakes", "map-keys map-deleted"), ("pruned", "map-pruned")],
        None,
    );
    let keys = |waker: &ConfigMap| {
        let object = serde_json::to_string(waker).expect("JSON");
        let event = MapEvent {
            controller: "cases".into(),
            kind: ConfigMap::gvk(),
            object,
            old: None,
        };
        plugin()
            .map(&event)
            .expect("keys")
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        keys(&waker),
        ["ns/map-keys", "ns/map-deleted", "ns/map-pruned"]
    );
    waker.data = None;
    assert!(keys(&waker).is_empty());
}

#[test]
fn finalizer_cleanup_creates_config_map() {
    let cluster = Cluster::new().with(map("finalizer", &[], None));
    let reconcile = || {
        cluster
            .reconcile(&plugin(), "cases", (NAMESPACE, "finalizer"))
            .expect("reconciles")
    };
    reconcile();
    cluster
        .context()
        .delete(
            &cluster
                .get::<ConfigMap>((NAMESPACE, "finalizer"))
                .expect("there"),
        )
        .expect("deleted");
    reconcile();
    assert!(cluster.get::<ConfigMap>((NAMESPACE, "finalizer")).is_none());
    assert!(
        cluster
            .get::<ConfigMap>((NAMESPACE, "finalizer-cleaned"))
            .is_some()
    );
}
