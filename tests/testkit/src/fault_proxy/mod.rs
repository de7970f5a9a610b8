//! A proxy in front of a real API server that injects faults, from a script or from a seed.
//!
//! It serves HTTP/1.1 without TLS on a loopback port, and forwards all requests to the API server
//! of the control plane. Requests without an Authorization header are sent as the administrator.
//! Bodies are streamed both ways. Each request gets a [`Fault`]: the next one that a test has
//! queued with [`FaultProxy::next`] or, if the proxy has a seed, a drawn one. The draw depends only
//! on the seed, on the requested resource and on the number of earlier requests for it. So a seed
//! produces the same faults whatever the namespace is called and in whatever order informers send
//! their requests.
//!
//! Network faults are not drawn: [`FaultProxy::outage`] closes all connections,
//! [`FaultProxy::refuse`] also closes the port, [`FaultProxy::hold`] holds back the bytes of one or
//! both directions, and [`FaultProxy::slow_down`] delays all requests.
//!
//! In HTTP/2, an API server sends GOAWAY to make a client reconnect. kube-client speaks HTTP/1.1
//! only, where `Connection: close` has the same effect ([`Fault::ConnectionClose`]).

mod body;
mod events;
mod fault;
mod link;
mod plan;

use std::{
    error::Error,
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hyper::{
    HeaderMap, Request, Response,
    body::{Bytes, Incoming},
    header::{self, HeaderValue},
    http::uri::{PathAndQuery, Uri},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
};
use kube::{
    Config,
    client::ConfigExt,
    config::{KubeConfigOptions, Kubeconfig},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::AbortHandle,
};

use crate::ControlPlane;
use body::Pipe;
pub use events::BadEvent;
pub use fault::Fault;
pub use link::Held;
pub use plan::Ask;
use plan::Plan;

/// The delays of a slow API server, in milliseconds.
const SLOW: RangeInclusive<u64> = 50..=1500;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

type Answer = Result<Response<Incoming>, Box<dyn Error + Send + Sync>>;
type Forward =
    Box<dyn Fn(Request<Incoming>) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

/// A running proxy; dropping it closes its port and every connection.
pub struct FaultProxy {
    shared: Arc<Shared>,
    address: String,
    kubeconfig: PathBuf,
    accept: AbortHandle,
}

struct Shared {
    started: Instant,
    forward: Forward,
    token: HeaderValue,
    authority: String,
    plan: Mutex<Plan>,
    log: Mutex<Vec<Asked>>,
    line: watch::Sender<Line>,
    /// The bytes of the bodies of watches so far.
    watched: Arc<AtomicU64>,
}

impl Shared {
    /// Returns the delays of a request and of its response.
    fn delays(&self) -> [Duration; 2] {
        if !self.line.borrow().is_slow {
            return [Duration::ZERO; 2];
        }

        let delay = Duration::from_millis(rand::random_range(SLOW));
        if rand::random() {
            [delay, Duration::ZERO]
        } else {
            [Duration::ZERO, delay]
        }
    }
}

/// The state that all connections share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    mode: Mode,
    /// The number of cuts of all connections so far, by which a connection notices even a short
    /// outage.
    cuts: u64,
    held: Held,
    is_slow: bool,
    /// How much later watches bring what they send.
    lag: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Faults are injected as planned.
    Faulty,
    /// No new faults are injected. Stalled connections stay stalled, because the client must detect
    /// them.
    Healed,
    /// All connections are closed.
    Outage,
    /// All connections are closed, and the port too.
    Refused,
}

/// A request that the proxy received, and its fault.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The time since the proxy started.
    pub at: Duration,
    /// The kind of the request.
    pub ask: Ask,
    /// The method, path and query.
    pub request: String,
    /// The fault of its response.
    pub fault: Fault,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>7.3}s {} -> {:?}",
            self.at.as_secs_f64(),
            self.request,
            self.fault
        )
    }
}

impl FaultProxy {
    /// Starts a proxy whose only faults are those queued with [`FaultProxy::next`].
    pub async fn start(control_plane: &ControlPlane) -> Self {
        Self::with_plan(control_plane, Plan::scripted()).await
    }

    /// Starts a proxy that draws faults from a seed.
    pub async fn seeded(control_plane: &ControlPlane, seed: u64) -> Self {
        Self::with_plan(control_plane, Plan::seeded(seed)).await
    }

