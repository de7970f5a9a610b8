//! The traces of a host, as a receiver of OTLP gets them: reconciles with their calls, and never
//! what objects contain.
//!
//! It is a file of its own because its hosts export to a receiver of the test.

use std::{
    path::Path,
    process::{Command, Output},
};

use k8s_openapi::ByteString;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use operetta_testkit::{
    Collector, ControlPlane, DropIn, Host, HostOptions, ReceivedSpan, TestNamespace, eventually,
    guest, kinds,
};
use serde_json::{Value, json};

/// A value that no span may contain.
const SECRET: &str = "hunter2-hunter2";

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4737";
const SPAN_ID: &str = "00f067aa0ba902b7";

/// Starts a host that exports to a collector.
async fn host(control_plane: &ControlPlane, collector: &Collector, ratio: f64) -> Host {
    let config = format!(
        "traces: {{endpoint: '{}', sampleRatio: {ratio}}}",
        collector.url()
    );
    let env = [
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=k1"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test",
        ),
    ];
    let env = env.map(|(name, value)| (name, value.to_owned())).to_vec();
    // Spans do not depend on what is logged.
    let log = "off,operetta=info,plugin=info".to_owned();

    Host::start(
        control_plane,
        &HostOptions {
            config,
            env,
            log,
            ..HostOptions::default()
        },
    )
    .await
}

/// Creates a namespace with a plugin.
async fn namespace<'a>(
    control_plane: &'a ControlPlane,
    name: &str,
    wasm: &str,
    config: Value,
) -> TestNamespace<'a> {
    let namespace = control_plane.namespace(name).await;
    namespace.allow_all("plugin").await;
    namespace
        .drop_in(&DropIn::new("traced", guest(wasm)).config(config))
        .await;

    namespace
        .until_condition("traced", "Ready", "True", "Running")
        .await;
    namespace
}

/// Creates an object to reconcile, with a traceparent.
async fn create(namespace: &TestNamespace<'_>, name: &str, traceparent: &str) {
    let annotations = json!({"tracing.k8s.io/traceparent": traceparent});
    let metadata =
        json!({"name": name, "labels": {"operetta-fixture": "true"}, "annotations": annotations});
    namespace
        .create_object(kinds::CONFIG_MAP, json!({"metadata": metadata}))
        .await;
}

/// Returns the spans of reconciles of an object, in the order of their start.
fn reconciles(
    spans: &[ReceivedSpan],
    namespace: &TestNamespace<'_>,
    object: &str,
) -> Vec<ReceivedSpan> {
    let is_of = |span: &&ReceivedSpan| {
        span.span.name.starts_with("reconcile ")
            && span.attribute("k8s.namespace.name").as_deref() == Some(namespace.name())
            && span.attribute("k8s.object.name").as_deref() == Some(object)
    };

    let mut found: Vec<_> = spans.iter().filter(is_of).cloned().collect();
    found.sort_by_key(|span| span.span.start_time_unix_nano);
    found
}

/// Waits for a reconcile of an object that has these calls. Returns it, and the spans of its calls
/// in their order.
async fn until_traced(
    collector: &Collector,
    namespace: &TestNamespace<'_>,
    object: &str,
    calls: &[&str],
) -> (ReceivedSpan, Vec<ReceivedSpan>) {
    eventually(&format!("a trace of {object} with {calls:?}"), async || {
        let spans = collector.spans();
        let found = reconciles(&spans, namespace, object)
            .into_iter()
            .map(|root| {
                let mut children: Vec<_> = spans
                    .iter()
                    .filter(|span| span.is_child_of(&root))
                    .cloned()
                    .collect();
                children.sort_by_key(|span| span.span.start_time_unix_nano);
                (root, children)
            });
        let names = |children: &[ReceivedSpan]| {
            children
                .iter()
                .map(|span| span.span.name.clone())
                .collect::<Vec<_>>()
        };
        let mut found: Vec<_> = found.collect();
        match found
            .iter()
            .position(|(_, children)| names(children) == calls)
        {
            Some(at) => Ok(found.swap_remove(at)),
            None => Err(format!(
                "{:?}",
                found
                    .iter()
                    .map(|(_, children)| names(children))
                    .collect::<Vec<_>>()
            )),
        }
    })
    .await
}

fn attributes<const N: usize>(span: &ReceivedSpan, keys: [&str; N]) -> [String; N] {
    keys.map(|key| span.attribute(key).unwrap_or_default())
}

