//! The server on a socket: TLS, the administrator's token, and the audit log.

use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use operetta_apiserver::{
    Controllers, Credentials, EmbeddedServer, Options,
    server::{AuditSink, Environment},
};
use parking_lot::Mutex;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

/// An audit log in memory.
#[derive(Default)]
struct Events(Mutex<Vec<Value>>);

impl AuditSink for Events {
    fn write(&self, event: &Value) {
        self.0.lock().push(event.clone());
    }
}

/// Sends a GET request over TLS, and returns the status code.
async fn get(
    address: std::net::SocketAddr,
    authority: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> u16 {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate"))
        .expect("an authority");

    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .expect("versions");
    let config = builder.with_root_certificates(roots).with_no_client_auth();

    let stream = TcpStream::connect(address).await.expect("a connection");
    let name = "127.0.0.1".try_into().expect("a name");
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .expect("TLS");

    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .expect("a handshake");
    let connection = tokio::spawn(connection);

    let mut request = http::Request::get(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(Full::<bytes::Bytes>::default())
        .expect("a request");

    let response = sender.send_request(request).await.expect("a response");
    let code = response.status().as_u16();
    response.into_body().collect().await.expect("a body");

    connection.abort();
    code
}

#[tokio::test]
async fn token_of_the_administrator_works_over_tls_and_requests_are_audited() {
    let credentials = Credentials::generate().expect("credentials");
    let events = Arc::new(Events::default());
    let mut options = Options::in_memory(Environment::system());
    options.tokens.push(credentials.administrator());
    options.audit = Some(events.clone());
    options.controllers = Controllers::none();

    let server = EmbeddedServer::start(options).expect("a server");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");

    let config: Value =
        serde_json::from_str(&credentials.kubeconfig(address, "test")).expect("a kubeconfig");
    let token = config["users"][0]["user"]["token"]
        .as_str()
        .expect("a token")
        .to_owned();

    let authority = credentials.authority().to_owned();
    let serving = tokio::spawn(async move {
        server
            .serve(listener, &credentials, std::future::pending())
            .await
    });

    let header = format!("Bearer {token}");
    let path = "/api/v1/namespaces/default";
    assert_eq!(
        get(address, &authority, path, &[]).await,
        403,
        "nobody is trusted without a token"
    );
    assert_eq!(
        get(address, &authority, path, &[("authorization", &header)]).await,
        200
    );

    let impersonating = [
        ("authorization", header.as_str()),
        ("impersonate-user", "jane"),
    ];
    assert_eq!(get(address, &authority, path, &impersonating).await, 403);

    serving.abort();
    let events = events.0.lock();

    let shown = |event: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        (
            text(&event["stage"]),
            text(&event["user"]["username"]),
            text(&event["impersonatedUser"]["username"]),
            code,
        )
    };

    let row = |stage: &str, user: &str, other: &str, code| {
        (stage.to_owned(), user.to_owned(), other.to_owned(), code)
    };

    let expected = [
        row("RequestReceived", "system:anonymous", "", 0),
        row("ResponseComplete", "system:anonymous", "", 403),
        row("RequestReceived", "admin", "", 0),
        row("ResponseComplete", "admin", "", 200),
        row("RequestReceived", "admin", "", 0),
        row("ResponseComplete", "admin", "jane", 403),
    ];

    assert_eq!(events.iter().map(shown).collect::<Vec<_>>(), expected);
    assert_eq!(events[1]["objectRef"]["name"], "default");
}
