//! The API server dies in the middle of the work and comes back, or is slow to respond: the host
//! goes on, and nothing is done twice.
//!
//! It is a file of its own because it kills its control plane.

use std::{collections::BTreeMap, time::Duration};

use operetta_testkit::{
    AggregatedApi, Ask, ControlPlane, DropIn, Fault, FaultProxy, Host, HostOptions, Kind, LogLine,
    TestNamespace, eventually, guest, kinds, needs_real_server, wat_guest::Guest,
};
use serde_json::{Value, json};

const FOO: Kind = Kind("samplecontroller.k8s.io/v1alpha1", "Foo");

/// Applies Foos, as kubectl does, until the API server has taken them.
async fn apply_foos(namespace: &TestNamespace<'_>, names: impl Iterator<Item = String>) {
    let wanted = |name: String| {
        let metadata = json!({"name": name, "namespace": namespace.name()});
        let spec = json!({"deploymentName": name, "replicas": 1});
        json!({"apiVersion": FOO.0, "kind": FOO.1, "metadata": metadata, "spec": spec}).to_string()
    };

    let documents: Vec<String> = names.map(wanted).collect();
    let file = namespace.control_plane().folder().join("foos.yaml");
    std::fs::write(&file, documents.join("\n---\n")).expect("written");
    let args = ["apply", "-f", file.to_str().expect("a path")];

    eventually("the Foos are taken", async || {
        let output = namespace.control_plane().kubectl_output(&args);
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    })
    .await;
}

/// Waits until this many Foos have their Deployment; the Deployments' uids by name.
async fn until_deployments(
    host: &Host,
    namespace: &TestNamespace<'_>,
    count: usize,
) -> BTreeMap<String, String> {
    eventually(&format!("{count} Deployments"), async || {
        host.assert_sound();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = namespace.list(kinds::DEPLOYMENT).await;
        let uids: BTreeMap<_, _> = all
            .iter()
            .map(|found| {
                (
                    text(&found["metadata"]["name"]),
                    text(&found["metadata"]["uid"]),
                )
            })
            .collect();
        if uids.len() == count {
            Ok(uids)
        } else {
            Err(format!("{} Deployments", uids.len()))
        }
    })
    .await
}

#[tokio::test]
async fn api_server_restart_loses_no_key() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let host = Host::start(&control_plane, &HostOptions::default()).await;
    control_plane.apply(include_str!("../examples/sample-controller/crd.yaml"));
    let namespace = control_plane.namespace("outage").await;
    namespace.allow_all("plugin").await;

    namespace
        .drop_in(&DropIn::new("sample", guest("sample-controller")))
        .await;
    namespace
        .until_condition("sample", "Ready", "True", "Running")
        .await;

    apply_foos(&namespace, (0..40).map(|at| format!("before-{at}"))).await;

    // In the middle: some have their Deployment by now, some not.
    control_plane.kill_apiserver();
    control_plane.wait_ready().await;
    let before = until_deployments(&host, &namespace, 40).await;

    apply_foos(&namespace, (0..5).map(|at| format!("after-{at}"))).await;
    let after = until_deployments(&host, &namespace, 45).await;
    assert!(
        before
            .iter()
            .all(|(name, uid)| after.get(name) == Some(uid)),
        "a Deployment was recreated"
    );

    // The audit log of both lives of the API server shows that no second create was even tried once
    // the first was answered.
    let audit = control_plane.audit();
    let mut created: BTreeMap<&str, u32> = BTreeMap::new();

    for event in audit
        .done("create", "deployments")
        .filter(|event| event.response_status.code == 201)
    {
        *created.entry(&event.object_ref.name).or_default() += 1;
    }
    assert!(
        created.len() > 5 && created.values().all(|times| *times == 1),
        "{created:?}"
    );

    namespace
        .until_condition("sample", "Ready", "True", "Running")
        .await;
    namespace
        .until_condition("sample", "Degraded", "False", "AsExpected")
        .await;

    // Asked to end, it ends well.
    host.stop();
}

/// Creates a Plugin, and the ConfigMap of its code.
async fn create_plugin(namespace: &TestNamespace<'_>, name: &str, code: &str, wasm: Vec<u8>) {
    namespace
        .create_object(kinds::CONFIG_MAP, DropIn::new(code, wasm).code())
        .await;
    let spec = json!({"source": {"configMap": {"name": code}}, "serviceAccountName": "plugin"});

    namespace
        .create_object(
            kinds::PLUGIN,
            json!({"metadata": {"name": name}, "spec": spec}),
        )
        .await;
}

