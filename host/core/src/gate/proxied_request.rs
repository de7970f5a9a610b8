//! HTTP requests of an operator that is a process: parsed and passed through the gate, while their
//! bodies and their responses go through as they are.
//!
//! Such an operator speaks HTTP to what it takes for the API server. Method, path and query of a
//! request are a [`ProxiedRequest`], parsed once, by the same code as a
//! [`RawRequest`](super::raw_request::RawRequest). Its body may be of any media type, and its
//! response may be a stream: the gate reads neither. It passes in two steps:
//!
//! 1. [`Gate::admit`] counts the request, refuses it if the gate is closed, and parses it. Only then
//!    is its body read;
//! 2. [`Gate::proxy`] delays it by the quota, checks the permit again, and sends it. A write has a
//!    record around that, for the audit.
//!
//! Who sends it checks the permit a last time, bounds the requests in flight, and ends streams whose
//! permit is gone. A request that is [long-running](RequestInfo::is_long_running) is in flight
//! only until its response begins, as watches are in the API server's [Priority and Fairness].
//!
//! [Priority and Fairness]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/server/filters/priority-and-fairness.go#L156

use std::{collections::HashMap, sync::atomic::Ordering, time::Instant};

use crate::{
    gate::{
        Gate,
        call::Call,
        raw_request::{Target, check_method, delete_body_is_dry_run, get_only, refused, verb_of},
        reply::Answer,
        target::{NoTarget, check_lengths, is_true, no_path, parameters, parse, segments, shown},
        verb::Verb,
        write_record::WriteRecord,
    },
    status::ApiError,
};

/// The maximum length of a field manager, in bytes ([`FieldManagerMaxLength`]).
///
/// [`FieldManagerMaxLength`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/apis/meta/v1/validation/validation.go#L33
const MAX_FIELD_MANAGER: usize = 128;

/// The paths outside of `/api` and `/apis`, by their first segment, and why one is refused. RBAC
/// decides about those that pass (`nonResourceURLs`).
const OUTSIDE: [(&str, Option<&str>); 11] = [
    ("version", None),
    ("openapi", None),
    ("healthz", None),
    ("livez", None),
    ("readyz", None),
    ("metrics", None),
    // The issuer of ServiceAccounts' tokens, and its keys.
    (".well-known", None),
    ("openid", None),
    (
        "logs",
        Some("the files of a control plane's node are none of an operator's business"),
    ),
    (
        "debug",
        Some("profiles of the API server are none of an operator's business"),
    ),
    (
        "swagger.json",
        Some("Kubernetes removed it in 1.14: use /openapi/v2 or /openapi/v3"),
    ),
];

/// The head of a request, without its headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxiedRequest {
    /// The HTTP method, e.g. `GET`.
    pub method: String,
    /// The path, without a query.
    pub path: String,
    /// The query, percent-encoded and without `?`.
    pub query: String,
    /// The User-Agent header: the API server makes it the field manager of a write that names none.
    pub user_agent: String,
}

/// The response to a proxied request, as far as the gate's records need it.
#[derive(Debug)]
pub struct ProxiedAnswer<T> {
    /// The HTTP status code.
    pub status: u16,
    /// The body of an answer to a write, or of one that is not JSON the part of the object's metadata
    /// that says who has set its finalizers; None if it was not read.
    pub text: Option<String>,
    /// The response itself.
    pub response: T,
}

/// A request whose head was parsed, as the API server's [RequestInfo].
///
/// [RequestInfo]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/endpoints/request/requestinfo.go#L42
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// What the request is about.
    pub target: Target,
    /// The verb RBAC would check, except that a list is also a `get`.
    pub verb: Verb,
    /// The decoded parameters of the query. As in the API server, only the first value of a repeated
    /// parameter counts.
    pub parameters: HashMap<String, String>,
    request: ProxiedRequest,
}

