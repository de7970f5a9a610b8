//! Raw requests: the same identity, cache and own writes as the typed calls.

use operetta_core::{
    gate::{
        operation::{Get, Read},
        raw_request::{RawRequest, RawResponse},
    },
    object::{ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    status::ErrorKind,
};
use operetta_kube::{
    authz::access_review::SubjectAccessReviews,
    client::{
        api_client::{ApiClient, Identity},
        object_api::PluginApi,
    },
};
use operetta_testkit::{eventually, kinds};
use serde_json::{Value, json};

use crate::{Stage, config_map};

async fn send(api: &PluginApi, request: RawRequest) -> (u16, Value) {
    let target = request.target().expect("a target");
    let answer = match api.raw(request, target).await {
        Ok(answer) => answer,
        Err(error) => RawResponse::of_error(&error),
    };
    (
        answer.status,
        serde_json::from_str(&answer.body).unwrap_or(Value::String(answer.body)),
    )
}

fn request(method: &str, path: String, body: Option<Value>) -> RawRequest {
    let body = body.map(|body| body.to_string());
    RawRequest {
        method: method.into(),
        path,
        body,
        cached: true,
        ..RawRequest::default()
    }
}

#[tokio::test]
async fn a_cached_get_sees_what_a_raw_write_wrote() {
    let stage = Stage::new("raw-cached").await;
    let collection = format!("/api/v1/namespaces/{}/configmaps", stage.namespace.name());
    let one = format!("{collection}/a");
    assert_eq!(
        send(&stage.api, request("GET", one.clone(), None)).await.0,
        404
    );

    let mut made = config_map("a");
    made["data"] = json!({"n": "1"});
    let (code, created) = send(&stage.api, request("POST", collection.clone(), Some(made))).await;
    assert_eq!(
        (code, &created["metadata"]["managedFields"][0]["manager"]),
        (201, &json!("test"))
    );
    let (code, read) = send(&stage.api, request("GET", one.clone(), None)).await;
    assert_eq!((code, &read["data"]["n"]), (200, &json!("1")));
    assert_eq!(
        read["metadata"]["managedFields"],
        Value::Null,
        "from the cache"
    );

    let patch = RawRequest {
        content_type: Some("application/merge-patch+json".into()),
        ..request("PATCH", one.clone(), Some(json!({"data": {"n": "2"}})))
    };
    assert_eq!(send(&stage.api, patch).await.0, 200);
    let (code, list) = send(&stage.api, request("GET", collection.clone(), None)).await;
    let named = list["items"]
        .as_array()
        .expect("items")
        .iter()
        .find(|item| item["metadata"]["name"] == "a");
    assert_eq!(
        (code, &list["kind"], &named.expect("listed")["data"]["n"]),
        (200, &json!("ConfigMapList"), &json!("2"))
    );

    // A dry run, asked for where clients ask for it, leaves it in everyone's cache.
    let dry_run = json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]});
    assert_eq!(
        send(&stage.api, request("DELETE", one.clone(), Some(dry_run)))
            .await
            .0,
        200
    );
    assert_eq!(
        send(&stage.api, request("GET", one.clone(), None)).await.0,
        200
    );

    assert_eq!(
        send(&stage.api, request("DELETE", one.clone(), None))
            .await
            .0,
        200
    );
    assert_eq!(send(&stage.api, request("GET", one, None)).await.0, 404);
}

#[tokio::test]
async fn answer_of_scale_replaces_no_deployment_in_the_cache() {
    let stage = Stage::new("raw-scale").await;
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    stage
        .namespace
        .create_object(
            kinds::DEPLOYMENT,
            json!({"metadata": {"name": "web"}, "spec": spec}),
        )
        .await;
    let path = format!(
        "/apis/apps/v1/namespaces/{}/deployments/web",
        stage.namespace.name()
    );
    let get = request("GET", path.clone(), None);
    assert_eq!(send(&stage.api, get.clone()).await.0, 200);
    let scale = RawRequest {
        content_type: Some("application/merge-patch+json".into()),
        ..request(
            "PATCH",
            format!("{path}/scale"),
            Some(json!({"spec": {"replicas": 3}})),
        )
    };
    let (code, answer) = send(&stage.api, scale).await;
    assert_eq!((code, &answer["kind"]), (200, &json!("Scale")));
    eventually("the watch brings the scaled Deployment", async || {
        let (code, found) = send(&stage.api, get.clone()).await;
        assert_eq!(
            (code, &found["kind"]),
            (200, &json!("Deployment")),
            "{found}"
        );
        if found["spec"]["replicas"] == 3 {
            Ok(())
        } else {
            Err(found.to_string())
        }
    })
    .await;
}

