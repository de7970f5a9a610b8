//! TLS by the host's own authority, on the same port as plain HTTP.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use operetta_kube::endpoint::certificate::Authority;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::io::DuplexStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::stage::{Stage, get, response, whole};

fn stage() -> Stage {
    Stage::new(|request| {
        assert!(!request.headers().contains_key("authorization"));
        response(200, "application/json", "{}")
    })
}

/// Connects as a client that trusts this authority and speaks these protocols.
async fn connect(
    stage: &Stage,
    authority: &Authority,
    name: &str,
    protocols: &[&str],
) -> std::io::Result<TlsStream<DuplexStream>> {
    let certificate = CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM");
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    TlsConnector::from(Arc::new(config))
        .connect(name, stage.connect())
        .await
}

async fn version_by_http1(stream: TlsStream<DuplexStream>) -> u16 {
    let (mut sender, connection) = http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream))
        .await
        .expect("HTTP");
    tokio::spawn(connection);
    sender
        .send_request(get("/version"))
        .await
        .expect("a response")
        .status()
        .as_u16()
}

#[tokio::test]
async fn clients_reach_the_api_server_by_its_names_and_its_address() {
    let stage = stage();
    for name in [
        "kubernetes.default.svc.cluster.local",
        "kubernetes.default.svc",
        "kubernetes.default",
        "kubernetes",
        "localhost",
        "10.96.0.1",
    ] {
        let stream = connect(&stage, &stage.authority, name, &["http/1.1"])
            .await
            .expect(name);
        assert_eq!(version_by_http1(stream).await, 200, "{name}");
    }
    for name in ["example.com", "10.96.0.2", "kubernetes.kube-system"] {
        assert!(
            connect(&stage, &stage.authority, name, &[]).await.is_err(),
            "{name}"
        );
    }
    let other = Authority::generate().expect("an authority");
    let error = connect(&stage, &other, "kubernetes", &[])
        .await
        .expect_err("another authority");
    assert!(error.to_string().contains("certificate"), "{error}");

    assert_eq!(
        stage.send(get("/version")).await.status(),
        200,
        "without TLS on the same port"
    );
    stage
        .send_bytes(b"GET /version HTTP/1.1\r\nhost: k\r\nconnection: close\r\n\r\n")
        .await;
}

#[tokio::test]
async fn http2_is_chosen_by_alpn_or_known_beforehand() {
    let stage = stage();
    for protocols in [&["h2", "http/1.1"][..], &["h2"], &[]] {
        let stream = connect(&stage, &stage.authority, "kubernetes", protocols)
            .await
            .expect("TLS");
        let chosen = stream.get_ref().1.alpn_protocol();
        assert_eq!(chosen, protocols.first().map(|name| name.as_bytes()));

        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.expect("HTTP/2");
        tokio::spawn(connection);
        let response = sender
            .send_request(get("/version"))
            .await
            .expect("a response");
        assert_eq!(whole(response).await, "{}");
    }

    let stream = connect(&stage, &stage.authority, "kubernetes", &[])
        .await
        .expect("TLS");
    assert_eq!(version_by_http1(stream).await, 200, "HTTP/1.1 without ALPN");
}