impl ProxiedRequest {
    /// Parses the request's head.
    ///
    /// # Errors
    /// `BadRequest` for an invalid path or query; code 405 for an unknown method, for a path that is
    /// refused, and for a request that would take over the connection.
    pub fn parse(self) -> Result<RequestInfo, ApiError> {
        check_method(&self.method)?;
        check_lengths(&self.path, &self.query)?;
        let parameters = parameters(&self.query)?;
        let target = self.target()?;

        // As in the API server, only a collection can be watched.
        let is_collection = matches!(&target, Target::Resource(path) if path.name.is_none());
        let verb = match verb_of(&self.method) {
            Verb::Get if is_collection && parameters.get("watch").is_some_and(|it| is_true(it)) => {
                Verb::Watch
            }
            verb => verb,
        };

        Ok(RequestInfo {
            target,
            verb,
            parameters,
            request: self,
        })
    }

    fn target(&self) -> Result<Target, ApiError> {
        let target = match outside(&self.path)? {
            Some(target) => target,
            None => parse(&self.path).map_err(|error| match error {
                NoTarget::Invalid(error) => error,
                NoTarget::Verb("watch") => {
                    let why = "paths with /watch/ are deprecated: use the parameter watch=true";
                    not_allowed(&self.path, why)
                }
                NoTarget::Verb(verb) => refused_subresource(&self.path, verb),
            })?,
        };

        match &target {
            Target::Discovery if self.method != "GET" => Err(get_only(&self.path)),
            Target::Resource(resource) => {
                let subresource = resource.subresource.as_deref().unwrap_or_default();
                let first = subresource.split('/').next().unwrap_or_default();
                match first {
                    "attach" | "exec" | "portforward" | "proxy" => {
                        Err(refused_subresource(&self.path, first))
                    }
                    _ => Ok(target),
                }
            }
            Target::Discovery => Ok(target),
        }
    }
}

impl RequestInfo {
    /// Describes the request. `body` is its body.
    pub fn call(&self, body: &[u8]) -> Call {
        let is_dry_run = match self.verb {
            // Options in the body replace those in the query.
            Verb::Delete if !body.is_empty() => delete_body_is_dry_run(body).unwrap_or_default(),
            verb => verb.is_write() && self.parameters.contains_key("dryRun"),
        };

        let ProxiedRequest {
            path, user_agent, ..
        } = &self.request;
        let call = Call::of_path(self.verb, path, &self.target, &self.parameters, is_dry_run);
        let field_manager = call
            .field_manager
            .filter(|manager| !manager.is_empty())
            .or_else(|| manager_of(user_agent));
        Call {
            field_manager,
            ..call
        }
    }

    /// Whether the response may take as long as both sides want: a watch, or a log. These are the
    /// API server's [long-running requests], without those that are refused here.
    ///
    /// [long-running requests]: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controlplane/apiserver/config.go#L184
    pub fn is_long_running(&self) -> bool {
        let is_log = matches!(&self.target, Target::Resource(path) if path.subresource.as_deref() == Some("log"));
        is_log || self.verb == Verb::Watch
    }
}

impl Gate {
    /// Counts a request and parses its head. This is the first step: nothing else of the request is
    /// looked at if it fails.
    ///
    /// # Errors
    /// `Forbidden` or `Unavailable` when the gate is closed, and those of
    /// [`ProxiedRequest::parse`].
    pub fn admit(&self, request: ProxiedRequest) -> Result<RequestInfo, ApiError> {
        let of_method = verb_of(&request.method);
        let info = request.parse();
        let verb = info.as_ref().map_or(of_method, |info| info.verb);
        self.meter().count(verb);

        self.permit()
            .check()
            .and(info)
            .inspect_err(|_| self.count_refused())
    }