#[tokio::test]
async fn what_the_cache_cannot_answer_the_api_server_does() {
    let stage = Stage::new("raw-live").await;
    let mut made = config_map("a");
    made["data"] = json!({"n": "1"});
    stage.create(made).await.expect("created");
    let collection = format!("/api/v1/namespaces/{}/configmaps", stage.namespace.name());
    let table = RawRequest {
        accept: Some("application/json;as=Table;v=v1;g=meta.k8s.io".into()),
        ..request("GET", collection.clone(), None)
    };
    assert_eq!(send(&stage.api, table).await.1["kind"], "Table");
    let versioned = RawRequest {
        query: "resourceVersion=0".into(),
        ..request("GET", collection.clone(), None)
    };
    assert_eq!(send(&stage.api, versioned).await.0, 200);
    let live = RawRequest {
        cached: false,
        ..request("GET", format!("{collection}/a"), None)
    };
    assert_ne!(
        send(&stage.api, live).await.1["metadata"]["managedFields"],
        Value::Null
    );
    let fields = RawRequest {
        query: "fieldSelector=type%3Dx".into(),
        ..request("GET", "/api/v1/events".into(), None)
    };
    assert_eq!(send(&stage.api, fields).await.0, 200);
    assert_eq!(
        send(&stage.api, request("GET", "/apis/apps/v1".into(), None))
            .await
            .1["kind"],
        "APIResourceList"
    );
    let (code, status) = send(
        &stage.api,
        request("GET", "/apis/nobody.example.com/v1/things".into(), None),
    )
    .await;
    assert_eq!(
        (code, status.is_string() || status["kind"] == "Status"),
        (404, true),
        "{status}"
    );
}

#[tokio::test]
async fn raw_requests_go_out_as_the_plugin_s_service_account() {
    let stage = Stage::new("raw-as").await;
    let api = stage.api_as("nobody");
    let collection = format!("/api/v1/namespaces/{}/configmaps", stage.namespace.name());
    let (code, status) = send(
        &api,
        request("POST", collection.clone(), Some(config_map("a"))),
    )
    .await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|text| text.contains(":nobody\"")),
        "{status}"
    );
    let live = RawRequest {
        cached: false,
        ..request("GET", format!("{collection}/a"), None)
    };
    assert_eq!(send(&api, live).await.0, 403);
    // Nothing was written.
    let key = ObjectKey::namespaced(stage.namespace.name(), "a");
    let get = Get {
        kind: GroupVersionKind::new("v1", "ConfigMap"),
        key,
        read: Read::Live,
    };
    assert_eq!(
        stage.api.get(get).await.expect_err("none").kind,
        ErrorKind::NotFound
    );
}

/// Runs the commands of a remedy, as an administrator would.
fn run(stage: &Stage, remedy: &str) {
    for command in remedy.split(" && ") {
        let args: Vec<&str> = command.split(' ').skip(1).collect();
        stage.namespace.control_plane().kubectl(&args);
    }
}

/// Sends until the authorizer has heard of a change; what the API server says then.
async fn until_code(api: &PluginApi, request: &RawRequest, wanted: u16) -> Value {
    eventually(
        &format!("{request} is answered with {wanted}"),
        async || match send(api, request.clone()).await {
            (code, answer) if code == wanted => Ok(answer),
            other => Err(format!("{other:?}")),
        },
    )
    .await
}

#[tokio::test]
async fn forbidden_raw_request_has_a_remedy() {
    let stage = Stage::new("raw-remedy").await;
    let api = stage.api_as("nobody");
    let name = stage.namespace.name();
    let core = format!("/api/v1/namespaces/{name}");
    let apps = format!("/apis/apps/v1/namespaces/{name}");
    let live = |request: RawRequest| RawRequest {
        cached: false,
        ..request
    };
    for (request, verb, resource) in [
        (
            request("POST", format!("{core}/configmaps"), Some(config_map("a"))),
            "create",
            "configmaps",
        ),
        (
            request("GET", format!("{core}/configmaps/a"), None),
            "get",
            "configmaps",
        ),
        (
            request("GET", format!("{core}/configmaps"), None),
            "list",
            "configmaps",
        ),
        (
            live(request("GET", format!("{core}/configmaps"), None)),
            "list",
            "configmaps",
        ),
        (
            live(request("GET", format!("{core}/pods/p/log"), None)),
            "get",
            "pods/log",
        ),
        (
            request("DELETE", format!("{apps}/deployments/d"), None),
            "delete",
            "deployments.apps",
        ),
        (
            request("DELETE", format!("{apps}/deployments"), None),
            "deletecollection",
            "deployments.apps",
        ),
    ] {
        let (code, status) = send(&api, request).await;
        let refusal = api.refusal().expect("kept");
        assert_eq!((code, &status["message"]), (403, &json!(refusal.message)));
        let command = format!(" -n {name} --verb={verb} --resource={resource} && ");
        let remedy = remedy(&api);
        assert!(remedy.contains(&command), "{command} is not in {remedy}");
    }
    let post = request("POST", format!("{core}/configmaps"), Some(config_map("a")));
    assert_eq!(send(&api, post.clone()).await.0, 403);
    run(&stage, &remedy(&api));
    until_code(&api, &post, 201).await;
}

