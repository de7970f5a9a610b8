//! An authorizer besides RBAC: a webhook that denies some requests and has no opinion about the
//! rest.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use axum::{Json, Router, routing::post};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::{
    ControlPlane, shared,
    tls_server::{self, TlsServer},
};

/// Starts a control plane whose API server asks the webhook, before RBAC, about the requests that
/// match the CEL expression `condition`. `denies` gets the `spec` of a SubjectAccessReview. The
/// webhook serves until the process ends.
///
/// # Panics
/// Panics if the webhook cannot be served or the control plane does not start.
pub fn control_plane(
    condition: &str,
    denies: impl Fn(&Value) -> bool + Send + Sync + 'static,
) -> ControlPlane {
    let denies = Arc::new(denies);

    let answer = async move |Json(review): Json<Value>| {
        let status = json!({"allowed": false, "denied": denies(&review["spec"])});
        Json(
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": status}),
        )
    };

    let server = tls_server::serve_routes(Router::new().route("/", post(answer)), false);

    let argument = format!(
        "--authorization-config={}",
        configuration(condition, server).display()
    );

    ControlPlane::start_real(&[], &[argument]).unwrap_or_else(|error| panic!("{error}"))
}

/// Writes the AuthorizationConfiguration and returns its path.
fn configuration(condition: &str, server: TlsServer) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "{}-authorizer-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );

    let folder = shared::folder().join(name);
    fs::create_dir_all(&folder).expect("a folder");

    let write = |name: &str, object: &Value| {
        let path = folder.join(name);
        fs::write(&path, object.to_string()).expect("written");
        path
    };

    let authority = ByteString(server.authority.into_bytes());
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "webhook", "cluster": {
            "server": format!("https://{}/", server.address), "certificate-authority-data": authority,
        }}],
        "users": [{"name": "apiserver", "user": {}}],
        "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "apiserver"}}],
        "current-context": "webhook",
    });

    let webhook = json!({
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "matchConditions": [{"expression": condition}],
        "authorizedTTL": "5s",
        "unauthorizedTTL": "5s",
        "timeout": "10s",
        "failurePolicy": "Deny",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": write("kubeconfig", &kubeconfig)},
    });

    let authorizers = json!([{"type": "Webhook", "name": "denies", "webhook": webhook}, {"type": "RBAC", "name": "rbac"}]);
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration", "authorizers": authorizers,
    });

    write("authorization.yaml", &configuration)
}
