//! What a table of single requests cannot show: streams, races, limits and plugins.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use operetta_apiserver::{
    Options,
    admission::request::AdmissionRequest,
    apimachinery::status::Status,
    authn::user::{AUTHENTICATED, User},
    server::{Admission, ApiServer, Body, Environment, ServeError, serve},
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

use crate::{
    client::{Answer, request, send, send_to},
    kinds,
};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const MERGE: &str = "application/merge-patch+json";

async fn call(server: &ApiServer, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    call_as(server, method, path, "application/json", body).await
}

async fn call_as(
    server: &ApiServer,
    method: &str,
    path: &str,
    media: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let headers = HashMap::from([("Content-Type".to_owned(), media.to_owned())]);
    let body = body.map(|body| body.to_string());
    let answer = send(server, request(method, path, &headers, body.as_deref())).await;
    (
        answer.status,
        serde_json::from_slice(&answer.body).unwrap_or_default(),
    )
}

async fn server() -> ApiServer {
    kinds::server().await
}

async fn create(server: &ApiServer, name: &str, labels: Value) -> Value {
    let object = json!({"metadata": {"name": name, "labels": labels}, "data": {"k": "v"}});
    let (code, created) = call(server, "POST", CONFIGMAPS, Some(object)).await;
    assert_eq!(code, 201, "{created}");
    created
}

/// A watch, read event by event.
struct Watch {
    body: Body,
    rest: Vec<u8>,
}

impl Watch {
    async fn start(server: &ApiServer, query: &str) -> Self {
        let request = request(
            "GET",
            &format!("{CONFIGMAPS}?watch=1&{query}"),
            &HashMap::new(),
            None,
        );

        let response = server.clone().oneshot(request).await.expect("a response");
        assert_eq!(response.status(), 200);

        Self {
            body: response.into_body(),
            rest: Vec::new(),
        }
    }

    /// Returns the next event; None if the watch has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("an event"));
            }

            let part = self
                .body
                .frame()
                .await?
                .expect("a part")
                .into_data()
                .expect("data");

            self.rest.extend_from_slice(&part);
        }
    }

    async fn next_type_and_name(&mut self) -> (String, String) {
        let event = self.next().await.expect("an event");
        let name = event["object"]["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        (event["type"].as_str().unwrap_or_default().to_owned(), name)
    }
}

fn pair(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test(start_paused = true)]
async fn watch_with_a_selector_sees_objects_come_and_go() {
    let server = server().await;
    create(&server, "a", json!({"app": "x"})).await;

    let mut watch = Watch::start(&server, "labelSelector=app%3Dx").await;
    assert_eq!(watch.next_type_and_name().await, pair("ADDED", "a"));

    create(&server, "b", json!({"app": "y"})).await;
    let path = format!("{CONFIGMAPS}/b");
    call_as(
        &server,
        "PATCH",
        &path,
        MERGE,
        Some(json!({"metadata": {"labels": {"app": "x"}}})),
    )
    .await;
    assert_eq!(watch.next_type_and_name().await, pair("ADDED", "b"));

    call_as(
        &server,
        "PATCH",
        &path,
        MERGE,
        Some(json!({"data": {"k": "w"}})),
    )
    .await;
    assert_eq!(watch.next_type_and_name().await, pair("MODIFIED", "b"));

    call_as(
        &server,
        "PATCH",
        &path,
        MERGE,
        Some(json!({"metadata": {"labels": {"app": null}}})),
    )
    .await;

    let event = watch.next().await.expect("an event");
    assert_eq!(
        (
            event["type"].as_str(),
            event["object"]["data"]["k"].as_str()
        ),
        (Some("DELETED"), Some("w"))
    );

    assert_eq!(
        event["object"]["metadata"]["labels"]["app"], "x",
        "the object as it was last selected"
    );

    call(&server, "DELETE", &format!("{CONFIGMAPS}/a"), None).await;
    let event = watch.next().await.expect("an event");
    assert_eq!(event["type"], "DELETED");

    let revision = server.store().revision().to_string();
    assert_eq!(event["object"]["metadata"]["resourceVersion"], revision);
}