async fn exports_reconciles_with_their_calls(
    collector: &Collector,
    control_plane: &ControlPlane,
    host: &Host,
) {
    let namespace = namespace(control_plane, "traced", "fixture-touch-v1", json!({})).await;
    create(&namespace, "target", &format!("00-{TRACE_ID}-{SPAN_ID}-01")).await;
    let (root, calls) = until_traced(
        collector,
        &namespace,
        "target",
        &["get ConfigMap", "update ConfigMap"],
    )
    .await;
    assert_eq!(root.span.name, "reconcile ConfigMap");
    assert_eq!(
        (root.kind(), root.error(), root.span.parent_span_id.len()),
        (SpanKind::Consumer, None, 0)
    );

    let keys = [
        "operetta.plugin.namespace",
        "operetta.plugin.name",
        "operetta.controller",
        "operetta.retries",
    ];
    assert_eq!(
        attributes(&root, keys),
        [namespace.name(), "traced", "touch", "0"]
    );
    let keys = [
        "k8s.object.api_version",
        "k8s.object.kind",
        "operetta.result",
    ];
    assert_eq!(attributes(&root, keys), ["v1", "ConfigMap", "success"]);

    let waited: f64 = root
        .attribute("operetta.queue_duration_seconds")
        .expect("a time")
        .parse()
        .expect("a number");
    assert!((0.0..60.0).contains(&waited), "{waited}");

    assert_ne!(root.trace_id(), TRACE_ID, "a trace of its own");
    assert_eq!(root.links(), [(TRACE_ID.to_owned(), SPAN_ID.to_owned())]);

    let [get, update] = calls.as_slice() else {
        unreachable!("two calls")
    };
    let keys = [
        "operetta.operation",
        "operetta.read",
        "k8s.object.kind",
        "k8s.namespace.name",
        "k8s.object.name",
    ];

    assert_eq!(
        attributes(get, keys),
        ["get", "cached", "ConfigMap", namespace.name(), "target"]
    );
    assert_eq!(
        (get.kind(), get.attribute("http.response.status_code")),
        (SpanKind::Internal, None)
    );
    assert_eq!(
        attributes(update, keys),
        ["update", "", "ConfigMap", namespace.name(), "target"]
    );

    let keys = ["http.request.method", "http.response.status_code"];
    assert_eq!(
        (update.kind(), attributes(update, keys)),
        (SpanKind::Client, ["PUT".to_owned(), "200".to_owned()])
    );

    let instance = root.resource("service.instance.id").unwrap_or_default();
    assert_eq!(root.resource("service.name").as_deref(), Some("operetta"));
    assert_eq!(
        root.resource("deployment.environment.name").as_deref(),
        Some("test")
    );

    let replica = namespace
        .get(kinds::PLUGIN, "traced")
        .await
        .expect("it exists");
    assert_eq!(replica["status"]["replica"], json!(instance));
    assert_eq!(collector.header("x-api-key").as_deref(), Some("k1"));

    assert!(
        host.metric("operetta_spans_exported_total", &[]) >= 3.0,
        "{}",
        host.metrics()
    );

    create(&namespace, "malformed", "00-4bf92f35-zz-01").await;
    let (root, _) = until_traced(
        collector,
        &namespace,
        "malformed",
        &["get ConfigMap", "update ConfigMap"],
    )
    .await;
    assert!(root.links().is_empty(), "{root:?}");
}