/// The commands that cure the last refusal, as a shell reads them.
fn remedy(api: &PluginApi) -> String {
    let refusal = api.refusal().expect("kept");
    refusal.remedy.expect("it has names only").to_string()
}

#[tokio::test]
async fn an_apply_that_makes_the_object_needs_create_besides_patch() {
    let stage = Stage::new("raw-apply").await;
    let api = stage.api_as("patcher");
    let name = stage.namespace.name();
    let apply = RawRequest {
        content_type: Some("application/apply-patch+yaml".into()),
        ..request(
            "PATCH",
            format!("/api/v1/namespaces/{name}/configmaps/a"),
            Some(config_map("a")),
        )
    };
    assert_eq!(send(&api, apply.clone()).await.0, 403);
    run(&stage, &remedy(&api));
    eventually(
        "the patch is allowed, and the object to be made is not",
        async || {
            let (code, status) = send(&api, apply.clone()).await;
            let message = status["message"].as_str().unwrap_or_default().to_owned();
            if code == 403 && message.contains("cannot create resource") {
                Ok(())
            } else {
                Err(message)
            }
        },
    )
    .await;
    let remedy = remedy(&api);
    assert!(
        remedy.contains("--verb=create --resource=configmaps "),
        "{remedy}"
    );
    run(&stage, &remedy);
    until_code(&api, &apply, 201).await;
    let api_client = ApiClient::new(stage.client.clone(), &Identity::Host).expect("a client");
    let needs = api
        .needs(&SubjectAccessReviews::new(api_client), vec![])
        .await
        .expect("asked")
        .expect("a plugin's");
    let needed: Vec<_> = needs
        .needed
        .iter()
        .map(|needed| (needed.need.verb.as_str(), needed.allowed))
        .collect();
    assert_eq!(needed, [("create", true), ("patch", true)]);
}

#[tokio::test]
async fn what_admission_refuses_no_right_would_give() {
    let stage = Stage::new("raw-admission").await;
    let api = stage.api_as("deleter");
    let name = stage.namespace.name();
    let delete = request("DELETE", "/api/v1/namespaces/kube-public".into(), None);
    assert_eq!(send(&api, delete.clone()).await.0, 403);
    let remedy = remedy(&api);
    assert!(
        remedy.contains("kubectl create clusterrole deleter-namespaces-delete --verb=delete"),
        "{remedy}"
    );
    run(&stage, &remedy);
    let other = stage.api_as("deleter");
    eventually("admission refuses", async || {
        let (code, status) = send(&other, delete.clone()).await;
        let message = status["message"].as_str().unwrap_or_default().to_owned();
        if code == 403 && !message.contains("cannot delete") {
            Ok(())
        } else {
            Err(format!("{code} {message}"))
        }
    })
    .await;
    let last = stage.api_as("deleter");
    assert_eq!(send(&last, delete).await.0, 403);
    assert_eq!(last.refusal(), None, "in {name}");
}

#[tokio::test]
async fn refuses_oversized_answer_with_the_limit() {
    let stage = Stage::new("raw-long").await;
    let api_client = |bytes| {
        let api_client = ApiClient::new(stage.client.clone(), &Identity::Host).expect("a client");
        api_client.reading_at_most(bytes)
    };
    let get = || {
        http::Request::get("/api/v1/namespaces")
            .body(Vec::new())
            .expect("a request")
    };
    let error = api_client(100).send(get()).await.expect_err("too long");
    assert_eq!(
        (error.kind, error.status.code),
        (ErrorKind::Other, 413),
        "{error}"
    );
    assert!(
        error
            .status
            .message
            .contains("more than 100 bytes: set a limit"),
        "{error}"
    );
    api_client(1 << 20).send(get()).await.expect("read");
}
