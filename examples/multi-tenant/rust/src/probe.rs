//! Attempts to access another tenant: reads, writes, other identities, other paths, and false
//! claims. Each attempt logs one line: `refused`; `allowed` for a harmless success; `GOT IT` if it
//! returned an object of team A.

use operetta_sdk::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use operetta_sdk::{
    ApiError, Context, DeleteOptions, DynamicObject, Error, EventType, GroupVersionKind,
    ListOptions, Object, ObjectKey, Patch, RawRequest, tracing,
};
use serde_json::{Value, json};

/// The attacked namespace; the other constants name its objects.
const VICTIM: &str = "team-a";
const SECRET: &str = "database";
const FOO: &str = "example-foo";
const ACCOUNT: &str = "sample-controller";

/// Makes every attempt.
///
/// # Errors
/// Returns an error if the API server does not answer who the plugin is.
pub fn everything(ctx: &Context) -> Result<(), Error> {
    let who_am_i = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let who_am_i =
        RawRequest::post("/apis/authentication.k8s.io/v1/selfsubjectreviews").json(&who_am_i);
    let me: Value = ctx.raw(&who_am_i).json()?;
    tracing::info!(
        "the API server knows me as {}",
        me["status"]["userInfo"]["username"]
    );
    reads(ctx);
    paths(ctx);
    identities(ctx);
    writes(ctx);
    lies(ctx);
    tracing::info!("that was all");
    Ok(())
}

fn reads(ctx: &Context) {
    let key = || ObjectKey::namespaced(VICTIM, SECRET);
    attempt(
        "read the Secret",
        ctx.get_live::<Secret>(key()).map(|secret| shown(&secret)),
    );
    attempt(
        "read the Secret from the cache",
        ctx.get::<Secret>(key()).map(|secret| shown(&secret)),
    );
    let lists = [
        ("list its Secrets", ListOptions::in_namespace(VICTIM).live()),
        (
            "list its Secrets from the cache",
            ListOptions::in_namespace(VICTIM),
        ),
        (
            "list the Secrets of all namespaces",
            ListOptions::all_namespaces().live(),
        ),
        (
            "list the Secrets of all namespaces from the cache",
            ListOptions::all_namespaces(),
        ),
    ];
    for (what, options) in lists {
        // A cached list of all namespaces has the objects of those that the account may read.
        let theirs = |secrets: Vec<Secret>| {
            let theirs: Vec<String> = secrets
                .iter()
                .filter(|secret| secret.namespace() == Some(VICTIM))
                .map(shown)
                .collect();
            if theirs.is_empty() {
                Err("none of team A is in it".to_owned())
            } else {
                Ok(theirs.join(", "))
            }
        };
        say(
            what,
            ctx.list::<Secret>(options)
                .map_err(|error| error.to_string())
                .and_then(theirs),
        );
    }
}

/// Attempts paths that the host, which checks RBAC, and the API server could interpret differently.
fn paths(ctx: &Context) {
    let own = ctx.request().key.namespace.as_deref().unwrap_or_default();
    let secret = format!("{VICTIM}/secrets/{SECRET}");
    for path in [
        format!("/api/v1/namespaces/{secret}"),
        format!("/api/v1/namespaces/{own}/../{secret}"),
        format!("/api/v1/namespaces/{own}%2f..%2f{secret}"),
        format!("/api/v1/namespaces/{own}/%2e%2e/{secret}"),
        format!("/api/v1/namespaces/{own}//namespaces/{secret}"),
        format!("/api/v1/namespaces/{own};/namespaces/{secret}"),
        format!("/api/v1/namespaces/{own}/namespaces/{secret}"),
        format!("/api/v1/namespaces/{own}/services/x/proxy/api/v1/namespaces/{secret}"),
        format!("/api/v1/namespaces/{VICTIM}/pods/x/exec"),
        format!("/api/v1/watch/namespaces/{VICTIM}/secrets"),
    ] {
        raw(ctx, &format!("GET {path}"), &RawRequest::get(path.clone()));
        raw(
            ctx,
            &format!("GET {path} from the cache"),
            &RawRequest::get(path).cached(),
        );
    }
}

/// Attempts to act as another identity.
fn identities(ctx: &Context) {
    let account = format!("system:serviceaccount:{VICTIM}:{ACCOUNT}");
    let secret = || RawRequest::get(format!("/api/v1/namespaces/{VICTIM}/secrets/{SECRET}"));
    raw(
        ctx,
        "impersonate by the query",
        &secret().query(format!("Impersonate-User={account}&as={account}")),
    );
    let header = format!("application/json\r\nImpersonate-User: {account}");
    raw(
        ctx,
        "impersonate by a second line in a header",
        &secret().accept(header),
    );
    let token =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let tokens = format!("/api/v1/namespaces/{VICTIM}/serviceaccounts/{ACCOUNT}/token");
    raw(
        ctx,
        "a token of its ServiceAccount",
        &RawRequest::post(tokens).json(&token),
    );
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": account, "resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": VICTIM}},
    });
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    raw(
        ctx,
        "ask what its ServiceAccount may",
        &RawRequest::post(reviews).json(&review),
    );
}

