//! Cached reads see the plugin's own writes while the watch is late: whatever the form of the write,
//! and whatever the form of the read.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    gate::{
        operation::{
            Delete, DeleteOptions, Get, List, ListOptions, PatchBody, Read, Selection, Write,
            WriteAction, WriteOptions,
        },
        raw_request::RawRequest,
    },
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    status::ErrorKind,
};
use operetta_kube::client::object_api::PluginApi;
use operetta_testkit::eventually;
use serde_json::{Value, json};

use crate::{rig::Rig, value};

/// How late watches are.
const LAG: Duration = Duration::from_millis(100);

/// How often each write is made.
const ROUNDS: usize = 10;

/// A plugin's API over watches that are late.
struct Late {
    rig: Rig,
    api: Arc<PluginApi>,
    namespace: String,
}

impl Late {
    async fn new(prefix: &str) -> Self {
        let rig = Rig::new(prefix).await;
        rig.proxy.lag_watches(LAG);
        let api = rig.api();
        let namespace = rig.stage.namespace.name().to_owned();
        Self {
            rig,
            api,
            namespace,
        }
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, name)
    }

    async fn get(&self, kind: &GroupVersionKind, name: &str) -> Option<Arc<Object>> {
        let get = Get {
            kind: kind.clone(),
            key: self.key(name),
            read: Read::Cached,
        };
        match self.api.get(get).await {
            Ok(object) => Some(object),
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => panic!("{error:?}"),
        }
    }

    /// The object as a list has it.
    async fn listed(&self, kind: &GroupVersionKind, name: &str) -> Option<Value> {
        let list = List {
            kind: kind.clone(),
            options: ListOptions::all(Some(self.namespace.clone()), Read::Cached),
        };
        let page = self.api.list(list).await.expect("a list");
        let mut items = page
            .items
            .iter()
            .map(|item| serde_json::from_str::<Value>(item.json()).expect("JSON"));
        items.find(|item| item["metadata"]["name"] == name)
    }

    /// Expects that both forms of a read show an object as `is` wants it.
    async fn shows(
        &self,
        kind: &GroupVersionKind,
        name: &str,
        is: impl Fn(Option<&Value>) -> bool,
    ) {
        let listed = self.listed(kind, name).await;
        assert!(is(listed.as_ref()), "list of {kind}: {listed:?}");
        let got = self.get(kind, name).await.map(|object| value(&object));
        assert!(is(got.as_ref()), "get of {kind} {name}: {got:?}");
    }

    async fn create(&self, kind: &GroupVersionKind, object: Value) {
        let action = WriteAction::Create {
            namespace: Some(self.namespace.clone()),
            object: object.to_string(),
        };
        self.write(kind, action).await;
    }

    async fn patch(
        &self,
        kind: &GroupVersionKind,
        name: &str,
        subresource: Option<&str>,
        body: &Value,
    ) {
        let action = WriteAction::Patch {
            key: self.key(name),
            subresource: subresource.map(str::to_owned),
            body: PatchBody::Merge(body.to_string()),
            force: false,
        };
        self.write(kind, action).await;
    }

    async fn write(&self, kind: &GroupVersionKind, action: WriteAction) {
        let write = Write {
            kind: kind.clone(),
            action,
            options: WriteOptions::default(),
        };
        self.api.write(write).await.expect("written");
    }

    async fn delete(&self, kind: &GroupVersionKind, name: &str) {
        let delete = Delete {
            kind: kind.clone(),
            key: self.key(name),
            options: DeleteOptions::default(),
        };
        self.api.delete(delete).await.expect("deleted");
    }

    async fn raw(&self, method: &str, path: &str, content_type: &str, body: Option<Value>) {
        let request = RawRequest {
            method: method.into(),
            content_type: Some(content_type.to_owned()),
            body: body.map(|body| body.to_string()),
            ..RawRequest::default()
        };
        self.send(path, request).await;
    }

    /// Sends a request to a path that may have a query.
    async fn send(&self, path: &str, request: RawRequest) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let request = RawRequest {
            path: path.replace("NS", &self.namespace),
            query: query.to_owned(),
            ..request
        };
        let target = request.target().expect("a target");
        let answer = self.api.raw(request, target).await.expect("answered");
        assert!(answer.status < 300, "{answer:?}");
    }
}

fn config_maps() -> GroupVersionKind {
    GroupVersionKind::new("v1", "ConfigMap")
}

