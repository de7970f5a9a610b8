//! Tests of guests that reach the log, the event recorder and the API server, beyond the response
//! to each.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use operetta_core::{
    gate::operation::{Item, Operation, Page, Write, WriteAction},
    handler::event::Event,
    object::{ManagedFields, Object, ObjectKey, kind::GroupVersionKind},
    predicate,
    status::{ApiError, ErrorKind},
};

use crate::{
    ports::{Called, Ports, pod},
    stage::{self, run, run_with},
};

/// The number of bytes of log that one call may keep, with the lines that report the limits.
const LOG_BYTES: usize = 256 * 1024 + 300;

#[tokio::test]
pub async fn host_call_that_never_returns() {
    run_with("host_call_that_never_returns", Ports::slow(None)).await;
}

#[tokio::test]
pub async fn list_of_everything() {
    let items = vec![Item::Whole(Arc::new(pod("a"))); 300_000];
    let page = Page {
        items,
        resource_version: "1".into(),
        continue_token: None,
    };
    run_with(
        "list_of_everything",
        Ports {
            page: Some(page),
            ..Ports::default()
        },
    )
    .await;
}

#[tokio::test]
pub async fn config_of_32_mb() {
    run_with(
        "config_of_32_mb",
        Ports {
            config: "x".repeat(32 << 20),
            ..Ports::default()
        },
    )
    .await;
}

/// Runs a guest that logs too much, and asserts that the log of each of its two calls is bounded.
/// Returns the lines.
async fn logs_within_bounds(name: &str) -> Vec<String> {
    let ports = run(name).await;
    let records = ports.records.lock().clone();
    let field =
        |(name, value): &(String, String)| size_of::<(String, String)>() + name.len() + value.len();
    let kept = |record: &operetta_core::ports::LogRecord| {
        record.message.len() + record.fields.iter().map(field).sum::<usize>()
    };
    let bytes: usize = records.iter().map(kept).sum();
    assert!(bytes <= 2 * LOG_BYTES, "{name}: {bytes} bytes of log");
    let lines: Vec<String> = ports.lines().into_iter().map(|(_, line)| line).collect();
    let limit_lines = lines
        .iter()
        .filter(|line| line.starts_with("log limit of 262144 bytes per reconcile reached"))
        .count();
    assert_eq!(limit_lines, 2, "one for each call");
    lines
}

#[tokio::test]
pub async fn log_flood() {
    let lines = logs_within_bounds("log_flood").await;
    assert_eq!(
        lines.len(),
        2 * 258,
        "256 lines of 1 KiB, and one for each limit: of bytes and of calls"
    );
}

#[tokio::test]
pub async fn log_fields() {
    logs_within_bounds("log_fields").await;
}

#[tokio::test]
pub async fn log_line_of_8_mb() {
    logs_within_bounds("log_line_of_8_mb").await;
}

#[tokio::test]
pub async fn output_flood() {
    let lines = logs_within_bounds("output_flood").await;
    assert!(lines.iter().all(|line| line.len() <= 4096));
}

#[tokio::test]
pub async fn log_of_control_characters() {
    let ports = run("log_of_control_characters").await;
    assert_eq!(
        ports.lines().len(),
        2,
        "one line for each call, whatever it contains"
    );
}

#[tokio::test]
pub async fn text_that_is_no_utf_8() {
    assert_eq!(run("text_that_is_no_utf_8").await.lines(), []);
}

#[tokio::test]
pub async fn text_out_of_bounds() {
    assert_eq!(run("text_out_of_bounds").await.lines(), []);
}

#[tokio::test]
pub async fn event_flood() {
    let events = run("event_flood").await.events.lock().len();
    assert_eq!(events, 2 * 10_000, "as many as a reconcile may make calls");
}

#[tokio::test]
pub async fn event_of_megabytes() {
    let ports = run("event_of_megabytes").await;
    let events = ports.events.lock();
    assert_eq!(events.len(), 200);
    for event in events.iter() {
        let name = event.key.name.len();
        let kind = event.regarding.kind.len();
        assert_eq!(
            (
                name,
                kind,
                event.uid.as_ref().map(String::len),
                event.reason.len()
            ),
            (512, 512, Some(512), 128)
        );
    }
}