    async fn with_plan(control_plane: &ControlPlane, plan: Plan) -> Self {
        let kubeconfig = Kubeconfig::read_from(control_plane.kubeconfig()).expect("a kubeconfig");

        let text = json!(kubeconfig);
        let token = text["users"][0]["user"]["token"]
            .as_str()
            .expect("the administrator has a token");
        let token = HeaderValue::from_str(&format!("Bearer {token}")).expect("a token");

        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let config = config.expect("a configuration");

        let authority = config
            .cluster_url
            .authority()
            .expect("the API server's address")
            .to_string();

        let connector = config.rustls_https_connector().expect("TLS");
        let client = Client::builder(TokioExecutor::new()).build::<_, Incoming>(connector);

        let forward: Forward = Box::new(move |request| {
            let answer = client.request(request);
            Box::pin(async move { answer.await.map_err(Into::into) })
        });

        let shared = Arc::new(Shared {
            started: Instant::now(),
            forward,
            token,
            authority,
            plan: Mutex::new(plan),
            log: Mutex::default(),
            line: watch::Sender::new(Line {
                mode: Mode::Faulty,
                cuts: 0,
                held: Held::default(),
                is_slow: false,
                lag: Duration::ZERO,
            }),
            watched: Arc::default(),
        });

        let port = Port::reserve().expect("a port");
        let listener = port.listen().expect("a free port");
        let address = port.address.to_string();

        let kubeconfig = control_plane
            .folder()
            .join(format!("kubeconfig-proxy-{}", address.replace(':', "-")));
        std::fs::write(&kubeconfig, kubeconfig_for(&address).to_string()).expect("written");

        let accept = tokio::spawn(accept(port, listener, shared.clone())).abort_handle();
        Self {
            shared,
            address,
            kubeconfig,
            accept,
        }
    }

    /// Returns the proxy's address, `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the path of a kubeconfig for the proxy, without credentials.
    pub fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// Queues a fault for the next request of this kind that has no queued fault yet.
    pub fn next(&self, ask: Ask, fault: Fault) {
        self.shared.plan.lock().line_up(ask, fault);
    }

    /// Ends all faults, except that stalled connections stay stalled: the client must detect them.
    pub fn heal(&self) {
        self.shared
            .line
            .send_modify(|line| line.mode = Mode::Healed);
    }

    /// Closes all connections, and each new one, until [`FaultProxy::restore`].
    pub fn outage(&self) {
        self.cut(Mode::Outage);
    }

    /// Closes all connections and the port, as if the API server did not run: new connections are
    /// refused, until [`FaultProxy::restore`] or [`FaultProxy::heal`].
    pub fn refuse(&self) {
        self.cut(Mode::Refused);
    }

    fn cut(&self, mode: Mode) {
        self.shared.line.send_modify(|line| {
            *line = Line {
                mode,
                cuts: line.cuts + 1,
                ..*line
            }
        });
    }

    /// Accepts connections again, with faults as planned.
    pub fn restore(&self) {
        self.shared
            .line
            .send_modify(|line| line.mode = Mode::Faulty);
    }

    /// Holds back all bytes of these directions, on all connections. With `Held::default()` the
    /// network is whole again, and what was held back arrives.
    pub fn hold(&self, held: Held) {
        self.shared.line.send_modify(|line| line.held = held);
    }

    /// Delays each request or its response by 50 to 1500 ms from now on, or stops doing so.
    pub fn slow_down(&self, is_slow: bool) {
        self.shared.line.send_modify(|line| line.is_slow = is_slow);
    }

    /// Lets what watches send arrive this much later, in the same order and at the same rate: watches
    /// that begin from now on.
    pub fn lag_watches(&self, lag: Duration) {
        self.shared.line.send_modify(|line| line.lag = lag);
    }

    /// Returns the bytes of the bodies of all watches so far.
    pub fn watched_bytes(&self) -> u64 {
        self.shared.watched.load(Ordering::Relaxed)
    }

    /// Writes a new kubeconfig of a ServiceAccount for the proxy, and returns its path.
    ///
    /// # Panics
    /// Panics if the ServiceAccount does not exist.
    pub fn kubeconfig_of(
        &self,
        control_plane: &ControlPlane,
        namespace: &str,
        service_account: &str,
    ) -> PathBuf {
        let path = control_plane.kubeconfig_of(namespace, service_account);
        let text = std::fs::read_to_string(&path).expect("a kubeconfig");

        let mut kubeconfig: Value = serde_yaml_ng::from_str(&text).expect("a kubeconfig");
        for cluster in kubeconfig["clusters"].as_array_mut().expect("clusters") {
            cluster["cluster"] = json!({"server": format!("http://{}", self.address)});
        }

        std::fs::write(&path, kubeconfig.to_string()).expect("written");
        path
    }

    /// Returns all requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.log.lock().clone()
    }

    /// Counts the requests of a kind so far.
    pub fn count(&self, ask: Ask) -> usize {
        self.shared
            .log
            .lock()
            .iter()
            .filter(|asked| ask.includes(asked.ask, &asked.request))
            .count()
    }

    /// Formats all faults so far for a message, one per line.
    pub fn schedule(&self) -> String {
        let faulty = self
            .asked()
            .into_iter()
            .filter(|asked| asked.fault != Fault::None);
        faulty.map(|asked| format!("  {asked}\n")).collect()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accept.abort();
        self.outage();
    }
}

fn kubeconfig_for(address: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "nobody"}}],
        "current-context": "proxy",
    })
}

