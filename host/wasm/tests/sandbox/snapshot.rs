//! Tests of snapshots: components whose start was run at build time.

use std::sync::Arc;

use operetta_core::{
    controller::request::{Action, Failure},
    ports::Reconciler,
};
use operetta_testkit::wat_guest::Guest;
use operetta_wasm::{
    CallLimits, LoadLimits, Plugin, PluginReconciler, SnapshotError, rewrite_sections,
};
use wasmparser::Payload;

use crate::{
    engine,
    ports::{Ports, request},
};

/// Returns a guest that answers `retry` with the byte at 512, which is `?` unless `init` has run in
/// its memory.
fn guest(init: &str) -> Guest {
    Guest::default()
        .with(&format!(
            r#"(global $ready (mut i32) (i32.const 0)) (func (export "init") {init})"#
        ))
        .reconcile(
            "(if (i32.eqz (global.get $ready)) (then (i32.store8 (i32.const 512) (i32.const 63))))
             (call $retry (i32.const 512) (i32.const 1))",
        )
}

async fn snapshot(component: &[u8], function: &str) -> Result<Vec<u8>, SnapshotError> {
    operetta_wasm::compiler::snapshot(engine(), component, function, Arc::new(Ports::default()))
        .await
}

async fn reconcile(component: Vec<u8>) -> Result<Action, Failure> {
    let ports = Arc::new(Ports::default());
    let plugin = Plugin::load(engine(), component, &LoadLimits::default(), ports.clone())
        .await
        .expect("loads");
    PluginReconciler::new(Arc::new(plugin), ports.gate(), CallLimits::default())
        .reconcile(&request("a"))
        .await
}

#[tokio::test]
async fn each_instance_starts_from_the_snapshot() {
    let guest =
        guest("(i32.store8 (i32.const 512) (i32.const 33)) (global.set $ready (i32.const 1))");
    let plain = guest.build_in("guest-with-init");
    assert_eq!(
        reconcile(plain.clone()).await,
        Err(Failure::Retry("?".into()))
    );
    let after = snapshot(&plain, "init").await.expect("a snapshot");
    for _ in 0..3 {
        assert_eq!(
            reconcile(after.clone()).await,
            Err(Failure::Retry("!".into()))
        );
    }
}

#[tokio::test]
async fn snapshot_error_states_reason() {
    let component = |init: &str| guest(init).build_in("guest-with-init");
    let error = snapshot(&component("unreachable"), "init")
        .await
        .expect_err("trapped");
    assert!(
        matches!(&error, SnapshotError::Failed(cause) if cause.to_string().contains("unreachable")),
        "{error}"
    );
    let error = snapshot(&component(""), "start")
        .await
        .expect_err("no such function");
    assert!(
        matches!(&error, SnapshotError::Unsupported(cause) if cause.contains("\"start\"")),
        "{error}"
    );
    let error = snapshot(b"no wasm", "init").await.expect_err("no wasm");
    assert!(matches!(error, SnapshotError::Unsupported(_)), "{error}");
}

#[tokio::test]
async fn each_instance_starts_from_what_describe_left() {
    let guest = guest("(global.set $ready (i32.const 1))")
        .describe("(i32.store8 (i32.const 512) (i32.const 33)) i32.const 8");
    let after = snapshot(&guest.build_in("guest-with-init"), "init")
        .await
        .expect("a snapshot");
    assert_eq!(reconcile(after).await, Err(Failure::Retry("!".into())));
}

#[tokio::test]
async fn no_snapshot_is_taken_of_guest_that_cannot_describe_itself() {
    let guest = guest("")
        .describe("unreachable")
        .build_in("guest-with-init");
    let error = snapshot(&guest, "init").await.expect_err("trapped");
    let named = |cause: &str| cause.contains("describe() failed") && cause.contains("unreachable");
    assert!(
        matches!(&error, SnapshotError::Unsupported(cause) if named(cause)),
        "{error}"
    );
}

/// Returns the data segments of all modules.
fn segments(component: &[u8]) -> u32 {
    let mut count = 0;
    rewrite_sections(component, |section| {
        if let Payload::DataSection(segments) = section.payload {
            count += segments.count();
        }
        Some(section.data.into())
    })
    .expect("a component");
    count
}

/// Go's linker makes as many data segments as a module may have, if the program is large.
#[tokio::test]
async fn snapshot_of_module_with_most_data_segments_has_only_its_own() {
    let data = |at: u32| {
        format!(
            "(data (i32.const {}) \"\\01\")",
            (96 << 10) + 16 * (at % 6000)
        )
    };
    let filled = (0..99_000).map(data).collect::<String>();
    let plain =
        guest("(i32.store8 (i32.const 512) (i32.const 33)) (global.set $ready (i32.const 1))")
            .with(&filled);
    let plain = plain.build_in("guest-with-init");
    let after = snapshot(&plain, "init").await.expect("a snapshot");
    assert!(
        segments(&plain) > 99_000 && segments(&after) < 7_000,
        "{} of {}",
        segments(&after),
        segments(&plain)
    );
    assert_eq!(reconcile(after).await, Err(Failure::Retry("!".into())));
}

/// Without this, code that copies from a segment by its index would copy from another one.
#[tokio::test]
async fn snapshot_keeps_index_of_segment_that_code_copies() {
    let guest = Guest::default()
        .with(r#"(data (i32.const 98304) "?") (data $mark "!") (func (export "init"))"#)
        .reconcile(
            "(memory.init $mark (i32.const 512) (i32.const 0) (i32.const 1)) (call $retry (i32.const 512) (i32.const 1))",
        )
        .build_in("guest-with-init");
    let after = snapshot(&guest, "init").await.expect("a snapshot");
    assert_eq!(reconcile(after).await, Err(Failure::Retry("!".into())));
}
