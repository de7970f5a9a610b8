//! An admission webhook that refuses what it is told to, with any Status: how tests make a real API server answer with
//! errors that it seldom gives by itself.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    thread,
};

use axum::{Json, Router, routing::post};
use axum_server::tls_rustls::RustlsConfig;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::ControlPlane;

/// Refuses ConfigMaps that have this label, by their name.
const LABEL: (&str, &str) = ("conformance", "refuse");

/// Installs the webhook and serves it as long as the test program runs, on a thread of its own: the runtime of a test ends
/// with the test. A ConfigMap that is labelled
/// `conformance: refuse` is refused with the Status that `refusals` has for its name.
///
/// # Panics
/// When it cannot be served or installed.
pub fn refuse(control_plane: &ControlPlane, refusals: Vec<(String, Value)>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let certificate = rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()]).expect("a certificate");
    // Whoever was first has installed the same one.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let (chain, key) = (certificate.cert.pem(), certificate.signing_key.serialize_pem());
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
    control_plane.apply(&configuration(address, &chain).to_string());
}

fn configuration(address: SocketAddr, certificate: &str) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let bundle = k8s_openapi::ByteString(certificate.as_bytes().to_vec());
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "refuse.test.operetta.dev"},
        "webhooks": [{
            "name": "refuse.test.operetta.dev",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "objectSelector": {"matchLabels": {LABEL.0: LABEL.1}},
            "clientConfig": {"url": format!("https://{address}/"), "caBundle": bundle},
            "rules": [rule],
        }],
    })
}
