//! Instance slots and memory: one namespace cannot take those of its neighbours.

use std::time::{Duration, Instant};

use futures::future::join_all;
use operetta_testkit::{eventually, guest, kinds};
use serde_json::{Value, json};

use crate::Stage;

/// The number of each plugin's keys, and of its workers.
const WORKERS: u32 = 64;
/// The most memory that the host may use while a tenant allocates, in bytes.
const MAX_HOST_BYTES: u64 = 1 << 30;

impl Stage {
    /// Runs `count` plugins whose reconciles misbehave as `what` names, each with [`WORKERS`] keys
    /// at once.
    async fn busy_plugins(&self, count: usize, what: &str) {
        for number in 0..WORKERS {
            self.namespace
                .create_touchable(&format!("target-{number}"))
                .await;
        }

        let controllers = json!([{"name": "misbehave", "workers": WORKERS}]);
        let spec = json!({"config": {"do": what}, "controllers": controllers, "limits": {"timeoutSeconds": 600}});
        for number in 0..count {
            self.plugin(
                &format!("busy-{number}"),
                guest("fixture-misbehave"),
                spec.clone(),
            )
            .await;
        }

        for number in 0..count {
            let is_running = |plugin: &Value| {
                if plugin["status"]["digest"].is_string() {
                    Ok(())
                } else {
                    Err(plugin["status"].to_string())
                }
            };
            self.namespace
                .until(kinds::PLUGIN, &format!("busy-{number}"), is_running)
                .await;
        }
    }
}

#[tokio::test]
async fn sleeping_reconciles_leave_instances_to_neighbours() {
    let stage = Stage::new("sleepers").await;

    // These plugins have more workers than the host has instance slots.
    stage.busy_plugins(17, "sleep-host").await;
    for _ in 0..3 {
        let began = Instant::now();
        stage.others_keep_working().await;
        println!(
            "a neighbour's object is touched after {:?} beside 17 x {WORKERS} sleeping workers",
            began.elapsed()
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test]
async fn allocating_reconciles_leave_memory_to_neighbours() {
    let stage = Stage::new("allocators").await;
    stage.busy_plugins(2, "allocate").await;

    eventually("a key waits for memory", async || {
        let bytes = stage.host.memory_bytes();
        assert!(bytes < MAX_HOST_BYTES, "the host uses {bytes} bytes");
        let plugin = stage
            .namespace
            .get(kinds::PLUGIN, "busy-0")
            .await
            .expect("a Plugin")
            .to_string();
        let is_said = plugin.contains("(memoryBytes)") || plugin.contains("limits.memory");
        if is_said { Ok(()) } else { Err(plugin) }
    })
    .await;

    let began = Instant::now();
    stage.others_keep_working().await;
    let bytes = stage.host.memory_bytes();
    println!(
        "beside 2 x {WORKERS} allocating workers the host uses {} MiB, and a neighbour's object is touched after {:?}",
        bytes >> 20,
        began.elapsed()
    );
    assert!(bytes < MAX_HOST_BYTES);
}

/// The host looks only at ConfigMaps with its label, and at no Secret, however many a tenant
/// creates.
#[tokio::test]
async fn unrelated_objects_are_not_cached() {
    const OBJECTS: u64 = 2_000;
    const AT_ONCE: u64 = 50;

    let stage = Stage::new("unrelated").await;

    for first in (0..OBJECTS).step_by(AT_ONCE as usize) {
        let create = |number: u64| {
            let kind = if number.is_multiple_of(2) {
                kinds::CONFIG_MAP
            } else {
                kinds::SECRET
            };

            let object = json!({"metadata": {"name": format!("unrelated-{number}")}});
            let namespace = &stage.namespace;
            async move { namespace.create_object(kind, object).await }
        };
        join_all((first..first + AT_ONCE).map(create)).await;
    }

    // The host has received whatever came before this.
    stage.others_keep_working().await;
    let output = stage.host.run(&[
        "informers",
        "--host",
        stage.host.admin_address(),
        "-o",
        "json",
    ]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let view: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let informers = view["informers"].as_array().expect("informers");
    for informer in informers
        .iter()
        .filter(|informer| informer["users"] == json!(["host"]))
    {
        // Configuration from Secrets is watched one by one.
        assert!(
            informer["kind"] != "Secret.v1" || informer["fieldSelector"] != "",
            "{informer}"
        );
        let objects = informer["objects"].as_u64().expect("a number");
        assert!(
            informer["kind"] != "ConfigMap.v1" || objects < OBJECTS / 2,
            "{informer}"
        );
    }
}
