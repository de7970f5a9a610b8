//! Dry runs in raw requests. The audit log and the detector of hot loops rely on what the host
//! takes for a dry run, so each request is sent to the API server, too: the host reads it as the
//! API server does, or refuses it.

use http::Request;
use operetta_core::{
    gate::{operation::Read, raw_request::RawRequest},
    ports::ObjectApi,
};
use serde_json::{Value, json};

use crate::{Stage, config_map, value};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The object is changed, created or deleted.
    Stores,
    /// The API server answers with success, and the object is as before.
    DryRun,
    /// The API server answers with an error.
    Fails,
}
use Effect::{DryRun, Fails, Stores};

/// What the host does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Sends,
    Refuses,
}
use Host::{Refuses, Sends};

/// Queries of every write: the API server's effect, and what the host does.
const QUERIES: &[(&str, Effect, Host)] = &[
    ("", Stores, Sends),
    ("dryRun=All", DryRun, Sends),
    ("dryRun=All&dryRun=All", DryRun, Sends),
    ("dry%52un=A%6cl", DryRun, Sends),
    ("dryrun=All", Stores, Sends),
    ("dry+Run=All", Stores, Sends),
    ("dryRun", Fails, Sends),
    ("dryRun=", Fails, Sends),
    ("dryRun=All&dryRun=", Fails, Sends),
    ("dryRun=&dryRun=All", Fails, Sends),
    ("dryRun=None", Fails, Sends),
    // The API server ignores a parameter with a semicolon or a broken escape, and only that.
    ("dryRun=All;", Stores, Refuses),
    ("dryRun=All;pretty=1", Stores, Refuses),
    ("pretty=1;dryRun=All", Stores, Refuses),
    ("dryRun=All%", Stores, Refuses),
    ("dryRun=All%4", Stores, Refuses),
    ("dryRun=All%zz", Stores, Refuses),
    ("dry%5Run=All", Stores, Refuses),
    ("dryRun=All&pretty=%", DryRun, Refuses),
    ("dryRun=All&a;b", DryRun, Refuses),
];

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// Bodies of a DELETE with a content type, beside `dryRun=All` in the query or not: the API
/// server's effect, and what the host does.
const BODIES: &[(&str, &str, bool, Effect, Host)] = &[
    (r#"{"dryRun":["All"]}"#, JSON, false, DryRun, Sends),
    (r#"{"dryRun":["All"]}"#, YAML, false, DryRun, Sends),
    (
        r#"{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"]}"#,
        JSON,
        false,
        DryRun,
        Sends,
    ),
    (
        r#"{"dry\u0052un":["A\u006cl"]}"#,
        JSON,
        false,
        DryRun,
        Sends,
    ),
    // A body replaces the query.
    ("{}", JSON, true, Stores, Sends),
    (r#"{"dryRun":[]}"#, JSON, true, Stores, Sends),
    (r#"{"dryRun":null}"#, JSON, true, Stores, Sends),
    (r#"{"DryRun":["All"]}"#, JSON, true, Stores, Sends),
    (r#"{"spec":{"dryRun":["All"]}}"#, JSON, true, Stores, Sends),
    (r#"{"<<":{"dryRun":["All"]}}"#, YAML, true, Stores, Sends),
    // Of a field that stands twice, the last one counts.
    (
        r#"{"dryRun":["All"],"dryRun":[]}"#,
        JSON,
        true,
        Stores,
        Refuses,
    ),
    (
        r#"{"dryRun":["All"],"dryRu\u006e":[]}"#,
        JSON,
        true,
        Stores,
        Refuses,
    ),
    (
        r#"{"dryRun":[],"dryRun":["All"]}"#,
        JSON,
        false,
        DryRun,
        Refuses,
    ),
    ("dryRun: [All]", YAML, false, DryRun, Refuses),
    ("dryRun: [All]", JSON, true, Fails, Refuses),
    ("null", JSON, true, Stores, Refuses),
    (" ", JSON, true, Fails, Refuses),
    ("{} {}", JSON, true, Fails, Refuses),
    (r#"{"dryRun":"All"}"#, JSON, true, Fails, Refuses),
    (r#"{"dryRun":["All",""]}"#, JSON, true, Fails, Sends),
    (
        r#"{"kind":"Status","apiVersion":"v1","dryRun":["All"]}"#,
        JSON,
        true,
        Fails,
        Sends,
    ),
    (r#"[["All"]]"#, JSON, true, Fails, Sends),
];

/// A request with a method, a query and a body, about the object of a name.
type Make = Box<dyn Fn(&Stage, &str) -> RawRequest>;

fn rows() -> Vec<(Make, Effect, Host)> {
    let mut rows: Vec<(Make, Effect, Host)> = Vec::new();
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        for (query, effect, host) in QUERIES {
            let make = move |stage: &Stage, name: &str| RawRequest {
                query: (*query).to_owned(),
                ..write(stage, method, name)
            };
            rows.push((Box::new(make), *effect, *host));
        }
    }
    for (body, content_type, in_query, effect, host) in BODIES {
        let make = move |stage: &Stage, name: &str| RawRequest {
            query: if *in_query {
                "dryRun=All".to_owned()
            } else {
                String::new()
            },
            body: Some((*body).to_owned()),
            content_type: Some((*content_type).to_owned()),
            ..write(stage, "DELETE", name)
        };
        rows.push((Box::new(make), *effect, *host));
    }
    rows
}

/// A write that sets `n` to 1, or deletes.
fn write(stage: &Stage, method: &str, name: &str) -> RawRequest {
    let collection = format!("/api/v1/namespaces/{}/configmaps", stage.namespace.name());
    let path = if method == "POST" {
        collection
    } else {
        format!("{collection}/{name}")
    };
    let content_type = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        JSON
    };
    let body = (method != "DELETE").then(|| with_n(name, "1").to_string());
    let content_type = Some(content_type.to_owned());
    RawRequest {
        method: method.to_owned(),
        path,
        content_type,
        body,
        ..RawRequest::default()
    }
}

fn with_n(name: &str, n: &str) -> Value {
    let mut object = config_map(name);
    object["data"] = json!({"n": n});
    object
}

/// The `n` of an object; None if there is no object.
async fn n_of(stage: &Stage, name: &str, read: Read) -> Option<String> {
    let object = stage.get(name, read).await.ok()?;
    value(&object)["data"]["n"].as_str().map(str::to_owned)
}

/// Sends a request about an object whose `n` is 0, and returns what it did.
async fn effect(
    stage: &Stage,
    name: &str,
    request: &RawRequest,
    send: impl AsyncFnOnce() -> u16,
) -> Effect {
    if request.method != "POST" {
        stage.create(with_n(name, "0")).await.expect("created");
    }
    let before = n_of(stage, name, Read::Live).await;
    let code = send().await;
    let is_as_before = n_of(stage, name, Read::Live).await == before;
    match code {
        200..300 if is_as_before => DryRun,
        200..300 => Stores,
        _ => {
            assert!(
                is_as_before && (400..500).contains(&code),
                "{request:?}: {code}"
            );
            Fails
        }
    }
}

/// Sends a request to the API server as it is, and returns the status code.
async fn send_directly(stage: &Stage, request: &RawRequest) -> u16 {
    let uri = format!("{}?{}", request.path, request.query);
    let sent = Request::builder()
        .method(request.method.as_str())
        .uri(uri)
        .header(
            "content-type",
            request.content_type.as_deref().expect("a content type"),
        )
        .body(request.body.clone().unwrap_or_default().into_bytes());
    match stage.client.request_text(sent.expect("a request")).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("the API server did not answer {request:?}: {error}"),
    }
}

#[tokio::test]
async fn host_takes_for_dry_run_what_the_api_server_does() {
    let stage = Stage::new("dry-run").await;
    let mut wrong = Vec::new();
    for (at, (make, expected, host)) in rows().into_iter().enumerate() {
        let name = format!("direct-{at}");
        let request = make(&stage, &name);
        let found = effect(&stage, &name, &request, async || {
            send_directly(&stage, &request).await
        })
        .await;
        if found != expected {
            wrong.push(format!(
                "{request:?}: the API server {found:?}, not {expected:?}"
            ));
        }
        let name = format!("host-{at}");
        let request = make(&stage, &name);
        let Ok(target) = request.target() else {
            if host == Sends {
                wrong.push(format!("{request:?}: the host refuses it"));
            }
            continue;
        };
        if host == Refuses {
            wrong.push(format!("{request:?}: the host sends it"));
        }
        let is_dry_run = request.is_dry_run(&request.parameters().expect("a query"));
        if found != Fails && is_dry_run != (found == DryRun) {
            wrong.push(format!("{request:?}: the host takes it for a dry run: {is_dry_run}; the API server {found:?}"));
        }
        let send = async || {
            stage
                .api
                .raw(request.clone(), target)
                .await
                .expect("answered")
                .status
        };
        let through = effect(&stage, &name, &request, send).await;
        let cached = n_of(&stage, &name, Read::Cached).await;
        if through != found || cached != n_of(&stage, &name, Read::Live).await {
            wrong.push(format!(
                "{request:?}: {found:?}, through the host {through:?}, then {cached:?} in its cache"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
