//! The endpoints of the host:
//!
//! - /healthz, /livez, /readyz and /metrics
//! - /informers: the informers
//! - /logs/NAMESPACE/PLUGIN: a plugin's log
//! - /rbac/NAMESPACE/PLUGIN: the permissions it needs
//! - /retry/NAMESPACE/PLUGIN: a POST retries its failed keys
//! - /reconciles/NAMESPACE/PLUGIN: its last reconciles
//! - /why/GROUP/VERSION/PLURAL/NAMESPACE/NAME: the changes of an object and their causes
//! - /page/: the page for people ([`page`]), which always authenticates
//!
//! `adminAddress` serves all of them without authentication and is therefore loopback by default.
//! `healthAddress` serves only the probes, `secureEndpoints` the others, with TLS, authentication
//! and authorization. There, the replica that runs a Plugin answers requests about it
//! ([`mod@forward`]).

pub mod access;
mod bind;
pub mod certificate;
pub mod connections;
pub mod forward;
mod gather;
pub mod headers;
pub mod informers;
mod local;
mod metrics;
pub mod object_path;
pub mod secure;
pub mod shares;
pub mod streams;
mod why;

use std::{convert::Infallible, future::IntoFuture, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, Query, State},
    http::StatusCode,
    middleware,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures::{StreamExt, stream};
use kube::Client;
use operetta_api::reasons;
use operetta_core::object::ObjectKey;
use serde::Deserialize;
use tokio::{
    net::TcpListener,
    sync::broadcast::{Receiver, error::RecvError},
};

use crate::{
    admin::{
        access::AccessControl,
        bind::bind,
        certificate::CertificateReads,
        connections::{BoundedListener, Limits},
        forward::{Forwarder, forward},
        informers::{Informers, ServerRevisions},
        secure::{Gatekeeper, SecureListener},
        shares::Readers,
    },
    authz::permissions::{self, PermissionsError},
    config::HostConfig,
    logs::store::EncodedLine,
    manager::Manager,
    metrics::informers::InformerMetrics,
    page::{self, Page},
    plugin::retry::{self, RetryError},
    readiness::Check,
    replicas::endpoint::Endpoint,
};

/// How often a quiet followed log gets a blank line. It lets both ends notice when the other is
/// gone, and keeps proxies from closing an idle connection.
const BLANK_LINE: Duration = Duration::from_secs(20);

/// The state of the admin endpoints.
struct Admin {
    manager: Arc<Manager>,
    informer_metrics: InformerMetrics,
    server_revisions: ServerRevisions,
    /// Reads of the certificate files, if the secure endpoints use any.
    certificate_reads: Option<Arc<CertificateReads>>,
    /// Forwards users' requests to other replicas; None without the secure endpoints.
    forwarder: Option<Arc<Forwarder>>,
}

/// The bound listeners of the endpoints.
pub struct Listeners {
    admin: TcpListener,
    health: Option<TcpListener>,
    secure: Option<SecureListener>,
}

impl Listeners {
    /// Binds the configured addresses.
    ///
    /// # Errors
    /// When an address can't be bound; the message names it and its field.
    pub async fn bind(config: &HostConfig) -> Result<Self> {
        let admin = bind(config.admin_address, "adminAddress").await?;
        let health = match config.health_address {
            Some(address) => Some(bind(address, "healthAddress").await?),
            None => None,
        };
        let secure = match &config.secure_endpoints {
            Some(endpoints) => Some(SecureListener::bind(endpoints).await?),
            None => None,
        };

        Ok(Self {
            admin,
            health,
            secure,
        })
    }

