//! An endpoint in front of an API server that the test plays, and clients of it.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::Body;
use operetta_core::{
    authz::{
        access_review::{Grants, ServiceAccount},
        recorded_permissions::RecordedPermissions,
        refused_calls::RefusedCalls,
    },
    conflict::{ConflictSink, FieldConflict, FieldConflicts},
    gate::{
        Gate, GateLimits, Shared,
        audit::{Audit, AuditRecord, AuditSink, Writer},
        bytes::ByteBudget,
        permit::RequestPermit,
        throttle::Throttle,
    },
    object::ObjectKey,
    ports::Nowhere,
};
use operetta_kube::{
    authz::access_review::SubjectAccessReviews,
    client::{
        api_client::{ApiClient, Identity},
        object_api::{PluginApi, PluginIdentity},
    },
    discovery::Discovery,
    endpoint::{Endpoint, EndpointLimits, certificate::Authority},
    informer::registry::InformerRegistry,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tower::{BoxError, service_fn};

/// How much a pipe to the endpoint holds, in bytes.
const PIPE: usize = 64 << 10;

/// How long a test waits for what must happen soon.
pub const SOON: Duration = Duration::from_secs(10);

/// The body of a response that a test gives.
pub type Content = UnsyncBoxBody<Bytes, BoxError>;

/// What a test answers a request with.
type Answer = Pin<Box<dyn Future<Output = Response<Content>> + Send>>;

/// The options of a stage.
#[derive(Default)]
pub struct Options {
    pub limits: EndpointLimits,
    pub permit: Arc<RequestPermit>,
    pub throttle: Throttle,
    pub memory: Option<Arc<ByteBudget>>,
    pub epoch: Option<String>,
}

/// An endpoint, and what the API server behind it has received.
pub struct Stage {
    pub endpoint: Endpoint,
    pub authority: Authority,
    pub permit: Arc<RequestPermit>,
    pub grants: Arc<Grants>,
    pub api: Arc<PluginApi>,
    pub discovery: Arc<Discovery>,
    pub registry: Arc<InformerRegistry>,
    pub recorded: Arc<RecordedPermissions>,
    pub refused: Arc<RefusedCalls>,
    pub received: Arc<Mutex<Vec<Request<Bytes>>>>,
    pub audited: Arc<Audited>,
    /// What the API server answers access reviews with.
    pub allows: Arc<AtomicBool>,
}

/// Keeps audit records.
#[derive(Default)]
pub struct Audited(Mutex<Vec<AuditRecord>>);

impl Audited {
    /// Verb, path and result of each write.
    pub fn all(&self) -> Vec<String> {
        let records = self.0.lock();
        let text =
            |record: &AuditRecord| format!("{} {} {}", record.verb, record.kind, record.result);
        records.iter().map(text).collect()
    }
}

impl AuditSink for Audited {
    fn record(&self, record: &AuditRecord) {
        self.0.lock().push(record.clone());
    }
}

impl ConflictSink for Audited {
    fn conflict(&self, _: &FieldConflict) {}
}

impl Stage {
    /// A stage whose API server answers every request so.
    pub fn new(
        answer: impl Fn(Request<Bytes>) -> Response<Content> + Send + Sync + 'static,
    ) -> Self {
        Self::with(Options::default(), move |request| {
            let response = answer(request);
            Box::pin(async move { response })
        })
    }

    pub fn with(
        options: Options,
        answer: impl Fn(Request<Bytes>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let received = Arc::<Mutex<Vec<Request<Bytes>>>>::default();
        let allows = Arc::new(AtomicBool::new(true));
        let answer = Arc::new(answer);
        let client = kube::Client::new(
            service_fn({
                let (received, allows) = (received.clone(), allows.clone());
                move |request: Request<Body>| {
                    let (received, allows) = (received.clone(), allows.clone());
                    let answer = answer.clone();
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.map_err(BoxError::from)?.to_bytes();
                        if let Some(own) = of_host(&head, &body, allows.load(Ordering::Acquire)) {
                            return Ok::<_, BoxError>(own);
                        }
                        let request = Request::from_parts(head, body);
                        received.lock().push(request.clone());
                        Ok(answer(request).await)
                    }
                }
            }),
            "default",
        );
        Self::over(client, account(), options, received, allows)
    }

    /// A stage in front of the API server of this client.
    pub fn over(
        client: kube::Client,
        account: ServiceAccount,
        options: Options,
        received: Arc<Mutex<Vec<Request<Bytes>>>>,
        allows: Arc<AtomicBool>,
    ) -> Self {
        let of_host = ApiClient::new(client.clone(), &Identity::Host).expect("a client");
        let grants = Grants::new(Arc::new(SubjectAccessReviews::new(of_host.clone())));
        let registry = InformerRegistry::new(of_host.clone());
        let identity = PluginIdentity {
            permit: options.permit.clone(),
            throttle: options.throttle.clone(),
            epoch: options.epoch,
            ..PluginIdentity::new(grants.of(account), "test")
        };
        let (recorded, refused) = (identity.recorded.clone(), identity.refused.clone());
        let discovery = Discovery::new(of_host);
        let api = PluginApi::of_plugin(client, discovery.clone(), registry.clone(), identity)
            .expect("an API");

        let audited = Arc::new(Audited::default());
        let audit = Audit {
            writer: Writer {
                plugin: ObjectKey::namespaced("team", "operator"),
                digest: String::new(),
                service_account: "operator".to_owned(),
                field_manager: "test".to_owned(),
            },
            sink: audited.clone(),
            conflicts: FieldConflicts::new(audited.clone()),
        };
        let shared = Shared {
            throttle: options.throttle,
            audit: Some(audit),
            memory: options.memory,
            permit: options.permit.clone(),
            ..Shared::default()
        };
        let nowhere = Arc::new(Nowhere);
        let gate = Gate::new(
            api.clone(),
            nowhere.clone(),
            nowhere,
            "{}".into(),
            GateLimits::default(),
            shared,
        );

        let authority = Authority::generate().expect("an authority");
        let tls = authority
            .tls("10.96.0.1".parse().expect("an address"))
            .expect("a certificate");
        Self {
            endpoint: Endpoint::new(gate, api.clone(), tls, options.limits),
            authority,
            permit: options.permit,
            grants,
            api,
            discovery,
            registry,
            recorded,
            refused,
            received,
            audited,
            allows,
        }
    }

    /// Connects to the endpoint.
    pub fn connect(&self) -> DuplexStream {
        self.connect_by(PIPE)
    }

    /// Connects to the endpoint by a pipe of this size.
    pub fn connect_by(&self, bytes: usize) -> DuplexStream {
        let (client, server) = duplex(bytes);
        tokio::spawn(self.endpoint.serve(server));
        client
    }

    pub async fn http1(&self) -> http1::SendRequest<Full<Bytes>> {
        let io = TokioIo::new(self.connect());
        let (sender, connection) = http1::handshake(io).await.expect("a connection");
        tokio::spawn(connection);
        sender
    }

    pub async fn http2(&self) -> http2::SendRequest<Full<Bytes>> {
        let io = TokioIo::new(self.connect());
        let handshake = http2::handshake(TokioExecutor::new(), io).await;
        let (sender, connection) = handshake.expect("a connection");
        tokio::spawn(connection);
        sender
    }

    /// Sends a request by HTTP/1.1 over a connection of its own.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let mut sender = self.http1().await;
        sender.send_request(request).await.expect("a response")
    }

    /// Sends a request, and returns the status and the body as JSON.
    pub async fn send_for_json(&self, request: Request<Full<Bytes>>) -> (u16, Value) {
        let response = self.send(request).await;
        let status = response.status().as_u16();
        let body = whole(response).await;
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Writes bytes, and returns all that comes back until the endpoint closes the connection.
    pub async fn send_bytes(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        let mut read = Vec::new();
        let exchange = async {
            let (mut reader, mut writer) = tokio::io::split(&mut stream);
            // It may close before it has read everything.
            let write = async { drop(writer.write_all(bytes).await) };
            let (read, ()) = tokio::join!(reader.read_to_end(&mut read), write);
            drop(read);
        };
        tokio::time::timeout(SOON, exchange)
            .await
            .unwrap_or_else(|_| panic!("{:?} is not closed", String::from_utf8_lossy(bytes)));
        String::from_utf8_lossy(&read).into_owned()
    }

    /// What the API server has received: method, path and query.
    pub fn received(&self) -> Vec<String> {
        let received = self.received.lock();
        let text = |request: &Request<Bytes>| format!("{} {}", request.method(), request.uri());
        received.iter().map(text).collect()
    }
}

/// The account as which the operator acts.
pub fn account() -> ServiceAccount {
    ServiceAccount {
        namespace: "team".to_owned(),
        name: "operator".to_owned(),
    }
}

/// Answers the host's own requests: discovery and access reviews. The account may have rights in its
/// own namespace only.
fn of_host(head: &http::request::Parts, body: &[u8], allows: bool) -> Option<Response<Content>> {
    if head.headers.contains_key("impersonate-user") {
        return None;
    }
    let resource = |name: &str, kind: &str| json!({"name": name, "kind": kind, "namespaced": true, "verbs": ["get", "list", "watch"]});
    let body = match head.uri.path() {
        "/api/v1" => json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
            resource("configmaps", "ConfigMap"), resource("pods", "Pod"), resource("pods/log", "Pod"),
        ]}),
        "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
            let review: Value = serde_json::from_slice(body).expect("a review");
            let namespace = &review["spec"]["resourceAttributes"]["namespace"];
            json!({"status": {"allowed": allows && namespace == "team"}})
        }
        other => panic!("the host itself asks for {other}"),
    };
    Some(response(200, "application/json", body.to_string()))
}

