//! The built-in admission plugins.

use operetta_apiserver::{
    admission::{
        request::{AdmissionRequest, Endpoint, Operation},
        resource_quota, service_account,
    },
    apimachinery::status::Status,
    authn::user::User,
};
use serde_json::{Value, json};

use crate::{status, store::Store, table};

fn world() -> (Store, Vec<Value>, Value) {
    let mut lines = table(include_str!("plugins.json"));
    let world = lines.remove(0);
    let mut store = Store::default();

    for object in world["objects"].as_array().expect("objects") {
        let mut object = object.clone();
        if object["metadata"]["name"] == "ending" {
            object["status"]["phase"] = "Terminating".into();
        }
        store.put(object);
    }

    store.put(json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "plugins"}}));

    (store, lines, world["statuses"].clone())
}

#[test]
fn requests_are_admitted_and_completed_as_by_kubernetes() {
    let (store, lines, _) = world();
    assert!(lines.len() >= 27);

    // The server refuses what namespaces do not accept before these plugins see it.
    let is_of_namespaces = |line: &Value| {
        let message = line["denied"]["message"].as_str().unwrap_or_default();
        message.contains("is being terminated") || message.starts_with("namespaces ")
    };

    for line in lines.into_iter().filter(|line| !is_of_namespaces(line)) {
        let mut object = line["object"].clone();
        let answer = admit(&store, &line, &mut object);

        let expected = Some(&line["denied"])
            .filter(|denied| !denied.is_null())
            .map(status);
        assert_eq!(
            answer.err().map(|error| error.to_value()),
            expected,
            "{line}"
        );
        if let Some(pod) = line.get("pod") {
            assert_eq!(&completed(&object), pod, "{line}");
        }
    }
}

fn admit(store: &Store, line: &Value, object: &mut Value) -> Result<(), Status> {
    let user = User::new("admin", &["system:masters"]);

    let sent = line["object"].clone();
    let api_version = sent["apiVersion"].as_str().expect("an apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = sent["kind"].as_str().expect("a kind");
    let text = |field: &str| sent["metadata"][field].as_str().unwrap_or_default();

    let endpoint = Endpoint {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: format!("{}s", kind.to_lowercase()),
        kind: kind.to_owned(),
    };

    let operation = match line["method"].as_str() {
        Some("POST") => Operation::Create,
        Some("PUT") => Operation::Update,
        _ => Operation::Delete,
    };

    let request = AdmissionRequest {
        operation,
        endpoint: &endpoint,
        equivalents: &[],
        subresource: "",
        namespace: if kind == "Namespace" {
            text("name")
        } else {
            text("namespace")
        },
        name: text("name"),
        user: &user,
        object: Some(&sent),
        old: None,
        options: &Value::Null,
    };

    service_account::complete(&request, object, "00000", store)?;
    resource_quota::admit(&request, store)
}

/// What the plugin ServiceAccount completes, in the form of the table.
fn completed(pod: &Value) -> Value {
    let spec = &pod["spec"];
    let list = |value: &Value| {
        if value.is_null() {
            json!([])
        } else {
            value.clone()
        }
    };

    let mounts = |field: &str| -> Value {
        let containers = spec[field].as_array().into_iter().flatten();
        containers
            .map(|container| list(&container["volumeMounts"]))
            .collect()
    };

    json!({
        "serviceAccountName": spec["serviceAccountName"], "serviceAccount": spec["serviceAccount"],
        "volumes": list(&spec["volumes"]), "imagePullSecrets": list(&spec["imagePullSecrets"]),
        "mounts": mounts("containers"), "initMounts": mounts("initContainers"),
    })
}

#[test]
fn quota_status_counts_objects() {
    use operetta_apiserver::authz::objects::Objects;

    let (store, _, statuses) = world();
    for (name, expected) in statuses.as_object().expect("statuses") {
        let quota = store
            .get("", "resourcequotas", "full", name)
            .expect("a quota");
        assert_eq!(&resource_quota::status(&quota, &store), expected, "{name}");
        assert_eq!(resource_quota::check_supported(&quota), Ok(()));
    }
}

#[test]
fn quota_of_what_is_not_counted_is_refused() {
    for spec in [
        json!({"hard": {"cpu": "1"}}),
        json!({"hard": {"requests.storage": "1Gi"}}),
        json!({"hard": {"services.nodeports": "1"}}),
        json!({"hard": {"pods": "1k"}}),
        json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}),
    ] {
        let error =
            resource_quota::check_supported(&json!({"spec": spec})).expect_err("not supported");
        assert_eq!(error.code, 501, "{spec}");
    }
}