fn deployments() -> GroupVersionKind {
    GroupVersionKind::new("apps/v1", "Deployment")
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    let container = json!({"name": "c", "image": "registry.example/c"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }})
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const MERGE: &str = "application/merge-patch+json";
const SCALE: &str = "/apis/apps/v1/namespaces/NS/deployments/d/scale";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subresources_and_raw_writes_are_seen() {
    let late = Late::new("lag-scale").await;
    let kind = deployments();
    late.create(&kind, deployment("d")).await;
    let has = |replicas: usize| {
        move |object: Option<&Value>| {
            object.is_some_and(|object| object["spec"]["replicas"] == replicas)
        }
    };
    let spec = |replicas: usize| json!({"spec": {"replicas": replicas}});

    for round in 0..ROUNDS {
        let base = 10 * round;
        late.patch(&kind, "d", Some("scale"), &spec(base + 1)).await;
        late.shows(&kind, "d", has(base + 1)).await;

        late.raw("PATCH", SCALE, MERGE, Some(spec(base + 2))).await;
        late.shows(&kind, "d", has(base + 2)).await;

        let path = "/apis/apps/v1/namespaces/NS/deployments/d";
        late.raw("PATCH", path, MERGE, Some(spec(base + 3))).await;
        late.shows(&kind, "d", has(base + 3)).await;

        let status = json!({"status": {"replicas": base}});
        late.patch(&kind, "d", Some("status"), &status).await;
        late.shows(&kind, "d", |object| {
            object.is_some_and(|object| {
                object["status"]["replicas"].as_u64().unwrap_or_default() == base as u64
            })
        })
        .await;
    }
}

