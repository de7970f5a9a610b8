//! The probes of a process, by the kubelet's rules (pkg/kubelet/prober/worker.go and pkg/probe).
//!
//! Nothing happens between two checks: each probe is a timer. A check is a connection in memory, so
//! it costs what the process does to answer it.

use std::{convert::Infallible, fmt, time::Duration};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{ACCEPT, USER_AGENT},
};
use operetta_core::ports::LogLevel;
use tokio::time::{Instant, timeout};

use super::{
    dial::{self, Dial, Get, GrpcError, call_grpc},
    state::StateSender,
};
use crate::{
    logs::store::PluginLog,
    plugin::crd::{GrpcAction, HttpGetAction, Port, Probe, ProcessSpec},
};

/// How much of an answer is read, in bytes, as the kubelet's.
const MAX_BODY: usize = 10 << 10;
/// How much of an answer is in a message.
const SHOWN_BODY: usize = 200;

/// The largest answer of a health service, in bytes.
const MAX_HEALTH: usize = 4 << 10;

/// gRPC's code for a method that the server does not have.
const UNIMPLEMENTED: u32 = 12;

/// Enough checks of a probe failed in a row. If it is not the readinessProbe, the process is
/// restarted.
#[derive(Debug)]
pub struct ProbeFailure {
    /// The probe's field.
    probe: &'static str,
    /// How often it failed in a row.
    times: u32,
    /// What it got the last time.
    message: String,
    /// How long the process has to end; None for its usual grace period.
    pub grace: Option<Duration>,
}

impl fmt::Display for ProbeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            probe,
            times,
            message,
            ..
        } = self;
        let times = match times {
            1 => String::new(),
            times => format!(" {times} times in a row"),
        };
        write!(f, "the {probe} failed{times}: {message}")
    }
}

/// Runs the probes of a process that has just started, and publishes whether it is ready. Ends when
/// the process has to be started again.
pub(super) async fn watch(
    spec: &ProcessSpec,
    dial: Dial<'_>,
    state: &StateSender,
    log: &PluginLog,
) -> ProbeFailure {
    let started = Instant::now();
    let prober = |name, probe| Prober {
        name,
        probe,
        spec,
        dial,
        log,
        started,
        tally: Tally::default(),
    };

    if let Some(probe) = &spec.startup_probe {
        let mut startup = prober("startupProbe", probe);
        if let Outcome::Failed(failure) = startup.next().await {
            return failure;
        }
    }

    let liveness = async {
        let Some(probe) = &spec.liveness_probe else {
            return std::future::pending().await;
        };
        let mut liveness = prober("livenessProbe", probe);
        loop {
            if let Outcome::Failed(failure) = liveness.next().await {
                return failure;
            }
        }
    };

    let readiness = async {
        let Some(probe) = &spec.readiness_probe else {
            state.set_unready(None);
            return std::future::pending::<Infallible>().await;
        };
        state.set_unready(Some("its readinessProbe has not succeeded yet".to_owned()));
        let mut readiness = prober("readinessProbe", probe);
        loop {
            state.set_unready(match readiness.next().await {
                Outcome::Succeeded => None,
                Outcome::Failed(failure) => Some(failure.to_string()),
            });
        }
    };

    tokio::select! {
        failure = liveness => failure,
        never = readiness => match never {},
    }
}

/// Why a process with these probes is not ready at its start; None if it is.
pub(super) fn unready_at_start(spec: &ProcessSpec) -> Option<&'static str> {
    let decides = spec.startup_probe.is_some() || spec.readiness_probe.is_some();
    decides.then_some("it has just started, and its probes have not succeeded yet")
}

/// What a probe says after enough equal checks in a row.
enum Outcome {
    Succeeded,
    Failed(ProbeFailure),
}

struct Prober<'a> {
    name: &'static str,
    probe: &'a Probe,
    /// Has the ports.
    spec: &'a ProcessSpec,
    dial: Dial<'a>,
    log: &'a PluginLog,
    started: Instant,
    tally: Tally,
}

