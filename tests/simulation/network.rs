//! The connection between host and API server, which is no socket: it delays, refuses, loses and
//! reorders.

use std::{
    collections::VecDeque,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use kube::{Client, client::Body};
use operetta_apiserver::server::Body as ServerBody;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::sleep};
use tower::{ServiceExt, service_fn};

use crate::{
    cluster::{Cluster, FOOS},
    faults::{Fault, Profile, WatchFault, up_to},
    history::{History, Write, short_hash},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// The time after which a client gives up an answer, as the connector's timeout has it.
const READ_TIMEOUT: Duration = Duration::from_secs(295);

/// The longest time that a request or a response takes after the faults. Without any, a controller
/// that answers another's writes would write without end at one instant.
const HEALTHY_LATENCY: Duration = Duration::from_millis(2);

/// The network of a run.
pub struct Network {
    cluster: Cluster,
    history: Arc<History>,
    random: Mutex<StdRng>,
    profile: Mutex<Profile>,
}

/// The connection of one host process.
pub struct Connection {
    network: Arc<Network>,
    /// The number of the process.
    process: u32,
    is_cut: AtomicBool,
    cut: Notify,
}

impl Network {
    /// Creates a network with these faults.
    pub fn new(
        cluster: Cluster,
        history: Arc<History>,
        random: StdRng,
        profile: Profile,
    ) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            history,
            random: Mutex::new(random),
            profile: Mutex::new(profile),
        })
    }

    /// Ends all faults, except for requests and watches that have already met one.
    pub fn heal(&self) {
        let mut profile = self.profile.lock();
        *profile = Profile {
            lost_events: profile.lost_events,
            latency: HEALTHY_LATENCY,
            ..Profile::NONE
        };
    }

    /// Connects a host process.
    pub fn connect(self: &Arc<Self>, process: u32) -> Arc<Connection> {
        let network = self.clone();
        Arc::new(Connection {
            network,
            process,
            is_cut: AtomicBool::new(false),
            cut: Notify::new(),
        })
    }

    /// Reports whether an object belongs to a Foo that no longer exists, which its plugin does not
    /// know yet.
    async fn is_of_deleted_owner(&self, object: &[u8]) -> bool {
        let object: Value = serde_json::from_slice(object).unwrap_or_default();
        let owner = &object["metadata"]["ownerReferences"][0]["uid"];
        !owner.is_null()
            && self
                .cluster
                .list(FOOS)
                .await
                .iter()
                .all(|object| object["metadata"]["uid"] != *owner)
    }

    /// Draws the fault of a request, and the times that it and its response take.
    fn draw(&self, is_write: bool) -> (Option<Fault>, [Duration; 2]) {
        let mut profile = self.profile.lock();
        let mut random = self.random.lock();
        let mut fault = profile.fault(&mut random, is_write);

        if matches!(fault, Some(Fault::CrashBefore | Fault::CrashAfter)) {
            match profile.max_crashes.checked_sub(1) {
                Some(left) => profile.max_crashes = left,
                None => fault = None,
            }
        }

        (fault, [(); 2].map(|()| up_to(&mut random, profile.latency)))
    }
}