#[tokio::test]
pub async fn event_with_line_breaks() {
    let ports = run("event_with_line_breaks").await;
    let reasons: Vec<_> = ports
        .events
        .lock()
        .iter()
        .map(|event| event.reason.clone())
        .collect();
    assert_eq!(
        reasons,
        ["a\r\nb\u{1b}[31m", "a\r\nb\u{1b}[31m"],
        "validation is left to the API server"
    );
}

#[tokio::test]
pub async fn host_call_flood() {
    assert_eq!(operations("host_call_flood").await.len(), 2 * 10_000);
}

async fn operations(name: &str) -> Vec<Called> {
    run(name).await.operations.lock().clone()
}

#[tokio::test]
pub async fn status_of_another_object() {
    let victim = ObjectKey::namespaced("kube-system", "victim");
    for operation in operations("status_of_another_object").await {
        let Called::Write(write) = operation else {
            panic!("{operation:?}")
        };
        assert!(
            matches!(write.action, WriteAction::Update { status: true, .. }),
            "{write:?}"
        );
        assert_eq!(
            write.key(),
            Some(&victim),
            "RBAC decides about the object that is written"
        );
    }
}

/// Tests of guests whose request the gate refuses: it reaches no port of the host.
macro_rules! refused_by_the_gate {
    ($($name:ident)*) => { $(
        #[tokio::test]
        pub async fn $name() {
            let ports = run(stringify!($name)).await;
            assert_eq!(*ports.operations.lock(), []);
            assert_eq!(*ports.raws.lock(), []);
        }
    )* };
}

refused_by_the_gate! {
    name_with_slashes name_with_line_breaks namespace_of_dots kind_of_a_path
    version_of_a_path version_of_a_collection version_of_a_watch
    name_of_a_megabyte selector_of_a_megabyte projection_of_many_paths
    raw_path_with_dots raw_path_escaped raw_path_with_line_breaks raw_path_of_the_host raw_method_with_line_breaks
    raw_query_with_line_breaks raw_header_with_line_breaks raw_watch raw_proxy
    patch_of_a_proxy patch_of_a_path create_of_4_mb update_of_a_long_manager delete_with_a_long_uid name_with_nul
    name_of_a_query continue_token_of_a_megabyte field_selector_of_a_megabyte index_of_a_megabyte list_of_a_path
    projection_of_long_paths audit_of_long_paths raw_query_of_semicolons raw_query_of_a_broken_escape
    raw_delete_of_duplicate_fields raw_delete_of_yaml raw_watch_escaped raw_watch_by_path raw_exec raw_port_forward
    raw_method_that_connects raw_path_of_a_url raw_path_of_empty_segments raw_body_of_protobuf raw_query_of_a_megabyte
    describe_that_reads mapper_that_reads
}

/// Runs a guest and returns its writes, which must be its only operations.
async fn writes(name: &str) -> Vec<Write> {
    let to_write = |operation| match operation {
        Called::Write(write) => write,
        operation => panic!("{operation:?}"),
    };
    operations(name).await.into_iter().map(to_write).collect()
}

#[tokio::test]
pub async fn write_that_guesses_a_secret() {
    let writes = writes("write_that_guesses_a_secret").await;
    assert_eq!(
        writes.len(),
        2,
        "each guess is a write, whose access the API server reviews"
    );
    assert_eq!(
        writes[0].key(),
        Some(&ObjectKey::namespaced("kube-system", "victim"))
    );
}

#[tokio::test]
pub async fn create_of_another_namespace() {
    for write in writes("create_of_another_namespace").await {
        assert_eq!(
            (write.kind.kind.as_str(), write.namespace()),
            ("Pod", Some("n")),
            "the call names the namespace, not the body"
        );
    }
}

