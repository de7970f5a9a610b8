//! The decisions, reviews and role writes of `tests/authz`.

use serde_json::Value;

use crate::{
    exchange::Request,
    runner::Runner,
    sources::{collection, create, path, table},
};

pub async fn run(runner: &mut Runner) {
    for object in table("authz/world.json") {
        create(runner, &object).await;
    }
    runner.settle(2000).await;

    for line in table("authz/decisions.json") {
        let method = line["method"].as_str().expect("a method");
        let path = line["path"].as_str().expect("a path");

        // Allowed writes change nothing: they are dry runs, or delete objects that do not exist.
        let is_safe = matches!(method, "GET" | "HEAD") && !path.contains("watch");
        if is_safe || line["denied"].is_object() {
            runner
                .send(as_user(Request::new(method, path), &line))
                .await;
        }
    }

    for line in table("authz/reviews.json") {
        let kind = line["kind"].as_str().expect("a kind").to_lowercase();
        let namespace = line["namespace"].as_str().filter(|name| !name.is_empty());
        let root = "/apis/authorization.k8s.io/v1";

        let path = match namespace {
            Some(name) => format!("{root}/namespaces/{name}/{kind}s"),
            None => format!("{root}/{kind}s"),
        };

        runner
            .send(as_user(Request::post(path, &line["body"]), &line))
            .await;
    }

    for line in table("authz/escalations.json") {
        escalation(runner, &line).await;
    }
}

/// Writes a role or a binding as a user, without storing it.
async fn escalation(runner: &mut Runner, line: &Value) {
    let object = &line["object"];
    let mut request = match line["method"].as_str() {
        Some("POST") => Request::post(format!("{}?dryRun=All", collection(object)), object),
        _ => Request::put(format!("{}?dryRun=All", path(object)), object),
    };
    request = as_user(request, line);
    runner.send(request).await;
}

/// Makes the administrator send a request as the user of a line.
pub fn as_user(mut request: Request, line: &Value) -> Request {
    let Some(user) = line["user"].as_str() else {
        return request;
    };

    request = request.header("Impersonate-User", user);
    for group in line["groups"].as_array().into_iter().flatten() {
        request = request.header("Impersonate-Group", group.as_str().expect("a group"));
    }
    for pair in line["extra"].as_array().into_iter().flatten() {
        let key = format!("Impersonate-Extra-{}", pair[0].as_str().expect("a key"));
        request = request.header(&key, pair[1].as_str().expect("a value"));
    }

    request
}

/// Gives the real server's aggregated roles their rules. The embedded server has them without a
/// controller.
pub async fn aggregate(runner: &mut Runner) {
    for name in ["admin", "edit", "view"] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
        let own = runner.own.send(&Request::get(&path)).await;

        let patch = serde_json::json!({"rules": own.body["rules"]});
        let patched = runner
            .real
            .send(&Request::patch(path, "merge", &patch).header("User-Agent", "kube-apiserver"))
            .await;
        assert_eq!(patched.code, 200, "{name}");
    }
}
