//! The endpoint in front of a whole API server: kube-rs's client works through it, RBAC decides, and
//! the caches learn of writes.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    client::Body,
};
use operetta_core::{
    authz::access_review::ServiceAccount,
    gate::{
        operation::{Get, Read},
        raw_request::RawRequest,
    },
    object::{ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    status::ErrorKind,
};
use operetta_kube::{
    authz::permission_watch::PermissionWatch,
    informer::{Informer, Scope},
};
use operetta_testkit::{ControlPlane, Kind, TestNamespace, eventually, needs_real_server};
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use crate::stage::{Options, SOON, Stage, get, header, piece, request, whole};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A namespace, and an endpoint for its account `operator`.
pub struct Cluster {
    pub namespace: TestNamespace<'static>,
    pub stage: Arc<Stage>,
}

impl Cluster {
    pub async fn new(prefix: &str) -> Self {
        let namespace = ControlPlane::shared().await.namespace(prefix).await;
        let client = namespace.control_plane().client().await;
        let account = ServiceAccount {
            namespace: namespace.name().to_owned(),
            name: "operator".to_owned(),
        };
        let (received, allows) = (Arc::default(), Arc::default());
        let stage = Stage::over(client, account, Options::default(), received, allows);
        Self {
            namespace,
            stage: Arc::new(stage),
        }
    }

    /// One whose account may do everything in the namespace.
    pub async fn allowed(prefix: &str) -> Self {
        let cluster = Self::new(prefix).await;
        cluster.namespace.allow_all("operator").await;
        let path = cluster.path("configmaps");
        eventually("the account may list", async || {
            let (code, status) = cluster.stage.send_for_json(get(&path)).await;
            if code == 200 {
                Ok(())
            } else {
                Err(status.to_string())
            }
        })
        .await;
        cluster
    }

    /// A path in the namespace.
    pub fn path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace.name())
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.namespace.name(), name)
    }

    /// A client of the endpoint, with a connection for each request.
    fn client(&self) -> Client {
        let stage = self.stage.clone();
        let service = service_fn(move |request: Request<Body>| {
            let stage = stage.clone();
            async move {
                let io = TokioIo::new(stage.connect());
                let (mut sender, connection) = http1::handshake(io).await?;
                tokio::spawn(connection);
                Ok::<_, BoxError>(sender.send_request(request).await?)
            }
        });
        Client::new(service, self.namespace.name())
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client(), self.namespace.name())
    }

    /// An informer of the namespace's ConfigMaps, synced.
    async fn informer(&self) -> Arc<Informer> {
        let kind = GroupVersionKind::new("v1", "ConfigMap");
        let resource = self.stage.discovery.resolve(&kind).await.expect("served");
        let scope = Scope {
            namespace: Some(self.namespace.name().to_owned()),
            ..Scope::everything()
        };
        let informer = self.stage.registry.informer(&resource, scope);
        informer.synced().await;
        informer
    }

    /// A cached read by the same operator.
    async fn cached(&self, name: &str) -> Option<Value> {
        let request = RawRequest {
            method: "GET".to_owned(),
            path: self.path(&format!("configmaps/{name}")),
            cached: true,
            ..RawRequest::default()
        };
        let target = request.target().expect("a target");
        match self.stage.api.raw(request, target).await {
            Ok(answer) => Some(serde_json::from_str(&answer.body).expect("JSON")),
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => panic!("{error}"),
        }
    }
}

fn config_map(name: &str, n: &str) -> ConfigMap {
    let value = json!({"metadata": {"name": name}, "data": {"n": n}});
    serde_json::from_value(value).expect("a ConfigMap")
}

fn n(config_map: &ConfigMap) -> &str {
    config_map.data.as_ref().map_or("", |data| &data["n"])
}

