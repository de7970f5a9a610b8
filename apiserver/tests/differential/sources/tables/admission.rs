//! The objects in `tests/admission` that admission changes or refuses.

use serde_json::{Value, json};

use super::authz::as_user;
use crate::{
    exchange::Request,
    runner::Runner,
    sources::{collection, create, path, table},
};

/// The built-in plugins: limits, quotas, Pod security, deletion of namespaces.
pub async fn run(runner: &mut Runner) {
    for file in ["limits", "pod_security", "plugins"] {
        let mut lines = table(&format!("admission/{file}.json"));
        let world = lines.remove(0);

        for object in world["objects"].as_array().expect("objects") {
            create(runner, object).await;
        }

        if file == "plugins" {
            runner
                .send(Request::delete("/api/v1/namespaces/ending"))
                .await;
        }

        for (name, status) in world["statuses"].as_object().into_iter().flatten() {
            let path = format!("/api/v1/namespaces/full/resourcequotas/{name}/status");
            runner
                .send(Request::patch(path, "merge", &json!({"status": status})))
                .await;
        }

        runner.settle(3000).await;

        for line in &lines {
            let object = &line["object"];
            let request = match line["method"].as_str() {
                Some("DELETE") => Request::delete(format!("{}?dryRun=All", path(object))),
                Some("PUT") => Request::put(format!("{}?dryRun=All", path(object)), object),
                _ => Request::post(format!("{}?dryRun=All", collection(object)), object),
            };

            runner.send(request).await;
        }
    }
}

/// `ValidatingAdmissionPolicies`, and attempts to create invalid ones.
pub async fn policies(runner: &mut Runner) {
    for line in table("admission/wrong_policies.json") {
        let object = &line["object"];
        runner
            .send(Request::post(
                format!("{}?dryRun=All", collection(object)),
                object,
            ))
            .await;
    }

    let mut world = table("admission/policy_world.json");
    // The real server follows its policies with a delay, so they come after all other objects.
    world.sort_by_key(|object| {
        object["kind"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("Validating"))
    });

    for object in &world {
        create(runner, object).await;
    }
    runner.settle(5000).await;

    for line in table("admission/policies.json") {
        policy_case(runner, &line).await;
    }

    // The policies would refuse the objects of other sources.
    for object in world.iter().filter(|object| {
        object["kind"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("Validating"))
    }) {
        runner.send(Request::delete(path(object))).await;
    }

    runner.settle(3000).await;
}

async fn policy_case(runner: &mut Runner, line: &Value) {
    let object = if line["object"].is_null() {
        &line["old"]
    } else {
        &line["object"]
    };

    let sub = line["subresource"]
        .as_str()
        .filter(|name| !name.is_empty())
        .map(|name| format!("/{name}"));
    let sub = sub.unwrap_or_default();

    let request = match line["method"].as_str() {
        Some("DELETE") => Request::delete(format!("{}{sub}?dryRun=All", path(object))),
        Some("PUT") => Request::put(format!("{}{sub}?dryRun=All", path(object)), object),
        _ => Request::post(format!("{}{sub}?dryRun=All", collection(object)), object),
    };

    let mut line = line.clone();
    let has_extra = line["extra"]
        .as_array()
        .is_some_and(|extra| !extra.is_empty());
    if has_extra && line["user"].is_null() {
        line["user"] = json!("someone");
        line["groups"] = json!(["system:masters"]);
    }

    runner.send(as_user(request, &line)).await;
}
