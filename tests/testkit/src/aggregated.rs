//! An aggregated API server that can die: it serves the kind Thing of one group, and its objects are
//! what a test says.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use futures::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use crate::{ControlPlane, tls_server};

/// How long a watch lasts at most.
const WATCH: Duration = Duration::from_secs(60);

/// An aggregated API server of one group, behind an API server.
pub struct AggregatedApi {
    group: String,
    content: Arc<watch::Sender<Content>>,
}

/// What it serves.
#[derive(Clone, Default)]
struct Content {
    is_dead: bool,
    revision: u64,
    things: Vec<Thing>,
}

#[derive(Clone)]
struct Thing {
    namespace: String,
    name: String,
    /// The revision that added it.
    revision: u64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListQuery {
    watch: String,
    resource_version: String,
    send_initial_events: String,
}

#[derive(Clone)]
struct Served {
    group: String,
    content: Arc<watch::Sender<Content>>,
}

impl AggregatedApi {
    /// Serves `things` of `v1` of a group, and registers it with an API server.
    ///
    /// # Panics
    /// Panics if it cannot be served or registered.
    pub fn start(control_plane: &ControlPlane, group: &str) -> Self {
        let content = Arc::new(watch::Sender::new(Content {
            revision: 1,
            ..Content::default()
        }));
        let served = Served {
            group: group.to_owned(),
            content: content.clone(),
        };
        let root = format!("/apis/{group}/v1");
        let routes = Router::new()
            .route(&root, get(resources))
            .route(&format!("{root}/things"), get(things))
            .with_state(served);
        let server = tls_server::serve_routes(routes, false);

        // Without kube-proxy, the only Service that leads out of the cluster is one of a name.
        let port = server.address.port();
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "things", "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
        });
        control_plane.apply(&service.to_string());
        let mut registration = crate::dead_api_service(group);
        registration["spec"]["service"] =
            json!({"name": "things", "namespace": "default", "port": port});
        control_plane.apply(&registration.to_string());

        Self {
            group: group.to_owned(),
            content,
        }
    }

    /// The name of its APIService.
    pub fn registration(&self) -> String {
        format!("v1.{}", self.group)
    }

    /// Adds a thing.
    pub fn add(&self, namespace: &str, name: &str) {
        self.content.send_modify(|content| {
            content.revision += 1;
            content.things.push(Thing {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                revision: content.revision,
            });
        });
    }

    /// Ends its watches, and answers every request with 503.
    pub fn die(&self) {
        self.content.send_modify(|content| content.is_dead = true);
    }

    /// Answers again.
    pub fn revive(&self) {
        self.content.send_modify(|content| content.is_dead = false);
    }
}

fn dead() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "it is dead").into_response()
}

/// A Status, as Kubernetes' own API servers send it.
fn failure(code: StatusCode, reason: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(), "reason": reason,
        "message": reason,
    });
    (code, Json(status)).into_response()
}

async fn resources(State(served): State<Served>) -> Response {
    if served.content.borrow().is_dead {
        return dead();
    }
    let thing = json!({
        "name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
        "verbs": ["get", "list", "watch"],
    });
    let api_version = format!("{}/v1", served.group);
    Json(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": [thing],
    }))
    .into_response()
}

async fn things(State(served): State<Served>, Query(query): Query<ListQuery>) -> Response {
    let Content {
        is_dead,
        revision,
        things,
    } = served.content.borrow().clone();
    if is_dead {
        return dead();
    }
    // As an API server without streaming lists.
    if !query.send_initial_events.is_empty() {
        return failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid");
    }

    let api_version = format!("{}/v1", served.group);
    let version = revision.to_string();
    if !["1", "true"].contains(&query.watch.as_str()) {
        let thing = |thing: &Thing| {
            let Thing {
                namespace,
                name,
                revision,
            } = thing;
            json!({
                "apiVersion": api_version, "kind": "Thing",
                "metadata": {
                    "namespace": namespace, "name": name, "uid": format!("uid-{namespace}-{name}"),
                    "resourceVersion": revision.to_string(), "generation": 1,
                },
            })
        };
        let items: Vec<Value> = things.iter().map(thing).collect();
        return Json(json!({
            "apiVersion": api_version, "kind": "ThingList", "metadata": {"resourceVersion": version}, "items": items,
        }))
        .into_response();
    }

    // Its history is that of one list: whoever has missed a change lists again.
    if query.resource_version != version {
        return failure(StatusCode::GONE, "Expired");
    }
    let bookmark = json!({
        "type": "BOOKMARK",
        "object": {"apiVersion": api_version, "kind": "Thing", "metadata": {"resourceVersion": version}},
    });
    let first = stream::once(async move { Bytes::from(format!("{bookmark}\n")) });
    let mut changes = served.content.subscribe();
    let end = async move {
        let changed = |content: &Content| content.is_dead || content.revision != revision;
        drop(timeout(WATCH, changes.wait_for(changed)).await);
        Bytes::new()
    };
    let lines = first.chain(stream::once(end)).map(Ok::<_, Infallible>);

    let headers = [("content-type", "application/json")];
    (headers, Body::from_stream(lines)).into_response()
}
