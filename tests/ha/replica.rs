//! A replica of a history: a host behind a proxy of its own, with a clock of its own.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use operetta_testkit::{
    ControlPlane, FaultProxy, Host, HostOptions, SteppedClock,
    history::{LOG, Life, Process},
};
use serde_json::Value;
use tokio::task::JoinHandle;

/// The namespace of the hosts.
const NAMESPACE: &str = "operetta-system";

/// The Lease's duration: shorter than that of deploy/base, so that histories are short.
pub const LEASE: Duration = Duration::from_secs(2);

/// The configuration of a replica.
const CONFIG: &str = "replicas: {leaseSeconds: 2}\nshutdownSeconds: 5";

/// A replica that runs.
pub struct Replica {
    pub host: Arc<Host>,
    pub proxy: Arc<FaultProxy>,
    pub clock: SteppedClock,
    started: Timestamp,
    stops: Vec<Timestamp>,
    /// Returns the time when the process had ended.
    ended: JoinHandle<Timestamp>,
}

impl Replica {
    /// Starts a replica beside others and waits until it is ready. On a busy machine it may have
    /// ended before, which is a fate like any other.
    pub async fn start(control_plane: &ControlPlane) -> Self {
        let proxy = FaultProxy::start(control_plane).await;
        let clock = SteppedClock::new(control_plane);
        let options = HostOptions {
            config: CONFIG.to_owned(),
            log: LOG.to_owned(),
            beside_another: true,
            is_installed: true,
            environment: clock.environment(),
            kubeconfig: Some(proxy.kubeconfig_of(control_plane, NAMESPACE, "operetta")),
            ..HostOptions::default()
        };

        let started = Timestamp::now();
        let host = Host::spawn(control_plane, &options);
        let host = Arc::new(host.when_ready_or_ended().await);

        let watched = host.clone();
        let ended = tokio::spawn(async move {
            watched.ended().await;
            Timestamp::now()
        });

        Self {
            host,
            proxy: Arc::new(proxy),
            clock,
            started,
            stops: Vec::new(),
            ended,
        }
    }

    /// Returns the identity under which it has joined.
    pub fn identity(&self) -> String {
        self.host.logged("identity").expect("it has joined")
    }

    /// Stops the process for a time. `is_long` says that this is longer than its Lease lasts. It
    /// may have ended because it lost its membership in an earlier step.
    pub async fn stop_for(&mut self, time: Duration, is_long: bool) {
        if !self.host.try_signal("STOP") {
            return;
        }

        if is_long {
            self.stops.push(Timestamp::now());
        }

        tokio::time::sleep(time).await;
        let _it_may_have_ended = self.host.try_signal("CONT");
    }

    /// Kills it.
    pub async fn kill(self) -> Option<Process> {
        self.host.kill();
        let ended = Timestamp::now();
        self.read(ended)
    }

    /// Stops it as a cluster does. It may have lost its membership meanwhile.
    pub async fn terminate(self) -> Option<Process> {
        let _it_may_have_ended = self.host.try_signal("TERM");
        self.record().await
    }

    /// Waits until it has ended, and returns what it did.
    pub async fn record(mut self) -> Option<Process> {
        let ended = (&mut self.ended).await.expect("a time");
        let status = self.host.status().expect("it has ended");
        let log = self.host.log();
        let is_expected = status.success() || log.contains("lost the membership in Lease");
        assert!(is_expected, "the host ended with {status}: {}", end(&log));
        self.read(ended)
    }

    fn read(self, ended: Timestamp) -> Option<Process> {
        let log = self.host.log();
        // The host's own panics are plain text; messages of guests' panics are JSON.
        let panicked = log
            .lines()
            .any(|line| !line.starts_with('{') && line.contains("panicked at"));
        assert!(!panicked, "the host has panicked: {}", end(&log));

        Process::read(
            &log,
            &Life {
                started: self.started,
                ended,
                stops: self.stops,
            },
        )
    }
}

fn end(log: &str) -> String {
    let lines: Vec<&str> = log.lines().rev().take(30).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// The Leases of the replicas, which somebody edits by hand.
pub struct Leases(Api<Lease>);

impl Leases {
    /// Opens them as the administrator.
    pub async fn new(control_plane: &ControlPlane) -> Self {
        Self(Api::namespaced(control_plane.client().await, NAMESPACE))
    }

    /// Returns the name of a replica's Lease; None if it has none.
    async fn name_of(&self, identity: &str) -> Option<String> {
        let found = self.0.list(&ListParams::default()).await.expect("Leases");
        let is_own = |lease: &Lease| {
            let holder = lease
                .spec
                .as_ref()
                .and_then(|spec| spec.holder_identity.as_deref());
            holder == Some(identity)
        };

        found
            .items
            .into_iter()
            .find(is_own)
            .and_then(|lease| lease.metadata.name)
    }

    /// Deletes a replica's Lease, or with None that of the group.
    pub async fn delete(&self, identity: Option<&str>) {
        let name = match identity {
            Some(identity) => self.name_of(identity).await,
            None => Some("operetta".to_owned()),
        };
        let Some(name) = name else { return };
        let deleted = self.0.delete(&name, &DeleteParams::default()).await;
        assert!(deleted.is_ok() || is_missing(&deleted), "{deleted:?}");
    }

    /// Merges a patch into a replica's Lease, or with None into that of the group.
    pub async fn edit(&self, identity: Option<&str>, patch: Value) {
        let name = match identity {
            Some(identity) => self.name_of(identity).await,
            None => Some("operetta".to_owned()),
        };

        let Some(name) = name else { return };
        let edited = self
            .0
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        assert!(edited.is_ok() || is_missing(&edited), "{edited:?}");
    }

    /// Returns the members of the group as they are stored, without this one.
    pub async fn members_without(&self, identity: &str) -> String {
        let group = self.0.get_opt("operetta").await.expect("Leases");

        let annotations = group
            .and_then(|lease| lease.metadata.annotations)
            .unwrap_or_default();
        let members = annotations
            .get("operetta.dev/members")
            .map_or("", String::as_str);

        let others = members
            .split(',')
            .filter(|member| !member.ends_with(&format!("={identity}")));
        others.collect::<Vec<_>>().join(",")
    }
}

fn is_missing<T>(result: &kube::Result<T>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.is_not_found())
}