    /// Sends an admitted request. `send` gets the call, and returns the response once it has begun;
    /// the answer to a write it has read, if it can.
    ///
    /// A write that is sent runs to its end: the caller must not cancel this, or its record is lost.
    ///
    /// # Errors
    /// `Forbidden` or `Unavailable` when the gate was closed meanwhile, and those of `send`.
    pub async fn proxy<T, F>(&self, call: Call, send: impl FnOnce(Call) -> F) -> Result<T, ApiError>
    where
        F: Future<Output = Result<ProxiedAnswer<T>, ApiError>>,
    {
        self.shared.throttle.wait().await;

        let started = Instant::now();
        self.permit()
            .check()
            .inspect_err(|_| self.count_refused())?;

        let verb = call.verb;
        let mut record = verb
            .is_write()
            .then(|| WriteRecord::begin(&self.shared, &call, None));
        if let Some(record) = &mut record {
            record.find_previous_writer().await;
        }

        let mut result = send(call).await;
        if let Some(record) = record {
            let answer = match &result {
                Ok(answer) => {
                    let body = answer.text.as_deref().unwrap_or_default();
                    Answer::of_response(verb, answer.status, body)
                }
                Err(error) => Answer::of_error(error),
            };
            record.end(&answer);
        } else if result.is_ok() {
            // A read that was revoked meanwhile must not return its response.
            result = self.permit().check().and(result);
        }

        self.count_call(started.elapsed(), result.is_err());
        result.map(|answer| answer.response)
    }

