//! Requests of the host to the servers of a process. The connections exist in memory only: nothing
//! of them leaves the host, and nothing outside reaches them.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri,
    header::{HOST, LOCATION},
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Bytes, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use operetta_wasm::process::{Pipe, Process};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
};
use tokio_rustls::TlsConnector;

use super::network::OWN;
use crate::plugin::crd::Scheme;

/// The host's address, as a process sees it.
const HOST_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 3));

/// The most redirects that are followed, as the kubelet's.
const MAX_REDIRECTS: usize = 10;

/// Connects to a port of a process: [`connect`].
pub type Dial<'a> = &'a (dyn Fn(u16) -> io::Result<Pipe> + Send + Sync);

/// Why a process did not answer. The text is for people.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nothing listens there, or the connection broke.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// The other side does not speak HTTP as it should.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// The body is too large, or broke off.
    #[error("the response's body: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// The request can't be built.
    #[error("the request: {0}")]
    Request(#[from] http::Error),
}

/// A GET request to a process.
#[derive(Clone, Debug)]
pub struct Get<'a> {
    /// The port.
    pub port: u16,
    /// Plain, or with TLS that takes any certificate.
    pub scheme: Scheme,
    /// The path, and a query if there is one.
    pub path: &'a str,
    /// The headers. Without `Host`, it is the process's address.
    pub headers: HeaderMap,
    /// How much of the body is read, in bytes.
    pub max_bytes: usize,
}

/// The answer of a process.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The body, or its first bytes.
    pub body: Vec<u8>,
    /// False if there was more.
    pub is_whole: bool,
}

/// Sends a GET request, and follows redirects within the process, as the kubelet does. A redirect
/// elsewhere is returned as the answer. The caller limits the time.
///
/// # Errors
/// Why there is no answer.
pub async fn get(dial: Dial<'_>, get: &Get<'_>) -> Result<Answer, DialError> {
    let mut uri = target(get.scheme, get.port, get.path)?;
    let mut redirects = 0;
    loop {
        let (answer, location) = get_once(dial, get, &uri).await?;
        let next = location
            .filter(|_| answer.status.is_redirection() && redirects < MAX_REDIRECTS)
            .and_then(|location| redirected(&uri, &location));
        match next {
            Some(next) => uri = next,
            None => return Ok(answer),
        }
        redirects += 1;
    }
}

fn target(scheme: Scheme, port: u16, path: &str) -> Result<Uri, http::Error> {
    let scheme = match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let slash = if path.starts_with('/') { "" } else { "/" };
    let path = path.split('#').next().unwrap_or_default();
    Uri::builder()
        .scheme(scheme)
        .authority(SocketAddr::new(OWN, port).to_string())
        .path_and_query(format!("{slash}{path}"))
        .build()
}

/// Returns where a redirect leads, if that is the same process.
fn redirected(from: &Uri, location: &HeaderValue) -> Option<Uri> {
    let location: Uri = location.to_str().ok()?.parse().ok()?;
    let path = location.path_and_query().cloned()?;
    match location.host() {
        // Relative to the host. One relative to the path is not followed.
        None if path.as_str().starts_with('/') && !path.as_str().starts_with("//") => {
            let mut parts = from.clone().into_parts();
            parts.path_and_query = Some(path);
            Uri::from_parts(parts).ok()
        }
        Some(host) if Some(host) == from.host() && is_http(&location) => Some(location),
        _ => None,
    }
}

fn is_http(uri: &Uri) -> bool {
    matches!(uri.scheme_str(), Some("http" | "https"))
}

async fn get_once(
    dial: Dial<'_>,
    get: &Get<'_>,
    uri: &Uri,
) -> Result<(Answer, Option<HeaderValue>), DialError> {
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::builder().method(Method::GET).uri(path);
    if let Some(headers) = request.headers_mut() {
        headers.extend(get.headers.clone());
        if !headers.contains_key(HOST)
            && let Some(authority) = uri.authority()
            && let Ok(value) = authority.as_str().parse()
        {
            headers.insert(HOST, value);
        }
    }
    let request = request.body(Full::<Bytes>::default())?;

    let pipe = dial(port)?;
    let response = if is_tls {
        let connector = unverified().map_err(io::Error::other)?;
        let stream = connector.connect(ServerName::from(OWN), pipe).await?;
        send(stream, request).await?
    } else {
        send(pipe, request).await?
    };
    let (response, _connection) = response;

    let (head, mut incoming) = response.into_parts();
    let mut body = Vec::new();
    let mut is_whole = true;
    while is_whole && let Some(frame) = incoming.frame().await {
        if let Ok(data) = frame?.into_data() {
            let room = get.max_bytes - body.len();
            is_whole = data.len() <= room;
            body.extend_from_slice(&data[..data.len().min(room)]);
        }
    }

    let answer = Answer {
        status: head.status,
        body,
        is_whole,
    };
    Ok((answer, head.headers.get(LOCATION).cloned()))
}

