//! Joins the group and renews this replica's Lease.
//!
//! The heartbeat has a thread, a runtime and a connection of its own. A task among those that parse
//! megabytes and answer readers would be polled only after them, as would the task that drives the
//! connection. If they kept all workers for as long as the Lease lasts, another replica would take
//! over from one that is merely busy.

use std::{sync::Arc, thread, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use operetta_core::replicas::Group;
use operetta_kube::client::diagnosis::diagnose;
use tokio::{runtime, sync::oneshot, time::timeout};

use crate::replicas::{
    Membership, Replicas, Standing,
    leases::{self, Leases, is_code},
};

/// When a pending request is reported as a problem. The replica goes on waiting for the response.
const SLOW: Duration = Duration::from_secs(1);

/// Timeout of a renewal.
const GIVE_UP: Duration = Duration::from_secs(8);

/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(1);

const NO_ANSWER: &str = "the API server does not respond (is the network up?)";

/// The heartbeat of a replica. Dropping it ends its thread, if it has one; otherwise it ends with
/// the runtime.
#[must_use = "dropping it lets the Lease expire"]
pub struct Heartbeat {
    _stop: Option<oneshot::Sender<()>>,
}

/// Renews the Lease of a replica.
struct Renewals {
    replicas: Arc<Replicas>,
    /// The Leases, over the heartbeat's connection.
    leases: Leases,
    /// The Lease as this replica wrote it last.
    held: Option<Lease>,
}

/// How an attempt to renew the Lease ended.
enum Renewal {
    /// The Lease is ours.
    Held,
    /// Another write came first: try again at once.
    Conflict,
    /// Another replica took the Lease.
    Taken,
}

impl Replicas {
    /// Joins the group, and renews the Lease until this replica's epoch ends. That happens in a
    /// thread of its own after [`Replicas::set_connector`]. Otherwise it is a task of this runtime:
    /// a simulation has one thread.
    ///
    /// # Errors
    /// When the thread can't be started, or the client can't be created.
    pub async fn start_heartbeat(self: &Arc<Self>) -> Result<Heartbeat> {
        let replicas = self.clone();
        let Some(connector) = self.connector.get().cloned() else {
            let leases = self.leases.through(self.leases.client());
            tokio::spawn(Renewals::new(replicas, leases).run());
            return Ok(Heartbeat { _stop: None });
        };

        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("failed to start the runtime that renews the Lease")?;
        let (stop, stopped) = oneshot::channel::<()>();
        let (connected, is_connected) = oneshot::channel();
        let beat = async move {
            // In this runtime, because a connection belongs to the one where its client was created.
            let client = match connector.client() {
                Ok(client) => client,
                Err(error) => return drop(connected.send(Err(error))),
            };
            let _waiting = connected.send(Ok(()));

            let leases = replicas.leases.through(client);
            tokio::select! {
                () = Renewals::new(replicas, leases).run() => {}
                _dropped = stopped => {}
            }
        };
        thread::Builder::new()
            .name("lease".to_owned())
            .spawn(move || runtime.block_on(beat))
            .context("failed to start the thread that renews the Lease")?;

        is_connected
            .await
            .context("the thread that renews the Lease has ended")??;
        Ok(Heartbeat { _stop: Some(stop) })
    }
}

impl Renewals {
    fn new(replicas: Arc<Replicas>, leases: Leases) -> Self {
        Self {
            replicas,
            leases,
            held: None,
        }
    }

    /// Joins the group and renews the Lease until this replica's epoch ends.
    async fn run(mut self) {
        let replicas = self.replicas.clone();
        loop {
            let period = match self.attempt_in_time().await {
                Ok(Renewal::Held) => {
                    replicas.report(Some(Standing::Member), None);
                    replicas.config.period()
                }
                Ok(Renewal::Conflict) => continue,
                Ok(Renewal::Taken) => {
                    return replicas.lose(
                        "another replica has taken its Lease, which was not renewed in time"
                            .to_owned(),
                    );
                }
                Err(problem) => {
                    replicas.report(None, Some(problem));
                    RETRY.min(replicas.config.period())
                }
            };
            let _passed_or_asked = timeout(period, replicas.soon.notified()).await;
        }
    }

    /// Makes one attempt, and reports a slow response.
    async fn attempt_in_time(&mut self) -> Result<Renewal, String> {
        let replicas = self.replicas.clone();
        let mut attempt = std::pin::pin!(self.attempt());
        let answer = match timeout(SLOW, &mut attempt).await {
            Ok(answer) => answer,
            Err(_) => {
                replicas.report(None, Some(NO_ANSWER.to_owned()));
                timeout(GIVE_UP, attempt)
                    .await
                    .map_err(|_| NO_ANSWER.to_owned())?
            }
        };
        answer.map_err(|error| diagnose(&error))
    }

    async fn attempt(&mut self) -> kube::Result<Renewal> {
        let renewal = self.renew().await?;
        let replicas = &self.replicas;
        if !matches!(renewal, Renewal::Held) || replicas.epoch().is_some() {
            return Ok(renewal);
        }

        let join = |group: &mut Group| Some(group.join(&replicas.identity));
        if let Some((group, epoch)) = self.leases.change(join).await? {
            let _first = replicas.membership.set(Membership {
                epoch,
                since: replicas.fence.now(),
            });
            tracing::info!(identity = replicas.identity, %epoch, members = group.members_text(), "joined the group");
            replicas.publish(group);
        }

        // Renew again, now with the epoch. A replica acts only while its Lease has its epoch, so
        // the others know that it may be acting, whatever the group says.
        self.renew().await
    }

    /// Renews the version of the Lease that this replica wrote last.
    async fn renew(&mut self) -> kube::Result<Renewal> {
        let Self {
            replicas,
            leases,
            held,
        } = self;
        if held.is_none() {
            // Perhaps left by an earlier process with this identity.
            *held = leases.get(&replicas.identity).await?;
        }
        let sent = replicas.fence.now();
        let duration = replicas.config.duration();
        let renewed = leases
            .renew(
                &replicas.identity,
                held.clone(),
                duration,
                replicas.epoch(),
                replicas.endpoint.get(),
            )
            .await;

        match renewed {
            Ok(lease) => {
                *held = Some(lease);
                if replicas.fence.remaining().is_zero() {
                    // While this process or the API server was stopped, we missed the others'
                    // renewals too.
                    replicas.others.silence.lock().clear();
                }
                replicas.fence.extend(sent + duration);
                Ok(Renewal::Held)
            }
            // Somebody else wrote or deleted it. When creating it, 404 is about the namespace.
            Err(error) if is_code(&error, 409) || (held.is_some() && is_code(&error, 404)) => {
                self.find_held().await
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the Lease after somebody else wrote it.
    async fn find_held(&mut self) -> kube::Result<Renewal> {
        let identity = &self.replicas.identity;
        let found = self.leases.get(identity).await?;
        let is_own = found
            .as_ref()
            .is_some_and(|lease| leases::holder(lease) == Some(identity));
        self.held = found;
        Ok(if is_own || self.replicas.epoch().is_none() {
            Renewal::Conflict
        } else {
            Renewal::Taken
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashMap,
        sync::{Barrier, mpsc},
        time::Instant,
    };

    use axum::{
        Json, Router,
        extract::{Path, State},
        http::StatusCode,
        response::{IntoResponse, Response},
        routing::{get, post},
    };
    use kube::Config;
    use operetta_core::replicas::Fence;
    use operetta_kube::client::connect::{Connector, connect_with};
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tokio::net::TcpListener;

    use super::*;
    use crate::replicas::{clock::boot_time, config::ReplicaConfig};

    /// How long all workers are busy: longer than the Lease lasts.
    const BUSY: Duration = Duration::from_secs(5);
    const LEASE_SECONDS: u32 = 3;
    const WORKERS: usize = 2;

    /// The Leases of an API server, by name.
    type Stored = Arc<Mutex<HashMap<String, Value>>>;

    fn status(code: StatusCode, reason: &str) -> Response {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": reason, "reason": reason, "code": code.as_u16(),
        });
        (code, Json(status)).into_response()
    }

    fn put(stored: &Stored, mut lease: Value) -> Response {
        let name = lease["metadata"]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        let mut stored = stored.lock();
        let version = |lease: &Value| {
            lease["metadata"]["resourceVersion"]
                .as_str()
                .map(str::to_owned)
        };
        let before = stored.get(&name).and_then(version);
        if before != version(&lease) {
            return status(StatusCode::CONFLICT, "Conflict");
        }

        let next = before.map_or(1, |version| version.parse::<u32>().expect("a number") + 1);
        lease["metadata"]["resourceVersion"] = next.to_string().into();
        stored.insert(name, lease.clone());
        Json(lease).into_response()
    }

    async fn read(Path(name): Path<String>, State(stored): State<Stored>) -> Response {
        let found = stored.lock().get(&name).cloned();
        found.map_or_else(
            || status(StatusCode::NOT_FOUND, "NotFound"),
            |lease| Json(lease).into_response(),
        )
    }

    async fn write(State(stored): State<Stored>, Json(lease): Json<Value>) -> Response {
        put(&stored, lease)
    }

    /// Serves Leases in a thread of its own. Returns the URL.
    fn api_server() -> String {
        let (sender, address) = mpsc::channel();
        thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let leases = "/apis/coordination.k8s.io/v1/namespaces/system/leases";
                let routes = Router::new()
                    .route(leases, post(write))
                    .route(&format!("{leases}/{{name}}"), get(read).put(write))
                    .with_state(Stored::default());
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                let address = listener.local_addr().expect("an address");
                sender.send(address).expect("a test");
                axum::serve(listener, routes).await.expect("served");
            });
        });
        format!("http://{}", address.recv().expect("an address"))
    }

    /// Joins as a member, and lets nothing else run on the workers of its runtime for a while.
    /// Returns whether the replica was fenced meanwhile.
    fn is_fenced_while_busy(identity: &str, has_own_thread: bool) -> bool {
        let config = Config::new(api_server().parse().expect("a URL"));
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .enable_all()
            .build()
            .expect("a runtime");
        let (replicas, _heartbeat) = runtime.block_on(async {
            let replicas = Replicas::new(
                connect_with(config.clone()).expect("a client"),
                "system",
                None,
                identity,
                ReplicaConfig {
                    lease_seconds: LEASE_SECONDS,
                },
                Fence::new(boot_time),
            );
            if has_own_thread {
                replicas.set_connector(Connector::with(config));
            }
            let heartbeat = replicas.start_heartbeat().await.expect("a heartbeat");
            replicas.joined().await;
            (replicas, heartbeat)
        });

        let all_busy = Arc::new(Barrier::new(WORKERS + 1));
        for _ in 0..WORKERS {
            let all_busy = all_busy.clone();
            runtime.spawn(async move {
                all_busy.wait();
                thread::sleep(BUSY);
            });
        }
        all_busy.wait();

        let end = Instant::now() + BUSY;
        let mut is_fenced = false;
        while Instant::now() < end {
            is_fenced |= !replicas.is_current();
            thread::sleep(Duration::from_millis(20));
        }
        is_fenced
    }

    #[test]
    fn lease_is_renewed_while_all_workers_are_busy() {
        let [task, thread] = thread::scope(|scope| {
            [("task", false), ("thread", true)]
                .map(|(identity, has_own_thread)| {
                    scope.spawn(move || is_fenced_while_busy(identity, has_own_thread))
                })
                .map(|run| run.join().expect("no panic"))
        });
        assert!(task, "the workers were not busy for long enough");
        assert!(!thread, "a busy replica lost its Lease");
    }
}
