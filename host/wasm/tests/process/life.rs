//! Tests of how processes live and end.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use operetta_core::gate::{bytes::ByteBudget, throttle::Meter};
use operetta_wasm::{
    Code, CodeCache, Engine, EngineConfig, LoadLimits, ProcessProgram,
    process::{Exit, ExitReason, Process, ProcessConfig, SIGTERM},
};

use crate::{Guest, Logs, completes_with, load, network::World, run, start};

/// Waits until it is killed.
const WAIT: &str = "(drop (call $signals)) (drop (call $wait (i32.const 1) (i32.const 4)))";

#[tokio::test]
async fn main_that_returns_is_complete() {
    let (exit, logs) = run(Guest::default()).await;
    let expected = Exit {
        reason: ExitReason::Completed,
        code: 0,
        message: String::new(),
    };
    assert_eq!((exit, logs.len()), (expected.clone(), 0));
    let (exit, _) = run(Guest::new("(call $exit (i32.const 0)) unreachable")).await;
    assert_eq!(exit, expected);
}

#[tokio::test]
async fn exit_code_and_last_line_are_reported() {
    let guest =
        Guest::new("(call $print (i32.const 4096) (i32.const 25)) (call $exit (i32.const 3))")
            .text(4096, "starting\nno such flag: -x");
    let (exit, logs) = run(guest).await;
    assert_eq!(
        (exit.reason, exit.code, &*exit.message),
        (ExitReason::Error, 3, "no such flag: -x")
    );
    assert_eq!(logs, ["starting", "no such flag: -x"]);
    // A program that says nothing on stderr.
    let guest = Guest::new(
        "(drop (call $write (i32.const 1) (i32.const 4096) (i32.const 8))) (call $exit (i32.const 1))",
    );
    let (exit, _) = run(guest.text(4096, "no\nfile\n")).await;
    assert_eq!((exit.code, &*exit.message), (1, "file"));
    for code in [-1_i32, 255, i32::MIN] {
        let (exit, _) = run(Guest::new(&format!("(call $exit (i32.const {code}))"))).await;
        assert_eq!((exit.reason, exit.code), (ExitReason::Error, code));
    }
}

#[tokio::test]
async fn start_function_may_call_the_host_and_exit() {
    let guest = Guest::new("unreachable")
        .starting("(call $print (i32.const 4096) (i32.const 5)) (call $exit (i32.const 4))")
        .text(4096, "early");
    let (exit, logs) = run(guest).await;
    assert_eq!((exit.reason, exit.code), (ExitReason::Error, 4));
    assert_eq!(logs, ["early"]);
}

#[tokio::test]
async fn deadlock_of_go_is_the_message() {
    let text = "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [chan receive]:\nmain.main()\n\t/src/main.go:7 +0x2\n";
    let length = text.len();
    let guest = Guest::new(&format!(
        "(call $print (i32.const 4096) (i32.const {length})) (call $exit (i32.const 2))"
    ))
    .text(4096, text);
    let (exit, logs) = run(guest).await;
    assert_eq!((exit.reason, exit.code), (ExitReason::Error, 2));
    assert!(
        exit.message
            .starts_with("fatal error: all goroutines are asleep - deadlock!"),
        "{exit:?}"
    );
    assert_eq!(logs.len(), 4);
}

#[tokio::test]
async fn output_is_logged_by_line_and_bounded() {
    // 256 KiB at most are taken at once, and a line has at most 4 KiB.
    let guest = Guest::new(
        "(memory.fill (i32.const 4096) (i32.const 120) (i32.const 120000))
         (call $check (i32.sub (call $write (i32.const 1) (i32.const 4096) (i32.const 120000)) (i32.const 120000)) (i32.const 0) (i32.const 1))
         (call $check (call $write (i32.const 2) (i32.const 124100) (i32.const 4)) (i32.const 4) (i32.const 2))",
    )
    .text(124_100, "a\nb\n");
    let (exit, logs) = run(guest).await;
    assert_eq!(exit.reason, ExitReason::Completed, "{exit:?}");
    assert!(logs.iter().all(|line| line.len() <= 4096));
    assert_eq!(logs.iter().map(String::len).sum::<usize>(), 120_002);
    assert!(logs.contains(&"a".to_owned()) && logs.contains(&"b".to_owned()));
}