pub fn response(status: u16, content_type: &str, body: impl Into<Bytes>) -> Response<Content> {
    Response::builder()
        .status(status)
        .header("content-type", content_type)
        .body(content(Full::new(body.into())))
        .expect("a response")
}

pub fn content<B>(body: B) -> Content
where
    B: HttpBody<Data = Bytes, Error = Infallible> + Send + 'static,
{
    body.map_err(|never| match never {}).boxed_unsync()
}

pub fn get(path: &str) -> Request<Full<Bytes>> {
    request("GET", path, Bytes::new())
}

pub fn request(method: &str, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "kubernetes.default.svc")
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .expect("a request")
}

/// Reads a response to its end.
pub async fn whole(response: Response<Incoming>) -> Bytes {
    let body = tokio::time::timeout(SOON, response.into_body().collect());
    body.await.expect("in time").expect("a body").to_bytes()
}

/// Reads the next piece of a response; None at its end.
pub async fn piece(body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
    loop {
        let frame = tokio::time::timeout(SOON, body.frame());
        let data = match frame.await.expect("in time")? {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) => return Some(Err(error)),
        };
        // The end of a stream of HTTP/2 is an empty piece.
        if !data.is_empty() {
            return Some(Ok(data));
        }
    }
}

/// The header of a response as text.
pub fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    let value = headers.get(name).map(|value| value.to_str().expect("text"));
    value.unwrap_or_default()
}

