//! Lists and watches from the shared informers: a process cannot tell them from the API server's.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::body::Incoming;
use operetta_testkit::{Kind, eventually};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    stage::{get, header, piece, whole},
};

const CONFIG_MAP: Kind = Kind("v1", "ConfigMap");
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A client of the API server itself.
async fn direct(cluster: &Cluster, path: &str) -> Value {
    let request = Request::get(path).body(Vec::new()).expect("a request");
    let client = cluster.namespace.control_plane().client().await;
    client.request(request).await.expect("an answer")
}

/// The lines of a watch, read until one is about the object `last`.
async fn lines(mut body: Incoming, last: &str) -> Vec<Value> {
    let mut text = Vec::new();
    loop {
        let bytes = piece(&mut body).await.expect("more").expect("no error");
        text.extend_from_slice(&bytes);
        if !text.ends_with(b"\n") {
            continue;
        }
        let events = events(&text);
        if events
            .last()
            .is_some_and(|event| event["object"]["metadata"]["name"] == last)
        {
            return events;
        }
    }
}

fn events(text: &[u8]) -> Vec<Value> {
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect()
}

/// The same watch by the API server itself, until an event about the object `last`.
async fn direct_lines(cluster: &Cluster, path: &str, last: &str) -> Vec<Value> {
    use futures::{AsyncBufReadExt, StreamExt};

    let request = Request::get(path).body(Vec::new()).expect("a request");
    let client = cluster.namespace.control_plane().client().await;
    let stream = client.request_stream(request).await.expect("a watch");
    let mut lines = stream.lines();
    let mut events: Vec<Value> = Vec::new();
    loop {
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next());
        let line = line.await.expect("in time").expect("more").expect("a line");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        let is_last = event["object"]["metadata"]["name"] == last;
        events.push(event);
        if is_last {
            return events;
        }
    }
}

/// A list without what the API server writes differently: items of built-in kinds don't name theirs.
fn normalised(mut list: Value) -> Value {
    for item in list["items"].as_array_mut().into_iter().flatten() {
        let item = item.as_object_mut().expect("an object");
        if item
            .get("kind")
            .is_some_and(|kind| kind != "PartialObjectMetadata")
        {
            item.remove("kind");
            item.remove("apiVersion");
        }
    }
    list
}

/// The requests of the account that reached the API server.
fn passed(cluster: &Cluster, verb: &str) -> usize {
    let namespace = cluster.namespace.name();
    let user = format!("system:serviceaccount:{namespace}:operator");
    let audit = cluster.namespace.control_plane().audit();
    let of_account =
        |event: &&operetta_testkit::AuditEvent| event.impersonated_user.username == user;
    let events = audit.done(verb, "configmaps").filter(of_account);
    events.count()
}

async fn version(cluster: &Cluster) -> String {
    let list = direct(cluster, &cluster.path("configmaps?limit=1")).await;
    let version = list["metadata"]["resourceVersion"].as_str();
    version.expect("a version").to_owned()
}

async fn change(cluster: &Cluster, name: &str, app: &str, n: u32) {
    let patch = json!({"metadata": {"labels": {"app": app}}, "data": {"n": n.to_string()}});
    cluster.namespace.patch(CONFIG_MAP, name, patch).await;
}

async fn create(cluster: &Cluster, name: &str, app: &str) {
    let object = json!({"metadata": {"name": name, "labels": {"app": app}}});
    cluster.namespace.create_object(CONFIG_MAP, object).await;
}

/// Makes the informer, by a list.
async fn begin(cluster: &Cluster) {
    let path = cluster.path("configmaps?resourceVersion=0&limit=500");
    let (code, list) = cluster.stage.send_for_json(get(&path)).await;
    assert_eq!(
        (code, &list["kind"]),
        (200, &"ConfigMapList".into()),
        "{list}"
    );
}

/// Waits until the informer has this object, and so all that was written before it.
async fn until_cached(cluster: &Cluster, name: &str) {
    let path = cluster.path("configmaps?resourceVersion=0");
    eventually(&format!("the informer has {name}"), async || {
        let (_, list) = cluster.stage.send_for_json(get(&path)).await;
        let items = list["items"].as_array().ok_or_else(|| list.to_string())?;
        let is_there = items.iter().any(|item| item["metadata"]["name"] == name);
        is_there.then_some(()).ok_or_else(|| list.to_string())
    })
    .await;
}

fn accepting(path: &str, accept: &str) -> Request<Full<Bytes>> {
    let mut request = get(path);
    let accept = accept.parse().expect("a value");
    request.headers_mut().insert("accept", accept);
    request
}

