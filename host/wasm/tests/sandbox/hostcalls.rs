//! Tests of the calls and values that cross the boundary between guest and host, in both
//! directions.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    controller::request::{Action, Failure},
    gate::operation::{Get, Read, Write, WriteAction, WriteOptions},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{EventType, LogLevel},
    status::{ApiError, Cause, Status},
};
use operetta_testkit::wat_guest::Guest;

use crate::{
    ports::{Called, Ports, request},
    run,
};

const GET: &str = "(call $get_own (local.get $namespace) (local.get $namespace_len) (local.get $name) (local.get $name_len))";

#[tokio::test]
async fn object_read_is_written_back_unchanged() {
    let ports = Arc::new(Ports::default());
    let guest = Guest::default().reconcile(&format!(
        "{GET}
         (if (i32.load8_u (i32.const 256)) (then unreachable))
         (call $update_status (i32.const 64) (i32.const 2) (i32.const 66) (i32.const 3) (i32.const 1)
           (local.get $namespace) (local.get $namespace_len) (local.get $name) (local.get $name_len)
           (i32.load (i32.const 260)) (i32.load (i32.const 264))
           (i32.const 1) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 256))
         (i32.store8 (i32.const 20) (i32.const 2))
         (i32.store (i32.const 24) (i32.const 1500))
         i32.const 16"
    ));
    assert_eq!(
        run(guest, &ports).await,
        Ok(Action::RequeueAfter(Duration::from_millis(1500)))
    );
    let operations = ports.operations.lock().clone();
    let key = ObjectKey::namespaced("n", "a");
    let kind = GroupVersionKind::new("v1", "Pod");
    assert_eq!(
        operations[0],
        Called::Get(Get {
            kind: kind.clone(),
            key: key.clone(),
            read: Read::Cached
        })
    );
    let object = crate::ports::pod("a").json().to_owned();
    // The guest's empty field manager means the default one.
    let options = WriteOptions {
        dry_run: true,
        field_manager: None,
        strict: true,
    };
    let action = WriteAction::Update {
        key,
        status: true,
        object,
    };
    assert_eq!(
        operations[1],
        Called::Write(Write {
            kind,
            action,
            options
        })
    );
}

#[tokio::test]
async fn api_error_reaches_guest_typed_with_causes() {
    for (code, variant) in [
        (404, 0),
        (409, 2),
        (422, 3),
        (403, 5),
        (410, 6),
        (429, 7),
        (503, 8),
        (504, 9),
        (418, 10),
    ] {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: "no".into(),
            field: "spec.replicas".into(),
        };
        let status = Status {
            code,
            causes: vec![cause],
            retry_after_seconds: Some(7),
            ..Status::default()
        };
        let ports = Arc::new(Ports::failing(ApiError::from_status(status)));
        // Fails with the first cause's field if the error has the expected variant, code and
        // retry-after.
        let guest = Guest::default().reconcile(&format!(
            "{GET}
             (if (i32.eqz (i32.load8_u (i32.const 256))) (then unreachable))
             (if (i32.ne (i32.load8_u (i32.const 260)) (i32.const {variant})) (then unreachable))
             (if (i32.ne (i32.load16_u (i32.const 264)) (i32.const {code})) (then unreachable))
             (if (i32.ne (i32.load (i32.const 296)) (i32.const 7)) (then unreachable))
             (call $retry (i32.load offset=16 (i32.load (i32.const 284))) (i32.load offset=20 (i32.load (i32.const 284))))"
        ));
        assert_eq!(
            run(guest, &ports).await,
            Err(Failure::Retry("spec.replicas".into())),
            "{code}"
        );
    }
}

