//! Tests of kube-rs's reconcilers on a test's cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use operetta_sdk::kube_rs::kind_of;
use operetta_sdk::testing::{Cluster, Verb};
use operetta_sdk::{Action, ApiError, DynamicObject, ErrorKind, ObjectMeta};
use serde_json::json;

use super::plugin;
use crate::config_map_generator::ConfigMapGenerator;

const KEY: (&str, &str) = ("ns", "a");

fn generated() -> Cluster {
    let kind = kind_of::<ConfigMapGenerator>();
    Cluster::new().with(DynamicObject::new(&kind, KEY).with("spec", json!({"content": "hello"})))
}

fn source() -> Cluster {
    let metadata = ObjectMeta {
        name: Some("a".into()),
        namespace: Some("ns".into()),
        ..ObjectMeta::default()
    };
    let data = Some([("user".to_owned(), "root".to_owned())].into());

    Cluster::new().with(ConfigMap {
        metadata,
        data,
        ..ConfigMap::default()
    })
}

#[test]
fn generator_applies_owned_config_map() {
    let cluster = generated();
    let again = Action::requeue_after(Duration::from_secs(300));
    assert_eq!(
        cluster
            .reconcile(&plugin(), "generator", KEY)
            .expect("reconciles"),
        again
    );

    let map: ConfigMap = cluster.get(KEY).expect("made");
    assert_eq!(map.data.expect("data")["content"], "hello");
    assert_eq!(
        map.metadata.owner_references.expect("owned")[0].kind,
        "ConfigMapGenerator"
    );

    let events = cluster.events();
    assert_eq!((events[0].reason.as_str(), events.len()), ("Generated", 1));
    cluster
        .reconcile(&plugin(), "generator", KEY)
        .expect("reconciles");

    let kind = kind_of::<ConfigMapGenerator>();
    let made = cluster.context().dynamic(&kind).get(KEY).expect("there");
    assert_eq!(made.pointer("/status/made"), Some(&json!(1)));
    assert!(cluster.events().is_empty(), "it was there already");
}

#[test]
fn failure_is_reported_and_retried_by_error_policy() {
    let cluster = generated();
    cluster.fail_next(
        Verb::Patch,
        ApiError::new(ErrorKind::Forbidden, "you may not"),
    );

    let action = cluster
        .reconcile(&plugin(), "generator", KEY)
        .expect("the policy decides");
    assert_eq!(action, Action::requeue_after(Duration::from_secs(1)));

    let failures = cluster.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(
        failures[0].contains("Failed to create ConfigMap") && failures[0].contains("you may not"),
        "{}",
        failures[0]
    );
}

#[test]
fn deleted_generator_is_not_reconciled() {
    assert_eq!(
        Cluster::new()
            .reconcile(&plugin(), "generator", KEY)
            .expect("nothing to do"),
        Action::done()
    );
}

#[test]
fn finalizer_deletes_secret_with_config_map() {
    let cluster = source();
    let reconcile = || {
        cluster
            .reconcile(&plugin(), "syncer", KEY)
            .expect("reconciles")
    };

    assert_eq!(
        reconcile(),
        Action::done(),
        "the finalizer first; its change brings the next reconcile"
    );

    reconcile();
    let secret: Secret = cluster.get(("ns", "cmsyncer-a")).expect("synced");
    assert_eq!(secret.data.expect("data")["user"].0, b"root");
    let source: ConfigMap = cluster.get(KEY).expect("there");
    cluster.context().delete(&source).expect("deleted");
    assert!(
        cluster.get::<ConfigMap>(KEY).is_some(),
        "the finalizer holds it"
    );

    reconcile();
    assert!(cluster.get::<ConfigMap>(KEY).is_none());
    assert!(cluster.get::<Secret>(("ns", "cmsyncer-a")).is_none());
}