/// A write that does not show the object: the next read asks the API server for that object alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_with_commas_in_its_name_is_asked_for() {
    let late = Late::new("lag-odd-names").await;
    let kind = GroupVersionKind::new("rbac.authorization.k8s.io/v1", "Role");
    let name = "a,b=c";
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/NS/roles";
    for round in 0..ROUNDS {
        let annotations = json!({"n": round.to_string()});
        let labels = json!({"round": round.to_string()});
        let metadata = json!({"name": name, "annotations": annotations, "labels": labels, "finalizers": ["example.com/kept"]});
        let made = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata});
        late.create(&kind, made).await;

        let selected = format!("{path}?labelSelector=round%3D{round}");
        late.raw("DELETE", &selected, "application/json", None)
            .await;
        late.shows(&kind, name, |object| {
            object.is_some_and(|object| object["metadata"]["deletionTimestamp"].is_string())
        })
        .await;

        let none = json!({"metadata": {"finalizers": null}});
        late.patch(&kind, name, None, &none).await;
        late.shows(&kind, name, |object| object.is_none()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deletion_of_a_collection_is_seen() {
    let late = Late::new("lag-collection").await;
    let kind = config_maps();
    // The last form doesn't even name the objects.
    let forms = [
        ("application/json", "/api/v1/namespaces/NS/configmaps"),
        (TABLE, "/api/v1/namespaces/NS/configmaps"),
        (TABLE, "/api/v1/namespaces/NS/configmaps?includeObject=None"),
    ];

    for (round, (accept, path)) in forms.into_iter().cycle().take(2 * ROUNDS).enumerate() {
        let names = [
            format!("a-{round}"),
            format!("b-{round}"),
            format!("c-{round}"),
        ];
        for name in &names {
            let kept = json!(if *name == names[2] {
                vec!["example.com/kept"]
            } else {
                vec![]
            });
            let metadata = json!({"name": name, "finalizers": kept});
            late.create(
                &kind,
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
            )
            .await;
        }

        let request = RawRequest {
            method: "DELETE".into(),
            accept: Some(accept.to_owned()),
            ..RawRequest::default()
        };
        late.send(path, request).await;
        late.shows(&kind, &names[0], |object| object.is_none())
            .await;
        late.shows(&kind, &names[1], |object| object.is_none())
            .await;
        late.shows(&kind, &names[2], |object| {
            object.is_some_and(|object| object["metadata"]["deletionTimestamp"].is_string())
        })
        .await;

        // The API server answers the write that removes the last finalizer with the object.
        let none = json!({"metadata": {"finalizers": null}});
        late.patch(&kind, &names[2], None, &none).await;
        late.shows(&kind, &names[2], |object| object.is_none())
            .await;
    }
}

/// Nobody has told the name that the API server generated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_with_a_generated_name_is_seen_though_its_create_had_no_answer() {
    let late = Late::new("lag-generated").await;
    let api = late.rig.unanswered_api();
    let list = |round: usize| List {
        kind: config_maps(),
        options: ListOptions {
            labels: Some(format!("round={round}")),
            ..ListOptions::all(Some(late.namespace.clone()), Read::Cached)
        },
    };
    api.list(list(0)).await.expect("synced");

    for round in 0..ROUNDS {
        let labels = json!({"round": round.to_string()});
        let metadata = json!({"generateName": "g-", "labels": labels});
        let made = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let write = Write {
            kind: config_maps(),
            action: WriteAction::Create {
                namespace: Some(late.namespace.clone()),
                object: made.to_string(),
            },
            options: WriteOptions::default(),
        };
        let error = api.write(write).await.expect_err("no answer");
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}");

        let page = api.list(list(round)).await.expect("a list");
        assert_eq!(page.items.len(), 1, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_is_seen() {
    let late = Late::new("lag-eviction").await;
    let kind = GroupVersionKind::new("v1", "Pod");
    for round in 0..ROUNDS {
        let name = format!("p-{round}");
        let spec = json!({
            "containers": [{"name": "c", "image": "registry.example/c"}],
            "automountServiceAccountToken": false,
            "nodeName": if round % 2 == 0 { "node" } else { "" },
        });
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        late.create(&kind, pod).await;

        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": late.namespace},
        });
        let path = format!("/api/v1/namespaces/NS/pods/{name}/eviction");
        late.raw("POST", &path, "application/json", Some(eviction))
            .await;
        late.shows(&kind, &name, |object| {
            object.is_none_or(|object| object["metadata"]["deletionTimestamp"].is_string())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_earlier_incarnation_comes_back() {
    let late = Late::new("lag-incarnations").await;
    let kind = config_maps();
    for round in 0..6 * ROUNDS {
        let n = json!(round.to_string());
        let made = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"n": n}});
        late.create(&kind, made).await;
        late.shows(&kind, "x", |object| {
            object.is_some_and(|object| object["data"]["n"] == n)
        })
        .await;

        if round % 2 == 0 {
            late.delete(&kind, "x").await;
        } else {
            let path = "/api/v1/namespaces/NS/configmaps/x";
            late.raw("DELETE", path, "application/json", None).await;
        }
        late.shows(&kind, "x", |object| object.is_none()).await;
        // Into the time in which the watch brings what came before.
        tokio::time::sleep(LAG * (round as u32 % 4) / 3).await;
        late.shows(&kind, "x", |object| object.is_none()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_seen_in_all_versions_of_its_api() {
    let late = Late::new("lag-versions").await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
    let group = format!("{}.example", late.namespace);
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
            "versions": [version("v1", true), version("v1alpha1", false)],
        },
    });
    late.rig
        .stage
        .namespace
        .control_plane()
        .apply(&crd.to_string());
    let v1 = GroupVersionKind::new(format!("{group}/v1"), "Thing");
    let v1alpha1 = GroupVersionKind::new(format!("{group}/v1alpha1"), "Thing");
    eventually("the kind is served", async || {
        for kind in [&v1, &v1alpha1] {
            let resolved = late.rig.stage.discovery.resolve(kind).await;
            resolved.map_err(|error| error.to_string())?;
        }
        Ok(())
    })
    .await;

    let thing = |n: usize| json!({"apiVersion": v1.api_version, "kind": "Thing", "metadata": {"name": "t"}, "n": n});
    late.create(&v1, thing(0)).await;
    late.shows(&v1alpha1, "t", |object| object.is_some()).await;
    for round in 1..=ROUNDS {
        late.patch(&v1, "t", None, &json!({"n": round})).await;
        let is_new = |object: Option<&Value>| object.is_some_and(|object| object["n"] == round);
        late.shows(&v1alpha1, "t", is_new).await;
        late.shows(&v1, "t", is_new).await;
    }

    late.delete(&v1alpha1, "t").await;
    late.shows(&v1, "t", |object| object.is_none()).await;
    late.shows(&v1alpha1, "t", |object| object.is_none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_the_writes_of_others() {
    let late = Late::new("lag-others").await;
    let kind = deployments();
    late.create(&kind, deployment("d")).await;
    let other = late.rig.api();
    let list = || List {
        kind: kind.clone(),
        options: ListOptions {
            selection: Selection::All,
            ..ListOptions::all(Some(late.namespace.clone()), Read::Cached)
        },
    };
    other.list(list()).await.expect("synced");

    let asked = || late.rig.proxy.asked().len();
    late.patch(&kind, "d", Some("scale"), &json!({"spec": {"replicas": 3}}))
        .await;
    let before = asked();
    other.list(list()).await.expect("a list");
    assert_eq!(
        asked(),
        before,
        "the API server was asked for another's write"
    );
    late.shows(&kind, "d", |object| {
        object.is_some_and(|object| object["spec"]["replicas"] == 3)
    })
    .await;
}
