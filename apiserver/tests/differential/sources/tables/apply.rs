//! The scenarios of `tests/apply`: requests of several managers about an object.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    exchange::Request,
    runner::Runner,
    sources::{create, tests},
};

/// Metadata that a client does not send.
const OWNED: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "managedFields",
    "generation",
    "resourceVersion",
];

pub async fn run(runner: &mut Runner) {
    let text = std::fs::read_to_string(tests("apply/data/recorded.json")).expect("recorded.json");
    let text = with_free_addresses(text);
    let recorded: Value = serde_json::from_str(&text).expect("recorded.json");

    create(runner, &widgets(&recorded["schema"])).await;
    runner
        .wait("/apis/test.example.com/v1/widgets", 200, "", &Value::Null)
        .await;
    runner.settle(1000).await;

    for scenario in recorded["scenarios"].as_array().expect("scenarios") {
        let kind = scenario["kind"].as_str().expect("a kind");
        let mut live = Value::Null;
        for step in scenario["steps"].as_array().expect("steps") {
            let real = runner.send(request(kind, scenario, step, &live)).await;
            if real.code < 300 && real.body["kind"] == kind {
                live = real.body;
            }
        }
    }
}

/// Replaces the recorded cluster IPs by some of the first sixteen, which the real server does not
/// allocate on its own.
fn with_free_addresses(mut text: String) -> String {
    let address = regex::Regex::new(r"10\.0\.0\.\d+").expect("a pattern");
    let recorded: BTreeSet<String> = address
        .find_iter(&text)
        .map(|found| found.as_str().to_owned())
        .collect();
    assert!(recorded.len() <= 5, "{recorded:?}");

    for (address, last) in recorded.iter().zip(12..) {
        text = text.replace(&format!("{address}\""), &format!("10.0.0.{last}\""));
    }

    text
}

fn widgets(schema: &Value) -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        })
    };

    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.test.example.com"},
        "spec": {
            "group": "test.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

fn request(kind: &str, scenario: &Value, step: &Value, live: &Value) -> Request {
    let text = |key: &str| step[key].as_str().unwrap_or_default();

    let (version, plural) = match kind {
        "ConfigMap" => ("api/v1", "configmaps"),
        "Service" => ("api/v1", "services"),
        "Deployment" => ("apis/apps/v1", "deployments"),
        _ if text("version").ends_with("v2") => ("apis/test.example.com/v2", "widgets"),
        _ => ("apis/test.example.com/v1", "widgets"),
    };

    let name = scenario["name"].as_str().expect("a name").replace('_', "-");
    let collection = format!("/{version}/namespaces/default/{plural}");
    let sub = if text("subresource").is_empty() {
        String::new()
    } else {
        format!("/{}", text("subresource"))
    };

    let force = if step["force"] == true {
        "&force=true"
    } else {
        ""
    };

    let query = format!("?fieldManager={}{force}", text("manager"));
    let path = format!("{collection}/{name}{sub}{query}");

    let wanted = wanted(step);
    match text("op") {
        "create" => Request::post(format!("{collection}{query}"), &wanted),
        "update" => {
            let mut body = wanted;
            body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            Request::put(path, &body)
        }
        "apply" => Request::patch(path, "apply", &step["body"]),
        "json" => {
            let keys = ["metadata", "spec", "data", "status"];

            let tests = keys
                .iter()
                .filter(|key| wanted.get(**key).is_some() && **key != "metadata");

            let ops: Vec<Value> = tests
                .map(|key| json!({"op": "add", "path": format!("/{key}"), "value": wanted[*key]}))
                .collect();
            Request::patch(path, "json", &json!(ops))
        }
        kind => Request::patch(path, kind, &changed(live, &wanted)),
    }
}

/// The object after a step, as a client would send it. The recording lacks the bodies of some
/// requests.
fn wanted(step: &Value) -> Value {
    let mut object = step["out"].clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|key, _| !OWNED.contains(&key.as_str()));
        if let Some(fields) = step.get("managedFields") {
            metadata.insert("managedFields".into(), fields.clone());
        }
    }
    object
}

/// A merge patch from one object to another.
fn changed(from: &Value, to: &Value) -> Value {
    let (Value::Object(one), Value::Object(two)) = (from, to) else {
        return to.clone();
    };

    let mut patch = serde_json::Map::new();
    for (key, value) in two {
        match one.get(key) {
            Some(old) if old == value => {}
            Some(old) => {
                patch.insert(key.clone(), changed(old, value));
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }

    for key in one
        .keys()
        .filter(|key| !two.contains_key(*key) && !OWNED.contains(&key.as_str()))
    {
        patch.insert(key.clone(), Value::Null);
    }

    Value::Object(patch)
}
