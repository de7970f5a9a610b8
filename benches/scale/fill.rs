//! Fills the API server: objects, Plugins, and the objects that a plugin polls.

use std::time::Instant;

use futures::{StreamExt, TryStreamExt};
use http::Request;
use kube::Client;
use operetta_testkit::{DropIn, TestNamespace, kinds, wat_guest::Guest};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::stage::Stage;

/// The requests in flight at once.
const AT_ONCE: usize = 24;
/// The Plugins of a namespace.
pub const PER_NAMESPACE: usize = 10;
/// The label that the plugins select by.
const SET: &str = "scale";

/// Creates so many objects of about 1 KB with a label.
pub async fn objects(stage: &Stage, set: &str, count: usize) -> anyhow::Result<()> {
    let namespace = stage.namespace().await;
    create(stage, namespace.name(), count, |at| {
        let digest = hex(at);
        let settings = format!(
            "listen: 0.0.0.0:{}\nlogLevel: info\nupstreams:\n- name: backend-{at}\n  address: backend-{at}.team-{}.svc.cluster.local:{}\n  \
             weight: {}\n  timeoutSeconds: 30\n- name: fallback\n  address: fallback.team-{}.svc.cluster.local:8080\n  weight: 1\n",
            8000 + at % 1000, at % 97, 9000 + at % 500, at % 100, at % 97,
        );
        let labels = json!({SET: set, "app": format!("app-{}", at % 500), "tier": (if at % 3 == 0 { "web" } else { "worker" })});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{set}-{at:07}"), "labels": labels},
               "data": {"settings.yaml": settings, "checksum": digest}})
        .to_string()
    })
    .await
}

/// Creates the objects that a plugin polls, so many that it does `rate` reconciles a second.
pub async fn polled(stage: &Stage, set: &str, rate: usize) -> anyhow::Result<()> {
    let namespace = stage.namespace().await;
    // Each is requeued after one to two seconds, evenly: ln 2 times a second on average.
    let count = (rate as f64 / std::f64::consts::LN_2).ceil() as usize;
    create(stage, namespace.name(), count, |at| {
        let metadata = json!({"name": format!("{set}-{at:07}"), "labels": {SET: set}});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string()
    })
    .await
}

/// Creates Plugins of one digest, [`PER_NAMESPACE`] in each namespace, with an object that each of
/// them reconciles.
pub async fn plugins(stage: &Stage, count: usize) -> anyhow::Result<()> {
    let began = Instant::now();
    let numbers = (0..count).step_by(PER_NAMESPACE);
    let tenants = futures::stream::iter(numbers).map(|first| async move {
        let namespace = stage.control_plane().namespace("tenant").await;
        namespace.allow_all("plugin").await;
        let metadata = json!({"name": "object", "labels": {SET: "plugin"}});
        namespace
            .create_object(kinds::CONFIG_MAP, json!({"metadata": metadata}))
            .await;
        namespace
            .create_object(kinds::CONFIG_MAP, code("plugin", &noop("plugin")).code())
            .await;
        for at in first..count.min(first + PER_NAMESPACE) {
            plugin(&namespace, &format!("p-{at}"), "plugin").await;
        }
    });
    let mut tenants = tenants.buffer_unordered(AT_ONCE / 3);
    while tenants.next().await.is_some() {
        stage.check()?;
    }
    println!(
        "{count} Plugins were created in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Creates a Plugin that runs the code of a ConfigMap.
pub async fn plugin(namespace: &TestNamespace<'_>, name: &str, code: &str) {
    let spec = json!({"source": {"configMap": {"name": code}}, "serviceAccountName": "plugin"});
    namespace
        .create_object(
            kinds::PLUGIN,
            json!({"metadata": {"name": name}, "spec": spec}),
        )
        .await;
}

/// Returns the drop-in whose ConfigMap holds a component.
pub fn code(name: &str, guest: &Guest) -> DropIn {
    DropIn::new(name, guest.build())
}

/// Returns a plugin that does nothing with the objects of a set.
pub fn noop(set: &str) -> Guest {
    selecting(set, "noop")
}

/// Returns a plugin that requeues each object of a set after one to two seconds, depending on its
/// name.
pub fn poll(set: &str) -> Guest {
    selecting(set, "poll").reconcile(
        "(i32.store8 (i32.const 20) (i32.const 2)) (i32.store (i32.const 24) (i32.add (i32.const 1000) (i32.rem_u
           (i32.load (i32.sub (i32.add (local.get $name) (local.get $name_len)) (i32.const 4))) (i32.const 1000))))
         (i32.const 16)",
    )
}

fn selecting(set: &str, controller: &str) -> Guest {
    let selector = format!("{SET}={set}");
    let source = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespaces": "Own", "labelSelector": selector});
    Guest::default().controllers(&json!([{"name": controller, "for": source}]))
}

/// Creates so many ConfigMaps.
async fn create(
    stage: &Stage,
    namespace: &str,
    count: usize,
    body: impl Fn(usize) -> String,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let client = stage.control_plane().client().await;
    let requests = futures::stream::iter(0..count).map(|at| {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(body(at).into_bytes());
        send(client.clone(), request)
    });
    let mut created = requests.buffer_unordered(AT_ONCE);
    let mut done = 0;
    while created.try_next().await?.is_some() {
        done += 1;
        if done % 10_000 == 0 {
            stage.check()?;
        }
    }
    println!(
        "{count} objects were created in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn send(client: Client, request: http::Result<Request<Vec<u8>>>) -> anyhow::Result<()> {
    client.request_text(request?).await?;
    Ok(())
}

fn hex(at: usize) -> String {
    Sha256::digest(at.to_le_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
