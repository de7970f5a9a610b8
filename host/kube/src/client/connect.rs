//! Connecting to the API server: with a kubeconfig, like kubectl, or as the Pod's ServiceAccount.

use std::{path::Path, sync::Arc, time::Duration};

use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt},
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use tower::{BoxError, ServiceBuilder, ServiceExt};

use crate::client::{
    observed::{Observed, RequestObserver},
    own_token::with_own_token,
    permitted::{PermittedConnection, at_socket},
    warnings::Warned,
};

/// How long a host waits for the next byte of a response or a watch. Its watches get a bookmark each
/// minute, so a connection silent for this long is dead.
const READ_TIMEOUT: Duration = Duration::from_secs(295);
/// How long a connection is idle before TCP checks that the API server is still there, as in
/// client-go's [dialer].
///
/// [dialer]: https://github.com/kubernetes/client-go/blob/v0.36.2/transport/cache.go#L123
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How long until an idle connection is closed, as in Go's http.Transport. Each has its buffers
/// here and at the API server.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// How much is read from a connection at once, in bytes. The default is 408 KiB, and a connection
/// that once read a component would keep that buffer.
const READ_BUFFER: usize = 64 << 10;

/// Failed to connect. The operator must fix the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read, or lacks the context.
    #[error("failed to load the kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// Neither a kubeconfig nor a Pod's ServiceAccount was found.
    #[error(
        "no API server configured: use --kubeconfig, set KUBECONFIG, or run in a Pod with a ServiceAccount ({0})"
    )]
    NotConfigured(#[from] kube::config::InferConfigError),
    /// There is a configuration, but no client can be built from it.
    #[error("failed to create a client for {url}: {source}")]
    Client {
        /// The API server.
        url: String,
        /// The cause.
        source: Box<kube::Error>,
    },
}

/// How to connect to an API server, for clients that share no connection.
#[derive(Clone, Debug)]
pub struct Connector {
    config: Config,
    observed: Option<Observed>,
    warned: Option<Warned>,
}

impl Connector {
    /// Connects with a configuration from elsewhere than a kubeconfig.
    pub fn with(config: Config) -> Self {
        Self {
            config,
            observed: None,
            warned: None,
        }
    }

    /// Creates a client, without connecting yet. The runtime in which this is called drives the
    /// client's connections.
    ///
    /// # Errors
    /// [`ConnectError::Client`].
    pub fn client(&self) -> Result<Client, ConnectError> {
        let Self {
            config,
            observed,
            warned,
        } = self.clone();
        let url = config.cluster_url.to_string();
        client(config, observed, warned).map_err(|source| ConnectError::Client {
            url,
            source: Box::new(source),
        })
    }
}

/// Creates a client, without connecting yet. `kubeconfig` and `context` override KUBECONFIG and the
/// file's current-context.
///
/// # Errors
/// [`ConnectError`], naming the file or the alternatives.
pub async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<Client, ConnectError> {
    // A command may well follow a silent log.
    create(kubeconfig, context, true, None, None)
        .await?
        .client()
}

/// Like [`connect`], for a client that passes the API server's warnings to `warned`, each once.
///
/// # Errors
/// [`ConnectError`], naming the file or the alternatives.
pub async fn connect_warned(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    warned: fn(&str),
) -> Result<Client, ConnectError> {
    let connector = create(kubeconfig, context, true, None, None).await?;
    let warned = Some(Warned::new(warned));
    Connector {
        warned,
        ..connector
    }
    .client()
}

/// Like [`connect`], for a client that reports its requests to `observer`.
///
/// # Errors
/// [`ConnectError`], naming the file or the alternatives.
pub async fn connect_observed(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    observer: Arc<dyn RequestObserver>,
) -> Result<Client, ConnectError> {
    connector(kubeconfig, context, observer).await?.client()
}

/// Returns what [`connect_observed`] connects with, for a client in another runtime.
///
/// # Errors
/// [`ConnectError`], naming the file or the alternatives.
pub async fn connector(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    observer: Arc<dyn RequestObserver>,
) -> Result<Connector, ConnectError> {
    create(
        kubeconfig,
        context,
        true,
        Some(READ_TIMEOUT),
        Some(observer),
    )
    .await
}

/// Like [`connect_observed`], for the requests of operators' processes: a watch without bookmarks and
/// a log that is followed may be silent for as long as they like. TCP notices a dead connection.
///
/// # Errors
/// [`ConnectError`], naming the file or the alternatives.
pub async fn connect_for_processes(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    observer: Arc<dyn RequestObserver>,
) -> Result<Client, ConnectError> {
    create(kubeconfig, context, true, None, Some(observer))
        .await?
        .client()
}

/// Like [`connect_observed`], for the same API server, but without credentials: each request brings
/// its user's.
///
/// # Errors
/// [`ConnectError`], naming the file or the alternatives.
pub async fn connect_without_credentials(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    observer: Arc<dyn RequestObserver>,
) -> Result<Client, ConnectError> {
    create(
        kubeconfig,
        context,
        false,
        Some(READ_TIMEOUT),
        Some(observer),
    )
    .await?
    .client()
}