#[tokio::test]
async fn client_of_kube_rs_reads_writes_and_watches() {
    let cluster = Cluster::allowed("endpoint-kube").await;
    let api = cluster.config_maps();
    let version = cluster
        .client()
        .apiserver_version()
        .await
        .expect("a version");
    assert_eq!(version.major, "1");

    let list = api.list(&ListParams::default()).await.expect("a list");
    let from = list.metadata.resource_version.expect("a version");
    let watch = api
        .watch(&WatchParams::default(), &from)
        .await
        .expect("a watch");
    let mut watch = watch.boxed();

    let created = api
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .expect("created");
    assert_eq!(n(&created), "1");
    let error = api
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .expect_err("there is one");
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 409),
        "{error}"
    );
    let patch = Patch::Merge(json!({"data": {"n": "2"}}));
    let patched = api
        .patch("a", &PatchParams::default(), &patch)
        .await
        .expect("patched");
    assert_eq!(n(&patched), "2");
    assert_eq!(n(&api.get("a").await.expect("there")), "2");
    api.delete("a", &DeleteParams::default())
        .await
        .expect("deleted")
        .map_right(|status| {
            assert!(status.is_success());
        });
    assert!(api.get_opt("a").await.expect("an answer").is_none());

    let mut seen = Vec::new();
    while seen.len() < 3 {
        let event = tokio::time::timeout(SOON, watch.try_next())
            .await
            .expect("in time");
        match event.expect("an event").expect("an event") {
            WatchEvent::Added(object) => seen.push(format!("+{}", n(&object))),
            WatchEvent::Modified(object) => seen.push(format!("~{}", n(&object))),
            WatchEvent::Deleted(object) => seen.push(format!("-{}", n(&object))),
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => panic!("{status:?}"),
        }
    }
    assert_eq!(seen, ["+1", "~2", "-2"]);
}

#[tokio::test]
async fn rbac_decides_about_the_account() {
    let cluster = Cluster::new("endpoint-denied").await;
    let stage = &cluster.stage;
    for request in [
        get(&cluster.path("configmaps")),
        get(&cluster.path("configmaps?watch=true")),
        request(
            "POST",
            &cluster.path("configmaps"),
            json!({"metadata": {"name": "a"}}).to_string(),
        ),
        get("/metrics"),
    ] {
        let what = request.uri().to_string();
        let (code, status) = stage.send_for_json(request).await;
        let user = format!(
            "system:serviceaccount:{}:operator",
            cluster.namespace.name()
        );
        let message = status["message"].as_str().unwrap_or_default();
        assert!(code == 403 && message.contains(&user), "{what}: {status}");
    }
    let refusal = stage
        .api
        .refusal()
        .expect("kept")
        .remedy
        .expect("names only");
    assert!(
        refusal
            .to_string()
            .contains("--verb=create --resource=configmaps"),
        "{refusal}"
    );

    let (code, answer) = stage.send_for_json(get("/api")).await;
    assert_eq!(
        (code, &answer["kind"]),
        (200, &"APIVersions".into()),
        "everybody may"
    );
}

#[tokio::test]
async fn caches_show_what_was_written_through_the_endpoint() {
    let cluster = Cluster::allowed("endpoint-own").await;
    let _informer = cluster.informer().await;
    let api = cluster.config_maps();
    for round in 0..5 {
        let name = format!("a-{round}");
        assert_eq!(cluster.cached(&name).await, None);
        api.create(&PostParams::default(), &config_map(&name, "1"))
            .await
            .expect("created");
        let cached = cluster.cached(&name).await.expect("it sees its own write");
        assert_eq!(cached["data"]["n"], "1");

        let patch = Patch::Merge(json!({"data": {"n": "2"}}));
        api.patch(&name, &PatchParams::default(), &patch)
            .await
            .expect("patched");
        assert_eq!(
            cluster.cached(&name).await.expect("there")["data"]["n"],
            "2"
        );

        api.delete(&name, &DeleteParams::default())
            .await
            .expect("deleted");
        assert_eq!(cluster.cached(&name).await, None);
    }
}

/// A ConfigMap in Protobuf.
fn protobuf(name: &str) -> Bytes {
    let field = |number: u8, value: &[u8]| {
        let mut bytes = vec![number << 3 | 2, u8::try_from(value.len()).expect("short")];
        bytes.extend_from_slice(value);
        bytes
    };
    let type_meta = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    let object = field(1, &field(1, name.as_bytes()));
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &object)]
        .concat()
        .into()
}

fn in_protobuf(method: &str, path: &str, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = request(method, path, body);
    let headers = request.headers_mut();
    headers.insert("content-type", PROTOBUF.parse().expect("a type"));
    headers.insert("accept", PROTOBUF.parse().expect("a type"));
    request
}