impl Prober<'_> {
    /// Checks until one result reaches its threshold. The next call continues from there.
    async fn next(&mut self) -> Outcome {
        loop {
            let due = self.tally.due(self.probe, self.started);
            tokio::time::sleep_until(due).await;
            let result = self.check().await;

            if let Err(message) = &result
                && self.tally.last != Some(false)
            {
                let line = format!("the {} failed: {message}", self.name);
                self.log.write_host_line(LogLevel::Warn, line);
            }

            let is_decided = self.tally.count(self.probe, result.is_ok());
            match result {
                Ok(()) if is_decided => return Outcome::Succeeded,
                Err(message) if is_decided => {
                    let grace = self.probe.termination_grace_period_seconds;
                    return Outcome::Failed(ProbeFailure {
                        probe: self.name,
                        times: self.tally.run,
                        message,
                        grace: grace.map(|seconds| Duration::from_secs(seconds.into())),
                    });
                }
                _ => {}
            }
        }
    }

    async fn check(&self) -> Result<(), String> {
        let limit = Duration::from_secs(self.probe.timeout_seconds.unwrap_or(1).into());
        let check = check(self.probe, self.spec, self.dial);
        timeout(limit, check)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", limit.as_secs())))
    }
}

/// The results of a probe so far.
#[derive(Debug, Default)]
struct Tally {
    last: Option<bool>,
    /// How many results in a row were like the last one.
    run: u32,
    /// When the last check was due.
    checked: Option<Instant>,
}

impl Tally {
    /// Counts a result, and reports whether it decides.
    fn count(&mut self, probe: &Probe, result: bool) -> bool {
        self.run = if self.last == Some(result) {
            self.run.saturating_add(1)
        } else {
            1
        };
        self.last = Some(result);
        let threshold = match result {
            true => probe.success_threshold.unwrap_or(1),
            false => probe.failure_threshold.unwrap_or(3),
        };
        self.run >= threshold
    }

    /// When the next check is due: after the initial delay, and then at each period, except for
    /// those that passed during a long check.
    fn due(&mut self, probe: &Probe, started: Instant) -> Instant {
        let delay = probe.initial_delay_seconds.unwrap_or(0);
        let period = Duration::from_secs(probe.period_seconds.unwrap_or(10).max(1).into());
        let now = Instant::now();
        let due = match self.checked {
            None => (started + Duration::from_secs(delay.into())).max(now),
            Some(last) => {
                let late = now.saturating_duration_since(last).as_nanos() / period.as_nanos();
                let periods = u32::try_from(late).unwrap_or(u32::MAX).saturating_add(1);
                last + period.saturating_mul(periods)
            }
        };
        self.checked = Some(due);
        due
    }
}

/// Checks once.
async fn check(probe: &Probe, spec: &ProcessSpec, dial: Dial<'_>) -> Result<(), String> {
    let number = |port: &Port| {
        let number = spec.port_number(port);
        number.ok_or_else(|| format!("none of spec.process.ports is named {port}"))
    };
    if let Some(action) = &probe.http_get {
        return http_get(action, number(&action.port)?, dial).await;
    }
    if let Some(action) = &probe.tcp_socket {
        let connected = dial(number(&action.port)?);
        return connected.map(drop).map_err(|error| error.to_string());
    }
    if let Some(action) = &probe.grpc {
        return grpc(action, dial).await;
    }
    // The schema does not let such a probe through.
    Err("it has none of httpGet, tcpSocket and grpc".to_owned())
}

async fn http_get(action: &HttpGetAction, port: u16, dial: Dial<'_>) -> Result<(), String> {
    let get = Get {
        port,
        scheme: action.scheme.unwrap_or_default(),
        path: action.path.as_deref().unwrap_or("/"),
        headers: headers(action)?,
        max_bytes: MAX_BODY,
    };

    let answer = dial::get(dial, &get).await;
    let answer = answer.map_err(|error| error.to_string())?;

    if (200..400).contains(&answer.status.as_u16()) {
        return Ok(());
    }

    let shown = answer.body.len().min(SHOWN_BODY);
    let body = String::from_utf8_lossy(&answer.body[..shown]);
    let status = answer.status.as_u16();
    Err(match body.trim() {
        "" => format!("status {status}"),
        body => format!("status {status}: {body}"),
    })
}