/// Creates a client for a configuration from elsewhere than a kubeconfig.
///
/// # Errors
/// [`ConnectError::Client`].
pub fn connect_with(config: Config) -> Result<Client, ConnectError> {
    Connector::with(config).client()
}

async fn create(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    has_credentials: bool,
    read_timeout: Option<Duration>,
    observer: Option<Arc<dyn RequestObserver>>,
) -> Result<Connector, ConnectError> {
    let options = KubeConfigOptions {
        context: context.map(Into::into),
        ..KubeConfigOptions::default()
    };

    let mut config = match kubeconfig {
        Some(path) => {
            Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?
        }
        None if context.is_some() => Config::from_kubeconfig(&options).await?,
        None => Config::infer().await?,
    };

    // Retries are up to the callers: a plugin receives a 429 with its Retry-After, and an informer
    // has its own backoff.
    config.default_retry = false;
    config.read_timeout = read_timeout;

    if !has_credentials {
        config.auth_info = AuthInfo::default();
    }

    let observed = observer.map(|observer| Observed {
        host: host(&config).into(),
        observer,
    });
    Ok(Connector {
        config,
        observed,
        warned: None,
    })
}

/// The API server's host and port.
fn host(config: &Config) -> String {
    let url = &config.cluster_url;
    url.authority()
        .map_or_else(|| url.to_string(), ToString::to_string)
}

