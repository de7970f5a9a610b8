//! Tests of warm instances: the state that survives, their lifetime, and the failures that end
//! them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use operetta_core::{
    controller::request::{Action, Failure, Fault},
    ports::Reconciler,
};
use operetta_testkit::wat_guest::Guest;
use operetta_wasm::{
    CallLimits, Engine, EngineConfig, LoadLimits, Plugin, PluginReconciler, WarmLimits,
};

use crate::{
    engine,
    ports::{Ports, request},
};

/// Returns a guest that counts its instance's reconciles in memory and answers `retry` with the
/// count as one digit. A name that begins with `t` traps, `s` spins, `g` grows by 1 MiB, and `m`
/// exceeds the memory limit.
fn counting() -> Guest {
    Guest::default().reconcile(
        "(local $first i32)
         (i32.store8 (i32.const 512) (i32.add (i32.load8_u (i32.const 512)) (i32.const 1)))
         (local.set $first (i32.load8_u (local.get $name)))
         (if (i32.eq (local.get $first) (i32.const 116)) (then unreachable))
         (if (i32.eq (local.get $first) (i32.const 115)) (then (call $spin)))
         (if (i32.eq (local.get $first) (i32.const 103)) (then (drop (memory.grow (i32.const 16)))))
         (if (i32.eq (local.get $first) (i32.const 109)) (then
           (if (i32.eq (memory.grow (i32.const 1024)) (i32.const -1)) (then unreachable))))
         (i32.store8 (i32.const 513) (i32.add (i32.load8_u (i32.const 512)) (i32.const 48)))
         (call $retry (i32.const 513) (i32.const 1))",
    )
}

async fn load(engine: &Engine, guest: Guest, warm: Option<WarmLimits>) -> PluginReconciler {
    let ports = Arc::new(Ports::default());
    let plugin = Plugin::load(engine, guest.build(), &LoadLimits::default(), ports.clone())
        .await
        .expect("loads");
    let limits = CallLimits {
        memory_bytes: 16 << 20,
        timeout: Duration::from_millis(500),
        ..CallLimits::default()
    };
    let reconciler = PluginReconciler::new(Arc::new(plugin), ports.gate(), limits);
    match warm {
        Some(warm) => reconciler.keep_warm(warm),
        None => reconciler,
    }
}

/// Returns the counts that reconciles of these names answer; `!` stands for a fault.
async fn counts(reconciler: &PluginReconciler, names: &[&str]) -> String {
    let mut counts = String::new();
    for name in names {
        match reconciler.reconcile(&request(name)).await {
            Err(Failure::Retry(count)) => counts += &count,
            Err(Failure::Fault(_)) => counts += "!",
            other => panic!("{other:?}"),
        }
    }
    counts
}

#[tokio::test]
async fn memory_survives_only_in_warm_plugins() {
    let fresh = load(engine(), counting(), None).await;
    assert_eq!(counts(&fresh, &["a"; 5]).await, "11111");
    let warm = load(engine(), counting(), Some(WarmLimits::default())).await;
    assert_eq!(counts(&warm, &["a"; 5]).await, "12345");
}

#[tokio::test]
async fn replaces_instance_after_max_calls() {
    let limits = WarmLimits {
        max_calls: 3,
        ..WarmLimits::default()
    };
    assert_eq!(
        counts(&load(engine(), counting(), Some(limits)).await, &["a"; 8]).await,
        "12312312"
    );
}

#[tokio::test]
async fn overgrown_instance_is_not_reused() {
    let limits = WarmLimits {
        max_memory_growth_bytes: 2 << 20,
        ..WarmLimits::default()
    };
    let reconciler = load(engine(), counting(), Some(limits)).await;
    assert_eq!(
        counts(&reconciler, &["a", "g", "g", "g", "a", "a"]).await,
        "123412"
    );
}

#[tokio::test]
async fn failures_end_the_warm_instance() {
    let reconciler = load(engine(), counting(), Some(WarmLimits::default())).await;
    for failing in ["trap", "spin", "memory"] {
        assert_eq!(
            counts(&reconciler, &["a", "a", failing, "a", "a", "trap"]).await,
            "12!12!",
            "{failing}"
        );
    }
}

