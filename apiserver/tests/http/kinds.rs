//! A server with two custom resources beside the built-in ones.

use std::collections::HashMap;

use jiff::Timestamp;
use operetta_apiserver::{
    Controllers, EmbeddedServer, Options,
    server::{ApiServer, Environment},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{request, send};

/// The definitions of the custom resources `widgets` and `gadgets`.
const DEFINITIONS: &str = include_str!("widgets.yaml");

/// Starts a server whose time stands still.
pub async fn server() -> ApiServer {
    server_at("2026-01-01T00:00:00Z".parse().expect("a time")).await
}

/// Starts a server at a time, which stands still.
pub async fn server_at(now: Timestamp) -> ApiServer {
    server_with(Options::in_memory(Environment::fixed(now, 42))).await
}

/// Starts a server without controllers.
pub async fn server_with(options: Options) -> ApiServer {
    let server = EmbeddedServer::start(Options {
        controllers: Controllers::none(),
        ..options
    })
    .expect("a server");

    for definition in serde_yaml_ng::Deserializer::from_str(DEFINITIONS) {
        define(&server, &Value::deserialize(definition).expect("YAML")).await;
    }
    server.administrator()
}

/// Creates a definition and serves it.
async fn define(server: &EmbeddedServer, definition: &Value) {
    let body = definition.to_string();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = send(
        &server.administrator(),
        request("POST", path, &HashMap::new(), Some(&body)),
    )
    .await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    server.serve_definitions();
}

/// Starts a server with one more custom resource, which has two versions.
pub async fn server_with_things() -> ApiServer {
    let environment = Environment::fixed("2026-01-01T00:00:00Z".parse().expect("a time"), 1);
    let server = EmbeddedServer::start(Options {
        controllers: Controllers::none(),
        ..Options::in_memory(environment)
    })
    .expect("a server");

    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": {"type": "object"}},
        })
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.new.example"},
        "spec": {
            "group": "new.example", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1"), version("v2")],
        },
    });
    define(&server, &definition).await;
    server.administrator()
}