#[tokio::test]
async fn lists_are_those_of_the_api_server() {
    let cluster = Cluster::allowed("cached-lists").await;
    for at in 0..7 {
        let app = if at % 2 == 0 { "even" } else { "odd" };
        create(&cluster, &format!("map-{at}"), app).await;
        change(&cluster, &format!("map-{at}"), app, at).await;
    }
    begin(&cluster).await;
    let version = version(&cluster).await;
    create(&cluster, "last", "even").await;
    until_cached(&cluster, "last").await;
    let before = passed(&cluster, "list");

    for query in [
        "",
        "&labelSelector=app%3Dodd",
        "&labelSelector=app+in+(odd)",
        "&fieldSelector=metadata.name%3Dmap-3",
        "&labelSelector=app%3Dnobody",
    ] {
        for accept in ["application/json", METADATA] {
            let from = format!("?resourceVersion={version}{query}");
            let path = cluster.path(&format!("configmaps{from}"));
            let response = cluster.stage.send(accepting(&path, accept)).await;
            let content_type = header(response.headers(), "content-type").to_owned();
            let ours: Value = serde_json::from_slice(&whole(response).await).expect("JSON");

            let request = Request::get(&path).header("accept", accept);
            let request = request.body(Vec::new()).expect("a request");
            let client = cluster.namespace.control_plane().client().await;
            let theirs: Value = client.request(request).await.expect("a list");

            let (mut ours, mut theirs) = (normalised(ours), normalised(theirs));
            // Others write to the same API server meanwhile.
            for list in [&mut ours, &mut theirs] {
                let metadata = list["metadata"].as_object_mut().expect("metadata");
                let found = metadata.remove("resourceVersion").expect("a version");
                let found: u64 = found.as_str().expect("text").parse().expect("a number");
                assert!(found >= version.parse().expect("a number"));
            }
            assert_eq!(ours, theirs, "{path} {accept}");
            assert_eq!(content_type, "application/json", "{path}");
        }
    }
    assert_eq!(passed(&cluster, "list"), before, "all from the informer");
}

#[tokio::test]
async fn watches_are_those_of_the_api_server() {
    let cluster = Cluster::allowed("cached-watches").await;
    begin(&cluster).await;
    let mut random = StdRng::seed_from_u64(43);

    for round in 0..3 {
        let from = version(&cluster).await;
        let mut names = BTreeSet::new();
        for step in 0..60 {
            let name = format!("map-{}", random.random_range(0..8));
            let app = ["odd", "even"][random.random_range(0..2)];
            match (names.contains(&name), random.random_range(0..5)) {
                (false, _) => {
                    create(&cluster, &name, app).await;
                    names.insert(name);
                }
                (true, 0) => {
                    cluster.namespace.delete(CONFIG_MAP, &name).await;
                    names.remove(&name);
                }
                (true, _) => change(&cluster, &name, app, step).await,
            }
        }
        let last = format!("zz-{round}");
        create(&cluster, &last, "odd").await;

        for selector in ["", "&labelSelector=app%3Dodd", "&labelSelector=app!%3Deven"] {
            let path = cluster.path(&format!(
                "configmaps?watch=true&resourceVersion={from}&timeoutSeconds=60{selector}"
            ));
            let response = cluster.stage.send(get(&path)).await;
            assert_eq!(response.status(), 200, "{path}");
            let ours = lines(response.into_body(), &last).await;
            let theirs = direct_lines(&cluster, &path, &last).await;
            assert_eq!(ours, theirs, "{path}");
            assert!(ours.len() > 10, "{} events", ours.len());
        }

        for name in names.iter().chain([&last]) {
            cluster.namespace.delete(CONFIG_MAP, name).await;
        }
        cluster.namespace.until_gone(CONFIG_MAP, &last).await;
    }
    assert_eq!(
        passed(&cluster, "watch"),
        0,
        "all of them were answered here"
    );
}

#[tokio::test]
async fn changes_come_as_they_happen_and_each_once() {
    let cluster = Cluster::allowed("cached-follow").await;
    create(&cluster, "before", "odd").await;
    begin(&cluster).await;

    let path = cluster.path("configmaps?watch=true&resourceVersion=0&labelSelector=app%3Dodd");
    let watch = cluster.stage.send(get(&path)).await.into_body();
    let reading = tokio::spawn(lines(watch, "zz-last"));
    create(&cluster, "a", "odd").await;
    change(&cluster, "a", "even", 1).await;
    change(&cluster, "a", "odd", 2).await;
    change(&cluster, "a", "odd", 3).await;
    cluster.namespace.delete(CONFIG_MAP, "a").await;
    create(&cluster, "zz-last", "odd").await;

    let events = reading.await.expect("read");
    let seen: Vec<String> = events
        .iter()
        .map(|event| format!("{} {}", event["type"], event["object"]["metadata"]["name"]))
        .map(|text| text.replace('"', ""))
        .collect();
    assert_eq!(
        seen,
        [
            "ADDED before",
            "ADDED a",
            "DELETED a",
            "ADDED a",
            "MODIFIED a",
            "DELETED a",
            "ADDED zz-last"
        ]
    );
    assert!(
        events[1]["object"]["metadata"]["managedFields"].is_array(),
        "as the API server sends them: {}",
        events[1]
    );
    let versions: Vec<u64> = events[1..]
        .iter()
        .map(|event| event["object"]["metadata"]["resourceVersion"].as_str())
        .map(|version| version.expect("text").parse().expect("a number"))
        .collect();
    assert!(versions.is_sorted(), "{versions:?}");
}