    /// Returns the admin address with its actual port.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn admin_address(&self) -> Result<String> {
        Ok(self.admin.local_addr()?.to_string())
    }

    /// Returns how other replicas reach the secure endpoints, if they can.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn endpoint(&self) -> Result<Option<Endpoint>> {
        let Some(secure) = &self.secure else {
            return Ok(None);
        };
        let endpoint = secure.endpoint()?;
        if endpoint.is_none() {
            tracing::warn!(
                "set POD_IP: without it, no other replica can forward requests of users to this one"
            );
        }

        Ok(endpoint)
    }

    /// Logs the addresses of the other endpoints.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn log(&self) -> Result<()> {
        if let Some(health) = &self.health {
            tracing::info!(health = %health.local_addr()?, "serving probes");
        }
        if let Some(secure) = &self.secure {
            tracing::info!(
                secure = secure.address()?,
                "serving the endpoints for users"
            );
        }
        Ok(())
    }

    /// Serves the endpoints until the process ends. `user_client` has no credentials of its own:
    /// the page sends requests with a user's token through it.
    ///
    /// # Errors
    /// When a listener fails.
    pub async fn serve(self, manager: Arc<Manager>, user_client: Client) -> Result<()> {
        let access = Arc::new(AccessControl::new(manager.context.cluster.client.clone())?);
        let forwarder = self
            .secure
            .as_ref()
            .map(|_| Arc::new(Forwarder::new(manager.clone())));
        let readers = Arc::<Readers>::default();
        let page = || {
            Page::new(
                manager.clone(),
                access.clone(),
                forwarder.clone(),
                user_client,
                readers.clone(),
            )
        };
        let page = manager.context.config.page.then(page);

        let admin = Arc::new(Admin {
            manager,
            forwarder: forwarder.clone(),
            informer_metrics: InformerMetrics::default(),
            server_revisions: ServerRevisions::default(),
            certificate_reads: self
                .secure
                .as_ref()
                .and_then(SecureListener::certificate_reads),
        });

        let probes = Router::new()
            .route("/healthz", get(|| async { "ok" }))
            .route("/livez", get(|| async { "ok" }))
            .route("/readyz", get(ready));
        let users = Router::new()
            .route("/metrics", get(metrics::scrape))
            .route("/informers", get(informers))
            .route("/logs/{namespace}/{plugin}", get(logs))
            .route("/rbac/{namespace}/{plugin}", get(rbac))
            .route("/retry/{namespace}/{plugin}", post(retry))
            .route("/reconciles/{namespace}/{plugin}", get(why::reconciles))
            .route(
                "/facts/{group}/{version}/{plural}/{namespace}/{name}",
                get(why::facts),
            )
            .route(
                "/why/{group}/{version}/{plural}/{namespace}/{name}",
                get(why::why),
            )
            .with_state(admin.clone());

        let probes = probes.with_state(admin);
        let page_routes = |is_tls, forwarder| {
            page.as_ref()
                .map(|page| page::routes(page, is_tls, forwarder))
                .unwrap_or_default()
        };
        let all = page_routes(false, None)
            .merge(probes.clone())
            .merge(users.clone())
            .layer(middleware::from_fn(local::guard));
        let health = async {
            match self.health {
                Some(listener) => {
                    axum::serve(BoundedListener::new(listener, Limits::PROBES), probes)
                        .await
                        .context("the server of the probes stopped")
                }
                None => std::future::pending().await,
            }
        };

        let secure = async {
            match self.secure.zip(forwarder) {
                Some((listener, forwarder)) => {
                    let page = page_routes(true, Some(forwarder.clone()));
                    let routes = users.layer(middleware::from_fn_with_state(forwarder, forward));
                    listener
                        .serve(routes, Gatekeeper { access, readers }, page)
                        .await
                }
                None => std::future::pending().await,
            }
        };

        tokio::select! {
            ended = axum::serve(self.admin, all).into_future() => ended.context("the admin server stopped"),
            ended = health => ended,
            ended = secure => ended,
        }
    }
}

/// Responds like an API server: `ok`, or the list of checks after a failure or for `?verbose`. Each
/// `exclude=NAME` skips a check.
async fn ready(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<Vec<(String, String)>>,
) -> (StatusCode, String) {
    readiness(&admin.manager.readiness.checks(), &query)
}

fn readiness(checks: &[Check], query: &[(String, String)]) -> (StatusCode, String) {
    let is_excluded = |check: &Check| {
        query
            .iter()
            .any(|(key, name)| key == "exclude" && name == check.name)
    };
    let is_ready = checks
        .iter()
        .all(|check| check.passes() || is_excluded(check));
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    if is_ready && !query.iter().any(|(key, _)| key == "verbose") {
        return (status, "ok".to_owned());
    }

    let result = if is_ready { "passed" } else { "failed" };
    let line = |check: &Check| match is_excluded(check) {
        true => format!("[+]{} excluded: ok\n", check.name),
        false => format!("{check}\n"),
    };
    let lines: String = checks.iter().map(line).collect();
    (status, format!("{lines}readyz check {result}\n"))
}

async fn informers(State(admin): State<Arc<Admin>>) -> Json<Informers> {
    let Manager {
        context,
        hosted_plugins,
        ..
    } = &*admin.manager;
    Json(informers::list(&context.cluster, hosted_plugins, &admin.server_revisions).await)
}