impl Connection {
    /// Returns a client of this process.
    pub fn client(self: &Arc<Self>) -> Client {
        let connection = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let connection = connection.clone();
            async move { connection.carry(request).await }
        });
        Client::new(service, "default")
    }

    /// Cuts the connection for good: nothing that the process does from now on is seen by anybody.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.cut.notify_one();
    }

    /// Waits until the connection is cut.
    pub async fn until_cut(&self) {
        self.cut.notified().await;
    }

    /// Waits forever if the process has crashed.
    async fn unless_cut(&self) {
        if self.is_cut.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    }

    async fn carry(self: Arc<Self>, request: Request<Body>) -> Result<Answer, BoxError> {
        self.unless_cut().await;
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let is_write = parts.method != Method::GET;
        let is_replacement = parts.method == Method::PUT;

        let user = parts
            .headers
            .get("impersonate-user")
            .and_then(|user| user.to_str().ok())
            .unwrap_or("host");
        let user = user.rsplit(':').next().unwrap_or(user).to_owned();

        let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
        let shown = format!("{} {user} {} {path}", self.process, parts.method);
        let name = format!("{} {}", parts.method, parts.uri.path());

        let (fault, [there, back]) = self.network.draw(is_replacement);
        let history = &self.network.history;
        history.record(format!(
            "> {shown} {} {}",
            short_hash(&body),
            fault.map_or(String::new(), words)
        ));

        sleep(there).await;
        self.unless_cut().await;
        if let Some(refusal) = self.fails_early(fault).await {
            return refusal;
        }

        let is_watch = parts
            .uri
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let is_late = is_write && self.network.is_of_deleted_owner(&body).await;
        let request = Request::from_parts(parts, Full::new(body));

        let Ok(response) = self.network.cluster.api().oneshot(request).await;
        if is_watch && response.status() == StatusCode::OK {
            return Ok(self.watch(response, shown, fault.is_some()));
        }

        let (parts, body) = response.into_parts();
        let Ok(body) = body.collect().await;
        let body = body.to_bytes();
        let status = parts.status.as_u16();
        history.record(format!("< {shown} {status} {}", short_hash(&body)));

        if is_write {
            history.record_write(Write {
                request: name,
                user,
                status,
                is_disturbed: fault.is_some(),
                is_late,
            });
        }

        self.loses_response(fault).await?;
        sleep(back).await;
        self.unless_cut().await;
        if fault == Some(Fault::GatewayTimeout) {
            return Ok(refused(504));
        }

        Ok(Response::from_parts(parts, boxed(body)))
    }

    /// Returns the answer to a request that does not reach the API server.
    async fn fails_early(&self, fault: Option<Fault>) -> Option<Result<Answer, BoxError>> {
        match fault {
            Some(Fault::Refused(status)) => Some(Ok(refused(status))),
            Some(Fault::NotSent) => Some(Err("connection refused".into())),
            Some(Fault::CrashBefore) => {
                self.cut();
                pending().await
            }
            _ => None,
        }
    }

    /// Fails if the response of a request does not reach the host.
    async fn loses_response(&self, fault: Option<Fault>) -> Result<(), BoxError> {
        match fault {
            Some(Fault::ResponseLost) => Err("connection reset by peer".into()),
            Some(Fault::NoAnswer) => {
                sleep(READ_TIMEOUT).await;
                Err("read timed out".into())
            }
            Some(Fault::CrashAfter) => {
                self.cut();
                pending().await
            }
            _ => Ok(()),
        }
    }

    /// Returns the response of a watch, whose events are late, and which ends early.
    fn watch(
        self: Arc<Self>,
        response: Response<ServerBody>,
        shown: String,
        is_broken: bool,
    ) -> Answer {
        let fault = self
            .network
            .profile
            .lock()
            .watch_fault(&mut self.network.random.lock());
        let fault = if is_broken {
            Some(WatchFault::Broken(0))
        } else {
            fault
        };

        self.network.history.record(format!(
            "< {shown} 200 {}",
            fault.map_or(String::new(), words)
        ));

        let (parts, body) = response.into_parts();
        let events = Events {
            connection: self,
            shown,
            body,
            fault,
            sent: 0,
            lines: VecDeque::new(),
            is_over: false,
        };
        let frames = stream::unfold(events, |mut events: Events| async move {
            let frame = events.next().await?;
            Some((frame.map(Frame::data), events))
        });

        Response::from_parts(parts, StreamBody::new(frames).boxed_unsync())
    }
}

/// The events of a watch.
struct Events {
    connection: Arc<Connection>,
    shown: String,
    body: ServerBody,
    fault: Option<WatchFault>,
    /// The events that the host has got.
    sent: u32,
    /// The events that have arrived.
    lines: VecDeque<Vec<u8>>,
    is_over: bool,
}

impl Events {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        self.connection.unless_cut().await;
        if self.is_over {
            return None;
        }

        if let Some(end) = self.ends() {
            self.is_over = true;
            return end;
        }

        loop {
            let line = self.line().await?;
            let network = self.connection.network.clone();
            let profile = *network.profile.lock();
            let lag = up_to(&mut network.random.lock(), profile.lag);
            sleep(lag).await;
            self.connection.unless_cut().await;

            if profile.loses_event(&mut network.random.lock()) {
                network.history.record(format!(
                    "! {} {} lost for good",
                    self.shown,
                    short_hash(&line)
                ));
                continue;
            }

            self.sent += 1;
            network
                .history
                .record(format!("~ {} {}", self.shown, short_hash(&line)));
            return Some(Ok(line.into()));
        }
    }

    /// Returns the end of the watch if it is due: nothing, an error of the connection, or one of
    /// the API server.
    #[allow(
        clippy::option_option,
        reason = "the end of a stream is None, and so is no end"
    )]
    fn ends(&self) -> Option<Option<Result<Bytes, BoxError>>> {
        let after = |events: u32| self.sent >= events;
        match self.fault? {
            WatchFault::Closed(events) => after(events).then_some(None),
            WatchFault::Broken(events) => {
                after(events).then(|| Some(Err("connection reset by peer".into())))
            }
            WatchFault::Expired(events) => after(events).then(|| {
                let event = json!({"type": "ERROR", "object": status(410, "Expired")});
                Some(Ok(format!("{event}\n").into()))
            }),
        }
    }

    /// Returns the next event of the API server.
    async fn line(&mut self) -> Option<Vec<u8>> {
        while self.lines.is_empty() {
            let Ok(frame) = self.body.frame().await?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            self.lines.extend(
                data.split_inclusive(|byte| *byte == b'\n')
                    .map(<[u8]>::to_vec),
            );
        }

        self.lines.pop_front()
    }
}

fn words(fault: impl std::fmt::Debug) -> String {
    format!("[{fault:?}]")
}

fn boxed(body: Bytes) -> UnsyncBoxBody<Bytes, BoxError> {
    Full::new(body)
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Returns a Status as the API server writes it.
fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "a fault"})
}

/// Returns the answer with which an API server refuses a request before it has done anything.
fn refused(code: u16) -> Answer {
    let reason = match code {
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };

    let mut response = Response::new(boxed(status(code, reason).to_string().into()));
    *response.status_mut() = StatusCode::from_u16(code).expect("a status");
    let headers = response.headers_mut();
    headers.insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );

    if code == 429 {
        headers.insert(
            http::header::RETRY_AFTER,
            http::HeaderValue::from_static("1"),
        );
    }
    response
}
