//! Instance slots and memory: one namespace cannot take those of its neighbours.

use std::time::{Duration, Instant};

use operetta_testkit::{eventually, guest, kinds};
use serde_json::json;

use crate::Stage;

/// The number of each plugin's keys, and of its workers.
const WORKERS: u32 = 64;
/// The most memory that the host may use while a tenant allocates, in bytes.
const MAX_HOST_BYTES: u64 = 1 << 30;

impl Stage {
    /// Runs `count` plugins whose reconciles misbehave as `what` names, each with [`WORKERS`] keys at once.
    async fn busy_plugins(&self, count: usize, what: &str) {
        for number in 0..WORKERS {
            self.namespace.create_touchable(&format!("target-{number}")).await;
        }
        let controllers = json!([{"name": "misbehave", "workers": WORKERS}]);
        let spec = json!({"config": {"do": what}, "controllers": controllers, "limits": {"timeoutSeconds": 600}});
        for number in 0..count {
            self.plugin(&format!("busy-{number}"), guest("fixture-misbehave"), spec.clone()).await;
        }
        for number in 0..count {
            let is_running = |plugin: &serde_json::Value| {
                if plugin["status"]["digest"].is_string() { Ok(()) } else { Err(plugin["status"].to_string()) }
            };
            self.namespace.until(kinds::PLUGIN, &format!("busy-{number}"), is_running).await;
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
        println!("a neighbour's object is touched after {:?} beside 17 x {WORKERS} sleeping workers", began.elapsed());
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
        let plugin = stage.namespace.get(kinds::PLUGIN, "busy-0").await.expect("a Plugin").to_string();
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