#[tokio::test]
async fn trap_names_the_functions_on_the_stack() {
    let guest = Guest::new("(call $middle (i32.const 1))").with(
        "(func $middle (param i32) (call $inner (local.get 0)))
         (func $inner (param i32) (drop (i32.div_u (local.get 0) (i32.const 0))))",
    );
    let (exit, _) = run(guest).await;
    assert_eq!((exit.reason, exit.code), (ExitReason::Trap, 134));
    assert_eq!(
        exit.message,
        "integer divide by zero; stack: inner < middle < main"
    );
}

#[tokio::test]
async fn trap_quotes_what_was_printed() {
    let guest = Guest::new("(call $print (i32.const 4096) (i32.const 11)) unreachable")
        .text(4096, "panic: boom");
    let (exit, _) = run(guest).await;
    assert_eq!(exit.reason, ExitReason::Trap);
    assert_eq!(
        exit.message,
        "panic: boom (wasm `unreachable` instruction executed); stack: main"
    );
}

#[tokio::test]
async fn endless_recursion_is_a_trap() {
    let guest =
        Guest::new("(call $deep)").with("(func $deep (call $deep) (call $sleep (i64.const 0)))");
    let (exit, _) = run(guest).await;
    assert_eq!(exit.reason, ExitReason::Trap);
    assert!(
        exit.message
            .starts_with("call stack exhausted; stack: deep < deep"),
        "{exit:?}"
    );
}

fn impatient(millis: u64) -> ProcessConfig {
    ProcessConfig {
        unresponsive_after: Duration::from_millis(millis),
        ..ProcessConfig::default()
    }
}

#[test]
fn process_that_never_waits_is_interrupted_and_others_go_on() {
    // As in the host, timers are checked after each poll instead of after 61.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime
        .event_interval(1)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(run_beside_spinning_process());
}

async fn run_beside_spinning_process() {
    let spins = Guest::new("(call $spinner)").with("(func $spinner (loop $again (br $again)))");
    let spinning = start(&spins, impatient(700)).await;
    // Beside it, on the same thread, a process ticks.
    let ticks = Guest::new(
        "(local $round i32)
         (loop $again
             (call $sleep (i64.const 1))
             (local.set $round (i32.add (local.get $round) (i32.const 1)))
             (br_if $again (i32.lt_u (local.get $round) (i32.const 20))))",
    );
    let ticking = start(&ticks, impatient(700)).await;
    let started = Instant::now();
    assert_eq!(ticking.exit().await.reason, ExitReason::Completed);
    assert!(spinning.process.exit().is_none(), "it still spins");

    let (exit, _) = spinning.ended().await;
    assert!(started.elapsed() >= Duration::from_millis(500));
    assert_eq!((exit.reason, exit.code), (ExitReason::Unresponsive, 137));
    assert_eq!(
        exit.message,
        "the process ran for 0.7 s without waiting (poll_oneoff); stack: spinner < main"
    );
}

#[tokio::test]
async fn host_calls_that_do_not_wait_are_no_wait() {
    let guest =
        Guest::new("(loop $again (drop (call $now)) (drop (call $sched_yield)) (br $again))");
    let (exit, _) = start(&guest, impatient(200)).await.ended().await;
    assert_eq!(exit.reason, ExitReason::Unresponsive, "{exit:?}");
}

#[tokio::test]
async fn process_that_works_and_polls_is_not_interrupted() {
    // For 600 ms it computes, and asks without waiting what is ready.
    let guest = Guest::new(
        "(local $end i64)
         (local.set $end (i64.add (call $now) (i64.const 600000000)))
         (loop $again
             (call $sleep (i64.const 0))
             (br_if $again (i64.lt_u (call $now) (local.get $end))))",
    );
    completes_with(guest, impatient(150)).await;
}

