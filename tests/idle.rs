//! Idle plugins cost the API server few access reviews, and still lose a revoked permission at
//! once.
//!
//! Cached reads of ever new names need few reviews as well.
//!
//! It is a file of its own because its tests have control planes of their own: the reviews of other
//! tests would count.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use operetta_core::authz::host_permissions::HostPermissions;
use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, TestNamespace, eventually, guest, in_effect_after,
    kinds,
};
use serde_json::{Value, json};

const HOST: &str = "system:serviceaccount:operetta-system:operetta";
/// The plugins of a namespace. They share its ServiceAccount.
const PLUGINS: usize = 4;
/// How often all Plugins are reconciled. Idle ones are reconciled every ten minutes.
const ROUNDS: usize = 6;
/// The time without a change of RBAC after which decisions last ten times as long: longer than the
/// test.
const UNCHANGED: Duration = Duration::from_secs(20);
/// The deadline for a revoked permission to show.
const IN_EFFECT: Duration = Duration::from_secs(10);

/// Returns the number of the host's access reviews so far, by kind.
fn reviews(control_plane: &ControlPlane) -> BTreeMap<String, usize> {
    let requests = control_plane.audit().requests_of(HOST, ..).into_iter();
    requests
        .filter(|(request, _)| request.ends_with("subjectaccessreviews"))
        .collect()
}

/// Lets the group of a namespace's ServiceAccounts do what an aggregated ClusterRole contains.
fn allow_by_aggregation(namespace: &TestNamespace<'_>) {
    let control_plane = namespace.control_plane();
    let verbs = "--verb=get,list,watch,update";
    control_plane.kubectl(&[
        "create",
        "clusterrole",
        "part",
        verbs,
        "--resource=configmaps",
    ]);

    control_plane.kubectl(&["label", "clusterrole", "part", "part-of=whole"]);
    control_plane.kubectl(&[
        "create",
        "clusterrole",
        "whole",
        "--aggregation-rule=part-of=whole",
    ]);

    let group = format!("--group=system:serviceaccounts:{}", namespace.name());
    namespace.kubectl(&[
        "create",
        "rolebinding",
        "whole",
        "--clusterrole=whole",
        &group,
    ]);
}

