//! The definitions and objects of `tests/crd`.

use serde_json::{Value, json};

use crate::{
    exchange::{Answer, Request},
    runner::Runner,
    sources::{collection, table},
};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Creates and updates definitions.
pub async fn definitions(runner: &mut Runner) {
    let mut cases = table("crd/definitions.json");
    let fields = cases.remove(0)["fields"].clone();

    for mut case in cases {
        fill(&mut case, &fields);
        let query = "?dryRun=All&fieldValidation=Strict";
        let Some(old) = case.get("old") else {
            runner
                .send(Request::post(format!("{CRDS}{query}"), &case["new"]))
                .await;
            continue;
        };

        let name = name(old);
        install(runner, old).await;
        let current = runner.send(Request::get(format!("{CRDS}/{name}"))).await;

        let mut new = case["new"].clone();
        new["metadata"]["resourceVersion"] = current.body["metadata"]["resourceVersion"].clone();

        runner
            .send(Request::put(format!("{CRDS}/{name}{query}"), &new))
            .await;

        remove(runner, &name).await;
    }
}

/// Moves fields that many cases share into their place.
fn fill(value: &mut Value, fields: &Value) {
    match value {
        Value::String(text) if text == "$rules" => *value = fields.clone(),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, fields)),
        Value::Object(entries) => entries.values_mut().for_each(|item| fill(item, fields)),
        _ => {}
    }
}

fn name(definition: &Value) -> String {
    definition["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned()
}

/// Creates a definition, and waits until it is served.
async fn install(runner: &mut Runner, definition: &Value) {
    runner.send(Request::post(CRDS, definition)).await;
    wait_served(runner, definition).await;
}

async fn wait_served(runner: &mut Runner, definition: &Value) {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();

    let path = format!(
        "/apis/{}/{}/{}",
        text(&spec["group"]),
        text(&spec["versions"][0]["name"]),
        text(&spec["names"]["plural"])
    );

    let code = if spec["versions"][0]["served"] == true {
        200
    } else {
        404
    };

    runner
        .wait(
            &format!("{CRDS}/{}", name(definition)),
            200,
            "/status/conditions/1/status",
            &json!("True"),
        )
        .await;

    runner.wait(&path, code, "", &Value::Null).await;
}

async fn remove(runner: &mut Runner, name: &str) {
    runner.send(Request::delete(format!("{CRDS}/{name}"))).await;
    runner
        .wait(&format!("{CRDS}/{name}"), 404, "", &Value::Null)
        .await;
}

/// Creates and updates custom objects.
pub async fn objects(runner: &mut Runner) {
    for group in table("crd/objects.json") {
        let definition = &group["crd"];
        let cases = group["cases"].as_array().expect("cases");
        let lax = group.get("lax").unwrap_or(definition);
        install(runner, lax).await;
        runner.settle(1000).await;

        let mut olds = Vec::new();
        for case in cases {
            olds.push(old(runner, definition, case).await);
        }

        if group.get("lax").is_some() {
            let current = runner
                .send(Request::get(format!("{CRDS}/{}", name(definition))))
                .await;

            let mut new = definition.clone();
            new["metadata"]["resourceVersion"] =
                current.body["metadata"]["resourceVersion"].clone();
            runner
                .send(Request::put(format!("{CRDS}/{}", name(definition)), &new))
                .await;
            runner.settle(2000).await;
        }

        for (case, old) in cases.iter().zip(olds) {
            write(runner, definition, case, old).await;
        }

        remove(runner, &name(definition)).await;
    }
}

/// The path of a definition's objects.
fn path(definition: &Value, object: &Value) -> String {
    let mut object = object.clone();
    let spec = &definition["spec"];
    if spec["scope"] == "Namespaced" && object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = json!("default");
    }

    let version = format!(
        "{}/{}",
        spec["group"].as_str().unwrap_or_default(),
        spec["versions"][0]["name"].as_str().unwrap_or_default()
    );

    object["apiVersion"] = version.into();
    object["kind"] = spec["names"]["kind"].clone();

    let path = collection(&object);
    let end = path.rfind('/').unwrap_or_default();

    format!(
        "{}/{}",
        &path[..end],
        spec["names"]["plural"].as_str().unwrap_or_default()
    )
}

async fn old(runner: &mut Runner, definition: &Value, case: &Value) -> Option<Answer> {
    let mut body = case.get("old")?.clone();
    body["metadata"]["name"] = case["id"].clone();

    let path = path(definition, &body);
    let mut made = runner.send(Request::post(&path, &body)).await;

    if let Some(status) = case.get("oldStatus") {
        let mut object = made.body.clone();
        object["status"] = status.clone();
        let name = case["id"].as_str().expect("an id");
        made = runner
            .send(Request::put(format!("{path}/{name}/status"), &object))
            .await;
    }

    Some(made)
}

async fn write(runner: &mut Runner, definition: &Value, case: &Value, old: Option<Answer>) {
    let mode = case["validation"].as_str().unwrap_or("Strict");
    let query = format!("?dryRun=All&fieldValidation={mode}");

    let mut body = case["new"].clone();
    let path = path(definition, &body);

    let Some(old) = old else {
        runner
            .send(Request::post(format!("{path}{query}"), &body))
            .await;
        return;
    };

    let id = case["id"].as_str().expect("an id");
    body["metadata"]["name"] = id.into();
    body["metadata"]["resourceVersion"] = case
        .get("resourceVersion")
        .unwrap_or(&old.body["metadata"]["resourceVersion"])
        .clone();

    let sub = if case["status"] == true {
        "/status"
    } else {
        ""
    };

    runner
        .send(Request::put(format!("{path}/{id}{sub}{query}"), &body))
        .await;
}
