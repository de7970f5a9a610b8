//! An admission webhook that refuses objects with any Status, to provoke errors that a real API
//! server rarely returns.

use axum::{Json, Router, routing::post};
use serde_json::{Value, json};

use crate::{
    TestNamespace,
    tls_server::{self, TlsServer},
};

/// The label of the ConfigMaps that the webhook reviews.
const LABEL: (&str, &str) = ("conformance", "refuse");

/// Installs the webhook for a namespace, or its stand-in in the embedded server, and serves it
/// until the process ends. The webhook refuses a ConfigMap labelled `conformance: refuse` with the
/// Status that `refusals` has for its name.
///
/// # Panics
/// Panics if the webhook cannot be served or installed.
pub fn refuse(namespace: &TestNamespace<'_>, refusals: Vec<(String, Value)>) {
    if let Some(embedded) = namespace.control_plane().refusals() {
        return embedded.add(namespace.name(), refusals);
    }

    let answer = async move |Json(review): Json<Value>| {
        let request = &review["request"];
        let refusal = refusals.iter().find(|(name, _)| {
            request["name"] == *name || request["object"]["metadata"]["name"] == *name
        });

        let mut response = json!({"uid": request["uid"], "allowed": refusal.is_none()});
        if let Some((_, status)) = refusal {
            response["status"] = status.clone();
        }

        Json(
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
        )
    };

    let server = tls_server::serve_routes(Router::new().route("/", post(answer)), false);
    namespace
        .control_plane()
        .apply(&configuration(namespace.name(), &server).to_string());
}

fn configuration(namespace: &str, server: &TlsServer) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let bundle = k8s_openapi::ByteString(server.authority.as_bytes().to_vec());

    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": format!("{namespace}.test.operetta.dev")},
        "webhooks": [{
            "name": "refuse.test.operetta.dev",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "objectSelector": {"matchLabels": {LABEL.0: LABEL.1}},
            "clientConfig": {"url": format!("https://{}/", server.address), "caBundle": bundle},
            "rules": [rule],
        }],
    })
}
