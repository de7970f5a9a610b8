//! Requests that do not check the server's certificate.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use http::{Request, Response, Uri};
use kube::{Client, Config, client::Body};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Sends a GET with these headers over TLS. Returns the status and the body.
///
/// # Panics
/// Panics if the server cannot be reached.
pub async fn get(address: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    read(open("GET", address, path, headers, "").await).await
}

/// Sends a request with these headers over TLS. Returns the response, whose body may go on.
///
/// # Panics
/// Panics if the server cannot be reached.
pub async fn open(
    method: &str,
    address: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response<Body> {
    send(method, &format!("https://{address}"), path, headers, body).await
}

/// Sends a GET without TLS. Returns the status and the body.
///
/// # Panics
/// Panics if the server cannot be reached.
pub async fn get_plain(address: &str, path: &str) -> (u16, String) {
    read(send("GET", &format!("http://{address}"), path, &[], "").await).await
}

async fn send(
    method: &str,
    server: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response<Body> {
    let mut config = Config::new(server.parse::<Uri>().expect("a URL"));
    config.accept_invalid_certs = true;
    // A refusal with 429 is a response.
    config.default_retry = false;
    let client = Client::try_from(config).expect("a client");

    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }

    let body = Body::from(body.as_bytes().to_vec());
    client
        .send(request.body(body).expect("a request"))
        .await
        .expect("a response")
}

async fn read(response: Response<Body>) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().collect_bytes().await.expect("a body");
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// A connection to a server that is only as far as its user has written.
pub type Connection = TlsStream<TcpStream>;

/// Connects from an address of this machine and completes the TLS handshake, for a user that writes
/// its requests itself.
///
/// # Errors
/// The error of the connection or of the handshake.
pub async fn connect(from: Ipv4Addr, address: &str) -> io::Result<Connection> {
    // An earlier call may have installed the same provider.
    let _installed = rustls::crypto::ring::default_provider().install_default();

    let config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    let name = ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST));
    let stream = connect_plain(from, address).await?;
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// Connects from an address of this machine, without TLS.
///
/// # Errors
/// The error of the connection.
pub async fn connect_plain(from: Ipv4Addr, address: &str) -> io::Result<TcpStream> {
    let to = address.parse().map_err(io::Error::other)?;
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

/// Accepts every certificate.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ED25519,
            SignatureScheme::RSA_PSS_SHA256,
        ]
    }
}