#[tokio::test]
async fn limits_hold_for_each_warm_call() {
    let reconciler = load(engine(), counting(), Some(WarmLimits::default())).await;
    // The instance outlives one deadline, because each call has its own.
    let started = Instant::now();
    let mut expected = 1;
    while started.elapsed() < Duration::from_millis(700) {
        assert_eq!(
            counts(&reconciler, &["a"]).await,
            char::from(b'0' + expected).to_string()
        );
        expected += 1;
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    let limit = Duration::from_millis(500);
    let outcome = reconciler.reconcile(&request("spin")).await;
    assert_eq!(
        outcome,
        Err(Failure::Fault(Fault::DeadlineExceeded { limit }))
    );
    assert_eq!(counts(&reconciler, &["a"]).await, "1");
    let outcome = reconciler.reconcile(&request("memory")).await;
    assert_eq!(
        outcome,
        Err(Failure::Fault(Fault::MemoryExceeded {
            limit_bytes: 16 << 20
        }))
    );
    // The guest grows by 1 MiB in each of several calls: the limit counts the whole memory of the
    // instance.
    let growing = counts(&reconciler, &["g"; 20]).await;
    assert!(
        !growing.contains('!'),
        "the guest survives a refused growth: {growing}"
    );
}

#[tokio::test]
async fn idle_warm_instance_ends() {
    let limits = WarmLimits {
        max_idle: Duration::from_millis(200),
        ..WarmLimits::default()
    };
    let engine = Engine::new(&EngineConfig {
        concurrent_calls: 2,
        ..EngineConfig::default()
    })
    .expect("an engine");
    let reconciler = load(&engine, counting(), Some(limits)).await;
    assert_eq!(counts(&reconciler, &["a", "a"]).await, "12");
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(counts(&reconciler, &["a", "a"]).await, "12");
}

#[tokio::test]
async fn busy_warm_plugin_has_one_task_that_ends_idle_instances() {
    let engine = Engine::new(&EngineConfig::default()).expect("an engine");
    let reconciler = load(&engine, counting(), Some(WarmLimits::default())).await;
    let alive = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    assert_eq!(counts(&reconciler, &["a"]).await, "1");
    let before = alive();
    counts(&reconciler, &["a"; 50]).await;
    assert_eq!(alive(), before, "one for each reconcile");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warm_instances_leave_slots_to_other_plugins() {
    let engine = Engine::new(&EngineConfig {
        concurrent_calls: 2,
        ..EngineConfig::default()
    })
    .expect("an engine");
    let mut all = Vec::new();
    for _ in 0..4 {
        let reconciler = load(&engine, counting(), Some(WarmLimits::default())).await;
        assert_eq!(counts(&reconciler, &["a"]).await, "1");
        all.push(reconciler);
    }
    let last = load(&engine, Guest::default(), None).await;
    let done = tokio::time::timeout(Duration::from_secs(10), last.reconcile(&request("a"))).await;
    assert_eq!(done.expect("a slot is left"), Ok(Action::Done));
    assert_eq!(counts(&all[3], &["a"]).await, "2", "it was kept last");
    assert_eq!(counts(&all[0], &["a"]).await, "1", "its place was taken");
}

/// A guest whose instances take two slots each, and otherwise [`counting`].
fn large() -> Guest {
    let tables: String = (0..5)
        .map(|at| format!("(table $large{at} 1 funcref) "))
        .collect();
    counting().with(&tables)
}

#[tokio::test]
async fn kept_instances_hold_a_quarter_of_the_slots_however_large_they_are() {
    let engine = Engine::new(&EngineConfig {
        concurrent_calls: 32,
        ..EngineConfig::default()
    })
    .expect("an engine");
    // An honest tenant keeps one, and one with large plugins as many as it can.
    let honest = load(&engine, counting(), Some(WarmLimits::default())).await;
    let honest = honest.for_tenant("honest");
    assert_eq!(counts(&honest, &["a"]).await, "1");

    let mut greedy = Vec::new();
    for _ in 0..6 {
        let reconciler = load(&engine, large(), Some(WarmLimits::default())).await;
        let reconciler = reconciler.for_tenant("greedy");
        assert_eq!(counts(&reconciler, &["a"]).await, "1");
        greedy.push(reconciler);
    }

    assert_eq!(
        counts(&honest, &["a"]).await,
        "2",
        "the greedy one replaced its own"
    );
    // Of eight slots one is the honest tenant's, so three large instances have room.
    for kept in &greedy[3..] {
        assert_eq!(counts(kept, &["a"]).await, "2");
    }
    assert_eq!(counts(&greedy[0], &["a"]).await, "1", "it was replaced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_takes_the_slot_of_an_idle_instance() {
    let engine = Engine::new(&EngineConfig {
        concurrent_calls: 4,
        ..EngineConfig::default()
    })
    .expect("an engine");
    let warm = load(&engine, counting(), Some(WarmLimits::default())).await;
    assert_eq!(counts(&warm, &["a", "a"]).await, "12");

    let busy = load(&engine, counting(), None).await;
    let all = futures::future::join_all((0..4).map(|_| counts(&busy, &["s"]))).await;
    assert_eq!(all, ["!"; 4]);
    assert_eq!(counts(&warm, &["a"]).await, "1", "four calls had all slots");
}

#[tokio::test]
async fn earlier_output_is_not_quoted_for_a_later_trap() {
    let ports = Arc::new(Ports::default());
    let guest = Guest::default()
        .text("thread 'main' panicked at a.rs:1:1:\nboom\n")
        .reconcile(
            "(if (i32.eq (i32.load8_u (local.get $name)) (i32.const 116)) (then unreachable))
         (call $print (call $stderr) (global.get $text) (global.get $text_len) (i32.const 256))
         i32.const 16",
        );
    let plugin = Plugin::load(
        engine(),
        guest.build(),
        &LoadLimits::default(),
        ports.clone(),
    )
    .await
    .expect("loads");
    let reconciler = PluginReconciler::new(Arc::new(plugin), ports.gate(), CallLimits::default());
    let reconciler = reconciler.keep_warm(WarmLimits::default());
    assert_eq!(reconciler.reconcile(&request("a")).await, Ok(Action::Done));
    let outcome = reconciler
        .reconcile(&request("t"))
        .await
        .expect_err("trapped")
        .to_string();
    assert!(outcome.ends_with("without a message"), "{outcome}");
}