#[tokio::test]
async fn cuts_long_failure_message_between_characters() {
    let guest = Guest::default()
        .text(&"é".repeat(5000))
        .reconcile("(call $retry (global.get $text) (global.get $text_len)) (i32.store8 (i32.const 20) (i32.const 1))");
    match run(guest, &Arc::new(Ports::default())).await {
        Err(Failure::Terminal(message)) => assert_eq!(message, "é".repeat(2048)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn cuts_events_to_api_server_limits() {
    let ports = Arc::new(Ports::default());
    // emit has eighteen flat parameters, which pass through memory from address 512.
    let guest = Guest::default().text(&"é".repeat(2000)).reconcile(
        "(i32.store (i32.const 512) (i32.const 64)) (i32.store (i32.const 516) (i32.const 2))
         (i32.store (i32.const 520) (i32.const 66)) (i32.store (i32.const 524) (i32.const 3))
         (i32.store8 (i32.const 528) (i32.const 1))
         (i32.store (i32.const 532) (local.get $namespace)) (i32.store (i32.const 536) (i32.const 0))
         (i32.store (i32.const 540) (local.get $name)) (i32.store (i32.const 544) (local.get $name_len))
         (i32.store8 (i32.const 548) (i32.const 0))
         (i32.store8 (i32.const 560) (i32.const 1))
         (i32.store (i32.const 564) (global.get $text)) (i32.store (i32.const 568) (i32.const 201))
         (i32.store (i32.const 572) (global.get $text)) (i32.store (i32.const 576) (i32.const 0))
         (i32.store (i32.const 580) (global.get $text)) (i32.store (i32.const 584) (global.get $text_len))
         (i32.store (i32.const 568) (i32.const 200))
         (call $emit (i32.const 512)) i32.const 16",
    );
    assert_eq!(run(guest, &ports).await, Ok(Action::Done));
    let events = ports.events.lock().clone();
    assert_eq!(events.len(), 1);
    assert_eq!(
        (
            events[0].reason.len(),
            events[0].action.len(),
            events[0].note.len()
        ),
        (128, 0, 1024)
    );
    assert_eq!(
        (events[0].event_type, &events[0].uid),
        (EventType::Warning, &None)
    );
    assert_eq!(
        events[0].key,
        ObjectKey::cluster_scoped("a"),
        "an empty namespace means none"
    );
}

#[tokio::test]
async fn log_line_carries_fields_and_reconcile() {
    let ports = Arc::new(Ports::default());
    let guest = Guest::default().text("synced").reconcile(
        "(i32.store (i32.const 512) (local.get $controller)) (i32.store (i32.const 516) (local.get $controller_len))
         (i32.store (i32.const 520) (local.get $id)) (i32.store (i32.const 524) (local.get $id_len))
         (call $log (i32.const 1) (global.get $text) (global.get $text_len) (i32.const 512) (i32.const 1))
         (call $log (i32.const 4) (global.get $text) (global.get $text_len) (i32.const 0) (i32.const 0))
         i32.const 16",
    );
    assert_eq!(run(guest, &ports).await, Ok(Action::Done));
    let records = ports.records.lock().clone();
    assert_eq!(records.len(), 1, "trace lines are dropped");
    assert_eq!(
        (records[0].level, records[0].message.as_str()),
        (LogLevel::Warn, "synced")
    );
    assert_eq!(records[0].fields, [("c".to_owned(), "id-1".to_owned())]);
    assert_eq!(records[0].reconcile, Some(request("a")));
}

#[tokio::test]
async fn guest_takes_warnings_about_its_writes_once() {
    let ports = Arc::new(Ports {
        warns: Some("unknown field \"spec.x\""),
        ..Ports::default()
    });
    let count = |wanted: u32| {
        format!(
            "(call $take_warnings (i32.const 256))
             (if (i32.ne (i32.load (i32.const 260)) (i32.const {wanted})) (then unreachable))"
        )
    };
    let create = "(call $create (i32.const 64) (i32.const 2) (i32.const 66) (i32.const 3) (i32.const 1)
           (local.get $namespace) (local.get $namespace_len) (global.get $text) (global.get $text_len)
           (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))";
    let guest = Guest::default()
        .text(r#"{"metadata":{"name":"a"}}"#)
        .reconcile(&format!(
            "{none} {create} {create} {two}
             (i32.store (i32.const 600) (i32.load (i32.const 256)))
             {none}
             (call $retry (i32.load offset=8 (i32.load (i32.const 600))) (i32.load offset=12 (i32.load (i32.const 600))))",
            none = count(0),
            two = count(2),
        ));

    let outcome = run(guest, &ports).await;
    assert_eq!(
        outcome,
        Err(Failure::Retry("unknown field \"spec.x\"".into()))
    );
}

#[tokio::test]
async fn guest_receives_configuration_and_retries() {
    let guest = Guest::default().reconcile(
        "(if (i32.ne (local.get $retries) (i32.const 2)) (then unreachable))
         (call $config (i32.const 256))
         (call $retry (i32.load (i32.const 256)) (i32.load (i32.const 260)))",
    );
    let outcome = run(guest, &Arc::new(Ports::default())).await;
    assert_eq!(outcome, Err(Failure::Retry(r#"{"replicas":3}"#.into())));
}