/// The headers of a check: the action's, and those that a kubelet adds. An empty value leaves one of
/// these out.
fn headers(action: &HttpGetAction) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for header in &action.http_headers {
        let name = HeaderName::try_from(&header.name);
        let value = HeaderValue::try_from(&header.value);
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(format!("the header {:?} cannot be sent", header.name));
        };
        headers.append(name, value);
    }
    for (name, default) in [(USER_AGENT, dial::USER_AGENT), (ACCEPT, "*/*")] {
        match headers.get(&name) {
            None => drop(headers.insert(name, HeaderValue::from_static(default))),
            Some(value) if value.is_empty() => drop(headers.remove(&name)),
            Some(_) => {}
        }
    }
    Ok(headers)
}

/// Asks `grpc.health.v1.Health` (<https://github.com/grpc/grpc/blob/master/doc/health-checking.md>).
async fn grpc(action: &GrpcAction, dial: Dial<'_>) -> Result<(), String> {
    const CHECK: &str = "/grpc.health.v1.Health/Check";
    let request = health_request(action.service.as_deref().unwrap_or_default());
    match call_grpc(dial, action.port, CHECK, &request, MAX_HEALTH).await {
        Ok(response) => match health_status(&response) {
            Some(1) => Ok(()),
            Some(0) | None => Err("the service's status is UNKNOWN".to_owned()),
            Some(2) => Err("the service's status is NOT_SERVING".to_owned()),
            Some(3) => Err("the server does not know the service".to_owned()),
            Some(other) => Err(format!("the service's status is {other}")),
        },
        Err(GrpcError::Status {
            code: UNIMPLEMENTED,
            ..
        }) => Err("the server does not implement grpc.health.v1.Health".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Encodes a HealthCheckRequest: field 1 is the service.
fn health_request(service: &str) -> Vec<u8> {
    if service.is_empty() {
        return Vec::new();
    }
    let mut request = vec![0x0a];
    let mut length = service.len();
    while length >= 0x80 {
        request.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
        length >>= 7;
    }
    request.push(u8::try_from(length).unwrap_or_default());
    request.extend(service.as_bytes());
    request
}

/// Decodes a HealthCheckResponse: field 1 is the status. None if it begins with anything else, or
/// has nothing, which stands for 0.
fn health_status(response: &[u8]) -> Option<u64> {
    let (0x08, rest) = response.split_first().map(|(tag, rest)| (*tag, rest))? else {
        return None;
    };
    let mut status = 0_u64;
    for (at, byte) in rest.iter().take(10).enumerate() {
        status |= u64::from(byte & 0x7f).checked_shl(u32::try_from(at).ok()? * 7)?;
        if byte & 0x80 == 0 {
            return Some(status);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{
            Arc,
            atomic::{AtomicU16, Ordering},
        },
    };

    use http::{Request, Response, StatusCode};
    use http_body_util::{BodyExt, Full, StreamBody};
    use hyper::{
        body::{Bytes, Frame, Incoming},
        service::service_fn,
    };
    use hyper_util::{
        rt::{TokioExecutor, TokioIo},
        server::conn::auto,
    };
    use operetta_wasm::process::{Pipe, pipe};
    use serde_json::{Value, json};

    use operetta_core::object::ObjectKey;

    use super::*;
    use crate::{
        logs::store::LogStore,
        plugin::process::state::{self, ProcessState},
    };

    fn probe(json: Value) -> Probe {
        serde_json::from_value(json).expect("a probe")
    }

    /// A server whose answer is a status; 0 is none. gRPC gets SERVING for 200.
    #[derive(Clone)]
    struct Server(Arc<AtomicU16>);

    impl Server {
        fn new(status: u16) -> Self {
            Self(Arc::new(AtomicU16::new(status)))
        }

        fn connect(&self, port: u16) -> io::Result<Pipe> {
            if port != 8081 {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionRefused,
                    "nothing listens",
                ));
            }
            let (ours, theirs) = pipe();
            let status = self.0.clone();
            tokio::spawn(async move {
                let service =
                    service_fn(move |request| answer(status.load(Ordering::Relaxed), request));
                let server = auto::Builder::new(TokioExecutor::new());
                let _ended = server.serve_connection(TokioIo::new(theirs), service).await;
            });
            Ok(ours)
        }
    }

    type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, io::Error>;

    async fn answer(status: u16, request: Request<Incoming>) -> io::Result<Response<Body>> {
        if status == 0 {
            std::future::pending::<()>().await;
        }
        if request.uri().path() == "/grpc.health.v1.Health/Check" {
            let mut trailers = HeaderMap::new();
            let code = if status == 501 { "12" } else { "0" };
            trailers.insert("grpc-status", HeaderValue::from_static(code));
            let status = if status == 200 { 1 } else { 2 };
            let message = Bytes::from(vec![0, 0, 0, 0, 2, 8, status]);
            let frames = [Ok(Frame::data(message)), Ok(Frame::trailers(trailers))];
            let body = StreamBody::new(futures::stream::iter(frames)).boxed_unsync();
            return Ok(Response::new(body));
        }
        let text = format!(
            "{} {:?} {:?}",
            request.uri(),
            request.headers()["host"],
            request.headers().get("user-agent")
        );
        let body = Full::from(text)
            .map_err(|never| match never {})
            .boxed_unsync();
        let status = StatusCode::from_u16(status).map_err(io::Error::other)?;
        let redirect = (status == StatusCode::FOUND).then_some("http://198.18.0.2:8081/elsewhere");
        let mut response = Response::new(body);
        *response.status_mut() = status;
        if let Some(to) = redirect {
            response
                .headers_mut()
                .insert("location", HeaderValue::from_static(to));
        }
        Ok(response)
    }

    #[tokio::test]
    async fn checks_succeed_as_those_of_a_kubelet() {
        let http = json!({"httpGet": {"path": "/healthz", "port": 8081}});
        let elsewhere = json!({"httpGet": {"port": 9}});
        let named = json!({"httpGet": {"path": "x?y", "port": 8081, "httpHeaders": [
            {"name": "Host", "value": "me"}, {"name": "User-Agent", "value": ""},
        ]}});
        let tcp = json!({"tcpSocket": {"port": "probes"}});
        let grpc = json!({"grpc": {"port": 8081, "service": "a.B"}});
        for (json, status, expected) in [
            (&http, 200, None),
            (&http, 399, None),
            // It redirects to itself without end.
            (&http, 302, None),
            (
                &http,
                500,
                Some("status 500: /healthz \"198.18.0.2:8081\" Some(\"kube-probe/operetta\")"),
            ),
            (&named, 404, Some("status 404: /x?y \"me\" None")),
            (&elsewhere, 200, Some("nothing listens")),
            (&tcp, 500, None),
            (
                &json!({"tcpSocket": {"port": 9}}),
                200,
                Some("nothing listens"),
            ),
            (&json!({"httpGet": {"port": "probes"}}), 200, None),
            (
                &json!({"httpGet": {"port": "metrics"}}),
                200,
                Some("none of spec.process.ports is named \"metrics\""),
            ),
            (&grpc, 200, None),
            (&grpc, 500, Some("the service's status is NOT_SERVING")),
            (
                &grpc,
                501,
                Some("the server does not implement grpc.health.v1.Health"),
            ),
        ] {
            let server = Server::new(status);
            let dial = |port| server.connect(port);
            let spec = spec(json!({"ports": [{"name": "probes", "containerPort": 8081}]}));
            let checked = check(&probe(json.clone()), &spec, &dial).await;
            assert_eq!(checked.err().as_deref(), expected, "{json}");
        }
    }

    fn spec(json: Value) -> ProcessSpec {
        serde_json::from_value(json).expect("a spec")
    }

    fn probe_with(fields: &[(&str, u32)]) -> Value {
        let mut probe = json!({"httpGet": {"port": 8081}});
        for (name, value) in fields {
            probe[*name] = (*value).into();
        }
        probe
    }

    async fn watched(
        spec: &ProcessSpec,
        server: &Server,
        state: &StateSender,
    ) -> (ProbeFailure, Duration) {
        let log =
            LogStore::default().get_or_create(&ObjectKey::namespaced("n", "p"), LogLevel::Info);
        let dial = |port| server.connect(port);
        let began = Instant::now();
        let failure = watch(spec, &dial, state, &log).await;
        (failure, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn liveness_fails_after_its_threshold_and_a_silent_server_after_its_timeout() {
        let (state, _) = state::channel(|| {});
        let spec = spec(json!({"livenessProbe": probe_with(&[
            ("initialDelaySeconds", 5), ("periodSeconds", 3), ("timeoutSeconds", 2),
            ("terminationGracePeriodSeconds", 7),
        ])}));
        let (failure, took) = watched(&spec, &Server::new(500), &state).await;
        assert_eq!(took.as_secs(), 5 + 3 + 3);
        assert_eq!(failure.grace, Some(Duration::from_secs(7)));
        let text = failure.to_string();
        assert!(
            text.starts_with("the livenessProbe failed 3 times in a row: status 500"),
            "{text}"
        );

        let (failure, took) = watched(&spec, &Server::new(0), &state).await;
        assert_eq!(took.as_secs(), 5 + 3 + 3 + 2);
        assert!(
            failure.to_string().ends_with("no answer within 2 s"),
            "{failure}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn startup_gates_the_other_probes() {
        let (state, follow) = state::channel(|| {});
        state.started(Some("starting"));
        let spec = spec(json!({
            "startupProbe": probe_with(&[("periodSeconds", 1), ("failureThreshold", 60)]),
            "livenessProbe": probe_with(&[("periodSeconds", 1), ("failureThreshold", 1)]),
        }));
        let server = Server::new(500);
        let later = server.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(30_500)).await;
            later.0.store(200, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(10)).await;
            later.0.store(500, Ordering::Relaxed);
        });
        let (failure, took) = watched(&spec, &server, &state).await;
        assert_eq!(
            (failure.probe, failure.times, took.as_secs()),
            ("livenessProbe", 1, 41)
        );
        assert_eq!(follow.borrow().unready(), None, "no readinessProbe");

        let spec = ProcessSpec {
            liveness_probe: None,
            ..spec
        };
        let (failure, took) = watched(&spec, &server, &state).await;
        assert_eq!((failure.probe, took.as_secs()), ("startupProbe", 59));
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_comes_and_goes() {
        let (state, follow) = state::channel(|| {});
        state.started(Some("starting"));
        let spec = spec(json!({"readinessProbe": probe_with(&[
            ("periodSeconds", 1), ("successThreshold", 3), ("failureThreshold", 2),
        ])}));
        let server = Server::new(200);
        let later = server.clone();
        tokio::spawn(async move { watched(&spec, &later, &state).await });

        let unready = || follow.borrow().unready().map(str::to_owned);
        let after = |millis| tokio::time::sleep(Duration::from_millis(millis));
        after(1_500).await;
        assert_eq!(
            unready().as_deref(),
            Some("its readinessProbe has not succeeded yet")
        );
        after(1_000).await;
        assert_eq!(unready(), None);
        server.0.store(503, Ordering::Relaxed);
        after(1_000).await;
        assert_eq!(unready(), None, "one failure is not enough");
        after(1_000).await;
        assert!(unready().is_some_and(|why| why.contains("status 503")));
        assert!(
            follow.borrow().is_running() && !ProcessState::clone(&follow.borrow()).status().ready
        );
        server.0.store(200, Ordering::Relaxed);
        after(3_000).await;
        assert_eq!(unready(), None);
    }

    #[test]
    fn health_messages_are_those_of_protobuf() {
        assert_eq!(health_request(""), b"");
        assert_eq!(health_request("a.B"), b"\x0a\x03a.B");
        let long = health_request(&"x".repeat(300));
        assert_eq!((long.len(), &long[..3]), (303, &[0x0a, 0xac, 0x02][..]));

        for (bytes, status) in [
            (&[8, 1][..], Some(1)),
            (&[8, 0x80, 1], Some(128)),
            (&[], None),
            (&[8], None),
            (&[8, 0x80], None),
            (&[16, 1], None),
            (
                &[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
                None,
            ),
        ] {
            assert_eq!(health_status(bytes), status, "{bytes:?}");
        }
    }
}