#[tokio::test(start_paused = true)]
async fn watch_gets_bookmarks_and_ends_in_time() {
    let server = server().await;
    create(&server, "a", json!({})).await;

    let revision = server.store().revision();
    let started = tokio::time::Instant::now();
    let query = format!("resourceVersion={revision}&allowWatchBookmarks=true&timeoutSeconds=150");

    let mut watch = Watch::start(&server, &query).await;
    let other = json!({"metadata": {"name": "s"}});
    call(
        &server,
        "POST",
        "/api/v1/namespaces/default/secrets",
        Some(other),
    )
    .await;

    let mut seconds = Vec::new();
    while let Some(event) = watch.next().await {
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(
            event["object"]["metadata"]["resourceVersion"],
            (revision + 1).to_string()
        );
        assert_eq!(event["object"]["kind"], "ConfigMap");
        seconds.push(started.elapsed().as_secs());
    }

    assert_eq!(seconds, [60, 120, 148]);
    assert_eq!(started.elapsed().as_secs(), 150);
}

#[tokio::test(start_paused = true)]
async fn watch_of_a_compacted_revision_ends_with_expired() {
    let server = server().await;
    create(&server, "a", json!({})).await;
    server.store().compact();

    let mut watch = Watch::start(&server, "resourceVersion=5").await;
    let event = watch.next().await.expect("an event");

    assert_eq!(event["type"], "ERROR");
    let status = &event["object"];
    assert_eq!(
        (status["code"].as_u64(), status["reason"].as_str()),
        (Some(410), Some("Expired"))
    );

    assert!(
        status["message"]
            .as_str()
            .unwrap_or_default()
            .starts_with("too old resource version: 5 (")
    );

    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn hundred_watchers_see_every_change_in_order() {
    let server = server().await;
    let mut watches = Vec::new();
    for _ in 0..120 {
        watches.push(Watch::start(&server, "resourceVersion=0").await);
    }

    let readers: Vec<_> = watches
        .into_iter()
        .map(|mut watch| {
            tokio::spawn(async move {
                let mut names = Vec::new();
                while names.len() < 50 {
                    names.push(watch.next_type_and_name().await.1);
                }
                names
            })
        })
        .collect();

    let expected: Vec<String> = (0..50).map(|index| format!("n{index}")).collect();
    for name in &expected {
        create(&server, name, json!({})).await;
        tokio::task::yield_now().await;
    }

    for reader in readers {
        assert_eq!(reader.await.expect("names"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn expired_page_names_a_token_that_goes_on() {
    let server = server().await;
    for name in ["a", "b", "c"] {
        create(&server, name, json!({})).await;
    }

    let (_, page) = call(&server, "GET", &format!("{CONFIGMAPS}?limit=1"), None).await;
    let token = page["metadata"]["continue"]
        .as_str()
        .expect("a token")
        .to_owned();

    create(&server, "bb", json!({})).await;
    let next = format!("{CONFIGMAPS}?limit=1&continue={token}");
    let (_, page) = call(&server, "GET", &next, None).await;

    assert_eq!(page["items"][0]["metadata"]["name"], "b");
    assert_eq!(
        page["metadata"]["remainingItemCount"], 1,
        "the object that came later is not counted"
    );

    create(&server, "d", json!({})).await;
    server.store().compact();
    let (code, status) = call(&server, "GET", &next, None).await;
    assert_eq!((code, status["reason"].as_str()), (410, Some("Expired")));

    let token = status["metadata"]["continue"].as_str().expect("a token");
    let (code, page) = call(
        &server,
        "GET",
        &format!("{CONFIGMAPS}?continue={token}"),
        None,
    )
    .await;

    assert_eq!(code, 200);
    let names: Vec<&str> = page["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names, ["b", "bb", "c", "d"]);

    let exact = format!("{CONFIGMAPS}?resourceVersion=3&resourceVersionMatch=Exact");
    assert_eq!(call(&server, "GET", &exact, None).await.0, 410);
}

#[tokio::test]
async fn generated_names_have_the_alphabet_of_kubernetes() {
    let server = server().await;
    for _ in 0..50 {
        let object = json!({"metadata": {"generateName": "job-"}});
        let (code, created) = call(&server, "POST", CONFIGMAPS, Some(object)).await;
        assert_eq!(code, 201);

        let name = created["metadata"]["name"].as_str().expect("a name");
        let suffix = name.strip_prefix("job-").expect("the prefix");

        assert_eq!(suffix.len(), 5);
        assert!(
            suffix
                .bytes()
                .all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte)),
            "{name}"
        );
    }
}

#[tokio::test]
async fn generated_name_that_stays_taken_is_refused() {
    let now = "2026-01-01T00:00:00Z".parse().expect("a time");
    let environment = Environment::new(move || now, || 7);
    let server = kinds::server_with(Options::in_memory(environment)).await;
    let object = || Some(json!({"metadata": {"generateName": "a-"}}));
    assert_eq!(call(&server, "POST", CONFIGMAPS, object()).await.0, 201);

    let (code, status) = call(&server, "POST", CONFIGMAPS, object()).await;
    assert_eq!(
        (code, status["reason"].as_str()),
        (409, Some("AlreadyExists"))
    );

    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.ends_with(
        "already exists, the server was not able to generate a unique name for the object"
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_patches_without_a_revision_all_succeed() {
    let server = server().await;
    create(&server, "a", json!({})).await;

    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let server = server.clone();
            tokio::spawn(async move {
                for index in 0..20 {
                    let patch = json!({"data": {format!("k{task}-{index}"): "v"}});
                    let path = format!("{CONFIGMAPS}/a");
                    let (code, status) = call_as(&server, "PATCH", &path, MERGE, Some(patch)).await;
                    assert_eq!(code, 200, "{status}");
                }
            })
        })
        .collect();

    for task in tasks {
        task.await.expect("patched");
    }

    let (_, object) = call(&server, "GET", &format!("{CONFIGMAPS}/a"), None).await;
    assert_eq!(
        object["data"].as_object().map(serde_json::Map::len),
        Some(161)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_concurrent_updates_of_a_revision_succeeds() {
    let server = server().await;
    let mut object = create(&server, "a", json!({})).await;

    for round in 0..20 {
        object["data"]["round"] = round.to_string().into();
        let tasks: Vec<_> = (0..6)
            .map(|task| {
                let mut object = object.clone();
                object["data"]["task"] = task.to_string().into();
                let server = server.clone();
                tokio::spawn(async move {
                    call(&server, "PUT", &format!("{CONFIGMAPS}/a"), Some(object)).await
                })
            })
            .collect();

        let mut winners = Vec::new();
        for task in tasks {
            match task.await.expect("an answer") {
                (200, stored) => winners.push(stored),
                (code, _) => assert_eq!(code, 409),
            }
        }

        assert_eq!(winners.len(), 1);
        object = winners.remove(0);
    }
}

async fn raw(
    server: &ApiServer,
    headers: &[(&str, &str)],
    method: &str,
    path: &str,
    body: String,
) -> Answer {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    send(server, request(method, path, &headers, Some(&body))).await
}

#[tokio::test]
async fn body_over_three_mebibytes_is_refused() {
    let server = server().await;
    // A ConfigMap of this size would be refused for its own limit.
    let path = "/apis/example.com/v1/gadgets";
    let text = |size: usize| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"},
            "spec": {"k": "x".repeat(size)},
        })
        .to_string()
    };
    let answer = raw(&server, &[], "POST", path, text(3 << 20)).await;
    let status: Value = serde_json::from_slice(&answer.body).expect("a status");
    assert_eq!(
        (answer.status, status["reason"].as_str()),
        (413, Some("RequestEntityTooLarge"))
    );

    assert_eq!(
        status["message"],
        "Request entity too large: limit is 3145728"
    );

    assert_eq!(
        raw(&server, &[], "POST", path, text((3 << 20) - 200))
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn large_answers_are_compressed_for_clients_that_accept_it() {
    let server = server().await;
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(200_000)}});

    raw(&server, &[], "POST", CONFIGMAPS, object.to_string()).await;
    let path = format!("{CONFIGMAPS}/a");
    let plain = raw(&server, &[], "GET", &path, String::new()).await;
    assert!(plain.headers.get("content-encoding").is_none());

    let packed = raw(
        &server,
        &[("Accept-Encoding", "deflate, gzip;q=1.0")],
        "GET",
        &path,
        String::new(),
    )
    .await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert!(packed.body.len() < 5_000);

    let small = raw(
        &server,
        &[("Accept-Encoding", "gzip")],
        "GET",
        "/api/v1/namespaces",
        String::new(),
    )
    .await;
    assert!(small.headers.get("content-encoding").is_none());
}

/// Sets a label and refuses the name `bad`.
struct Labels;

impl Admission for Labels {
    fn mutate(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
        assert_eq!(object["kind"], request.endpoint.kind.as_str());
        object["metadata"]["labels"]["operation"] = request.operation.name().into();
        Ok(())
    }

    fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        match request.object {
            Some(object) if object["metadata"]["name"] == "bad" => {
                return Err(request.forbidden("the name is bad"));
            }
            Some(_) => warnings.push("admitted".into()),
            None => {}
        }

        Ok(())
    }
}

fn fixed() -> Environment {
    Environment::fixed("2026-01-01T00:00:00Z".parse().expect("a time"), 1)
}

#[tokio::test]
async fn authorizer_and_admission_decide() {
    let anybody = server()
        .await
        .acting_as(User::new("jane", &[AUTHENTICATED]));
    let (code, status) = call(&anybody, "DELETE", "/api/v1/namespaces/x", None).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "namespaces \"x\" is forbidden: User \"jane\" cannot delete resource \"namespaces\" in API group \"\" in the \
         namespace \"x\""
    );

    let server = kinds::server_with(Options {
        admission: vec![Arc::new(Labels)],
        ..Options::in_memory(fixed())
    })
    .await;
    let answer = raw(
        &server,
        &[],
        "POST",
        CONFIGMAPS,
        json!({"metadata": {"name": "a"}}).to_string(),
    )
    .await;
    let created: Value = serde_json::from_slice(&answer.body).expect("an object");

    assert_eq!(created["metadata"]["labels"]["operation"], "CREATE");
    assert_eq!(answer.headers["warning"], "299 - \"admitted\"");

    let path = format!("{CONFIGMAPS}/a");
    let (_, updated) = call_as(
        &server,
        "PATCH",
        &path,
        MERGE,
        Some(json!({"data": {"x": "y"}})),
    )
    .await;
    assert_eq!(updated["metadata"]["labels"]["operation"], "UPDATE");

    let (code, status) = call(
        &server,
        "POST",
        CONFIGMAPS,
        Some(json!({"metadata": {"name": "bad"}})),
    )
    .await;
    assert_eq!(
        (code, status["message"].as_str()),
        (
            403,
            Some("configmaps \"bad\" is forbidden: the name is bad")
        )
    );
}

