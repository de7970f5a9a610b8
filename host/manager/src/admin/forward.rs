//! User requests about a Plugin on another replica. A Service picks any replica, but only the one
//! that runs the Plugin has its log.
//!
//! The first replica forwards the request with the user's token, and the other one checks it again.
//! Nothing a tenant can write decides where the token goes: the other replica's name comes from the
//! group, its address and certificate from its Lease. A Plugin's status can at most select the
//! wrong member. A forwarded request has the header [`FORWARDED_BY`] and is never forwarded again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    middleware::Next,
    response::Response,
};
use futures::{
    StreamExt,
    future::{join, join_all},
};
use kube::client::Body as KubeBody;
use operetta_api::reasons;
use operetta_core::object::ObjectKey;
use operetta_kube::client::{api_client::chain, own_token::FORWARDED};
use tokio::time::timeout;

use crate::{
    admin::{
        access::{Required, credentials},
        gather,
        headers::{self, BUFFERING, FORWARDED_BY, REASON, REPLICA},
        streams::{OpenStream, Streams},
    },
    manager::{Location, Manager},
    replicas::leases::LeaseNames,
};

/// Timeout until the headers of the other replica's response.
const ANSWER: Duration = Duration::from_secs(30);

/// Why a user gets no answer when all places are taken.
pub const TOO_MANY: &str = "too many users read from this replica of the host: try again later";

/// How long a response may take. A user who follows a log for longer reconnects and is authorized
/// again.
const LONGEST: Duration = Duration::from_secs(4 * 60 * 60);

/// Responds to users' requests here, or forwards them to the replica that runs the Plugin.
pub struct Forwarder {
    manager: Arc<Manager>,
    identity: HeaderValue,
    /// The open responses, including those from other replicas.
    pub streams: Streams,
    /// The number of forwarded requests.
    pub forwarded: AtomicU64,
}

impl Forwarder {
    /// Creates a forwarder for this manager's replica.
    pub fn new(manager: Arc<Manager>) -> Self {
        let identity = manager.replicas.identity();
        let identity =
            HeaderValue::from_str(identity).unwrap_or(HeaderValue::from_static("unknown"));
        Self {
            manager,
            identity,
            streams: Streams::default(),
            forwarded: AtomicU64::default(),
        }
    }

    async fn respond(&self, request: Request, next: Next) -> Response {
        let Some(target) = Target::of(request.uri()) else {
            return next.run(request).await;
        };
        let Some(open) = self.streams.open(&target.namespace()) else {
            return headers::error(
                StatusCode::TOO_MANY_REQUESTS,
                reasons::TOO_MANY_STREAMS,
                TOO_MANY,
            );
        };

        let is_forwarded = request.headers().contains_key(FORWARDED_BY);
        let others = if is_forwarded {
            Vec::new()
        } else {
            self.other_shard_owners(&target, request.uri())
        };
        if !others.is_empty() {
            return counted(self.retry_everywhere(&others, request, next).await, open);
        }

        let response = match self.locate(&target) {
            Location::Unknown => {
                let message =
                    "this replica of the host has not joined the others yet: try again".to_owned();
                headers::error(
                    StatusCode::SERVICE_UNAVAILABLE,
                    reasons::NO_READY_REPLICA,
                    message,
                )
            }
            Location::Elsewhere(identity) if !is_forwarded => {
                self.forward(&identity, request).await
            }
            Location::OtherGroup(group) => {
                let message = other_group(&group);
                headers::error(
                    StatusCode::MISDIRECTED_REQUEST,
                    reasons::OTHER_INSTALLATION,
                    message,
                )
            }
            Location::Here | Location::Elsewhere(_) => next.run(request).await,
        };
        counted(response, open)
    }

    fn locate(&self, target: &Target) -> Location {
        match target {
            Target::Plugin(required) => required
                .plugin()
                .map_or(Location::Here, |plugin| self.manager.locate(&plugin)),
            Target::Replica(identity) if identity == self.manager.replicas.identity() => {
                Location::Here
            }
            Target::Replica(identity) => Location::Elsewhere(identity.clone()),
        }
    }

