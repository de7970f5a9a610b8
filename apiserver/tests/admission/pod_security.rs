//! The security levels of Namespaces refuse Pods, or warn about them.

use operetta_apiserver::{
    admission::{
        pod_security,
        request::{AdmissionRequest, Endpoint, Operation},
    },
    apimachinery::status::Status,
    authn::user::User,
};
use serde_json::{Value, json};

use crate::{status, store::Store, table};

#[test]
fn pods_are_admitted_by_level_as_by_kubernetes() {
    let mut lines = table(include_str!("pod_security.json"));
    let world = lines.remove(0);
    let mut store = Store::default();
    for object in world["objects"].as_array().expect("objects") {
        store.put(object.clone());
    }

    assert!(lines.len() >= 100);
    let mut failed = Vec::new();
    for line in lines {
        let by_level = |denied: &Value| {
            let message = denied["message"].as_str().unwrap_or_default();
            message.contains("PodSecurity") || message.contains("pod-security")
        };

        let expected = Some(&line["denied"])
            .filter(|denied| by_level(denied))
            .map(status);

        let answer = admit(&store, &line["object"]);
        let denied = answer.as_ref().err().map(Status::to_value);
        let warnings: Vec<String> = answer.ok().flatten().into_iter().collect();

        let wanted: Vec<&str> = line["warnings"]
            .as_array()
            .expect("warnings")
            .iter()
            .filter_map(Value::as_str)
            .collect();

        if denied != expected || warnings != wanted {
            failed.push(format!(
                "{line}\n  denied   {denied:?}\n  warnings {warnings:#?}\n"
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{} differ:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

fn admit(store: &Store, object: &Value) -> Result<Option<String>, Status> {
    if object["kind"] == "Namespace" {
        pod_security::check_namespace(object)?;
    }

    let user = User::new("admin", &["system:masters"]);
    let api_version = object["apiVersion"].as_str().expect("an apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().expect("a kind");

    let endpoint = Endpoint {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: format!("{}s", kind.to_lowercase()),
        kind: kind.to_owned(),
    };
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();

    let request = AdmissionRequest {
        operation: Operation::Create,
        endpoint: &endpoint,
        equivalents: &[],
        subresource: "",
        namespace: text("namespace"),
        name: text("name"),
        user: &user,
        object: Some(object),
        old: None,
        options: &Value::Null,
    };

    pod_security::admit(&request, store)
}

#[test]
fn other_version_of_the_levels_is_refused() {
    let labels = json!({"pod-security.kubernetes.io/enforce-version": "v1.30"});
    let error = pod_security::check_namespace(&json!({"metadata": {"labels": labels}}))
        .expect_err("not supported");
    assert_eq!(error.code, 501);
}
