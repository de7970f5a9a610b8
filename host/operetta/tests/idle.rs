//! Idle plugins cost the API server few access reviews, and lose a revoked permission at once all the same.
//!
//! In a file of its own, for it has a control plane of its own: the reviews of other tests would count.

use std::{collections::BTreeMap, time::Duration};

use operetta_core::authz::host_permissions::HostPermissions;
use operetta_testkit::{ControlPlane, DropIn, Host, HostOptions, TestNamespace, guest, in_effect_after, kinds};
use serde_json::json;

const HOST: &str = "system:serviceaccount:operetta-system:operetta";
/// The plugins of a namespace. They share its ServiceAccount.
const PLUGINS: usize = 4;
/// The times that all Plugins are reconciled. Idle ones are once a minute.
const ROUNDS: usize = 6;
/// The time after the last change of RBAC. Decisions last ten times as long: longer than the test.
const UNCHANGED: Duration = Duration::from_secs(20);
/// The deadline for a revoked permission to show.
const IN_EFFECT: Duration = Duration::from_secs(10);

/// Returns the number of the host's access reviews so far, by kind.
fn reviews(control_plane: &ControlPlane) -> BTreeMap<String, usize> {
    let requests = control_plane.audit().requests_of(HOST, ..).into_iter();
    requests.filter(|(request, _)| request.ends_with("subjectaccessreviews")).collect()
}

/// Lets the group of a namespace's ServiceAccounts do what an aggregated ClusterRole contains.
fn allow_by_aggregation(namespace: &TestNamespace<'_>) {
    let control_plane = namespace.control_plane();
    let verbs = "--verb=get,list,watch,update";
    control_plane.kubectl(&["create", "clusterrole", "part", verbs, "--resource=configmaps"]);
    control_plane.kubectl(&["label", "clusterrole", "part", "part-of=whole"]);
    control_plane.kubectl(&["create", "clusterrole", "whole", "--aggregation-rule=part-of=whole"]);
    let group = format!("--group=system:serviceaccounts:{}", namespace.name());
    namespace.kubectl(&["create", "rolebinding", "whole", "--clusterrole=whole", &group]);
}

/// Waits until a plugin's status says that it may not watch.
async fn until_forbidden(namespace: &TestNamespace<'_>, what: &str) {
    in_effect_after(IN_EFFECT, what, async || match namespace.plugin_condition("touch-0", "Degraded").await {
        Some(condition) if condition.reason == "Forbidden" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

#[tokio::test]
async fn idle_plugins_ask_few_access_reviews() {
    let control_plane = ControlPlane::start(&["controllers"]).unwrap_or_else(|error| panic!("{error}"));
    let host = Host::start(env!("CARGO_BIN_EXE_operetta"), &control_plane, &HostOptions::default()).await;
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
            namespace.drop_in(&DropIn::new(&format!("touch-{number}"), guest("fixture-touch-v1"))).await;
        }
    }
    for namespace in namespaces {
        for number in 0..PLUGINS {
            namespace.until_condition(&format!("touch-{number}"), "Ready", "True", "Running").await;
        }
    }
    let mut started = reviews(&control_plane);
    started.iter_mut().for_each(|(kind, count)| *count -= before.get(kind).copied().unwrap_or_default());
    // List and watch, in all namespaces and in its own, of each ServiceAccount.
    assert_eq!(started["create subjectaccessreviews"], 2 * 2 * namespaces.len(), "{started:?}");
    // List and watch in all namespaces, and two forms of impersonation of each ServiceAccount.
    assert_eq!(started["create selfsubjectaccessreviews"], 2 + 2 * namespaces.len(), "{started:?}");

    let before = reviews(&control_plane);
    for round in 0..ROUNDS {
        for namespace in namespaces {
            for number in 0..PLUGINS {
                let annotations = json!({"metadata": {"annotations": {"round": round.to_string()}}});
                namespace.patch(kinds::PLUGIN, &format!("touch-{number}"), annotations).await;
            }
        }
        tokio::time::sleep(HostPermissions::KEEP + Duration::from_millis(500)).await;
    }
    assert_eq!(reviews(&control_plane), before, "reviews of idle plugins");

    // The long decisions end with a change.
    by_role.kubectl(&["delete", "rolebinding", "plugin-may-do-all"]);
    until_forbidden(&by_role, "the deleted binding shows").await;
    control_plane.kubectl(&["delete", "clusterrole", "part"]);
    until_forbidden(&by_group, "the deleted part of an aggregated role shows").await;
    host.assert_sound();
}
