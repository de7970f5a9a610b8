//! The memory of the program while it serves a test suite, and afterwards.
//!
//! The suite is like those of controllers with envtest: large definitions, and in each round a
//! namespace with objects of several kinds, which are created, changed and deleted while watches
//! come and go. `ROUNDS=65 cargo test --release -p operetta-apiserver --test memory -- --nocapture`
//! prints the figures of a whole suite.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinHandle, time::sleep};
use tokio_rustls::TlsConnector;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The definitions. Each has 425 schemas, a quarter of those of a Pod.
const KINDS: usize = 6;
/// The objects of each kind in a round.
const OBJECTS: usize = 20;
/// The rounds of a short run.
const ROUNDS: usize = 4;

/// The time after which freed memory is back: the allocator returns it after a second.
const SETTLE: Duration = Duration::from_secs(5);

/// What the program may have more than at its start when everything is deleted, in MB: the window
/// of past changes is 16, the schemas of built-in kinds are 10, and the rest is code that was used.
const MAX_LEFT: f64 = 45.0;
/// What it may have more at its peak in a short run, in MB.
const MAX_PEAK: f64 = 60.0;

/// The program, with what clients need to reach it.
struct Server {
    child: Child,
    address: String,
    token: String,
    tls: TlsConnector,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("kubeconfig");
        let mut child = Command::new(env!("CARGO_BIN_EXE_operetta-apiserver"))
            .args(["serve", "--controllers", "none", "--kubeconfig"])
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");

        let mut line = String::new();
        let stdout = child.stdout.take().expect("its output");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("ready https://");
        let config: Value =
            serde_json::from_slice(&fs::read(&file).expect("a kubeconfig")).expect("JSON");
        let text = |pointer: &str| {
            let text = config.pointer(pointer).and_then(Value::as_str);
            text.expect("a text").to_owned()
        };
        let authority = BASE64_STANDARD
            .decode(text("/clusters/0/cluster/certificate-authority-data"))
            .expect("base64");

        Self {
            address: address.expect("an address").to_owned(),
            token: text("/users/0/user/token"),
            tls: connector(&authority),
            child,
            _folder: folder,
        }
    }

    /// Opens a connection for one request at a time.
    async fn connect(&self, agent: &'static str) -> Connection {
        let stream = TcpStream::connect(&self.address).await.expect("a socket");
        stream.set_nodelay(true).expect("an option");
        let name = "127.0.0.1".try_into().expect("a name");
        let stream = self.tls.connect(name, stream).await.expect("TLS");
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);

        Connection {
            sender,
            agent,
            token: self.token.clone(),
        }
    }

    /// Returns a line of `/proc/PID/status` in MB.
    fn megabytes(&self, name: &str) -> f64 {
        let file = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(file).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|line| line.split_whitespace().nth(1));
        kibibytes.expect("a size").parse::<f64>().expect("a number") * 1024.0 / 1e6
    }

    fn resident(&self) -> f64 {
        self.megabytes("VmRSS")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _either_way = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn connector(authority: &[u8]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority).expect("a certificate"))
        .expect("an authority");

    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .expect("versions");
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    agent: &'static str,
    token: String,
}

impl Connection {
    async fn send(
        &mut self,
        method: &str,
        path: &str,
        media: &str,
        body: &Value,
    ) -> hyper::Response<hyper::body::Incoming> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.token))
            .header("user-agent", self.agent)
            .header("content-type", media)
            .body(Full::from(body))
            .expect("a request");

        self.sender.ready().await.expect("a connection");
        self.sender.send_request(request).await.expect("a response")
    }

    /// Sends a request that must succeed, and returns the answer.
    async fn request(&mut self, method: &str, path: &str, media: &str, body: &Value) -> Value {
        let response = self.send(method, path, media, body).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.expect("a body");
        let bytes = bytes.to_bytes();
        assert!(
            status.is_success(),
            "{method} {path}: {status}: {}",
            String::from_utf8_lossy(&bytes)
        );
        serde_json::from_slice(&bytes).expect("JSON")
    }

    async fn create(&mut self, path: &str, object: &Value) -> Value {
        self.request("POST", path, "application/json", object).await
    }

    async fn delete(&mut self, path: &str) {
        let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        self.request("DELETE", path, "application/json", &options)
            .await;
    }
}