#[tokio::test]
async fn long_run_is_reported_before_it_is_interrupted() {
    let spins = Guest::new("(loop $again (br $again))");
    let (exit, logs) = start(&spins, impatient(2300)).await.ended().await;
    assert_eq!(exit.reason, ExitReason::Unresponsive, "{exit:?}");
    assert_eq!(
        logs,
        ["the process has run for 2 s without waiting; stack: main"]
    );
}

#[tokio::test]
async fn killed_process_ends_waiting_and_spinning() {
    for body in [
        WAIT,
        "(loop $again (br $again))",
        "(call $sleep (i64.const -1))",
    ] {
        let started = start(&Guest::new(body), ProcessConfig::default()).await;
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(started.process.exit(), None);
        started.process.kill();
        let exit = started.exit().await;
        assert_eq!(
            (exit.reason, exit.code),
            (ExitReason::Killed, 137),
            "{body}"
        );
        assert_eq!(exit.reason.as_str(), "Error");
    }
}

#[tokio::test]
async fn killed_process_has_logged_its_last_words() {
    let body = format!("(call $print (i32.const 4096) (i32.const 4)) {WAIT}");
    let guest = Guest::new(&body).text(4096, "half a line");
    let started = start(&guest, ProcessConfig::default()).await;
    while started.process.stats().polls == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(started.logs.lines().len(), 0);
    started.process.kill();
    let (exit, logs) = started.ended().await;
    assert_eq!(
        (exit.reason, &logs[..]),
        (ExitReason::Killed, &["half".to_owned()][..])
    );
}

#[tokio::test]
async fn process_that_is_dropped_has_ended() {
    let started = start(&Guest::new(WAIT), ProcessConfig::default()).await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    started.task.abort();
    let exit = started.process.exited().await;
    assert_eq!(exit.reason, ExitReason::Killed);
    assert_eq!(exit.message, "the host stopped the process");

    // One that never began.
    let program = load(&Guest::default()).await;
    let (process, running) = Process::start(
        &program,
        ProcessConfig::default(),
        Arc::new(World),
        Arc::new(Logs::default()),
    );
    drop(running);
    assert_eq!(process.exited().await.reason, ExitReason::Killed);
}

#[tokio::test]
async fn signal_without_a_handler_is_told() {
    let started = start(
        &Guest::new("(call $sleep (i64.const 60000))"),
        ProcessConfig::default(),
    )
    .await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(!started.process.signal(SIGTERM), "nobody handles it");
    started.process.kill();
    started.exit().await;
}

/// Grows page by page. `$then` is what it does when it is refused.
fn growing(then: &str) -> Guest {
    Guest::new(&format!(
        "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) {then}"
    ))
    .text(4096, "fatal error: runtime: out of memory")
}

#[tokio::test]
async fn process_that_dies_for_lack_of_memory_is_oom_killed() {
    let config = || ProcessConfig {
        memory_bytes: 8 << 20,
        ..ProcessConfig::default()
    };
    let dies = "(call $print (i32.const 4096) (i32.const 35)) (call $exit (i32.const 2))";
    let (exit, _) = start(&growing(dies), config()).await.ended().await;
    assert_eq!((exit.reason.as_str(), exit.code), ("OOMKilled", 137));
    assert_eq!(
        exit.message,
        "the memory limit of 8 MiB was reached: fatal error: runtime: out of memory"
    );
    let (exit, _) = start(&growing("unreachable"), config()).await.ended().await;
    assert_eq!(exit.reason, ExitReason::OutOfMemory);
    // It can also live with it.
    let (exit, _) = start(&growing(""), config()).await.ended().await;
    assert_eq!(exit.reason, ExitReason::Completed);
    // Or not even start.
    let config = ProcessConfig {
        memory_bytes: 1 << 10,
        ..ProcessConfig::default()
    };
    let (exit, _) = start(&Guest::default(), config).await.ended().await;
    assert_eq!(exit.reason, ExitReason::OutOfMemory, "{exit:?}");
}