#[tokio::test]
async fn resources_come_and_go() {
    let server = kinds::server_with_things().await;
    let (_, group) = call(&server, "GET", "/apis/new.example", None).await;
    assert_eq!(group["preferredVersion"]["version"], "v2");

    let object =
        json!({"apiVersion": "new.example/v1", "kind": "Thing", "metadata": {"name": "a"}});
    let path = "namespaces/default/things";
    let (code, _) = call(
        &server,
        "POST",
        &format!("/apis/new.example/v1/{path}"),
        Some(object),
    )
    .await;
    assert_eq!(code, 201);
    let (_, found) = call(
        &server,
        "GET",
        &format!("/apis/new.example/v2/{path}/a"),
        None,
    )
    .await;
    assert_eq!(found["apiVersion"], "new.example/v2");

    server.resources().remove("new.example", "things");
    assert_eq!(call(&server, "GET", "/apis/new.example", None).await.0, 404);
}

#[tokio::test]
async fn address_of_other_machines_is_refused() {
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0")
        .await
        .expect("a port");
    let refused = serve(listener, server().await, std::future::pending()).await;
    assert!(matches!(refused, Err(ServeError::NotLoopback(_))));
}

#[tokio::test]
async fn connections_end_when_the_server_shuts_down() {
    let server = server().await;
    create(&server, "a", json!({})).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address").to_string();

    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(serve(listener, server, async move {
        stopped.await.expect("a signal");
    }));

    let path = format!("{CONFIGMAPS}/a");
    let answer = send_to(&address, request("GET", &path, &HashMap::new(), None)).await;
    assert_eq!(answer.status, 200);

    let mut watch = tokio::net::TcpStream::connect(&address)
        .await
        .expect("a connection");
    let head = format!("GET {CONFIGMAPS}?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    watch.write_all(head.as_bytes()).await.expect("sent");
    let mut bytes = vec![0; 64];
    assert!(watch.read(&mut bytes).await.expect("a response") > 0);

    stop.send(()).expect("the server runs");
    assert!(serving.await.expect("the server ends").is_ok());
    // The connection ends, regularly or by a reset.
    while watch.read(&mut bytes).await.unwrap_or_default() > 0 {}
}

#[tokio::test]
async fn verbose_health_lists_its_check() {
    let server = server().await;
    let answer = raw(&server, &[], "GET", "/readyz?verbose", String::new()).await;
    assert_eq!(&answer.body[..], b"[+]ping ok\nreadyz check passed\n");
}

#[tokio::test]
async fn same_seed_gives_the_same_objects() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let server = server().await;
        let object = json!({"metadata": {"generateName": "a-"}});
        runs.push(call(&server, "POST", CONFIGMAPS, Some(object)).await.1);
    }

    assert_eq!(runs[0], runs[1]);
}

