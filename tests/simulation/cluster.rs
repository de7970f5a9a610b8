//! The API server of a run, and what its administrator does.

use http::{Method, Request};
use http_body_util::BodyExt;
use operetta_apiserver::{
    ControllerName, Controllers, EmbeddedServer, Options,
    server::{ApiServer, Body},
};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::source::environment;

/// The namespace of the plugin and its objects.
pub const NAMESPACE: &str = "team";

/// The collections of the run's objects.
pub const FOOS: &str = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/team/foos";
/// See [`FOOS`].
pub const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/team/deployments";

/// An API server, for its administrator.
#[derive(Clone)]
pub struct Cluster {
    server: EmbeddedServer,
    administrator: ApiServer,
}

impl Cluster {
    /// Prepares a server with all that a host and the plugin need, of which each run gets a copy.
    pub async fn prepare() -> Self {
        let server = EmbeddedServer::start(options(0)).expect("a server in memory");
        let cluster = Self {
            administrator: server.administrator(),
            server,
        };

        for manifest in manifests() {
            let collection = collection(&manifest);
            let (status, answer) = cluster
                .request(Method::POST, &collection, Some(&manifest))
                .await;
            assert_eq!(status, 201, "{collection}: {answer}");
            cluster.server.serve_definitions();
        }

        cluster
    }

    /// Starts a copy with a garbage collector.
    pub fn start(&self, seed: u64) -> Self {
        let server = self.server.copy(options(seed));
        let running = server.clone();
        tokio::spawn(async move { running.run().await });
        Self {
            administrator: server.administrator(),
            server,
        }
    }

    /// Returns the API for the host.
    pub fn api(&self) -> ApiServer {
        self.server.administrator()
    }

    /// Sends a request as the administrator. Returns the status and the answer.
    pub async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let kind = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };

        let body = body.map_or_else(String::new, Value::to_string);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(Body::full(body));

        let Ok(response) = self
            .administrator
            .clone()
            .oneshot(request.expect("a request"))
            .await;
        let status = response.status().as_u16();
        let Ok(bytes) = response.into_body().collect().await;

        (
            status,
            serde_json::from_slice(&bytes.to_bytes()).expect("JSON"),
        )
    }

    /// Returns the objects of a collection.
    pub async fn list(&self, collection: &str) -> Vec<Value> {
        let (status, mut answer) = self.request(Method::GET, collection, None).await;
        assert_eq!(status, 200, "{collection}: {answer}");
        serde_json::from_value(answer["items"].take()).expect("items")
    }
}

fn options(seed: u64) -> Options {
    let controllers = Controllers::only([ControllerName::GarbageCollector]);
    Options {
        controllers,
        ..Options::in_memory(environment(seed))
    }
}

/// Returns the path of the collection that an object is created in.
fn collection(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let kind = text(&object["kind"]).to_lowercase();

    let root = if version == "v1" {
        "/api/v1".to_owned()
    } else {
        format!("/apis/{version}")
    };

    match kind.as_str() {
        "namespace" | "customresourcedefinition" => format!("{root}/{kind}s"),
        _ => format!("{root}/namespaces/{NAMESPACE}/{kind}s"),
    }
}

/// Returns the objects that a host and the sample-controller need, in the order in which they are
/// created.
fn manifests() -> Vec<Value> {
    let root = "..";

    let read = |path: &str| {
        let text = std::fs::read_to_string(format!("{root}/{path}"))
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let documents =
            serde_yaml_ng::Deserializer::from_str(&text).map(serde::Deserialize::deserialize);
        documents
            .collect::<Result<Vec<Value>, _>>()
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    };

    let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let mut all = vec![
        namespace("operetta-system", json!({})),
        namespace(NAMESPACE, json!({"operetta.dev/plugins": "enabled"})),
    ];
    all.extend(read("deploy/crd/plugins.yaml"));
    all.extend(read("examples/sample-controller/crd.yaml"));
    all.extend(read("examples/sample-controller/rbac.yaml"));
    all.push(json!({
        "apiVersion": "operetta.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "sample-controller"},
        "spec": {"serviceAccountName": "sample-controller", "source": {"path": "sample-controller.wasm"}},
    }));

    all
}
