//! Tests of snapshots: components whose start was run at build time.

use std::sync::Arc;

use operetta_core::{
    controller::request::{Action, Failure},
    ports::Reconciler,
};
use operetta_testkit::wat_guest::Guest;
use operetta_wasm::{CallLimits, LoadLimits, Plugin, PluginReconciler, SnapshotError};

use crate::{
    engine,
    ports::{Ports, request},
};

/// Returns a guest that answers `retry` with the byte at 512, which is `?` unless `init` has run in its memory.
fn guest(init: &str) -> Guest {
    Guest::default()
        .with(&format!(r#"(global $ready (mut i32) (i32.const 0)) (func (export "init") {init})"#))
        .reconcile(
            "(if (i32.eqz (global.get $ready)) (then (i32.store8 (i32.const 512) (i32.const 63))))
             (call $retry (i32.const 512) (i32.const 1))",
        )
}

async fn snapshot(component: &[u8], function: &str) -> Result<Vec<u8>, SnapshotError> {
    operetta_wasm::code::snapshot(engine(), component, function, Arc::new(Ports::default())).await
}

async fn reconcile(component: Vec<u8>) -> Result<Action, Failure> {
    let ports = Arc::new(Ports::default());
    let plugin = Plugin::load(engine(), component, &LoadLimits::default(), ports.clone()).await.expect("loads");
    PluginReconciler::new(Arc::new(plugin), ports.gate(), CallLimits::default()).reconcile(&request("a")).await
}

#[tokio::test]
async fn each_instance_starts_from_the_snapshot() {
    let guest = guest("(i32.store8 (i32.const 512) (i32.const 33)) (global.set $ready (i32.const 1))");
    let plain = guest.build_in("guest-with-init");
    assert_eq!(reconcile(plain.clone()).await, Err(Failure::Retry("?".into())));
    let after = snapshot(&plain, "init").await.expect("a snapshot");
    for _ in 0..3 {
        assert_eq!(reconcile(after.clone()).await, Err(Failure::Retry("!".into())));
    }
}

#[tokio::test]
async fn snapshot_error_states_reason() {
    let component = |init: &str| guest(init).build_in("guest-with-init");
    let error = snapshot(&component("unreachable"), "init").await.expect_err("trapped");
    assert!(matches!(&error, SnapshotError::Failed(cause) if cause.to_string().contains("unreachable")), "{error}");
    let error = snapshot(&component(""), "start").await.expect_err("no such function");
    assert!(matches!(&error, SnapshotError::Unsupported(cause) if cause.contains("\"start\"")), "{error}");
    let error = snapshot(b"no wasm", "init").await.expect_err("no wasm");
    assert!(matches!(error, SnapshotError::Unsupported(_)), "{error}");
}
