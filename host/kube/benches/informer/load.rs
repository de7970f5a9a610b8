//! Objects on the API server, written fast: many requests at once.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use operetta_core::object::kind::GroupVersionKind;
use operetta_testkit::{ControlPlane, eventually, pods, within};
use serde_json::{Value, json};

/// The label of an object whose arrival is reported.
pub const MARKER: &str = "bench.operetta.dev/marker";
/// Where the marked objects are.
const MARKED: &str = "team-00";
/// Requests at once.
const AT_ONCE: usize = 64;

/// Creates Pods as a large cluster has them, with their status. Returns the bytes of one as the API
/// server sends it.
pub async fn create_pods(client: &Client, count: usize) -> anyhow::Result<usize> {
    let pods = (0..count)
        .map(|at| serde_json::from_str(&pods::pod(at)))
        .collect::<Result<Vec<Value>, _>>()?;
    let text = |pod: &Value, field: &str| {
        pod["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    // Admission asks for the ServiceAccount that a Pod names.
    let account = |pod: &Value| {
        pod["spec"]["serviceAccountName"]
            .as_str()
            .unwrap_or("default")
            .to_owned()
    };
    let mut accounts: BTreeSet<(String, String)> = pods
        .iter()
        .map(|pod| (text(pod, "namespace"), account(pod)))
        .collect();
    accounts.insert((MARKED.into(), "default".into()));
    for (namespace, name) in &accounts {
        // There already, where another of its accounts came before.
        post(
            client,
            "/api/v1/namespaces",
            &json!({"metadata": {"name": namespace}}),
        )
        .await?;
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        post(client, &path, &json!({"metadata": {"name": name}})).await?;
    }
    let created = stream::iter(pods.into_iter().map(|mut pod| {
        let path = format!("/api/v1/namespaces/{}/pods", text(&pod, "namespace"));
        // Not all of it: the API server itself notes at length who set what, and a Pod would be
        // larger than most are.
        let mut status = pod["status"].take();
        for field in ["conditions", "containerStatuses"] {
            status.as_object_mut().map(|fields| fields.remove(field));
        }
        let status = json!({"status": status});
        // The API server sets these.
        for field in ["managedFields", "resourceVersion", "uid"] {
            pod["metadata"]
                .as_object_mut()
                .map(|fields| fields.remove(field));
        }
        async move {
            post(client, &path, &pod).await?;
            let path = format!("{path}/{}/status", text(&pod, "name"));
            send(
                client,
                "PATCH",
                &path,
                "application/merge-patch+json",
                &status,
            )
            .await
        }
    }));
    created
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let list = send(
        client,
        "GET",
        "/api/v1/pods?limit=20",
        "application/json",
        &Value::Null,
    )
    .await?;
    let list: Value = serde_json::from_str(&list)?;
    let some = list["items"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    Ok(some.iter().map(|pod| pod.to_string().len()).sum::<usize>() / some.len().max(1))
}

/// The kind of this number.
pub fn kind(at: usize) -> GroupVersionKind {
    GroupVersionKind::new(
        format!("g{:02}.bench.operetta.dev/v1", at % 100),
        format!("Kind{at:04}"),
    )
}

/// Installs that many kinds, and waits until they are served.
pub async fn create_kinds(client: &Client, count: usize) -> anyhow::Result<()> {
    const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let created = stream::iter((0..count).map(|at| {
        let kind = kind(at);
        let group = kind.group().to_owned();
        let plural = format!("kind{at:04}s");
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind.kind, "plural": plural, "singular": format!("kind{at:04}")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        async move { post(client, PATH, &definition).await }
    }));
    created
        .buffer_unordered(16)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    within(
        Duration::from_secs(600),
        "the kinds are served",
        async || {
            let mut served = 0;
            for group in 0..count.min(100) {
                let path = format!("/apis/{}", kind(group).api_version);
                let list = send(client, "GET", &path, "application/json", &Value::Null).await;
                let list: Value = list
                    .and_then(|text| Ok(serde_json::from_str(&text)?))
                    .map_err(|error| error.to_string())?;
                served += list["resources"].as_array().map_or(0, Vec::len);
            }
            if served >= count {
                Ok(())
            } else {
                Err(format!("{served} of {count}"))
            }
        },
    )
    .await;
    Ok(())
}

/// The name of a round's marked Pod.
pub fn marker(round: usize) -> String {
    format!("marker-{round}")
}

/// Creates a round's marked Pod.
pub async fn create_marker(client: &Client, round: usize) -> anyhow::Result<()> {
    let pod = json!({
        "metadata": {"name": marker(round), "labels": {MARKER: "true"}},
        "spec": {"containers": [{"name": "app", "image": "registry.example.com/app:v1"}]},
    });
    post(client, &format!("/api/v1/namespaces/{MARKED}/pods"), &pod)
        .await
        .map(drop)
}

/// Kills the API server when it has taken writes that no watch of Pods has seen, and waits until it
/// is back: it then answers their resourceVersion with 410 Gone.
pub async fn forget_watches(control_plane: &ControlPlane) -> anyhow::Result<()> {
    let client = control_plane.client().await;
    for _ in 0..20 {
        let path = format!("/api/v1/namespaces/{MARKED}/configmaps");
        post(
            &client,
            &path,
            &json!({"metadata": {"generateName": "write-"}}),
        )
        .await?;
    }
    control_plane.kill_apiserver();
    control_plane.wait_ready().await;
    // Ready comes before each kind can be written.
    eventually("Pods can be listed", async || {
        let client = control_plane.client().await;
        let listed = send(
            &client,
            "GET",
            "/api/v1/pods?limit=1",
            "application/json",
            &Value::Null,
        )
        .await;
        listed.map(drop).map_err(|error| error.to_string())
    })
    .await;
    Ok(())
}

/// How often all Pods were listed so far, by pages or as a stream.
pub fn lists(control_plane: &ControlPlane) -> usize {
    let audit = control_plane.audit();
    let first_pages = audit.done("list", "pods").filter(|event| {
        !event.request_uri.contains("continue=")
            && !event.request_uri.ends_with("?limit=1")
            && event.response_status.code == 200
    });
    let streams = audit.open_watches("pods");
    first_pages.count()
        + streams
            .iter()
            .filter(|event| event.request_uri.contains("sendInitialEvents=true"))
            .count()
}

async fn post(client: &Client, path: &str, object: &Value) -> anyhow::Result<String> {
    send(client, "POST", path, "application/json", object).await
}

async fn send(
    client: &Client,
    method: &str,
    path: &str,
    media_type: &str,
    object: &Value,
) -> anyhow::Result<String> {
    let body = if object.is_null() {
        Vec::new()
    } else {
        object.to_string().into_bytes()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media_type);
    let response = client.send(request.body(Body::from(body))?).await?;
    let status = response.status();
    let text = String::from_utf8(response.into_body().collect().await?.to_bytes().to_vec())?;
    let fine = status.is_success() || status == StatusCode::CONFLICT;
    anyhow::ensure!(fine, "{method} {path}: {status}: {text}");
    Ok(text)
}