/// Returns a definition with fields in groups, with texts, patterns, lists and rules.
fn definition(kind: usize) -> Value {
    let field = json!({
        "type": "string", "maxLength": 256, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "description": "A field of the object, which says more about itself here. ".repeat(5),
    });
    let items = json!({
        "type": "array", "maxItems": 32, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object", "required": ["name"],
            "properties": {"name": {"type": "string", "maxLength": 64}, "value": {"type": "integer"}},
        },
    });
    let mut fields: serde_json::Map<String, Value> = (0..12)
        .map(|number| (format!("field{number}"), field.clone()))
        .collect();
    fields.insert("items".into(), items);
    let group = json!({
        "type": "object", "properties": fields,
        "x-kubernetes-validations": [
            {"rule": "!has(self.field0) || self.field0 != 'forbidden'", "message": "forbidden"},
            {"rule": "!has(self.items) || self.items.all(i, i.value >= 0)", "message": "negative"},
        ],
    });
    let mut groups: serde_json::Map<String, Value> = (0..25)
        .map(|number| (format!("group{number}"), group.clone()))
        .collect();
    groups.insert(
        "replicas".into(),
        json!({"type": "integer", "default": 1, "minimum": 0}),
    );
    let schema = json!({"type": "object", "properties": {
        "spec": {
            "type": "object", "properties": groups,
            "x-kubernetes-validations": [{"rule": "self.replicas >= oldSelf.replicas", "message": "fewer"}],
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});

    let plural = format!("kind{kind}s");
    json!({
        "metadata": {"name": format!("{plural}.suite.example.com")},
        "spec": {
            "group": "suite.example.com", "scope": "Namespaced",
            "names": {"plural": plural, "kind": format!("Kind{kind}")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// Returns the objects of a round, each with the path of its resource.
fn objects(namespace: &str) -> Vec<(String, Value)> {
    let pod = json!({
        "metadata": {"labels": {"app": "suite"}},
        "spec": {"restartPolicy": "Never", "containers": [{
            "name": "main", "image": "registry.example.com/suite:1",
            "env": (0..16).map(|number| json!({"name": format!("E{number}"), "value": "x".repeat(20)}))
                .collect::<Vec<_>>(),
        }]},
    });
    let group: serde_json::Map<String, Value> = (0..6)
        .map(|number| (format!("field{number}"), "some-value".into()))
        .collect();
    let groups: serde_json::Map<String, Value> = (0..6)
        .map(|number| (format!("group{number}"), group.clone().into()))
        .collect();

    let mut found = Vec::new();
    for number in 0..OBJECTS {
        let metadata = json!({"name": format!("n{number}"), "labels": {"suite": namespace}});
        let core = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
        found.push((
            core("configmaps"),
            json!({"metadata": metadata, "data": {"text": "x".repeat(800)}}),
        ));
        found.push((
            core("pods"),
            json!({"metadata": metadata, "spec": pod["spec"]}),
        ));
        found.push((
            format!("/apis/batch/v1/namespaces/{namespace}/jobs"),
            json!({"metadata": metadata, "spec": {"template": pod}}),
        ));

        for kind in 0..KINDS {
            found.push((
                format!("/apis/suite.example.com/v1/namespaces/{namespace}/kind{kind}s"),
                json!({
                    "apiVersion": "suite.example.com/v1", "kind": format!("Kind{kind}"),
                    "metadata": metadata, "spec": groups,
                }),
            ));
        }
    }

    found
}

/// Reads a watch until it ends, and returns the bytes.
async fn watch(server: &Server, path: &str) -> JoinHandle<usize> {
    let mut connection = server.connect("watcher/v1").await;
    let path = format!("{path}?watch=1&timeoutSeconds=2&allowWatchBookmarks=true");
    let response = connection
        .send("GET", &path, "application/json", &Value::Null)
        .await;
    assert!(response.status().is_success(), "{path}");

    tokio::spawn(async move {
        let body = response.into_body().collect().await.expect("events");
        drop(connection);
        body.to_bytes().len()
    })
}

/// Creates, changes and deletes the objects of a namespace, while watches see them.
async fn round(server: &Server, number: usize) {
    let namespace = format!("suite-{number}");
    let mut suite = server.connect("suite/v1").await;
    let mut controller = server.connect("controller/v1").await;
    let objects = objects(&namespace);
    let mut resources: Vec<&String> = objects.iter().map(|(path, _)| path).collect();
    resources.sort();
    resources.dedup();

    let mut watches = Vec::new();
    for path in &resources {
        watches.push(watch(server, path).await);
    }

    let body = json!({"metadata": {"name": namespace}});
    suite.create("/api/v1/namespaces", &body).await;
    for (path, object) in &objects {
        let mut created = suite.create(path, object).await;
        let one = format!(
            "{path}/{}",
            created["metadata"]["name"].as_str().expect("a name")
        );
        created["metadata"]["annotations"] = json!({"seen": "yes"});
        controller
            .request("PUT", &one, "application/json", &created)
            .await;

        if object["kind"].is_string() {
            let status = json!({"status": {"message": "x".repeat(200)}});
            let media = "application/merge-patch+json";
            controller
                .request("PATCH", &format!("{one}/status"), media, &status)
                .await;
            let applied = json!({
                "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": object["metadata"]["name"]},
                "spec": {"replicas": 2},
            });
            let apply = format!("{one}?fieldManager=suite&force=true");
            suite
                .request("PATCH", &apply, "application/apply-patch+yaml", &applied)
                .await;
        }
    }

    for path in resources {
        suite
            .request("GET", path, "application/json", &Value::Null)
            .await;
    }
    for (path, object) in &objects {
        let name = object["metadata"]["name"].as_str().expect("a name");
        suite.delete(&format!("{path}/{name}")).await;
    }
    suite
        .delete(&format!("/api/v1/namespaces/{namespace}"))
        .await;

    for watch in watches {
        assert!(watch.await.expect("a watch") > 1000);
    }
}

async fn install_definitions(suite: &mut Connection) {
    for kind in 0..KINDS {
        suite.create(DEFINITIONS, &definition(kind)).await;
    }

    for kind in 0..KINDS {
        let path = format!("/apis/suite.example.com/v1/kind{kind}s");
        let answer = async |suite: &mut Connection| {
            let response = suite
                .send("GET", &path, "application/json", &Value::Null)
                .await;
            let status = response.status();
            response.into_body().collect().await.expect("a body");
            status
        };
        while !answer(suite).await.is_success() {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_a_suite_is_given_back() {
    let rounds = std::env::var("ROUNDS").map_or(ROUNDS, |text| text.parse().expect("a number"));
    let server = Server::start();
    let before = server.resident();

    let mut suite = server.connect("suite/v1").await;
    install_definitions(&mut suite).await;
    let with_definitions = server.resident();
    for number in 0..rounds {
        round(&server, number).await;
    }

    for kind in 0..KINDS {
        suite
            .delete(&format!("{DEFINITIONS}/kind{kind}s.suite.example.com"))
            .await;
    }

    let peak = server.megabytes("VmHWM");
    let at_once = server.resident();
    sleep(SETTLE).await;
    let after = server.resident();

    println!(
        "resident MB: {before:.0} before, {with_definitions:.0} with {KINDS} definitions, {peak:.0} at the peak of \
         {rounds} rounds, {at_once:.0} when all was deleted, {after:.0} afterwards, of it {:.0} anonymous",
        server.megabytes("RssAnon")
    );
    assert!(after - before < MAX_LEFT, "{before} MB became {after}");
    assert!(peak - before < MAX_PEAK, "{before} MB became {peak}");
}
