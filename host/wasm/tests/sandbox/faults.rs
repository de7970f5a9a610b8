//! Tests of guests that misbehave: each ends without harm to the host or to other guests.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use operetta_core::{
    controller::request::{Action, Failure, Fault},
    ports::{LogLevel, Reconciler},
};
use operetta_testkit::wat_guest::Guest;
use operetta_wasm::{CallLimits, Engine, EngineConfig, LoadLimits, Plugin, PluginReconciler};

use crate::{
    engine,
    ports::{Ports, all_done, request},
    reconciler, run,
};

async fn trap(guest: Guest) -> String {
    match run(guest, &Arc::new(Ports::default())).await {
        Err(Failure::Fault(Fault::Trap(message))) => message,
        other => panic!("no trap: {other:?}"),
    }
}

#[tokio::test]
async fn trap_message_states_cause() {
    for (body, message) in [
        (
            "unreachable",
            "wasm `unreachable` instruction executed: a panic or an abort without a message",
        ),
        (
            "(i32.load (i32.const 0x7fffffff))",
            "out of bounds memory access",
        ),
        (
            "(i32.div_u (i32.const 1) (i32.const 0))",
            "integer divide by zero",
        ),
        ("(call $recurse)", "stack overflow: call stack exhausted"),
    ] {
        assert_eq!(trap(Guest::default().reconcile(body)).await, message);
    }
}

#[tokio::test]
async fn trapped_plugin_runs_next_reconcile_afresh() {
    let ports = Arc::new(Ports::default());
    // Spins if an earlier reconcile left its mark in memory, and traps if the name begins with `b`.
    let guest = Guest::default().reconcile(
        "(if (i32.load (i32.const 512)) (then (call $spin)))
         (i32.store (i32.const 512) (i32.const 1))
         (if (i32.eq (i32.load8_u (local.get $name)) (i32.const 98)) (then unreachable))
         i32.const 16",
    );
    let reconciler = reconciler(guest, &ports, Duration::from_secs(10)).await;
    for _ in 0..20 {
        assert!(reconciler.reconcile(&request("b")).await.is_err());
        assert_eq!(reconciler.reconcile(&request("a")).await, Ok(Action::Done));
    }
}

#[test]
fn spinning_guest_ends_at_deadline_others_continue() {
    // As in the host, timers are checked after each poll instead of after 61.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime
        .event_interval(1)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(run_beside_spinning_guest());
}

async fn run_beside_spinning_guest() {
    let ports = Arc::new(Ports::slow(Some(Duration::from_millis(1))));
    let limit = Duration::from_millis(700);
    let spinner = reconciler(
        Guest::default().reconcile("(call $spin) i32.const 16"),
        &ports,
        limit,
    )
    .await;
    let good = Guest::default().reconcile(
        "(call $get_own (local.get $namespace) (local.get $namespace_len) (local.get $name) (local.get $name_len))
         i32.const 16",
    );
    let good = reconciler(good, &ports, Duration::from_secs(10)).await;
    let started = Instant::now();
    let spinning = tokio::spawn(async move {
        let outcome = spinner.reconcile(&request("a")).await;
        (outcome, started.elapsed())
    });
    let others = async {
        let mut reconciles = 0;
        let mut slowest = Duration::ZERO;
        while started.elapsed() < limit {
            let began = Instant::now();
            assert_eq!(good.reconcile(&request("a")).await, Ok(Action::Done));
            slowest = slowest.max(began.elapsed());
            reconciles += 1;
        }
        (reconciles, slowest)
    };
    let (spun, (reconciles, slowest)) = tokio::join!(spinning, others);
    let (outcome, elapsed) = spun.expect("no panic");
    assert_eq!(
        outcome,
        Err(Failure::Fault(Fault::DeadlineExceeded { limit }))
    );
    assert!(elapsed < limit + Duration::from_millis(500), "{elapsed:?}");
    assert!(
        reconciles >= 10,
        "only {reconciles} reconciles beside a spinning guest"
    );
    assert!(slowest < Duration::from_millis(300), "{slowest:?}");
}

