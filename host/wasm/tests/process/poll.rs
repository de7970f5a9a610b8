//! Tests of `poll_oneoff`.

use std::time::{Duration, Instant};

use operetta_wasm::process::{ExitReason, ProcessConfig};

use crate::{Guest, completes, start};

#[tokio::test]
async fn no_subscription_is_an_error_as_a_program_would_never_wake() {
    completes(Guest::new(
        "(call $check (call $poll_oneoff (i32.const 64) (i32.const 256) (i32.const 0) (i32.const 36)) (i32.const 28) (i32.const 1))",
    ))
    .await;
}

#[tokio::test]
async fn trouble_with_a_subscription_is_in_its_event() {
    completes(Guest::new(
        "(call $fd_subscription (i32.const 4096) (i64.const 1) (i32.const 1) (i32.const 99))
         (call $fd_subscription (i32.const 4144) (i64.const 2) (i32.const 2) (i32.const -1))
         (call $fd_subscription (i32.const 4192) (i64.const 3) (i32.const 7) (i32.const 1))
         (call $clock_subscription (i32.const 4240) (i64.const 4) (i32.const 2) (i64.const 0) (i32.const 0))
         (call $clock_subscription (i32.const 4288) (i64.const 5) (i32.const 1) (i64.const -1) (i32.const 0))
         (call $fd_subscription (i32.const 4336) (i64.const 6) (i32.const 2) (i32.const 1))
         (call $fd_subscription (i32.const 4384) (i64.const 7) (i32.const 1) (i32.const 2))
         (call $check (call $poll_oneoff (i32.const 4096) (i32.const 8192) (i32.const 7) (i32.const 36)) (i32.const 0) (i32.const 1))
         (call $check (i32.load (i32.const 36)) (i32.const 6) (i32.const 2))
         (call $check (i32.load16_u (i32.const 8200)) (i32.const 8) (i32.const 3))
         (call $check (i32.load8_u (i32.const 8202)) (i32.const 1) (i32.const 4))
         (call $check (i32.load16_u (i32.const 8232)) (i32.const 8) (i32.const 5))
         (call $check (i32.load16_u (i32.const 8264)) (i32.const 28) (i32.const 6))
         (call $check (i32.load16_u (i32.const 8296)) (i32.const 28) (i32.const 7))
         ;; stdout takes bytes, and stderr has none: the clock of the largest number never ends.
         (call $check (i32.load (i32.const 8320)) (i32.const 6) (i32.const 8))
         (call $check (i32.load16_u (i32.const 8328)) (i32.const 0) (i32.const 9))
         (call $check (i32.load8_u (i32.const 8330)) (i32.const 2) (i32.const 10))
         (call $check (i32.load (i32.const 8352)) (i32.const 7) (i32.const 11))
         (call $check (i32.load16_u (i32.const 8360)) (i32.const 28) (i32.const 12))",
    ))
    .await;
}

/// The guest's time that passed is checked by the guest.
#[tokio::test]
async fn clocks_are_relative_and_absolute() {
    completes(Guest::new(
        "(local $before i64)
         ;; Relative on both clocks: the sooner one ends the wait.
         (local.set $before (call $now))
         (call $clock_subscription (i32.const 4096) (i64.const 1) (i32.const 0) (i64.const 30000000) (i32.const 0))
         (call $clock_subscription (i32.const 4144) (i64.const 2) (i32.const 1) (i64.const 10000000000) (i32.const 0))
         (call $check (call $poll_oneoff (i32.const 4096) (i32.const 8192) (i32.const 2) (i32.const 36)) (i32.const 0) (i32.const 1))
         (call $check (i32.load (i32.const 36)) (i32.const 1) (i32.const 2))
         (call $check (i32.load (i32.const 8192)) (i32.const 1) (i32.const 3))
         (call $check (i64.ge_u (i64.sub (call $now) (local.get $before)) (i64.const 30000000)) (i32.const 1) (i32.const 4))
         ;; Absolute on the monotonic clock.
         (local.set $before (call $now))
         (call $clock_subscription (i32.const 4096) (i64.const 1) (i32.const 1)
             (i64.add (local.get $before) (i64.const 30000000)) (i32.const 1))
         (call $check (call $poll_oneoff (i32.const 4096) (i32.const 8192) (i32.const 1) (i32.const 36)) (i32.const 0) (i32.const 5))
         (call $check (i64.ge_u (i64.sub (call $now) (local.get $before)) (i64.const 30000000)) (i32.const 1) (i32.const 6))
         ;; Absolute on the realtime clock.
         (drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 48)))
         (call $clock_subscription (i32.const 4096) (i64.const 1) (i32.const 0)
             (i64.add (i64.load (i32.const 48)) (i64.const 30000000)) (i32.const 1))
         (local.set $before (call $now))
         (call $check (call $poll_oneoff (i32.const 4096) (i32.const 8192) (i32.const 1) (i32.const 36)) (i32.const 0) (i32.const 7))
         (call $check (i64.ge_u (i64.sub (call $now) (local.get $before)) (i64.const 20000000)) (i32.const 1) (i32.const 8))
         ;; Times that have passed.
         (local.set $before (call $now))
         (call $clock_subscription (i32.const 4096) (i64.const 1) (i32.const 0) (i64.const 5) (i32.const 1))
         (call $clock_subscription (i32.const 4144) (i64.const 2) (i32.const 1) (i64.const 5) (i32.const 1))
         (call $clock_subscription (i32.const 4192) (i64.const 3) (i32.const 1) (i64.const 0) (i32.const 0))
         (call $check (call $poll_oneoff (i32.const 4096) (i32.const 8192) (i32.const 3) (i32.const 36)) (i32.const 0) (i32.const 9))
         (call $check (i32.load (i32.const 36)) (i32.const 3) (i32.const 10))
         (call $check (i64.lt_u (i64.sub (call $now) (local.get $before)) (i64.const 1000000000)) (i32.const 1) (i32.const 11))",
    ))
    .await;
}