/// A reproducible sequence of random numbers.
struct Random(u64);

impl Random {
    fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        items[(self.0 >> 33) as usize % items.len()]
    }
}

#[tokio::test(start_paused = true)]
async fn random_requests_get_an_answer_and_never_an_internal_error() {
    let server = server().await;
    let paths = [
        CONFIGMAPS,
        "/api/v1/namespaces",
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default/finalize",
        "/apis/example.com/v1/namespaces/default/widgets",
        "/apis/example.com/v1/namespaces/default/widgets/a",
        "/apis/example.com/v1/namespaces/default/widgets/a/status",
        "/apis/example.com/v1/gadgets",
        "//",
        "/api//v1",
        "/apis/example.com/v1/namespaces/default/widgets/a/scale",
        "/api/v1/namespaces/default/configmaps/a",
        "/apis",
        "/api/v1/namespaces/%ff/configmaps/%00",
        "/openapi/v3/api/v1",
        "/api/v1/watch",
    ];
    let queries = [
        "",
        "?watch=1&timeoutSeconds=1",
        "?limit=1",
        "?continue=eyJ2Ijoi",
        "?dryRun=All",
        "?labelSelector=a,,b",
        "?fieldSelector=metadata.name%3Da",
        "?fieldManager=x&force=1",
        "?resourceVersion=1",
        "?pretty=1",
        "?%ff=%ff",
        "?resourceVersion=1&resourceVersionMatch=Exact",
        "?gracePeriodSeconds=-1",
        "?propagationPolicy=Foreground",
    ];
    let bodies = [
        "",
        "{}",
        "[]",
        "null",
        "{\"metadata\":{\"name\":\"a\"}}",
        "{\"metadata\":[]}",
        "{\"metadata\":{\"labels\":{\"a\":null}}}",
        "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"a\",\"finalizers\":[\"a/b\",null]}}",
        "{\"kind\":\"Widget\",\"apiVersion\":7}",
        "[{\"op\":\"remove\",\"path\":\"/metadata\"}]",
        "\u{1}",
        "[{\"op\":\"replace\",\"path\":\"\",\"value\":5}]",
        "{\"spec\":5,\"status\":[]}",
        "{\"metadata\":null,\"spec\":null}",
        "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"18446744073709551616\"}}",
        "a: &a [*a]",
        "{\"kind\":\"DeleteOptions\",\"preconditions\":[]}",
        "{\"spec\":{\"replicas\":\"x\"},\"metadata\":{\"name\":\"a\"}}",
    ];
    let media = [
        "application/json",
        "application/yaml",
        MERGE,
        "application/json-patch+json",
        "application/apply-patch+yaml",
        "x",
    ];
    let accepts = [
        "application/json",
        "*/*",
        "application/yaml",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        ";;q=x,,",
    ];

    let mut random = Random(11);
    for round in 0..6_000 {
        let path = format!("{}{}", random.pick(&paths), random.pick(&queries));
        let method = random.pick(&["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
        let headers = [
            ("Content-Type", random.pick(&media)),
            ("Accept", random.pick(&accepts)),
        ];

        let body = random.pick(&bodies).to_owned();
        let context = format!("round {round}: {method} {path} {headers:?} {body}");
        let sent = tokio::time::timeout(
            Duration::from_secs(60),
            raw(&server, &headers, method, &path, body),
        )
        .await;

        let answer = sent.unwrap_or_else(|_| panic!("{context}: no answer"));
        let text = String::from_utf8_lossy(&answer.body);
        // These are the errors that kube-apiserver reports with code 500.
        let is_known = [
            "ParseUint",
            "should not be set",
            "does not exist",
            "not a list",
            "unable to determine kind and namespace from url",
        ]
        .iter()
        .any(|part| text.contains(part));

        assert!(answer.status != 500 || is_known, "{context}: {text}");
    }
}

#[tokio::test]
async fn body_that_breaks_off_is_a_bad_request() {
    let server = server().await;
    let body = http_body_util::StreamBody::new(futures::stream::iter([
        Ok::<_, std::io::Error>(hyper::body::Frame::data(Bytes::from_static(b"{"))),
        Err(std::io::Error::other("connection reset")),
    ]));

    let request = Request::post(CONFIGMAPS).body(body).expect("a request");
    let response = server.clone().oneshot(request).await.expect("a response");
    assert_eq!(response.status(), 400);

    let empty = Request::get("/api")
        .body(Full::<Bytes>::default())
        .expect("a request");
    assert_eq!(
        server.oneshot(empty).await.expect("a response").status(),
        200
    );
}