/// The proxy's port. A socket that never listens holds it while [`Mode::Refused`] lasts, so that
/// no other process gets it.
struct Port {
    address: SocketAddr,
    _holder: TcpSocket,
}

impl Port {
    /// Takes a free port.
    fn reserve() -> io::Result<Self> {
        let holder = Self::socket((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self {
            address: holder.local_addr()?,
            _holder: holder,
        })
    }

    fn listen(&self) -> io::Result<TcpListener> {
        Self::socket(self.address)?.listen(BACKLOG)
    }

    /// A socket that shares its address with others of this kind.
    fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(true)?;
        socket.bind(address)?;
        Ok(socket)
    }
}

async fn accept(port: Port, mut listener: TcpListener, shared: Arc<Shared>) {
    let mut line = shared.line.subscribe();

    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = until(&mut line, |line| line.mode == Mode::Refused) => {
                drop(listener);
                until(&mut line, |line| line.mode != Mode::Refused).await;
                listener = port.listen().expect("the port is held");
                continue;
            }
        };

        // The process is out of file descriptors, or the client has disconnected: the next accept
        // may succeed.
        let Ok((stream, _)) = accepted else {
            continue;
        };

        tokio::spawn(serve(stream, shared.clone()));
    }
}

async fn until(line: &mut watch::Receiver<Line>, is: impl FnMut(&Line) -> bool) {
    // The caller holds the sender, so this cannot fail.
    let _is_there = line.wait_for(is).await.is_ok();
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let _small_answers_at_once = stream.set_nodelay(true);
    let mut line = shared.line.subscribe();

    let Line { mode, cuts, .. } = *line.borrow();
    if matches!(mode, Mode::Outage | Mode::Refused) {
        return;
    }

    let service = service_fn(move |request| answer(shared.clone(), request));

    let (near, far) = link::pair();
    let connection = http1::Builder::new().serve_connection(TokioIo::new(far), service);
    let carried = link::carry(stream, near, connection, line.clone());

    tokio::select! {
        biased;
        _cut = line.wait_for(|line| line.cuts > cuts) => {}
        () = carried => {}
    }
}

/// Answers one request. An error closes the connection without a response.
async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Pipe>, Box<dyn Error + Send + Sync>> {
    let ask = Ask::of(&request);

    let fault = if shared.line.borrow().mode == Mode::Faulty {
        shared.plan.lock().fault_for(ask, &request)
    } else {
        Fault::None
    };

    let namespace = plan::namespace_of(request.uri().path()).map(str::to_owned);
    shared.log.lock().push(Asked {
        at: shared.started.elapsed(),
        ask,
        request: format!("{} {}", request.method(), request.uri()),
        fault: fault.clone(),
    });

    match &fault {
        Fault::CloseBeforeHead => return Err("the connection is closed, as planned".into()),
        Fault::StallBeforeHead => return std::future::pending().await,
        Fault::Delay(delay) => tokio::time::sleep(*delay).await,
        Fault::Status { code, retry_after } => return Ok(fault::status(*code, *retry_after)),
        Fault::Html { code } => return Ok(fault::html(*code)),
        _ => {}
    }

    let [before, after] = shared.delays();
    tokio::time::sleep(before).await;

    let streams_initial_events = ask == Ask::Sync && plan::is_watch(request.uri());
    let (mut parts, body) = request.into_parts();

    let path = parts
        .uri
        .path_and_query()
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/"));

    parts.uri = Uri::builder()
        .scheme("https")
        .authority(shared.authority.as_str())
        .path_and_query(path)
        .build()?;

    drop_connection_headers(&mut parts.headers);
    parts.headers.remove(header::HOST);
    parts
        .headers
        .entry(header::AUTHORIZATION)
        .or_insert_with(|| shared.token.clone());

    let answer = (shared.forward)(Request::from_parts(parts, body)).await?;
    tokio::time::sleep(after).await;

    let (mut head, body) = answer.into_parts();
    drop_connection_headers(&mut head.headers);
    // The fault may change the body, and with it the length.
    head.headers.remove(header::CONTENT_LENGTH);

    if fault == Fault::ConnectionClose {
        head.headers
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }

    let flow = body::Flow {
        namespace,
        streams_initial_events,
        is_watch: ask == Ask::Watch || streams_initial_events,
    };

    let (pipe, out) = Pipe::new(flow.is_watch.then(|| shared.watched.clone()));
    let line = shared.line.subscribe();
    // The task ends with the client's connection or with the response.
    tokio::spawn(async move { body::pump(body, out, fault, flow, line).await });

    Ok(Response::from_parts(head, pipe))
}

/// Removes the headers that apply to a single connection (hop-by-hop).
fn drop_connection_headers(headers: &mut HeaderMap) {
    for name in [
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ] {
        headers.remove(name);
    }
}

/// Makes a response from a complete text.
fn whole(code: u16, content_type: &'static str, text: String) -> Response<Pipe> {
    let answer = Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, content_type);
    answer
        .body(Pipe::whole(Bytes::from(text)))
        .expect("an answer")
}