fn writes(ctx: &Context) {
    let planted = DynamicObject::new(
        &GroupVersionKind::new("v1", "ConfigMap"),
        (VICTIM, "planted"),
    );
    attempt(
        "create a ConfigMap in its namespace",
        ctx.create(&planted).map(|made| made.key().to_string()),
    );
    let foos = ctx.dynamic(&GroupVersionKind::new(
        "samplecontroller.k8s.io/v1alpha1",
        "Foo",
    ));
    let none = Patch::merge(&json!({"spec": {"replicas": 1}}));
    attempt(
        "change its Foo",
        foos.patch((VICTIM, FOO), none)
            .map(|changed| changed.key().to_string()),
    );
    attempt(
        "delete its Foo",
        foos.delete((VICTIM, FOO), &DeleteOptions::new())
            .map(|()| FOO.to_owned()),
    );
}

/// Writes objects in the plugin's own namespace that refer to objects of team A.
fn lies(ctx: &Context) {
    let own = ctx.request().key.namespace.as_deref().unwrap_or_default();
    let foo_kind = GroupVersionKind::new("samplecontroller.k8s.io/v1alpha1", "Foo");
    let theirs = DynamicObject::new(&foo_kind, (VICTIM, FOO));
    ctx.event(
        &theirs,
        EventType::Warning,
        "Pwned",
        "this is team B speaking",
    );
    tracing::info!("an Event about its Foo: nobody answers");
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "pwned", "namespace": own},
        "involvedObject": {"apiVersion": theirs.api_version, "kind": theirs.kind, "namespace": VICTIM, "name": FOO},
        "reason": "Pwned", "message": "this is team B speaking", "type": "Warning",
    });
    let events = format!("/api/v1/namespaces/{own}/events");
    raw(
        ctx,
        "an Event about its Foo, kept at home",
        &RawRequest::post(events).json(&event),
    );

    let labels = json!({"app": "stolen"});
    let spec = json!({
        "replicas": 0, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
    });
    let mut stolen = DynamicObject::new(
        &GroupVersionKind::new("apps/v1", "Deployment"),
        (own, "stolen"),
    )
    .with("spec", spec);
    let owner = json!([{
        "apiVersion": theirs.api_version, "kind": theirs.kind, "name": FOO, "uid": "of-team-a", "controller": true,
    }]);
    stolen.metadata.owner_references = serde_json::from_value(owner).ok();
    harmless(
        "a Deployment of mine that its Foo owns",
        ctx.create(&stolen),
    );

    let plugins = ctx.dynamic(&GroupVersionKind::new("operetta.dev/v1alpha1", "Plugin"));
    let claim = Patch::merge(
        &json!({"status": {"reason": "Flawless", "message": "trust me", "conditions": []}}),
    );
    harmless(
        "a status of my own Plugin",
        plugins.patch((own, "hostile"), claim.subresource("status")),
    );
    harmless(
        "read a ConfigMap of mine",
        ctx.get::<ConfigMap>(ctx.request().key.clone()),
    );
}

fn raw(ctx: &Context, what: &str, request: &RawRequest) {
    let response = ctx.raw(request);
    if response.status < 300 {
        return say(what, Ok(response.body));
    }
    let status: Value = serde_json::from_str(&response.body).unwrap_or_default();
    let message = status["message"].as_str().unwrap_or(&response.body);
    say(what, Err(format!("{} {message}", response.status)));
}

fn attempt(what: &str, result: Result<String, ApiError>) {
    say(what, result.map_err(|error| error.to_string()));
}

fn say(what: &str, result: Result<String, String>) {
    match result {
        Ok(loot) => tracing::error!("GOT IT   {what}: {loot}"),
        Err(answer) => tracing::info!("refused  {what}: {}", answer.trim()),
    }
}

/// Logs an attempt that may succeed, because it is harmless.
fn harmless<T>(what: &str, result: Result<T, ApiError>) {
    match result {
        Ok(_) => tracing::info!("allowed  {what}"),
        Err(error) => tracing::info!("refused  {what}: {error}"),
    }
}

fn shown(secret: &Secret) -> String {
    let data = secret.data.iter().flatten();
    let pairs: Vec<String> = data
        .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(&value.0)))
        .collect();
    format!("Secret {} with {}", secret.key(), pairs.join(" "))
}