/// Builds a client like `Client::try_from`, but with TCP_NODELAY, as in client-go. kube keeps
/// Nagle's algorithm, which delays some requests by 40 ms until a delayed acknowledgement
/// ([kube#2056](https://github.com/kube-rs/kube/issues/2056)).
fn client(
    config: Config,
    observed: Option<Observed>,
    warned: Option<Warned>,
) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        let builder = ClientBuilder::try_from(config)?;
        return Ok(match (observed, warned) {
            (Some(observed), _) => builder.with_layer(&observed).build(),
            (None, Some(warned)) => builder.with_layer(&warned).build(),
            (None, None) => builder.build(),
        });
    }

    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let connector = connector.map_response(PermittedConnection::new);
    let mut http = HttpClient::builder(TokioExecutor::new());

    // Without a timer, idle connections are closed only when another one is needed.
    http.pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .http1_max_buf_size(READ_BUFFER);

    let service = ServiceBuilder::new()
        .option_layer(observed)
        .option_layer(warned)
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .map_request(with_own_token::<Body>)
        .map_request(at_socket)
        .service(http.build(connector));

    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Method, Request, StatusCode};
    use http_body_util::BodyExt;
    use operetta_core::{gate::permit::RequestPermit, replicas::Fence, status::ErrorKind};
    use rustls::{ServerConfig, crypto::ring::default_provider, pki_types::PrivateKeyDer};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::client::api_client::{ApiClient, Identity};

    struct Nobody;

    impl RequestObserver for Nobody {
        fn responded(&self, _: &str, _: &Method, _: Option<StatusCode>, _: Duration) {}
    }

    /// Serves one request, with this header `connection` in the response. Returns the head of the
    /// request, and the connection.
    async fn serve_one(listener: &TcpListener, connection: &str) -> (String, TcpStream) {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut bytes = vec![0; 4096];
        let read = stream.read(&mut bytes).await.expect("a request");
        let response =
            format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: {connection}\r\n\r\n{{}}");
        stream
            .write_all(response.as_bytes())
            .await
            .expect("written");
        (
            String::from_utf8_lossy(&bytes[..read]).to_lowercase(),
            stream,
        )
    }

    /// Returns the head of a request that a server got.
    async fn head(listener: &TcpListener) -> String {
        serve_one(listener, "close").await.0
    }

    #[tokio::test]
    async fn request_revoked_before_its_connection_is_accepted_sends_no_byte() {
        // An earlier test may have installed the same provider.
        let _installed = default_provider().install_default();

        let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
        let signed = signed.expect("a certificate");
        let certificate = signed.cert.der().clone();
        let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).expect("a key");
        let mut tls = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("a certificate");
        // After the handshake, only the client writes.
        tls.send_tls13_tickets = 0;
        let tls = TlsAcceptor::from(Arc::new(tls));

        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}", listener.local_addr().expect("an address"));
        let mut config = Config::new(url.parse().expect("a URL"));
        config.root_cert = Some(vec![certificate.to_vec()]);

        let forms = [
            (Method::GET, ""),
            (Method::DELETE, ""),
            (Method::POST, "{}"),
        ];
        for (method, body) in forms {
            for is_revoked in [false, true] {
                let fence = Fence::new(|| Duration::from_secs(1));
                fence.extend(Duration::from_secs(1_000));
                let permit = RequestPermit::fenced(fence).child();
                let client = connect_with(config.clone()).expect("a client");
                let client = ApiClient::new(client, &Identity::Host)
                    .expect("a client")
                    .permitted_by(permit.clone());
                let request = Request::builder()
                    .method(method.clone())
                    .uri("/api/v1/namespaces/n/pods/a")
                    .body(body.as_bytes().to_vec())
                    .expect("a request");

                let serve = async {
                    // The request has passed every layer, and waits for the handshake.
                    let (stream, _) = listener.accept().await.expect("a connection");
                    if is_revoked {
                        permit.revoke("no consent");
                    }

                    let mut stream = tls.accept(stream).await.expect("a handshake");
                    // A client that gives up closes without TLS's goodbye.
                    let arrived = stream.read(&mut [0; 4096]).await.unwrap_or_default();
                    if arrived > 0 {
                        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                        stream.write_all(response).await.expect("written");
                    }
                    // Closed here, the stream might take the response with it.
                    (arrived, stream)
                };
                let (sent, (arrived, _stream)) = tokio::join!(client.send(request), serve);

                if is_revoked {
                    assert_eq!(arrived, 0, "bytes of a revoked {method} arrived");
                    let error = sent.expect_err("revoked");
                    assert_eq!(error.kind, ErrorKind::Forbidden, "{method}: {error}");
                    assert_eq!(error.status.message, "no consent", "{method}");
                } else {
                    assert!(arrived > 0, "nothing of a permitted {method} arrived");
                    assert_eq!(sent.expect("a response"), "{}", "{method}");
                }
            }
        }
    }

    #[tokio::test]
    async fn idle_connection_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let client = connect_with(Config::new(url.parse().expect("a URL"))).expect("a client");
        let request = Request::get("/version")
            .body(Vec::new())
            .expect("a request");
        let (sent, (_, mut connection)) = tokio::join!(
            client.request_text(request),
            serve_one(&listener, "keep-alive")
        );
        assert_eq!(sent.expect("a response"), "{}");
        tokio::time::pause();
        let open = tokio::time::timeout(
            IDLE_TIMEOUT - Duration::from_secs(1),
            connection.read(&mut [0]),
        )
        .await;
        assert!(open.is_err(), "{open:?}: closed too early");
        let closed = tokio::time::timeout(
            IDLE_TIMEOUT + Duration::from_secs(1),
            connection.read(&mut [0]),
        )
        .await;
        assert_eq!(closed.expect("closed in time").expect("closed in order"), 0);
    }

    #[tokio::test]
    async fn silent_stream_of_a_process_is_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let file = std::env::temp_dir().join(format!("operetta-silent-{}", std::process::id()));
        let config = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
             clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [{{name: u, user: {{}}}}]}}"
        );
        std::fs::write(&file, config).expect("written");
        let observer: Arc<dyn RequestObserver> = Arc::new(Nobody);
        let of_processes = connect_for_processes(Some(&file), None, observer.clone())
            .await
            .expect("a client");
        let of_host = connect_observed(Some(&file), None, observer)
            .await
            .expect("a client");
        std::fs::remove_file(&file).expect("removed");

        for (client, is_kept) in [(of_processes, true), (of_host, false)] {
            let request = Request::get("/api/v1/pods?watch=true").body(Body::empty());
            let watch = client.send(request.expect("a request"));
            let serve = async {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let read = stream.read(&mut [0; 4096]).await.expect("a request");
                assert!(read > 0);
                let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(head).await.expect("written");
                stream
            };
            let (watch, _silent) = tokio::join!(watch, serve);
            let mut body = watch.expect("a response").into_body();

            tokio::time::pause();
            let limit = READ_TIMEOUT + Duration::from_secs(1);
            let frame = tokio::time::timeout(limit, body.frame()).await;
            assert_eq!(frame.is_err(), is_kept, "{frame:?}");
            tokio::time::resume();
        }
    }

    #[tokio::test]
    async fn client_for_users_sends_their_token_and_none_of_the_host() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let folder = std::env::temp_dir().join(format!("operetta-connect-{}", std::process::id()));
        let config = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
             clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [{{name: u, user: {{token: of-the-host}}}}]}}"
        );
        std::fs::write(&folder, config).expect("written");
        let observer: Arc<dyn RequestObserver> = Arc::new(Nobody);
        let users = connect_without_credentials(Some(&folder), None, observer.clone())
            .await
            .expect("a client");
        let host = connect_observed(Some(&folder), None, observer)
            .await
            .expect("a client");
        std::fs::remove_file(&folder).expect("removed");
        let request = || {
            Request::get("/version")
                .body(Vec::new())
                .expect("a request")
        };
        let api_client = ApiClient::of_user(users.clone(), "of-the-user").expect("a token");
        let (sent, of_user) = tokio::join!(api_client.send(request()), head(&listener));
        sent.expect("a response");
        assert!(
            of_user.contains("authorization: bearer of-the-user"),
            "{of_user}"
        );
        let plain = users.request_text(
            Request::get("/version")
                .body(Vec::new())
                .expect("a request"),
        );
        let (_, anonymous) = tokio::join!(plain, head(&listener));
        assert!(!anonymous.contains("authorization"), "{anonymous}");
        let (_, own) = tokio::join!(host.request_text(request()), head(&listener));
        assert!(own.contains("authorization: bearer of-the-host"), "{own}");
        assert!(
            ApiClient::of_user(users, "a\nb").is_err(),
            "no part of a header"
        );
    }
}