/// Waits until a plugin's status says that it may not watch.
async fn until_forbidden(namespace: &TestNamespace<'_>, what: &str) {
    in_effect_after(IN_EFFECT, what, async || {
        match namespace.plugin_condition("touch-0", "Degraded").await {
            Some(condition) if condition.reason == "Forbidden" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn idle_plugins_ask_few_access_reviews() {
    let control_plane =
        ControlPlane::start(&["controllers"]).unwrap_or_else(|error| panic!("{error}"));
    let host = Host::start(&control_plane, &HostOptions::default()).await;

    let by_role = control_plane.namespace("by-role").await;
    by_role.allow_all("plugin").await;
    let by_group = control_plane.namespace("by-group").await;
    by_group.consenting("plugin").await;
    allow_by_aggregation(&by_group);
    let namespaces = [&by_role, &by_group];
    tokio::time::sleep(UNCHANGED).await;

    let before = reviews(&control_plane);
    for namespace in namespaces {
        for number in 0..PLUGINS {
            namespace
                .drop_in(&DropIn::new(
                    &format!("touch-{number}"),
                    guest("fixture-touch-v1"),
                ))
                .await;
        }
    }
    for namespace in namespaces {
        for number in 0..PLUGINS {
            namespace
                .until_condition(&format!("touch-{number}"), "Ready", "True", "Running")
                .await;
        }
    }

    let mut started = reviews(&control_plane);
    started
        .iter_mut()
        .for_each(|(kind, count)| *count -= before.get(kind).copied().unwrap_or_default());

    // List and watch, in all namespaces and in its own, of each ServiceAccount.
    assert_eq!(
        started["create subjectaccessreviews"],
        2 * 2 * namespaces.len(),
        "{started:?}"
    );

    // List and watch in all namespaces, the epoch of writes, and two forms of impersonation of each
    // ServiceAccount.
    assert_eq!(
        started["create selfsubjectaccessreviews"],
        3 + 2 * namespaces.len(),
        "{started:?}"
    );

    let before = reviews(&control_plane);
    for round in 0..ROUNDS {
        for namespace in namespaces {
            for number in 0..PLUGINS {
                let annotations =
                    json!({"metadata": {"annotations": {"round": round.to_string()}}});
                namespace
                    .patch(kinds::PLUGIN, &format!("touch-{number}"), annotations)
                    .await;
            }
        }
        tokio::time::sleep(HostPermissions::KEEP + Duration::from_millis(500)).await;
    }

    let after = reviews(&control_plane);
    println!(
        "access reviews of the start: {started:?}; in all: {before:?}, after {ROUNDS} idle rounds: {after:?}"
    );
    assert_eq!(after, before, "reviews of idle plugins");

    // The long decisions end with a change.
    by_role.kubectl(&["delete", "rolebinding", "plugin-may-do-all"]);
    until_forbidden(&by_role, "the deleted binding shows").await;

    control_plane.kubectl(&["delete", "clusterrole", "part"]);
    until_forbidden(&by_group, "the deleted part of an aggregated role shows").await;

    host.assert_sound();
}

/// The reads of a plugin, each of a name that it has not read before.
const READS: usize = 300;
/// The requests per second that it may make.
const QPS: u32 = 20;

/// Returns a request for the cached object or list at a path.
fn cached(path: &str) -> Value {
    json!({"method": "GET", "path": path, "cached": true})
}

/// Runs a plugin that makes these requests once. Returns the number of the host's access reviews
/// meanwhile, and how long it took.
async fn reviews_of(
    host: &Host,
    namespace: &TestNamespace<'_>,
    name: &str,
    requests: Vec<Value>,
) -> (usize, Duration) {
    let count = || {
        reviews(namespace.control_plane())
            .get("create subjectaccessreviews")
            .copied()
            .unwrap_or_default()
    };

    let before = count();
    let began = Instant::now();
    let spec = json!({
        "source": {"configMap": {"name": "code"}}, "serviceAccountName": "plugin",
        "config": {"do": "send", "requests": requests}, "limits": {"timeoutSeconds": 300},
    });

    namespace
        .create_object(
            kinds::PLUGIN,
            json!({"metadata": {"name": name}, "spec": spec}),
        )
        .await;

    let labels = [
        format!("plugin=\"{name}\""),
        "result=\"success\"".to_owned(),
    ];

    eventually(
        &format!("{name} has made its requests"),
        async || match host.metric(
            "controller_runtime_reconcile_total",
            &[&labels[0], &labels[1]],
        ) {
            count if count > 0.0 => Ok(()),
            _ => Err(format!(
                "{:?}",
                namespace
                    .get(kinds::PLUGIN, name)
                    .await
                    .map(|plugin| plugin["status"].clone())
            )),
        },
    )
    .await;

    let took = began.elapsed();
    namespace.delete(kinds::PLUGIN, name).await;
    (count() - before, took)
}

#[tokio::test]
async fn cached_reads_of_new_names_ask_few_access_reviews() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let config = format!("quotas: {{plugin: {{apiQps: {QPS}, apiBurst: {QPS}}}}}");
    let options = HostOptions {
        config,
        ..HostOptions::default()
    };

    let host = Host::start(&control_plane, &options).await;
    let namespace = control_plane.namespace("new-names").await;
    let victim = control_plane.namespace("victim").await;
    namespace.allow_all("plugin").await;
    namespace.create_touchable("go").await;

    let code = DropIn::new("code", guest("fixture-misbehave")).code();
    namespace.create_object(kinds::CONFIG_MAP, code).await;
    tokio::time::sleep(UNCHANGED).await;

    // The decision about the whole namespace covers every name in it. It is renewed every few
    // seconds.
    let get = |of: &str, number: usize| {
        cached(&format!("/api/v1/namespaces/{of}/configmaps/name-{number}"))
    };
    let requests = (0..READS)
        .map(|number| get(namespace.name(), number))
        .collect();

    let (asked, took) = reviews_of(&host, &namespace, "own", requests).await;
    println!(
        "{READS} cached reads of new names in the plugin's own namespace: {asked} access reviews in {took:?}"
    );
    assert!(
        (asked as f64) < 20.0 + 2.0 * took.as_secs_f64(),
        "{asked} access reviews in {took:?}"
    );

    // A review of a name, or of a namespace, that the plugin may not read counts against its quota.
    let list = |number: usize| cached(&format!("/api/v1/namespaces/invented-{number}/configmaps"));
    let of_victim = (0..READS / 2).map(|number| get(victim.name(), number));
    let requests = of_victim.chain((0..READS / 2).map(list)).collect();

    let (asked, took) = reviews_of(&host, &namespace, "others", requests).await;
    println!(
        "{READS} cached reads of what the plugin may not read: {asked} access reviews in {took:?}"
    );

    // Each read needs at most one review of its own. The wider ones are shared, and asked again
    // every four seconds.
    let allowed = f64::from(QPS) * (took.as_secs_f64() + 1.0) + took.as_secs_f64() + 20.0;
    assert!(
        (asked as f64) <= allowed,
        "{asked} access reviews in {took:?}"
    );

    host.assert_sound();
}