async fn exports_no_contents(collector: &Collector, control_plane: &ControlPlane, host: &Host) {
    let encoded = json!(ByteString(SECRET.as_bytes().to_vec()))
        .as_str()
        .expect("a text")
        .to_owned();
    let namespace = control_plane.namespace("traced-secret").await;
    let secrets = format!("/api/v1/namespaces/{}/secrets", namespace.name());
    // The response quotes the invalid key.
    let invalid =
        json!({"metadata": {"name": "copy"}, "stringData": {format!("{SECRET} "): SECRET}})
            .to_string();

    let requests = json!([
        {"method": "GET", "path": format!("{secrets}/hidden")},
        {"method": "POST", "path": secrets, "contentType": "application/json", "body": invalid},
        {"method": "GET", "path": secrets, "query": format!("fieldSelector=metadata.name%3D{SECRET}")},
        {"method": "GET", "path": "/version"},
    ]);

    let secret = json!({"metadata": {"name": "hidden"}, "stringData": {"password": SECRET}});
    namespace.create_object(kinds::SECRET, secret).await;
    namespace.allow_all("plugin").await;
    let config = json!({"do": "send", "requests": requests});
    namespace
        .drop_in(&DropIn::new("traced", guest("fixture-misbehave")).config(config))
        .await;
    namespace.create_touchable("target").await;

    let expected = [
        "get ConfigMap",
        "get secrets",
        "create secrets",
        "get secrets",
        "get discovery",
    ];
    let (root, calls) = until_traced(collector, &namespace, "target", &expected).await;

    let keys = [
        "operetta.resource",
        "k8s.object.name",
        "operetta.read",
        "http.response.status_code",
    ];

    assert_eq!(
        attributes(&calls[1], keys),
        ["secrets", "hidden", "live", "200"]
    );
    assert_eq!(
        calls[2].attribute("http.response.status_code").as_deref(),
        Some("422")
    );
    assert_eq!((calls[2].error(), root.error()), (Some("Invalid"), None));

    // The plugin has read the value, and logs it.
    let log = host.log();
    assert!(
        log.contains(&encoded) && log.contains(SECRET),
        "the log has what the plugin logs"
    );
    assert!(
        !collector.has_text(SECRET) && !collector.has_text(&encoded),
        "a secret was exported"
    );
}

async fn failures_have_their_reason_and_log(
    collector: &Collector,
    control_plane: &ControlPlane,
    host: &Host,
) {
    let namespace = namespace(
        control_plane,
        "traced-trap",
        "fixture-misbehave",
        json!({"do": "trap"}),
    )
    .await;

    namespace.create_touchable("target").await;
    let root = eventually("a retry", async || {
        let found = reconciles(&collector.spans(), &namespace, "target");
        found
            .into_iter()
            .nth(1)
            .ok_or_else(|| "no retry yet".to_owned())
    })
    .await;
    assert_eq!(root.error(), Some("ReconcileTrapped"));

    let keys = ["error.type", "operetta.result", "operetta.retries"];
    assert_eq!(attributes(&root, keys), ["ReconcileTrapped", "error", "1"]);
    assert!(
        !collector.has_text("a fixture that traps"),
        "a plugin's message was exported"
    );

    let id = root.attribute("operetta.reconcile_id").expect("an id");
    let lines = host.log();
    let lines = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_reconcile: Vec<Value> = lines
        .filter(|line| line["reconcile_id"] == json!(id))
        .collect();

    assert!(!of_reconcile.is_empty(), "the failure is logged");
    assert!(
        of_reconcile
            .iter()
            .all(|line| line["trace_id"] == json!(root.trace_id())),
        "{of_reconcile:?}"
    );

    let lines = host.logs(namespace.name(), "traced");
    assert!(
        lines.iter().any(|line| line.trace_id == root.trace_id()),
        "{lines:?}"
    );
}

async fn outage_disturbs_no_reconcile(
    collector: &Collector,
    control_plane: &ControlPlane,
    host: &Host,
) {
    let namespace = namespace(
        control_plane,
        "traced-outage",
        "fixture-touch-v1",
        json!({}),
    )
    .await;

    collector.set_down(true);
    namespace.create_touchable("meanwhile").await;
    namespace.until_touched("meanwhile", "v1").await;
    eventually("spans are dropped", async || {
        let dropped = host.metric(
            "operetta_spans_dropped_total",
            &["reason=\"export_failed\""],
        );
        if dropped > 0.0 {
            Ok(())
        } else {
            Err(host.metrics())
        }
    })
    .await;

    let warnings = || {
        host.log()
            .lines()
            .filter(|line| line.contains("failed to export"))
            .count()
    };

    assert!(
        host.log().contains(&format!(
            "spans to {}/v1/traces, dropped: ",
            collector.url()
        )),
        "{}",
        host.log()
    );

    namespace.create_touchable("later").await;
    namespace.until_touched("later", "v1").await;
    assert_eq!(warnings(), 1, "{}", host.log());

    collector.set_down(false);
    namespace.create_touchable("afterwards").await;
    until_traced(
        collector,
        &namespace,
        "afterwards",
        &["get ConfigMap", "update ConfigMap"],
    )
    .await;

    host.assert_sound();
}