#[tokio::test]
async fn what_is_ready_is_ready_again() {
    completes(Guest::new(
        "(local $round i32)
         (loop $again
             (call $check (call $wait (i32.const 2) (i32.const 1)) (i32.const 0) (i32.const 1))
             (call $check (call $wait (i32.const 1) (i32.const 0)) (i32.const 0) (i32.const 2))
             (local.set $round (i32.add (local.get $round) (i32.const 1)))
             (br_if $again (i32.lt_u (local.get $round) (i32.const 100))))",
    ))
    .await;
}

#[tokio::test]
async fn events_may_be_written_over_subscriptions() {
    completes(Guest::new(
        "(call $fd_subscription (i32.const 4096) (i64.const 1) (i32.const 2) (i32.const 1))
         (call $fd_subscription (i32.const 4144) (i64.const 2) (i32.const 2) (i32.const 2))
         (call $fd_subscription (i32.const 4192) (i64.const 3) (i32.const 1) (i32.const 0))
         (call $check (call $poll_oneoff (i32.const 4096) (i32.const 4096) (i32.const 3) (i32.const 36)) (i32.const 0) (i32.const 1))
         (call $check (i32.load (i32.const 36)) (i32.const 3) (i32.const 2))
         (call $check (i32.load (i32.const 4096)) (i32.const 1) (i32.const 3))
         (call $check (i32.load (i32.const 4128)) (i32.const 2) (i32.const 4))
         (call $check (i32.load (i32.const 4160)) (i32.const 3) (i32.const 5))",
    ))
    .await;
}

/// Most of the 2,000 connections are to where nobody answers.
#[tokio::test]
async fn many_subscriptions_are_one_wait() {
    let body = "
        (local $at i32)
        (loop $open
            (call $check (i32.lt_s (call $dial (i32.const 4096) (i32.const 14)) (i32.const 0)) (i32.const 0) (i32.const 1))
            (call $fd_subscription
                (i32.add (i32.const 8192) (i32.mul (local.get $at) (i32.const 48)))
                (i64.extend_i32_u (local.get $at)) (i32.const 1) (i32.add (local.get $at) (i32.const 4)))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br_if $open (i32.lt_u (local.get $at) (i32.const 2000))))
        (call $clock_subscription (i32.const 104192) (i64.const 77) (i32.const 1) (i64.const 1000000) (i32.const 0))
        (call $check (call $poll_oneoff (i32.const 8192) (i32.const 8192) (i32.const 2001) (i32.const 36)) (i32.const 0) (i32.const 2))
        (call $check (i32.load (i32.const 36)) (i32.const 1) (i32.const 3))
        (call $check (i32.load (i32.const 8192)) (i32.const 77) (i32.const 4))";
    completes(Guest::new(body).text(4096, "10.0.0.9:20002")).await;
}

#[tokio::test]
async fn waiting_process_is_left_alone() {
    // It waits for a signal, without a clock, for longer than it may run.
    let guest = Guest::new(
        "(local $fd i32)
         (local.set $fd (call $signals))
         (call $check (call $wait (i32.const 1) (local.get $fd)) (i32.const 0) (i32.const 1))
         (call $check (call $read (local.get $fd) (i32.const 4096) (i32.const 8)) (i32.const 1) (i32.const 2))
         (call $check (i32.load8_u (i32.const 4096)) (i32.const 15) (i32.const 3))
         ;; It was read.
         (call $check (call $wait_for (i32.const 1) (local.get $fd) (i64.const 5)) (i32.const 0) (i32.const 4))",
    );
    let config = ProcessConfig {
        unresponsive_after: Duration::from_millis(50),
        ..ProcessConfig::default()
    };
    let started = start(&guest, config).await;
    let process = started.process.clone();
    while process.stats().polls == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let before = process.stats();
    tokio::time::sleep(Duration::from_millis(400)).await;
    let after = process.stats();
    assert_eq!((before.polls, after.polls, after.descriptors), (1, 1, 5));
    assert!(after.since_poll >= Duration::from_millis(400));

    let sent = Instant::now();
    assert!(process.signal(15), "it handles signals");
    let (exit, _) = started.ended().await;
    assert_eq!(exit.reason, ExitReason::Completed, "{exit:?}");
    assert!(sent.elapsed() < Duration::from_secs(5));
}