#[tokio::test]
async fn what_only_the_api_server_knows_is_asked_there() {
    let cluster = Cluster::allowed("cached-passed").await;
    begin(&cluster).await;
    let lists = passed(&cluster, "list");

    for query in ["", "?limit=1", "?resourceVersion=0&pretty=true"] {
        let path = cluster.path(&format!("configmaps{query}"));
        assert_eq!(cluster.stage.send_for_json(get(&path)).await.0, 200);
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let path = cluster.path("configmaps?resourceVersion=0");
    let response = cluster.stage.send(accepting(&path, table)).await;
    let table: Value = serde_json::from_slice(&whole(response).await).expect("JSON");
    assert_eq!(table["kind"], "Table");
    assert_eq!(passed(&cluster, "list"), lists + 4);

    // Too old a version: the API server says so, in the watch.
    let path = cluster.path("configmaps?watch=true&resourceVersion=1&timeoutSeconds=1");
    let response = cluster.stage.send(get(&path)).await;
    whole(response).await;
    eventually("the watch is over there, too", async || {
        match passed(&cluster, "watch") {
            1 => Ok(()),
            passed => Err(format!("{passed} watches")),
        }
    })
    .await;
}

#[tokio::test]
async fn streaming_lists_are_refused_so_that_clients_list() {
    let cluster = Cluster::allowed("cached-stream").await;
    let path = cluster.path(
        "configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    );
    let (code, status) = cluster.stage.send_for_json(get(&path)).await;
    assert_eq!(
        (code, &status["reason"]),
        (422, &"Invalid".into()),
        "{status}"
    );
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("resourceVersion=0"), "{message}");
}

#[tokio::test]
async fn watch_ends_in_time_after_a_last_bookmark() {
    let cluster = Cluster::allowed("cached-bookmark").await;
    create(&cluster, "a", "odd").await;
    begin(&cluster).await;
    let from = version(&cluster).await;
    create(&cluster, "b", "odd").await;

    let path = cluster.path(&format!(
        "configmaps?watch=true&resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds=5"
    ));
    let began = tokio::time::Instant::now();
    let response = cluster.stage.send(get(&path)).await;
    let text = whole(response).await;
    let took = began.elapsed();
    assert!(
        took > Duration::from_secs(4) && took < Duration::from_secs(8),
        "{took:?}"
    );

    let events = events(&text);
    let version = |event: &Value| {
        let version = event["object"]["metadata"]["resourceVersion"].as_str();
        version
            .expect("a version")
            .parse::<u64>()
            .expect("a number")
    };
    let last = events.last().expect("an event");
    assert_eq!(
        (&last["type"], &last["object"]["kind"]),
        (&"BOOKMARK".into(), &"ConfigMap".into())
    );
    assert!(version(last) >= version(&events[0]), "{events:?}");
}

#[tokio::test]
async fn account_without_the_right_gets_the_api_servers_refusal() {
    let cluster = Cluster::new("cached-denied").await;
    for query in ["?resourceVersion=0", "?watch=true&resourceVersion=0"] {
        let path = cluster.path(&format!("configmaps{query}"));
        let (code, status) = cluster.stage.send_for_json(get(&path)).await;
        assert_eq!(code, 403, "{status}");
    }
    assert_eq!(
        cluster.stage.registry.running().len(),
        0,
        "nothing is cached"
    );
}

#[tokio::test]
async fn lost_right_ends_a_watch_from_the_cache() {
    let cluster = Cluster::allowed("cached-revoked").await;
    begin(&cluster).await;
    let path = cluster.path("configmaps?watch=true&resourceVersion=0");
    let mut watch = cluster.stage.send(get(&path)).await.into_body();
    create(&cluster, "a", "odd").await;
    assert!(piece(&mut watch).await.expect("an event").is_ok());

    cluster.stage.permit.revoke("suspended");
    assert!(piece(&mut watch).await.is_none(), "it ends cleanly");
}