#[tokio::test]
async fn protobuf_passes_and_the_caches_know_what_it_wrote() {
    if needs_real_server("it speaks Protobuf") {
        return;
    }
    let cluster = Cluster::allowed("endpoint-protobuf").await;
    let _informer = cluster.informer().await;
    let path = cluster.path("configmaps");
    let one = cluster.path("configmaps/a");
    assert_eq!(cluster.cached("a").await, None);

    let created = cluster
        .stage
        .send(in_protobuf("POST", &path, protobuf("a")))
        .await;
    assert_eq!(
        (
            created.status().as_u16(),
            header(created.headers(), "content-type")
        ),
        (201, PROTOBUF)
    );
    let created = whole(created).await;
    assert!(created.starts_with(b"k8s\0"));
    assert!(cluster.cached("a").await.is_some(), "it sees its own write");

    let through = cluster
        .stage
        .send(in_protobuf("GET", &one, Bytes::new()))
        .await;
    let through = whole(through).await;
    let client = cluster.namespace.control_plane().client().await;
    let (head, body) = in_protobuf("GET", &one, Bytes::new()).into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let direct = client
        .send(Request::from_parts(head, Body::from(body)))
        .await
        .expect("a response");
    let direct = direct.into_body().collect_bytes().await.expect("a body");
    assert_eq!(through, direct);

    let deleted = cluster
        .stage
        .send(in_protobuf("DELETE", &one, Bytes::new()))
        .await;
    assert_eq!(deleted.status(), 200);
    assert_eq!(cluster.cached("a").await, None);

    let (code, status) = {
        let response = cluster
            .stage
            .send(in_protobuf("GET", &one, Bytes::new()))
            .await;
        (response.status().as_u16(), whole(response).await)
    };
    assert!(
        code == 404 && status.starts_with(b"k8s\0"),
        "the Status as it was sent"
    );
}

#[tokio::test]
async fn tables_and_metadata_pass_as_they_are() {
    if needs_real_server("it prints tables and reduces objects to their metadata") {
        return;
    }
    let cluster = Cluster::allowed("endpoint-forms").await;
    let api = cluster.config_maps();
    api.create(&PostParams::default(), &config_map("a", "1"))
        .await
        .expect("created");
    for (form, kind) in [
        ("Table", "Table"),
        ("PartialObjectMetadataList", "PartialObjectMetadataList"),
    ] {
        let accept = format!("application/json;as={form};v=v1;g=meta.k8s.io");
        let mut list = get(&cluster.path("configmaps"));
        list.headers_mut()
            .insert("accept", accept.parse().expect("a type"));
        assert_eq!(cluster.stage.send_for_json(list).await.1["kind"], kind);
    }
}

#[tokio::test]
async fn watch_ends_when_the_binding_is_deleted() {
    let cluster = Cluster::allowed("endpoint-rights").await;
    let Stage {
        grants,
        discovery,
        registry,
        ..
    } = &*cluster.stage;
    let _rights = PermissionWatch::start(grants, discovery, registry)
        .await
        .expect("a watch");
    let path = cluster.path("configmaps?watch=true");
    let response = cluster.stage.send(get(&path)).await;
    assert_eq!(response.status(), 200);
    let mut watch = response.into_body();

    let kind = Kind("rbac.authorization.k8s.io/v1", "RoleBinding");
    cluster.namespace.delete(kind, "operator-may-do-all").await;
    let end = async { while piece(&mut watch).await.is_some_and(|piece| piece.is_ok()) {} };
    // The API server's authorizer may lag a moment behind; 2 s from then on.
    tokio::time::timeout(Duration::from_secs(4), end)
        .await
        .expect("it ends");

    eventually("the next watch is refused", async || {
        match cluster.stage.send(get(&path)).await.status().as_u16() {
            403 => Ok(()),
            code => Err(code.to_string()),
        }
    })
    .await;
    let read = Get {
        kind: GroupVersionKind::new("v1", "ConfigMap"),
        key: cluster.key("a"),
        read: Read::Live,
    };
    assert!(cluster.stage.api.get(read).await.is_err());
}