    /// Returns the other replicas that must retry keys too, because they run shards of the Plugin.
    fn other_shard_owners(&self, target: &Target, uri: &Uri) -> Vec<String> {
        match target {
            Target::Plugin(required) if uri.path().starts_with("/retry/") => required
                .plugin()
                .map(|plugin| self.manager.other_shard_owners(&plugin))
                .unwrap_or_default(),
            Target::Plugin(_) | Target::Replica(_) => Vec::new(),
        }
    }

    /// Forwards a retry to these replicas and handles it here too.
    async fn retry_everywhere(&self, others: &[String], request: Request, next: Next) -> Response {
        let (head, body) = request.into_parts();
        let copy = || Request::from_parts(head.clone(), Body::empty());
        let sent = join_all(others.iter().map(|identity| self.forward(identity, copy())));
        let (own, sent) = join(next.run(Request::from_parts(head.clone(), body)), sent).await;
        gather::sum_of(sent, own).await
    }

    /// Forwards a request and returns the response, or an error response.
    async fn forward(&self, identity: &str, request: Request) -> Response {
        // No endpoint reads a body.
        let (head, _body) = request.into_parts();
        match self.send(identity, head).await {
            Ok(response) => response,
            Err(problem) => headers::error(
                StatusCode::BAD_GATEWAY,
                reasons::REPLICA_UNREACHABLE,
                unreachable_replica(identity, &problem),
            ),
        }
    }

    /// Sends a request to another replica, with the user's token, and returns its response.
    ///
    /// # Errors
    /// Why there is no response.
    pub async fn send(&self, identity: &str, request: Parts) -> Result<Response, String> {
        let mut headers = HeaderMap::new();
        if let Some(accepted) = request.headers.get(header::ACCEPT) {
            headers.insert(header::ACCEPT, accepted.clone());
        }
        if let Some(token) = credentials(&request.headers) {
            headers.insert(FORWARDED, token.clone());
        }
        self.send_with(identity, request.method, &request.uri, headers)
            .await
    }

    /// Sends a request with these headers to another replica and returns its response.
    ///
    /// # Errors
    /// Why there is no response.
    pub async fn send_with(
        &self,
        identity: &str,
        method: Method,
        uri: &Uri,
        headers: HeaderMap,
    ) -> Result<Response, String> {
        let endpoint = self
            .manager
            .replicas
            .endpoint_of(identity)
            .await
            .map_err(|error| error.to_string())?;
        let endpoint =
            endpoint.ok_or("it has no Lease with an address (secureEndpoints, POD_IP)")?;
        let client = endpoint.client().map_err(|error| format!("{error:#}"))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut sent = http::Request::builder()
            .method(method)
            .uri(path)
            .body(KubeBody::empty())
            .map_err(|error| error.to_string())?;
        *sent.headers_mut() = headers;
        sent.headers_mut()
            .insert(FORWARDED_BY, self.identity.clone());
        self.forwarded.fetch_add(1, Ordering::Relaxed);
        let answer = timeout(ANSWER, client.send(sent))
            .await
            .map_err(|_| "it does not respond".to_owned())?;
        let (from, body) = answer.map_err(|error| chain(&error))?.into_parts();
        let mut response = Response::new(Body::new(body));
        *response.status_mut() = from.status;

        for name in [
            header::CONTENT_TYPE,
            HeaderName::from_static(REASON),
            HeaderName::from_static(REPLICA),
            // Or a proxy in front of this replica would hold a stream's events back.
            HeaderName::from_static(BUFFERING),
        ] {
            if let Some(value) = from.headers.get(&name) {
                response.headers_mut().insert(name, value.clone());
            }
        }

        Ok(response)
    }
}

/// The layer that forwards requests, behind the access control.
pub async fn forward(
    State(forwarder): State<Arc<Forwarder>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = forwarder.respond(request, next).await;
    response
        .headers_mut()
        .entry(REPLICA)
        .or_insert_with(|| forwarder.identity.clone());
    response
}

/// The replica a request is for.
enum Target {
    /// The one running this Plugin.
    Plugin(Required),
    /// The one with this identity.
    Replica(String),
}

impl Target {
    /// Returns the target of a request: its Plugin's replica, or the one in the parameter
    /// `replica`. None means any.
    fn of(uri: &Uri) -> Option<Self> {
        let required = Required::of(uri.path());
        if required.plugin().is_some() {
            return Some(Self::Plugin(required));
        }
        let mut parameters = uri.query().unwrap_or_default().split('&');
        parameters
            .find_map(|parameter| parameter.strip_prefix("replica="))
            .map(|name| Self::Replica(name.to_owned()))
    }