#[tokio::test]
pub async fn update_as_a_neighbour() {
    for write in writes("update_as_a_neighbour").await {
        assert_eq!(
            write.options.field_manager.as_deref(),
            Some("operetta:victim/plugin"),
            "as in kubectl"
        );
    }
}

#[tokio::test]
pub async fn update_of_duplicate_fields() {
    for write in writes("update_of_duplicate_fields").await {
        assert_eq!(
            write.key(),
            Some(&ObjectKey::namespaced("n", "a")),
            "the call names the object, not the body"
        );
    }
}

#[tokio::test]
pub async fn cached_gets_of_new_names() {
    let operations = operations("cached_gets_of_new_names").await;
    let name = |operation: &Called| match operation {
        Called::Get(get) => get.key.name.clone(),
        operation => panic!("{operation:?}"),
    };
    let names: HashSet<String> = operations.iter().map(name).collect();
    assert_eq!((operations.len(), names.len()), (2 * 10_000, 10_000));
}

#[tokio::test]
pub async fn list_of_unreadable_namespaces() {
    let ports = Ports::failing(ApiError::new(ErrorKind::Forbidden, "pods is forbidden"));
    let ports = run_with("list_of_unreadable_namespaces", ports).await;
    assert_eq!(ports.operations.lock().len(), 2 * 10_000);
}

#[tokio::test]
pub async fn update_of_a_huge_tree() {
    let huge = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","namespace":"n"}},"data":[{}0]}}"#,
        r#"{"":0},"#.repeat(200_000)
    );
    let pod = Object::from_json(
        &huge,
        &GroupVersionKind::new("v1", "Pod"),
        ManagedFields::Drop,
    )
    .expect("an object");
    let ports = Ports {
        answer: Ok(Arc::new(pod)),
        audited: true,
        ..Ports::default()
    };
    let ports = run_with("update_of_a_huge_tree", ports).await;
    let changed: Vec<_> = ports
        .audit
        .lock()
        .iter()
        .map(|record| record.changed.clone())
        .collect();
    assert_eq!(
        changed,
        [None, None],
        "the write is recorded without a comparison"
    );
}

#[tokio::test]
pub async fn raw_delete_that_is_no_dry_run() {
    let ports = run_with(
        "raw_delete_that_is_no_dry_run",
        Ports {
            audited: true,
            ..Ports::default()
        },
    )
    .await;
    let dry: Vec<_> = ports
        .audit
        .lock()
        .iter()
        .map(|record| (record.verb.clone(), record.dry_run))
        .collect();
    assert_eq!(dry, vec![("delete".to_owned(), false); 2]);
}

#[tokio::test]
pub async fn raw_token() {
    assert_eq!(run("raw_token").await.raws.lock().len(), 2);
}

#[tokio::test]
pub async fn raw_impersonation_by_query() {
    for request in run("raw_impersonation_by_query").await.raws.lock().iter() {
        assert_eq!(
            (&request.content_type, &request.accept),
            (&None, &None),
            "the plugin sets no header"
        );
    }
}

#[tokio::test]
pub async fn event_about_a_victim() {
    for event in run("event_about_a_victim").await.events.lock().iter() {
        assert_eq!(event.key, ObjectKey::namespaced("kube-system", "victim"));
    }
}

#[tokio::test]
pub async fn predicates_on_a_large_object() {
    run("predicates_on_a_large_object").await;
    let large = |version: usize| {
        let list = r#"{"":[0]},"#.repeat(16_000);
        let text = format!(
            r#"{{"metadata":{{"name":"a","namespace":"n","resourceVersion":"{version}"}},"spec":[{list}{version}]}}"#
        );
        let object = Object::from_json(
            &text,
            &GroupVersionKind::new("v1", "Pod"),
            ManagedFields::Drop,
        );
        Arc::new(object.expect("an object"))
    };
    let event = Event::Modified {
        old: large(1),
        object: large(2),
    };
    let predicates = stage::predicates("predicates_on_a_large_object").await;
    let started = Instant::now();
    assert!(
        !predicate::passes(&predicates, &event),
        "the predicates search the whole object"
    );
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
}