/// Sends a request over a new connection, which lives as long as the second value.
async fn send<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<(http::Response<hyper::body::Incoming>, JoinSet<()>), DialError> {
    let (mut sender, connection) = conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut task = JoinSet::new();
    task.spawn(async move {
        // `send_request` returns the error.
        let _ended = connection.await;
    });
    Ok((sender.send_request(request).await?, task))
}

/// Connects to a port of a process.
///
/// # Errors
/// `ConnectionRefused` says what the process listens on.
pub fn connect(process: &Process, port: u16) -> io::Result<Pipe> {
    process.connect_from(port, SocketAddr::new(HOST_ADDRESS, 0))
}

/// Calls a method of gRPC with one message, without TLS. Returns the message of the answer.
///
/// # Errors
/// The status of gRPC and its text, or why there is none.
pub async fn call_grpc(
    dial: Dial<'_>,
    port: u16,
    method: &'static str,
    message: &[u8],
    max_bytes: usize,
) -> Result<Vec<u8>, GrpcError> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(target(Scheme::Http, port, method).map_err(DialError::from)?)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", USER_AGENT)
        .body(Full::<Bytes>::from(frame(message)))
        .map_err(DialError::from)?;

    let pipe = dial(port).map_err(DialError::from)?;
    let io = TokioIo::new(pipe);
    let handshake = conn::http2::handshake(TokioExecutor::new(), io).await;
    let (mut sender, connection) = handshake.map_err(DialError::from)?;
    let mut task = JoinSet::new();
    task.spawn(async move {
        // `send_request` returns the error.
        let _ended = connection.await;
    });

    let response = sender.send_request(request).await;
    let (head, body) = response.map_err(DialError::from)?.into_parts();
    if head.status != StatusCode::OK {
        return Err(GrpcError::NoGrpc(head.status));
    }
    let body = Limited::new(body, max_bytes).collect().await;
    let body = body.map_err(DialError::Body)?;
    let trailers = body.trailers().unwrap_or(&head.headers).clone();
    let status = |name: &HeaderName| trailers.get(name).or_else(|| head.headers.get(name));

    let code = status(&GRPC_STATUS).and_then(|code| code.to_str().ok()?.parse().ok());
    match code {
        Some(0) => unframe(&body.to_bytes()).ok_or(GrpcError::NoMessage),
        code => {
            let text = status(&GRPC_MESSAGE).and_then(|text| text.to_str().ok());
            Err(GrpcError::Status {
                code: code.unwrap_or(2),
                message: text.unwrap_or_default().to_owned(),
            })
        }
    }
}

/// What the host calls itself. Servers know probes by its beginning.
pub const USER_AGENT: &str = "kube-probe/operetta";

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Why a call of gRPC failed.
#[derive(Debug, thiserror::Error)]
pub enum GrpcError {
    /// There is no answer.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The answer isn't gRPC.
    #[error("the server answered {0}, which is no gRPC")]
    NoGrpc(StatusCode),
    /// The answer has no message.
    #[error("the server sent no message")]
    NoMessage,
    /// The server refused the call.
    #[error("code {code}: {message}")]
    Status {
        /// The code, such as 12 for a method that the server does not have.
        code: u32,
        /// The text.
        message: String,
    },
}

/// A message in the frame of gRPC: not compressed, and its length.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = vec![0];
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    framed
}

/// Takes the first message out of its frame; None if there is none, or it is compressed.
fn unframe(bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = bytes.split_first_chunk::<5>()?;
    let [0, length @ ..] = *head else {
        return None;
    };
    let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
    rest.get(..length).map(<[u8]>::to_vec)
}

/// TLS that takes any certificate: the connection leads to the process, whatever it shows. A kubelet
/// does not verify certificates of probes either.
fn unverified() -> Result<TlsConnector, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(AnyCertificate(provider.clone()));
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

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
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_redirects_within_the_process_are_followed() {
        let from = target(Scheme::Http, 8081, "healthz?x=1#y").expect("a target");
        assert_eq!(from.to_string(), "http://198.18.0.2:8081/healthz?x=1");
        for (location, to) in [
            ("/ready", Some("http://198.18.0.2:8081/ready")),
            (
                "https://198.18.0.2:8443/x",
                Some("https://198.18.0.2:8443/x"),
            ),
            ("http://example.com/", None),
            ("ftp://198.18.0.2/", None),
            ("relative", None),
            ("", None),
            ("//example.com/x", None),
        ] {
            let location = HeaderValue::from_static(location);
            let next = redirected(&from, &location).map(|uri| uri.to_string());
            assert_eq!(next.as_deref(), to, "{location:?}");
        }
    }

    #[test]
    fn impossible_paths_are_errors() {
        for path in ["/a b", "/\u{1}", "\n"] {
            assert!(target(Scheme::Http, 80, path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn frames_of_grpc_are_read_within_their_bounds() {
        assert_eq!(unframe(&frame(b"text")).as_deref(), Some(&b"text"[..]));
        for bytes in [
            &b""[..],
            &[0, 0, 0, 0],
            &[0, 0, 0, 0, 2, 1],
            &[1, 0, 0, 0, 1, 1],
            &[0, 255, 255, 255, 255, 1],
        ] {
            assert_eq!(unframe(bytes), None, "{bytes:?}");
        }
    }
}