    fn count_refused(&self) {
        let meter = self.meter();
        meter.refused.fetch_add(1, Ordering::Relaxed);
        meter.errors.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether the options in the body of a deletion could be read, so that
/// [`Call::is_dry_run`] is right about it.
pub fn are_read(delete_options: &[u8]) -> bool {
    delete_options.is_empty() || delete_body_is_dry_run(delete_options).is_some()
}

/// The error of a request whose response would take over the connection, by SPDY or WebSocket.
pub fn needs_upgrade(what: &str) -> ApiError {
    let why =
        "it needs a connection upgraded to SPDY or WebSocket, which the host does not pass on yet";
    not_allowed(what, why)
}

/// The target of a path outside of `/api` and `/apis`; None for the others, and for unknown ones. A
/// slash at its end is the API server's business.
fn outside(path: &str) -> Result<Option<Target>, ApiError> {
    if path == "/" {
        return Ok(Some(Target::Discovery));
    }

    let segments = segments(path.strip_suffix('/').unwrap_or(path))?;
    let Some((_, refusal)) = OUTSIDE
        .iter()
        .find(|(first, _)| segments.first() == Some(first))
    else {
        return match segments.first() {
            Some(&("api" | "apis")) => Ok(None),
            _ => Err(no_path(
                path,
                "it begins neither with /api or /apis nor with another path that passes",
            )),
        };
    };

    match refusal {
        Some(why) => Err(not_allowed(path, why)),
        None if path.contains('%') => Err(no_path(path, "it has an escape")),
        None => Ok(Some(Target::Discovery)),
    }
}

fn refused_subresource(path: &str, subresource: &str) -> ApiError {
    if subresource == "proxy" {
        let why = "the host does not pass on requests to the HTTP server of a Pod, a Service or a node: connect to it directly";
        return not_allowed(path, why);
    }
    needs_upgrade(path)
}

fn not_allowed(what: &str, why: &str) -> ApiError {
    let message = format!("{}: {why}", shown(what));
    refused(405, "MethodNotAllowed", message)
}

/// The field manager that the API server takes from a User-Agent header: [`prefixFromUserAgent`].
/// None if it is empty.
///
/// [`prefixFromUserAgent`]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/endpoints/handlers/create.go#L280
fn manager_of(user_agent: &str) -> Option<String> {
    let prefix = user_agent.split('/').next().unwrap_or_default();
    let mut manager: String = prefix.chars().filter(|c| !c.is_control()).collect();
    manager.truncate(manager.floor_char_boundary(MAX_FIELD_MANAGER));
    Some(manager).filter(|manager| !manager.is_empty())
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use parking_lot::Mutex;

    use super::*;
    use crate::{
        conflict::{ConflictSink, FieldConflict, FieldConflicts},
        gate::{
            GateLimits, Shared,
            audit::{Audit, AuditRecord, AuditSink, Writer},
            raw_request::RawRequest,
            tests::Fake,
            throttle::{CallRate, Throttle},
        },
        object::ObjectKey,
        status::ErrorKind,
    };

    fn request(method: &str, path: &str, query: &str) -> ProxiedRequest {
        ProxiedRequest {
            method: method.into(),
            path: path.into(),
            query: query.into(),
            ..ProxiedRequest::default()
        }
    }

    fn target(method: &str, path: &str, query: &str) -> Result<Target, ApiError> {
        request(method, path, query).parse().map(|info| info.target)
    }

    fn verb(method: &str, path: &str, query: &str) -> (Verb, bool) {
        let info = request(method, path, query).parse().expect("a target");
        (info.verb, info.is_long_running())
    }

    #[test]
    fn paths_of_resources_are_parsed_as_raw_ones_are() {
        for path in [
            "/api/v1/pods",
            "/api/v1/namespaces/n/pods/a/log",
            "/apis/apps/v1/namespaces/n/deployments/d/scale",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/hello%20world",
            "/apis",
            "/apis/apps/v1",
            "/openapi/v3/apis/apps/v1",
            "/version",
            "",
            "api/v1/pods",
            "//api/v1/pods",
            "/api/v1/pods/",
            "/api/v1/namespaces/../secrets",
            "/api/v1/namespaces/n/pods/a%2fb",
            "/api/v1/namespaces/n/pods/%2e%2e",
            "/api/v1/namespaces/%6e/pods/a",
            "/api/v1/pods#x",
        ] {
            let raw = RawRequest {
                method: "GET".into(),
                path: path.into(),
                ..RawRequest::default()
            };
            let target = target("GET", path, "");
            assert_eq!(target.clone().ok(), raw.target().ok(), "{path}");
            if let Err(error) = target {
                assert_eq!(error.kind, ErrorKind::BadRequest, "{path}: {error}");
            }
        }
    }

    #[test]
    fn paths_outside_of_resources_pass_or_are_refused_with_the_reason() {
        for path in [
            "/",
            "/version",
            "/version/",
            "/openapi/v2",
            "/healthz",
            "/livez/ping",
            "/readyz/etcd",
            "/metrics",
            "/.well-known/openid-configuration",
            "/openid/v1/jwks",
        ] {
            assert_eq!(target("GET", path, ""), Ok(Target::Discovery), "{path}");
            let error = target("POST", path, "").expect_err(path);
            assert_eq!(error.status.code, 405, "{error}");
        }
        for (path, code, why) in [
            ("/logs/kube-apiserver.log", 405, "node"),
            ("/debug/pprof/heap", 405, "profiles"),
            ("/swagger.json", 405, "/openapi/v2"),
            ("/healthz/%2e%2e", 400, "escape"),
            ("/healthz/../api", 400, "a dot"),
            ("/admin", 400, "neither"),
            ("/version//", 400, "empty"),
        ] {
            let error = target("GET", path, "").expect_err(path);
            assert!(
                error.status.code == code && error.status.message.contains(why),
                "{path}: {error}"
            );
        }
    }

    #[test]
    fn what_takes_over_the_connection_is_refused_with_the_reason() {
        for (path, why) in [
            ("/api/v1/namespaces/n/pods/a/exec", "SPDY or WebSocket"),
            ("/api/v1/namespaces/n/pods/a/attach", "SPDY or WebSocket"),
            (
                "/api/v1/namespaces/n/pods/a/portforward",
                "SPDY or WebSocket",
            ),
            (
                "/api/v1/namespaces/n/services/a/proxy/x",
                "connect to it directly",
            ),
            ("/api/v1/proxy/nodes/a", "connect to it directly"),
            ("/api/v1/watch/pods", "watch=true"),
        ] {
            for method in ["GET", "POST"] {
                let error = target(method, path, "").expect_err(path);
                assert!(
                    error.status.code == 405 && error.status.message.contains(why),
                    "{path}: {error}"
                );
            }
        }
        for method in ["CONNECT", "OPTIONS", "HEAD", ""] {
            let error = target(method, "/api/v1/pods", "").expect_err(method);
            assert_eq!(error.status.code, 405, "{error}");
        }
        let error = target("GET", "/api/v1/pods", "a;b");
        assert_eq!(error.expect_err("a query").kind, ErrorKind::BadRequest);
    }

    #[test]
    fn watches_and_logs_are_long_running() {
        let pods = "/api/v1/namespaces/n/pods";
        for (path, query, expected) in [
            (pods, "watch=true", (Verb::Watch, true)),
            (pods, "watch=1&resourceVersion=5", (Verb::Watch, true)),
            (pods, "watch=", (Verb::Watch, true)),
            (pods, "watch=False", (Verb::Get, false)),
            (pods, "watch=0&watch=1", (Verb::Get, false)),
            (pods, "allowWatchBookmarks=true", (Verb::Get, false)),
            (
                "/api/v1/namespaces/n/pods/a",
                "watch=true",
                (Verb::Get, false),
            ),
            (
                "/api/v1/namespaces/n/pods/a/log",
                "follow=true",
                (Verb::Get, true),
            ),
            ("/api/v1/namespaces/n/pods/a/log", "", (Verb::Get, true)),
            ("/version", "watch=true", (Verb::Get, false)),
        ] {
            assert_eq!(verb("GET", path, query), expected, "{path}?{query}");
        }
        assert_eq!(verb("POST", pods, "watch=true"), (Verb::Create, false));
    }

    #[test]
    fn calls_have_the_field_manager_that_the_api_server_takes() {
        let path = "/api/v1/namespaces/n/configmaps/a";
        let manager = |query: &str, user_agent: &str| {
            let request = ProxiedRequest {
                user_agent: user_agent.into(),
                ..request("PUT", path, query)
            };
            let info = request.parse().expect("a target");
            info.call(b"").field_manager
        };
        let long = "m".repeat(MAX_FIELD_MANAGER + 1);
        for (query, user_agent, expected) in [
            ("fieldManager=a", "manager/v1", Some("a")),
            ("", "manager/v1 (linux/amd64) kubernetes", Some("manager")),
            ("fieldManager=", "man\u{7}ager", Some("manager")),
            ("", &long, Some(&long[1..])),
            ("", "", None),
        ] {
            assert_eq!(manager(query, user_agent).as_deref(), expected);
        }
    }

    #[test]
    fn dry_runs_are_recognized_where_the_api_server_looks_for_them() {
        let is_dry_run = |method: &str, query: &str, body: &[u8]| {
            let request = request(method, "/api/v1/nodes/a", query);
            request.parse().expect("a target").call(body).is_dry_run
        };
        assert!(is_dry_run("PUT", "dryRun=All", b"{}"));
        assert!(is_dry_run("DELETE", "dryRun=All", b""));
        assert!(is_dry_run("DELETE", "", br#"{"dryRun":["All"]}"#));
        assert!(!is_dry_run("DELETE", "dryRun=All", b"{}"));
        assert!(!is_dry_run("DELETE", "", b"k8s\0"), "it is not read");
        assert!(!is_dry_run("GET", "dryRun=All", b""));

        for (options, expected) in [
            (&b""[..], true),
            (b"{}", true),
            (br#"{"dryRun":["All"]}"#, true),
            (br#"{"dryRun":[],"dryRun":["All"]}"#, false),
            (b"k8s\0", false),
            (b"dryRun: [All]", false),
        ] {
            assert_eq!(are_read(options), expected, "{options:?}");
        }
    }

    #[derive(Default)]
    struct Records(Mutex<Vec<AuditRecord>>);

    impl AuditSink for Records {
        fn record(&self, record: &AuditRecord) {
            self.0.lock().push(record.clone());
        }
    }

    impl ConflictSink for Records {
        fn conflict(&self, _: &FieldConflict) {}
    }

    fn gate(shared: Shared) -> Arc<Gate> {
        let api = Arc::new(Fake::default());
        let config = "{}".into();
        Gate::new(
            api.clone(),
            api.clone(),
            api,
            config,
            GateLimits::default(),
            shared,
        )
    }

    /// Sends a request that is answered with this status.
    async fn send(gate: &Gate, request: ProxiedRequest, status: u16) -> Result<(), ApiError> {
        let call = gate.admit(request)?.call(b"");
        let answer = |_| async move {
            Ok(ProxiedAnswer {
                status,
                text: None,
                response: (),
            })
        };
        gate.proxy(call, answer).await
    }

    #[tokio::test]
    async fn writes_are_audited_and_reads_are_not() {
        let sink = Arc::new(Records::default());
        let writer = Writer {
            plugin: ObjectKey::namespaced("n", "p"),
            digest: String::new(),
            service_account: "a".to_owned(),
            field_manager: "m".to_owned(),
        };
        let audit = Audit {
            writer,
            sink: sink.clone(),
            conflicts: FieldConflicts::new(sink.clone()),
        };
        let gate = gate(Shared {
            audit: Some(audit),
            ..Shared::default()
        });

        let path = "/api/v1/namespaces/n/configmaps/a";
        for (method, query, status) in [
            ("PUT", "", 200),
            ("PATCH", "dryRun=All", 200),
            ("DELETE", "", 409),
            ("GET", "", 200),
            ("GET", "watch=true", 200),
        ] {
            let sent = send(&gate, request(method, path, query), status).await;
            sent.expect("a response is no error, whatever its status");
        }
        send(&gate, request("PUT", "/logs", ""), 200)
            .await
            .expect_err("refused");

        let records = sink.0.lock();
        let records: Vec<_> = records
            .iter()
            .map(|record| (record.verb.as_str(), record.result.as_str(), record.dry_run))
            .collect();
        assert_eq!(
            records,
            [
                ("update", "ok", false),
                ("patch", "ok", true),
                ("delete", "409", false)
            ]
        );
        let meter = gate.meter();
        assert_eq!(
            (
                meter.calls(Verb::Get),
                meter.calls(Verb::Update),
                meter.refused.load(Ordering::Relaxed)
            ),
            (2, 2, 1)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn closed_gate_refuses_requests_even_if_they_waited_for_their_quota() {
        let rates = vec![Arc::new(CallRate::new(1, 1))];
        let gate = gate(Shared {
            throttle: Throttle {
                rates,
                ..Throttle::default()
            },
            ..Shared::default()
        });
        let get = || request("GET", "/api/v1/nodes/a", "");
        send(&gate, get(), 200).await.expect("sent");

        let waiting = tokio::spawn({
            let (gate, put) = (gate.clone(), request("PUT", "/api/v1/nodes/a", ""));
            async move { send(&gate, put, 200).await }
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        gate.close("no consent");

        let error = waiting.await.expect("no panic").expect_err("closed");
        assert_eq!(
            (error.kind, error.status.message.as_str()),
            (ErrorKind::Forbidden, "no consent")
        );
        let error = send(&gate, get(), 200).await.expect_err("closed");
        assert_eq!(error.kind, ErrorKind::Forbidden);
    }

    #[tokio::test]
    async fn read_that_is_revoked_while_it_is_sent_returns_nothing() {
        let gate = gate(Shared::default());
        for (method, is_returned) in [("GET", false), ("PUT", true)] {
            let request = request(method, "/api/v1/nodes/a", "");
            let call = request.parse().expect("a target").call(b"");
            let answer = |_| {
                gate.permit().pause("not now");
                async {
                    Ok(ProxiedAnswer {
                        status: 200,
                        text: None,
                        response: (),
                    })
                }
            };
            let sent = gate.proxy(call, answer).await;
            assert_eq!(sent.is_ok(), is_returned, "{method}");
            gate.permit().resume();
        }
    }
}