#[test]
fn spinning_guest_ends_at_deadline_after_idle_time() {
    let limit = Duration::from_millis(100);
    let spin = async move {
        let spin = Guest::default().reconcile("(call $spin) i32.const 16");
        let spinner = reconciler(spin, &Arc::new(Ports::default()), limit).await;
        // The thread that advances the epoch sleeps by now.
        tokio::time::sleep(Duration::from_secs(2)).await;
        spinner.reconcile(&request("a")).await
    };
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        ended.send(runtime.block_on(spin)).expect("the test waits");
    });
    let outcome = end
        .recv_timeout(Duration::from_secs(30))
        .expect("the guest ends");
    assert_eq!(
        outcome,
        Err(Failure::Fault(Fault::DeadlineExceeded { limit }))
    );
}

#[tokio::test]
async fn exiting_guest_is_quoted() {
    let print =
        "(call $print (call $stderr) (global.get $text) (global.get $text_len) (i32.const 256))";
    let exit = format!("{print} (call $exit (i32.const 1)) i32.const 16");
    for (text, quote) in [
        (
            "flag provided but not defined: -x\nusage: plugin",
            "usage: plugin",
        ),
        (
            "panic: boom\n\ngoroutine 1 [running]:\nmain.f()\n\t/src/a.go:7 +0x2",
            "panic: boom at /src/a.go:7",
        ),
    ] {
        let message = trap(Guest::default().text(text).reconcile(&exit)).await;
        assert_eq!(message, format!("the guest called exit(1): {quote}"));
    }
}

#[tokio::test]
async fn panic_message_is_in_fault_and_log() {
    let print = "(call $print (call $stderr) (global.get $text) (global.get $text_len) (i32.const 256)) unreachable";
    for (text, quote, lines) in [
        (
            "thread '<unnamed>' panicked at src/lib.rs:1:2:\nboom\nnote: more",
            "panicked at src/lib.rs:1:2: boom",
            3,
        ),
        (
            "panic: boom\n\ngoroutine 1 [running]:\nmain.f()\n\t/src/a.go:7 +0x2",
            "panic: boom at /src/a.go:7",
            4,
        ),
        (
            "Traceback (most recent call last):\n  File \"a.py\"\nValueError: boom",
            "ValueError: boom",
            3,
        ),
        (
            "TypeError: boom\n    at reconcile (plugin.js:3:4)",
            "TypeError: boom at reconcile (plugin.js:3:4)",
            2,
        ),
    ] {
        let ports = Arc::new(Ports::default());
        let error = run(Guest::default().text(text).reconcile(print), &ports)
            .await
            .expect_err("trapped")
            .to_string();
        assert_eq!(
            error,
            format!("the plugin trapped: {quote} (wasm `unreachable` instruction executed)")
        );
        assert_eq!(ports.lines().len(), lines, "{:?}", ports.lines());
        assert!(
            ports
                .lines()
                .iter()
                .all(|(level, _)| *level == LogLevel::Warn),
            "{:?}",
            ports.lines()
        );
    }
}

#[tokio::test]
async fn guest_without_stderr_is_quoted_from_its_log() {
    let log = |level: u8| {
        format!(
            "(call $log (i32.const {level}) (global.get $text) (global.get $text_len) (i32.const 0) (i32.const 0))"
        )
    };
    let guest = |level| {
        Guest::default()
            .text("boom at src/lib.rs:3")
            .reconcile(&(log(level) + "unreachable"))
    };
    assert!(
        trap(guest(0))
            .await
            .ends_with("the guest's last output: boom at src/lib.rs:3")
    );
    assert!(
        trap(guest(2)).await.ends_with("without a message"),
        "an info line explains no trap"
    );
}

