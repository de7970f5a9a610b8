//! TLS servers: one that is no API server, for tests of a wrong address or a wrong certificate, and
//! those of webhooks.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    thread,
};

use axum::{Json, Router, routing::get};
use axum_server::tls_rustls::RustlsConfig;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use serde_json::json;
use tokio::runtime::Builder;

/// A server that runs until the process ends.
pub struct TlsServer {
    /// The address of the server.
    pub address: SocketAddr,
    /// The authority that signed the server's certificate, in PEM.
    pub authority: String,
}

/// Answers every request with 404, with a certificate of its own authority. If `expired`, the
/// certificate ended in 2002.
///
/// # Panics
/// Panics if it cannot be served.
pub fn serve(expired: bool) -> TlsServer {
    serve_routes(Router::new(), expired)
}

/// Serves as [`serve`] does, and answers `/version` as an API server of Kubernetes 1 with this
/// minor version.
///
/// # Panics
/// Panics if it cannot be served.
pub fn serve_version(minor: &'static str) -> TlsServer {
    let version = json!({
        "major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.3"), "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
    });

    serve_routes(
        Router::new().route("/version", get(move || async move { Json(version) })),
        false,
    )
}

/// Serves routes as [`serve`] does. The server has its own thread, because a test's runtime ends
/// with the test.
pub(crate) fn serve_routes(routes: Router, expired: bool) -> TlsServer {
    // An earlier call may have installed the same provider.
    let _installed = rustls::crypto::ring::default_provider().install_default();

    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key"))
        .expect("an authority");

    let mut certificate =
        CertificateParams::new([Ipv4Addr::LOCALHOST.to_string()]).expect("a name");
    if expired {
        certificate.not_before = date_time_ymd(2001, 1, 1);
        certificate.not_after = date_time_ymd(2002, 1, 1);
    }

    let key = KeyPair::generate().expect("a key");
    let certificate = certificate
        .signed_by(&key, &authority)
        .expect("a certificate");

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    listener.set_nonblocking(true).expect("non-blocking");

    let chain = certificate.pem().into_bytes();
    let key = key.serialize_pem().into_bytes();

    thread::spawn(move || {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let tls = RustlsConfig::from_pem(chain, key).await.expect("TLS");
            let server = axum_server::from_tcp_rustls(listener, tls).expect("a server");
            server
                .serve(routes.into_make_service())
                .await
                .expect("served");
        });
    });

    TlsServer {
        address,
        authority: authority.pem(),
    }
}
