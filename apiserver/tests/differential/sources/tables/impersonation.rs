//! Impersonated requests of ServiceAccounts, and tokens, from `tests/authz`.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::{
    exchange::Request,
    runner::Runner,
    sources::{create, table},
};

pub async fn run(runner: &mut Runner) {
    let mut lines = table("authz/impersonation.json");
    let world = lines.remove(0);
    let namespace = world["namespace"].as_str().expect("a namespace");

    for object in world["objects"].as_array().expect("objects") {
        create(runner, object).await;
    }
    runner.settle(2000).await;

    let mut tokens = HashMap::new();
    for (name, of) in world["tokens"].as_object().expect("tokens") {
        let spec = if of["ref"].is_null() {
            json!({})
        } else {
            json!({"boundObjectRef": of["ref"]})
        };

        let account = of["account"].as_str().expect("an account");
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let answer = runner
            .send(Request::post(path, &json!({"spec": spec})))
            .await;

        tokens.insert(
            name.clone(),
            answer.body["status"]["token"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        );
    }

    for line in &lines {
        let token = &tokens[line["as"].as_str().expect("an account")];
        let mut request = Request::new(
            line["method"].as_str().expect("a method"),
            line["path"].as_str().expect("a path"),
        );

        if request.is_watch() {
            continue;
        }

        request = request.header("Authorization", &format!("Bearer {token}"));
        for header in line["headers"].as_array().into_iter().flatten() {
            request = request.header(
                header[0].as_str().expect("a name"),
                header[1].as_str().expect("a value"),
            );
        }

        if request.path.ends_with("/selfsubjectreviews") {
            request = request.body(
                &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
            );
        }

        runner.send(request).await;
    }

    for line in &table("authz/tokens.json")[1..] {
        let (namespace, name) = (
            line["namespace"].as_str().unwrap_or(namespace),
            line["name"].as_str().unwrap_or_default(),
        );

        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        runner.send(Request::post(path, &line["body"])).await;
    }

    for token in tokens.values() {
        let review = json!({"spec": {"token": token}});
        runner
            .send(Request::post(
                "/apis/authentication.k8s.io/v1/tokenreviews",
                &review,
            ))
            .await;

        let request = Request::post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            &Value::Object(serde_json::Map::default()),
        );
        runner
            .send(request.header("Authorization", &format!("Bearer {token}")))
            .await;
    }
}