#[tokio::test]
async fn memory_is_charged_to_the_namespace() {
    let budget = ByteBudget::new("namespace n", 4 << 20);
    let config = ProcessConfig {
        memory: Some(budget.open()),
        ..ProcessConfig::default()
    };
    let (exit, _) = start(&growing("(call $exit (i32.const 2))"), config)
        .await
        .ended()
        .await;
    assert_eq!(exit.reason, ExitReason::OutOfMemory);
    assert!(exit.message.contains("namespace n"), "{exit:?}");
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn memory_of_a_process_is_seen_from_outside() {
    let guest = Guest::new(&format!("(drop (memory.grow (i32.const 30))) {WAIT}"));
    let meter = Arc::new(Meter::default());
    let config = ProcessConfig {
        meter: Some(meter.clone()),
        ..ProcessConfig::default()
    };
    let started = start(&guest, config).await;
    while started.process.stats().polls == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(started.process.stats().memory_bytes, 32 << 16);
    assert_eq!(meter.peak_memory_bytes.load(Ordering::Relaxed), 32 << 16);
    started.process.kill();
    started.exit().await;
}

#[tokio::test]
async fn running_code_stays_mapped() {
    let folder = tempfile::tempdir().expect("a directory");
    let cache = CodeCache::open(&folder.path().join("compiled"), 1 << 30).expect("a cache");
    let config = EngineConfig {
        concurrent_calls: 8,
        max_mapped_code_bytes: 0,
        ..EngineConfig::default()
    };
    let engine = Engine::with_code(&config, Code::new(Some(cache), None)).expect("an engine");
    let load = async |number: u32| {
        let guest = Guest::new(WAIT).with(&format!("(global i32 (i32.const {number}))"));
        let limits = LoadLimits::default();
        Arc::new(
            ProcessProgram::load(&engine, guest.build(), &limits)
                .await
                .expect("loads"),
        )
    };
    let begin = |program: &Arc<ProcessProgram>| {
        let logs = Arc::new(Logs::default());
        let (process, running) =
            Process::start(program, ProcessConfig::default(), Arc::new(World), logs);
        (process, tokio::spawn(running))
    };
    let until_polled = async |process: &Process| {
        while process.stats().polls == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };

    let first = load(1).await;
    let (one, task) = begin(&first);
    until_polled(&one).await;
    let (twin, twin_task) = begin(&first);
    until_polled(&twin).await;
    let second = load(2).await;
    let third = load(3).await;
    let now = engine.mapped();
    assert_eq!(
        (now.loaded, now.mapped, now.again),
        (3, 2, 0),
        "the running one and the last"
    );

    // Unmapped, but it starts.
    let (other, other_task) = begin(&second);
    until_polled(&other).await;
    assert_eq!(engine.mapped().again, 1);
    assert_eq!(engine.mapped().mapped, 2);

    for (process, task) in [(one, task), (twin, twin_task), (other, other_task)] {
        process.kill();
        task.await.expect("no panic");
    }
    drop((first, second, third));
    assert_eq!(engine.mapped().loaded, 0);
}

#[tokio::test]
async fn many_processes_wait_without_work() {
    let program = load(&Guest::new(WAIT)).await;
    let mut processes = Vec::new();
    for _ in 0..100 {
        let logs = Arc::new(Logs::default());
        let (process, running) =
            Process::start(&program, ProcessConfig::default(), Arc::new(World), logs);
        processes.push((process, tokio::spawn(running)));
    }
    for (process, _) in &processes {
        while process.stats().polls == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    for (process, task) in processes {
        assert_eq!(process.stats().polls, 1);
        assert!(process.signal(SIGTERM));
        assert_eq!(task.await.expect("no panic").reason, ExitReason::Completed);
    }
}