/// A body that a test writes as it goes, and what has become of it.
pub struct Stream {
    pieces: tokio::sync::mpsc::UnboundedReceiver<Bytes>,
    watch: Arc<Watched>,
}

/// What has become of a [`Stream`].
#[derive(Default)]
pub struct Watched {
    /// The pieces that were taken.
    pub taken: AtomicUsize,
    /// Whether nobody reads it any more.
    pub is_dropped: AtomicBool,
}

impl Stream {
    /// A body whose pieces are sent through this sender. It ends when the sender is dropped.
    pub fn new() -> (
        Self,
        tokio::sync::mpsc::UnboundedSender<Bytes>,
        Arc<Watched>,
    ) {
        let (sender, pieces) = tokio::sync::mpsc::unbounded_channel();
        let watch = Arc::<Watched>::default();
        let stream = Self {
            pieces,
            watch: watch.clone(),
        };
        (stream, sender, watch)
    }
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.pieces.poll_recv(context).map(|piece| {
            let piece = piece?;
            self.watch.taken.fetch_add(1, Ordering::AcqRel);
            Some(Ok(Frame::data(piece)))
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.watch.is_dropped.store(true, Ordering::Release);
    }
}

/// A response whose body is a stream.
pub fn streaming(stream: Stream) -> Response<Content> {
    Response::builder()
        .status(StatusCode::OK)
        .header("content-type", "application/json")
        .body(content(stream))
        .expect("a response")
}

/// An API server that answers the next request with this stream, and all others with an empty
/// object.
pub fn once(stream: Stream) -> impl Fn(Request<Bytes>) -> Answer + Send + Sync + 'static {
    let stream = Mutex::new(Some(stream));
    move |_| {
        let response = match stream.lock().take() {
            Some(stream) => streaming(stream),
            None => response(200, "application/json", "{}"),
        };
        Box::pin(async move { response })
    }
}
