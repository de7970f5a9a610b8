//! An admission webhook that refuses objects with any Status, so that a real API server returns errors that are rare
//! otherwise.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    thread,
};

use axum::{Json, Router, routing::post};
use axum_server::tls_rustls::RustlsConfig;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::TestNamespace;

/// The label of the ConfigMaps that the webhook reviews.
const LABEL: (&str, &str) = ("conformance", "refuse");

/// Installs the webhook for a namespace and serves it until the process ends. It has its own thread, because a test's
/// runtime ends with the test. The webhook refuses a ConfigMap labelled `conformance: refuse` with the Status that
/// `refusals` has for its name.
///
/// # Panics
/// Panics if the webhook cannot be served or installed.
pub fn refuse(namespace: &TestNamespace<'_>, refusals: Vec<(String, Value)>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let certificate = rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()]).expect("a certificate");
    // An earlier call may have installed the same provider.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let chain = certificate.cert.pem();
    let key = certificate.signing_key.serialize_pem();
    listener.set_nonblocking(true).expect("non-blocking");
    let answer = async move |Json(review): Json<Value>| {
        let request = &review["request"];
        let refusal = refusals
            .iter()
            .find(|(name, _)| request["name"] == *name || request["object"]["metadata"]["name"] == *name);
        let mut response = json!({"uid": request["uid"], "allowed": refusal.is_none()});
        if let Some((_, status)) = refusal {
            response["status"] = status.clone();
        }
        Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
    };
    let certificate = chain.clone();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let tls = RustlsConfig::from_pem(certificate.into_bytes(), key.into_bytes()).await.expect("TLS");
            let server = axum_server::from_tcp_rustls(listener, tls).expect("a server");
            let routes = Router::new().route("/", post(answer));
            server.serve(routes.into_make_service()).await.expect("served");
        });
    });
    namespace.control_plane().apply(&configuration(namespace.name(), address, &chain).to_string());
}

fn configuration(namespace: &str, address: SocketAddr, certificate: &str) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let bundle = k8s_openapi::ByteString(certificate.as_bytes().to_vec());
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
            "clientConfig": {"url": format!("https://{address}/"), "caBundle": bundle},
            "rules": [rule],
        }],
    })
}