#[tokio::test]
async fn code_of_a_deleted_plugin_is_not_run_for_its_successor() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let proxy = FaultProxy::start(&control_plane).await;
    let options = HostOptions {
        kubeconfig: Some(proxy.kubeconfig().clone()),
        ..HostOptions::default()
    };

    let host = Host::start(&control_plane, &options).await;
    let namespace = control_plane.namespace("successor").await;
    namespace.allow_all("plugin").await;

    create_plugin(&namespace, "touch", "good", guest("fixture-touch-v1")).await;
    namespace.create_touchable("before").await;
    namespace.until_touched("before", "v1").await;

    // While the host waits for the response to a write of the status, the Plugin is deleted and
    // created again.
    let status = Ask::To("PATCH /apis/operetta.dev/");
    proxy.next(status, Fault::Delay(Duration::from_secs(3)));
    namespace
        .patch(
            kinds::PLUGIN,
            "touch",
            json!({"spec": {"config": {"any": "thing"}}}),
        )
        .await;

    eventually("the status is being written", async || {
        match proxy.schedule() {
            none if none.is_empty() => Err("no write".to_owned()),
            _ => Ok(()),
        }
    })
    .await;

    namespace.delete(kinds::PLUGIN, "touch").await;
    create_plugin(&namespace, "touch", "broken", b"no component".to_vec()).await;
    namespace
        .until_condition("touch", "Degraded", "True", "NotWasm")
        .await;

    namespace.create_touchable("after").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = namespace
        .get(kinds::CONFIG_MAP, "after")
        .await
        .expect("it exists");

    assert_eq!(
        after["data"]["touched"],
        Value::Null,
        "the code of the deleted Plugin wrote to it"
    );

    host.stop();
}

/// How often a plugin has reconciled a thing.
fn reconciles(host: &Host, namespace: &TestNamespace<'_>, name: &str) -> usize {
    let key = format!("{}/{name}", namespace.name());
    let lines = host.logs(namespace.name(), "follows");
    let is_it = |line: &&LogLine| line.key == key && line.message == "reconciled";
    lines.iter().filter(is_it).count()
}

async fn until_reconciled(host: &Host, namespace: &TestNamespace<'_>, name: &str) {
    eventually(&format!("{name} is reconciled"), async || {
        host.assert_sound();
        match reconciles(host, namespace, name) {
            0 => Err("it has not been reconciled".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test]
async fn aggregated_api_that_dies_is_named_and_followed_once_it_is_back() {
    if needs_real_server("the embedded API server has no aggregated APIs") {
        return;
    }
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let api = AggregatedApi::start(&control_plane, "things.test");
    let host = Host::start(&control_plane, &HostOptions::default()).await;
    let namespace = control_plane.namespace("aggregated").await;
    namespace.allow_all("plugin").await;
    api.add(namespace.name(), "first");

    let source = json!({"apiVersion": "things.test/v1", "kind": "Thing"});
    let guest = Guest::default()
        .controllers(&json!([{"name": "c", "for": source}]))
        .text("reconciled")
        .reconcile(
            "(call $log (i32.const 2) (global.get $text) (global.get $text_len)
               (i32.const 0) (i32.const 0))
             i32.const 16",
        );
    namespace
        .drop_in(&DropIn::new("follows", guest.build()))
        .await;
    namespace
        .until_condition("follows", "Ready", "True", "Running")
        .await;
    until_reconciled(&host, &namespace, "first").await;
    // The new binding may restart the watch once, which delivers its objects again.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = reconciles(&host, &namespace, "first");

    api.die();
    let words = format!("APIService {} is not available (", api.registration());
    let message = namespace
        .until_degraded("follows", "WatchFailing", &[&words])
        .await;
    println!("while it is dead: {message}");

    // It is back with a change that nobody has seen.
    api.add(namespace.name(), "second");
    api.revive();
    namespace
        .until_condition("follows", "Ready", "True", "Running")
        .await;
    until_reconciled(&host, &namespace, "second").await;
    assert_eq!(
        reconciles(&host, &namespace, "first"),
        before,
        "it has not changed"
    );
    host.assert_sound();
}
