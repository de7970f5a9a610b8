//! The API server dies in the middle of the work and comes back: the host goes on, and nothing was done twice.
//!
//! In a file of its own, for it has a control plane of its own: it kills it.

use std::collections::BTreeMap;

use operetta_testkit::{ControlPlane, DropIn, Host, HostOptions, Kind, TestNamespace, eventually, guest, kinds};
use serde_json::json;

const FOO: Kind = Kind("samplecontroller.k8s.io/v1alpha1", "Foo");

/// Applies Foos, as kubectl does, until the API server has taken them.
async fn apply_foos(namespace: &TestNamespace<'_>, names: impl Iterator<Item = String>) {
    let wanted = |name: String| {
        let metadata = json!({"name": name, "namespace": namespace.name()});
        json!({"apiVersion": FOO.0, "kind": FOO.1, "metadata": metadata, "spec": {"deploymentName": name, "replicas": 1}})
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": names.map(wanted).collect::<Vec<_>>()});
    let file = namespace.control_plane().folder().join("foos.json");
    std::fs::write(&file, list.to_string()).expect("written");
    let args = ["apply", "-f", file.to_str().expect("a path")];
    eventually("the Foos are taken", async || {
        let output = namespace.control_plane().kubectl_output(&args);
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    })
    .await;
}

/// Waits until this many Foos have their Deployment; the Deployments' uids by name.
async fn until_deployments(host: &Host, namespace: &TestNamespace<'_>, count: usize) -> BTreeMap<String, String> {
    eventually(&format!("{count} Deployments"), async || {
        host.assert_sound();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let all = namespace.list(kinds::DEPLOYMENT).await;
        let uids: BTreeMap<_, _> =
            all.iter().map(|found| (text(&found["metadata"]["name"]), text(&found["metadata"]["uid"]))).collect();
        if uids.len() == count { Ok(uids) } else { Err(format!("{} Deployments", uids.len())) }
    })
    .await
}

#[tokio::test]
async fn api_server_restart_loses_no_key() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let host = Host::start(env!("CARGO_BIN_EXE_operetta"), &control_plane, &HostOptions::default()).await;
    control_plane.apply(include_str!("../../../examples/sample-controller/crd.yaml"));
    let namespace = control_plane.namespace("outage").await;
    namespace.allow_all("plugin").await;
    namespace.drop_in(&DropIn::new("sample", guest("sample-controller"))).await;
    namespace.until_condition("sample", "Ready", "True", "Running").await;

    apply_foos(&namespace, (0..40).map(|at| format!("before-{at}"))).await;
    // In the middle: some have their Deployment by now, some not.
    control_plane.kill_apiserver();
    control_plane.wait_ready().await;
    let before = until_deployments(&host, &namespace, 40).await;

    apply_foos(&namespace, (0..5).map(|at| format!("after-{at}"))).await;
    let after = until_deployments(&host, &namespace, 45).await;
    assert!(before.iter().all(|(name, uid)| after.get(name) == Some(uid)), "a Deployment was recreated");
    // What the log of both lives of the API server shows: no second create was even tried once the first was answered.
    let audit = control_plane.audit();
    let mut created: BTreeMap<&str, u32> = BTreeMap::new();
    for event in audit.done("create", "deployments").filter(|event| event.response_status.code == 201) {
        *created.entry(&event.object_ref.name).or_default() += 1;
    }
    assert!(created.len() > 5 && created.values().all(|times| *times == 1), "{created:?}");
    namespace.until_condition("sample", "Ready", "True", "Running").await;
    namespace.until_condition("sample", "Degraded", "False", "AsExpected").await;

    // Asked to end, it ends well.
    host.stop();
}