    /// Returns the namespace whose limit of open responses applies.
    fn namespace(&self) -> String {
        match self {
            Self::Plugin(required) => required
                .plugin()
                .and_then(|plugin| plugin.namespace)
                .unwrap_or_default(),
            Self::Replica(_) => String::new(),
        }
    }
}

/// Logs that a replica can't be reached, and says so.
pub fn unreachable_replica(identity: &str, problem: &str) -> String {
    tracing::warn!(identity, problem, "failed to forward a request of a user");
    format!("failed to reach replica {identity} of the host: {problem}")
}

/// Counts a response as open until its body ends or is dropped.
pub fn counted(response: Response, open: OpenStream) -> Response {
    response.map(|body| {
        let chunks = body
            .into_data_stream()
            .take_until(tokio::time::sleep(LONGEST));
        Body::from_stream(chunks.map(move |chunk| {
            let _open = &open;
            chunk
        }))
    })
}

/// Says which hosts to ask about a Plugin that another group runs.
fn other_group(group: &ObjectKey) -> String {
    let namespace = group.namespace.as_deref().unwrap_or_default();
    match LeaseNames::of_group(&group.name).and_then(|names| names.class) {
        Some(class) => format!(
            "the hosts of class {:?} in namespace {namespace} run the Plugin: ask them with --host-class {class}",
            class.as_str()
        ),
        None => format!(
            "the hosts without a class in namespace {namespace} run the Plugin: ask them, without --host-class"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{admin::certificate, replicas::endpoint::Endpoint};

    fn target(uri: &str) -> Option<String> {
        let target = Target::of(&uri.parse().expect("a URI"))?;
        Some(match target {
            Target::Plugin(required) => required.plugin()?.to_string(),
            Target::Replica(identity) => format!("replica {identity}"),
        })
    }

    #[test]
    fn target_is_that_of_the_plugin_or_the_named_replica() {
        assert_eq!(
            target("/logs/team/a?follow=true&replica=b").as_deref(),
            Some("team/a")
        );

        for path in [
            "/rbac/team/a",
            "/page/plugins/team/a",
            "/page/api/plugins/team/a",
            "/page/api/plugins/team/a/log",
        ] {
            assert_eq!(target(path).as_deref(), Some("team/a"), "{path}");
        }

        assert_eq!(
            target("/informers?replica=pod_1-2").as_deref(),
            Some("replica pod_1-2")
        );

        for uri in [
            "/informers",
            "/metrics?x=replica=b",
            "/logs/team",
            "/page/api/plugins",
        ] {
            assert_eq!(target(uri), None, "{uri}");
        }
    }

    #[test]
    fn hosts_of_the_class_that_runs_the_plugin_are_named() {
        let text = |name: &str| other_group(&ObjectKey::namespaced("operetta-system", name));
        assert!(
            text("operetta.a").ends_with("--host-class a"),
            "{}",
            text("operetta.a")
        );
        assert!(text("operetta").contains("without a class in namespace operetta-system"));
    }

    #[tokio::test]
    async fn client_of_replica_trusts_its_certificate_alone() {
        let replica = certificate::load(None).expect("a certificate");
        let other = certificate::load(None).expect("a certificate");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("non-blocking");

        let address = listener.local_addr().expect("an address");
        let routes = axum::Router::new().route("/", axum::routing::get(|| async { "hello" }));
        let server =
            axum_server::from_tcp_rustls(listener, replica.config.clone()).expect("a server");
        let serving = tokio::spawn(server.serve(routes.into_make_service()));

        let get = async |certificate: &str| {
            let endpoint = Endpoint {
                address,
                certificate: certificate.to_owned(),
            };
            let client = endpoint.client().expect("a client");
            client
                .send(
                    http::Request::get("/")
                        .body(KubeBody::empty())
                        .expect("a request"),
                )
                .await
        };
        assert_eq!(
            get(&replica.replica_certificate)
                .await
                .expect("a response")
                .status(),
            StatusCode::OK
        );

        let error = chain(&get(&other.replica_certificate).await.expect_err("trusted"));
        assert!(error.contains("certificate"), "{error}");

        serving.abort();
    }
}