#[tokio::test]
async fn host_exports_traces_without_contents() {
    let control_plane = ControlPlane::shared().await;
    let collector = Collector::start();
    let host = host(control_plane, &collector, 1.0).await;
    exports_reconciles_with_their_calls(&collector, control_plane, &host).await;
    exports_no_contents(&collector, control_plane, &host).await;
    failures_have_their_reason_and_log(&collector, control_plane, &host).await;
    outage_disturbs_no_reconcile(&collector, control_plane, &host).await;
    drop(host);
    object_asks_for_its_trace(control_plane).await;
}

async fn object_asks_for_its_trace(control_plane: &ControlPlane) {
    let collector = Collector::start();
    let host = host(control_plane, &collector, 0.0).await;
    let namespace = namespace(control_plane, "traced-asked", "fixture-touch-v1", json!({})).await;
    namespace.create_touchable("plain").await;
    namespace.until_touched("plain", "v1").await;

    create(
        &namespace,
        "not-sampled",
        &format!("00-{TRACE_ID}-{SPAN_ID}-00"),
    )
    .await;

    namespace.until_touched("not-sampled", "v1").await;
    // A burst: all of them ask for their trace, and only one in each second gets it.
    for at in 0..20 {
        create(
            &namespace,
            &format!("asked-{at}"),
            &format!("00-{TRACE_ID}-{SPAN_ID}-01"),
        )
        .await;
    }
    for at in 0..20 {
        namespace.until_touched(&format!("asked-{at}"), "v1").await;
    }

    // A host that stops exports what it has.
    host.stop();
    let spans = collector.spans();
    // The plugins of other namespaces run as well.
    let is_own = |span: &&ReceivedSpan| {
        span.span.name.starts_with("reconcile ")
            && span.attribute("k8s.namespace.name").as_deref() == Some(namespace.name())
    };

    let roots: Vec<_> = spans.iter().filter(is_own).collect();
    assert!(
        !roots.is_empty() && roots.len() < 20,
        "{} traces",
        roots.len()
    );

    let asked = |span: &&ReceivedSpan| {
        span.attribute("k8s.object.name")
            .is_some_and(|name| name.starts_with("asked-"))
    };
    assert!(roots.iter().all(asked), "{roots:?}");
    assert_eq!(
        roots[0].links(),
        [(TRACE_ID.to_owned(), SPAN_ID.to_owned())]
    );
}

/// A configuration in YAML, environment variables, and words of the error.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

/// Runs a host with a configuration in YAML until it ends.
fn run(folder: &Path, config: &str, env: &[(&str, &str)]) -> Output {
    let cluster = json!({"server": "https://127.0.0.1:1"});
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    });

    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let mut command = Command::new(operetta_testkit::program("operetta-host"));
    command
        .args(["--exit-with-parent", "--kubeconfig"])
        .arg(file("kubeconfig", &kubeconfig.to_string()));

    command
        .arg("--config")
        .arg(file("config.yaml", config))
        .envs(env.iter().copied());
    command
        .env("XDG_CACHE_HOME", folder)
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("the program runs")
}

#[test]
fn invalid_configuration_of_traces_ends_the_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();

    let missing = folder.join("missing.pem");
    let with_ca = format!(
        "traces: {{endpoint: 'https://localhost', caFile: {}}}",
        missing.display()
    );

    let cases: &[Case<'_>] = &[
        (
            "traces: {endpoint: 'collector:4317'}",
            &[],
            "traces.endpoint is \"collector:4317\": use a URL such as",
        ),
        (
            "traces: {endpoint: 'http://c', sampleRatio: 2}",
            &[],
            "traces.sampleRatio is 2: use a number from 0 to 1",
        ),
        ("traces: {protocol: grpc}", &[], "unknown field `protocol`"),
        (
            "{}",
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "no url")],
            "OTEL_EXPORTER_OTLP_ENDPOINT is \"no url\"",
        ),
        (
            "traces: {endpoint: 'http://c'}",
            &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            "OTEL_EXPORTER_OTLP_PROTOCOL is \"grpc\": the host sends http/protobuf",
        ),
        (&with_ca, &[], "missing.pem"),
    ];

    for (config, env, words) in cases {
        let output = run(folder, config, env);
        let log = String::from_utf8_lossy(&output.stderr);
        let last = log.lines().last().unwrap_or_default();

        assert_eq!(output.status.code(), Some(1), "{config}: {log}");
        assert!(
            last.contains(words) && last.contains("(InvalidHostConfig)"),
            "{config}: {log}"
        );
    }
}