#[derive(Deserialize)]
struct LogQuery {
    #[serde(default)]
    follow: bool,
    tail: Option<usize>,
}

/// Responds with one JSON object per line. With `follow` the response goes on until the client
/// disconnects, with a blank line now and then.
async fn logs(
    State(admin): State<Arc<Admin>>,
    Path((namespace, plugin)): Path<(String, String)>,
    Query(query): Query<LogQuery>,
) -> Response {
    let key = ObjectKey::namespaced(namespace, plugin);
    let Some(log) = admin.manager.context.logs.get(&key) else {
        return unknown(&key);
    };

    let (lines, tail) = log.follow(query.tail.unwrap_or(usize::MAX));
    let kept = stream::iter(lines).map(|line| Ok::<_, Infallible>(bytes(&line)));
    let body = if query.follow {
        Body::from_stream(kept.chain(rest(tail)))
    } else {
        Body::from_stream(kept)
    };
    ([("content-type", "application/x-ndjson")], body).into_response()
}

fn unknown(plugin: &ObjectKey) -> Response {
    let message =
        format!("this host runs no plugin {plugin}: check that it exists, and its conditions");
    headers::error(StatusCode::NOT_FOUND, reasons::PLUGIN_NOT_ASSIGNED, message)
}

async fn rbac(
    State(admin): State<Arc<Admin>>,
    Path((namespace, plugin)): Path<(String, String)>,
) -> Response {
    let key = ObjectKey::namespaced(namespace, plugin);
    match permissions::list(&admin.manager.context, &admin.manager.hosted_plugins, &key).await {
        Ok(permissions) => Json(permissions).into_response(),
        Err(PermissionsError::Unknown) => unknown(&key),
        Err(PermissionsError::NotRunning) => not_running(&key),
        Err(PermissionsError::Unavailable(error)) => {
            (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
        }
    }
}

/// Retries the keys in the query, or all failed ones if it names none.
async fn retry(
    State(admin): State<Arc<Admin>>,
    Path((namespace, plugin)): Path<(String, String)>,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    let key = ObjectKey::namespaced(namespace, plugin);
    let named: Vec<String> = query
        .into_iter()
        .filter(|(name, _)| name == "key")
        .map(|(_, value)| value)
        .collect();
    match retry::retry(&admin.manager.hosted_plugins, &key, &named).await {
        Ok(retried) => Json(retried).into_response(),
        Err(RetryError::Unknown) => unknown(&key),
        Err(RetryError::NotRunning) => not_running(&key),
    }
}

fn not_running(plugin: &ObjectKey) -> Response {
    (
        StatusCode::CONFLICT,
        format!("Plugin {plugin} does not run"),
    )
        .into_response()
}

/// Streams new lines, and blank ones in between, until the host drops the plugin's log.
fn rest(tail: Receiver<EncodedLine>) -> impl futures::Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(tail, |mut tail| async move {
        loop {
            match tokio::time::timeout(BLANK_LINE, tail.recv()).await {
                Ok(Ok(line)) => return Some((Ok(bytes(&line)), tail)),
                // A slow reader loses lines, but keeps its connection.
                Ok(Err(RecvError::Lagged(_))) => {}
                Ok(Err(RecvError::Closed)) => return None,
                Err(_elapsed) => return Some((Ok(Bytes::from_static(b"\n")), tail)),
            }
        }
    })
}

fn bytes(line: &EncodedLine) -> Bytes {
    [line.get(), "\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn excluded_check_does_not_count() {
        let check = |name, failure: Option<&str>| Check {
            name,
            failure: failure.map(str::to_owned),
            optional: false,
        };
        let checks = [
            check("api-server", None),
            check("lease", Some("another host holds it")),
        ];
        let (status, body) = readiness(&checks, &[]);
        assert_eq!(
            (status, body.lines().last()),
            (StatusCode::SERVICE_UNAVAILABLE, Some("readyz check failed"))
        );

        let without = query(&[("exclude", "informers"), ("exclude", "lease")]);
        assert_eq!(
            readiness(&checks, &without),
            (StatusCode::OK, "ok".to_owned())
        );

        let (_, body) = readiness(&checks, &query(&[("verbose", ""), ("exclude", "lease")]));
        assert_eq!(
            body,
            "[+]api-server ok\n[+]lease excluded: ok\nreadyz check passed\n"
        );

        let (status, body) = readiness(&checks, &query(&[("exclude", "api-server")]));
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(
            body.contains("[-]lease failed: another host holds it\n"),
            "{body}"
        );
    }
}
