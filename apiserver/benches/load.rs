//! Creates, gets and watches per second, in this process and over loopback, and the memory of 1,000
//! objects.

use std::{
    fs,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::future::join_all;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use operetta_apiserver::{
    Controllers, EmbeddedServer, Options,
    server::{ApiServer, Environment, serve},
};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

const PATH: &str = "/apis/example.com/v1/widgets";
const OBJECTS: usize = 20_000;
const CLIENTS: usize = 8;

fn request(method: &str, path: &str, body: String) -> Request<Full<Bytes>> {
    let builder = Request::builder()
        .method(method)
        .uri(path)
        .header("Host", "localhost");
    builder
        .header("Content-Type", "application/json")
        .body(Full::from(body))
        .expect("a request")
}

fn create(name: &str) -> Request<Full<Bytes>> {
    let labels = json!({"app.kubernetes.io/name": "bench", "index": name});
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": 3, "template": {"image": "registry.example.com/bench:1.2.3", "data": "x".repeat(600)}},
    });
    request("POST", PATH, object.to_string())
}

fn get(index: usize) -> Request<Full<Bytes>> {
    request(
        "GET",
        &format!("{PATH}/n{}", index % OBJECTS),
        String::new(),
    )
}

/// Wall and processor time since a start.
struct Meter {
    start: Instant,
    processor: f64,
}

impl Meter {
    fn start() -> Self {
        Self {
            start: Instant::now(),
            processor: processor_seconds(),
        }
    }

    /// Prints a rate, and the processor time of one operation, which other processes influence
    /// little.
    fn report(&self, what: &str, count: usize) {
        let rate = count as f64 / self.start.elapsed().as_secs_f64();
        let micros = (processor_seconds() - self.processor) * 1e6 / count as f64;
        println!("{what:<40} {rate:>10.0}/s {micros:>10.1} us of processor time");
    }
}

/// Returns the processor time of this process.
fn processor_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = text
        .split_whitespace()
        .filter_map(|field| field.parse().ok())
        .collect();
    // Without the name and the state: the fields 14 and 15 of proc(5), in hundredths of a second.
    (fields.get(11).unwrap_or(&0.0) + fields.get(12).unwrap_or(&0.0)) / 100.0
}

fn resident_mebibytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or_default();
    let kibibytes: f64 = line
        .split_whitespace()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    kibibytes / 1024.0
}

async fn new_server() -> ApiServer {
    let environment = Environment::fixed("2026-01-01T00:00:00Z".parse().expect("a time"), 1);
    let server = EmbeddedServer::start(Options {
        controllers: Controllers::none(),
        ..Options::in_memory(environment)
    })
    .expect("a server");

    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let response = server
        .administrator()
        .oneshot(request("POST", path, definition.to_string()))
        .await
        .expect("a response");
    assert!(response.status().is_success());
    server.serve_definitions();
    server.administrator()
}

/// Sends requests to a server in this process from several tasks.
async fn in_process(server: &ApiServer, count: usize, build: fn(usize) -> Request<Full<Bytes>>) {
    let tasks = (0..CLIENTS).map(|client| {
        let server = server.clone();
        tokio::spawn(async move {
            for index in (client..count).step_by(CLIENTS) {
                let response = server
                    .clone()
                    .oneshot(build(index))
                    .await
                    .expect("a response");
                assert!(response.status().is_success());
                response.into_body().collect().await.expect("a body");
            }
        })
    });
    join_all(tasks).await;
}

/// Sends requests over several connections.
async fn over_loopback(address: &str, count: usize, build: fn(usize) -> Request<Full<Bytes>>) {
    let tasks = (0..CLIENTS).map(|client| {
        let address = address.to_owned();
        tokio::spawn(async move {
            let stream = TcpStream::connect(address).await.expect("a connection");
            stream.set_nodelay(true).expect("an option");
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream))
                    .await
                    .expect("a handshake");
            tokio::spawn(connection);
            for index in (client..count).step_by(CLIENTS) {
                sender.ready().await.expect("ready");
                let response = sender.send_request(build(index)).await.expect("a response");
                assert!(response.status().is_success());
                response.into_body().collect().await.expect("a body");
            }
        })
    });
    join_all(tasks).await;
}

/// Measures changes that 100 watchers see.
async fn fan_out(server: &ApiServer) {
    const CHANGES: usize = 1_000;
    let revision = server.store().revision();
    let watchers: Vec<_> = (0..100)
        .map(|_| {
            let server = server.clone();
            tokio::spawn(async move {
                let path = format!("{PATH}?watch=1&resourceVersion={revision}");
                let response = server
                    .oneshot(request("GET", &path, String::new()))
                    .await
                    .expect("a watch");
                let mut body = response.into_body();
                let mut seen = 0;
                while seen < CHANGES {
                    let part = body
                        .frame()
                        .await
                        .expect("a part")
                        .expect("a part")
                        .into_data()
                        .expect("data");
                    seen += part.iter().filter(|byte| **byte == b'\n').count();
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let meter = Meter::start();
    in_process(server, CHANGES, |index| create(&format!("w{index}"))).await;
    join_all(watchers).await;
    meter.report("creates seen by 100 watchers", CHANGES);
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    println!("resident before: {:.1} MiB", resident_mebibytes());
    let server = new_server().await;
    in_process(&server, 1_000, |index| create(&format!("n{index}"))).await;
    println!(
        "resident with 1,000 objects: {:.1} MiB",
        resident_mebibytes()
    );

    let server = new_server().await;
    let meter = Meter::start();
    in_process(&server, OBJECTS, |index| create(&format!("n{index}"))).await;
    meter.report("creates in this process", OBJECTS);
    let meter = Meter::start();
    in_process(&server, OBJECTS * 5, get).await;
    meter.report("gets in this process", OBJECTS * 5);
    fan_out(&server).await;
    let meter = Meter::start();
    for _ in 0..10 {
        let response = server
            .clone()
            .oneshot(request("GET", PATH, String::new()))
            .await
            .expect("a list");
        response.into_body().collect().await.expect("a body");
    }
    meter.report("lists of 20,000 objects", 10);

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(serve(listener, server, std::future::pending()));
    let meter = Meter::start();
    over_loopback(&address, OBJECTS, |index| create(&format!("h{index}"))).await;
    meter.report("creates over loopback, client included", OBJECTS);
    let meter = Meter::start();
    over_loopback(&address, OBJECTS * 2, get).await;
    meter.report("gets over loopback, client included", OBJECTS * 2);
}