#[tokio::test]
async fn endless_output_is_cut_at_the_log_limit() {
    let ports = Arc::new(Ports::default());
    let guest = Guest::default().text(&"x\n".repeat(1500)).reconcile(
        "(local $stderr i32) (local $n i32)
         (local.set $stderr (call $stderr))
         (loop $more
           (call $print (local.get $stderr) (global.get $text) (global.get $text_len) (i32.const 256))
           (local.set $n (i32.add (local.get $n) (i32.const 1)))
           (br_if $more (i32.lt_u (local.get $n) (i32.const 400))))
         i32.const 16",
    );
    assert_eq!(run(guest, &ports).await, Ok(Action::Done));
    let kept: usize = ports.lines().iter().map(|(_, line)| line.len()).sum();
    assert!(kept < 300 * 1024, "{kept}");
}

#[tokio::test]
async fn more_calls_than_slots_wait_instead_of_failing() {
    let engine = Engine::new(&EngineConfig {
        concurrent_calls: 2,
        ..EngineConfig::default()
    })
    .expect("an engine");
    let ports = Arc::new(Ports::slow(Some(Duration::from_millis(5))));
    let guest = Guest::default().reconcile(
        "(call $get_own (local.get $namespace) (local.get $namespace_len) (local.get $name) (local.get $name_len))
         i32.const 16",
    );
    let plugin = Plugin::load(
        &engine,
        guest.build(),
        &LoadLimits::default(),
        ports.clone(),
    )
    .await
    .expect("loads");
    let reconciler = Arc::new(PluginReconciler::new(
        Arc::new(plugin),
        ports.gate(),
        CallLimits::default(),
    ));
    all_done(&reconciler, 20).await;
    assert!(ports.most.load(std::sync::atomic::Ordering::SeqCst) <= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_reconciles_share_nothing() {
    assert!(
        engine().is_pooled(),
        "this machine has no room for the pool"
    );
    let ports = Arc::new(Ports::slow(Some(Duration::from_millis(50))));
    // Each reconcile stores the first letter of its name, waits, and traps if it then finds another
    // one.
    let guest = Guest::default().reconcile(
        "(i32.store8 (i32.const 512) (i32.load8_u (local.get $name)))
         (call $get_own (local.get $namespace) (local.get $namespace_len) (local.get $name) (local.get $name_len))
         (if (i32.ne (i32.load8_u (i32.const 512)) (i32.load8_u (local.get $name))) (then unreachable))
         i32.const 16",
    );
    let reconciler = Arc::new(reconciler(guest, &ports, Duration::from_secs(10)).await);
    let calls: Vec<_> = ('a'..='z')
        .map(|name| {
            let reconciler = reconciler.clone();
            tokio::spawn(async move { reconciler.reconcile(&request(&name.to_string())).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.expect("no panic"), Ok(Action::Done));
    }
    assert!(
        ports.most.load(std::sync::atomic::Ordering::SeqCst) > 10,
        "too few reconciles ran at once"
    );
}

#[tokio::test]
async fn long_run_is_reported_once_with_its_stack() {
    let ports = Arc::new(Ports::default());
    let guest = Guest::default()
        .with("(func $looks_for_ever (call $spin))")
        .reconcile("(call $looks_for_ever) i32.const 16");
    // On a busy machine a guest takes longer to run for two seconds.
    let reconciler = reconciler(guest, &ports, Duration::from_secs(100)).await;
    let reported = async {
        while ports.long_runs.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_millis(2500)).await;
    };
    let request = request("a");
    tokio::select! {
        outcome = reconciler.reconcile(&request) => panic!("it ended: {outcome:?}"),
        () = reported => {}
    }
    let reports = ports.long_runs.lock().clone();
    assert!(
        reports.len() == 1 && reports[0].contains("/a 2s spin < looks_for_ever < "),
        "{reports:?}"
    );
}

#[tokio::test]
async fn waiting_for_the_api_server_is_no_long_run() {
    let ports = Arc::new(Ports::slow(Some(Duration::from_millis(2500))));
    let guest = Guest::default().reconcile(
        "(call $get_own (local.get $namespace) (local.get $namespace_len) (local.get $name) (local.get $name_len))
         i32.const 16",
    );
    let outcome = reconciler(guest, &ports, Duration::from_secs(20))
        .await
        .reconcile(&request("a"))
        .await;
    assert_eq!(outcome, Ok(Action::Done));
    assert_eq!(*ports.long_runs.lock(), Vec::<String>::new());
}
