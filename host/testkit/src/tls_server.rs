//! A TLS server that is no API server: what a host sees when its address or its certificates are wrong.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    thread,
};

use axum::Router;
use axum_server::tls_rustls::RustlsConfig;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use tokio::runtime::Builder;

/// A server, which runs until the process ends.
pub struct TlsServer {
    /// Its address.
    pub address: SocketAddr,
    /// The authority that has signed its certificate, in PEM.
    pub authority: String,
}

/// Serves 404 for everything, with a certificate of an authority of its own, which may have expired long ago.
///
/// # Panics
/// Panics if it cannot be served.
pub fn serve(expired: bool) -> TlsServer {
    // An earlier call may have installed the same provider.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("an authority");
    let mut certificate = CertificateParams::new([Ipv4Addr::LOCALHOST.to_string()]).expect("a name");
    if expired {
        certificate.not_before = date_time_ymd(2001, 1, 1);
        certificate.not_after = date_time_ymd(2002, 1, 1);
    }
    let key = KeyPair::generate().expect("a key");
    let certificate = certificate.signed_by(&key, &authority).expect("a certificate");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    listener.set_nonblocking(true).expect("non-blocking");
    let chain = certificate.pem().into_bytes();
    let key = key.serialize_pem().into_bytes();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let tls = RustlsConfig::from_pem(chain, key).await.expect("TLS");
            let server = axum_server::from_tcp_rustls(listener, tls).expect("a server");
            server.serve(Router::new().into_make_service()).await.expect("served");
        });
    });
    TlsServer { address, authority: authority.pem() }
}
