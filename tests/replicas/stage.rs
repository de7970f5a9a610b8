//! Two or three replicas on a control plane of their own, and a probe that measures how long keys
//! wait.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use operetta_core::{
    object::ObjectKey,
    replicas::{Group, assigned},
};
use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, TestNamespace, eventually, guest, history::LOG, kinds,
};
use serde_json::Value;

/// The lease time of deploy/base.
pub const CONFIG: &str = "replicas: {leaseSeconds: 4}";

/// Returns the options of a replica with that lease time.
pub fn options() -> HostOptions {
    HostOptions {
        config: CONFIG.to_owned(),
        ..HostOptions::default()
    }
}

/// A host that is a member of the group.
pub struct Replica {
    pub host: Host,
    pub identity: String,
}

impl Replica {
    /// Starts a replica beside those that run, and waits until it is ready.
    pub async fn start(control_plane: &ControlPlane) -> Self {
        Self::start_with(control_plane, options()).await
    }

    /// Starts a replica that logs what a history needs.
    pub async fn start_traced(control_plane: &ControlPlane) -> Self {
        Self::start_with(
            control_plane,
            HostOptions {
                log: LOG.to_owned(),
                ..options()
            },
        )
        .await
    }

    /// Starts a replica with these options beside those that run, and waits until it is ready.
    pub async fn start_with(control_plane: &ControlPlane, options: HostOptions) -> Self {
        let options = HostOptions {
            beside_another: true,
            ..options
        };
        let host = Host::start(control_plane, &options).await;
        let identity = host.logged("identity").expect("it has joined");
        Self { host, identity }
    }
}

/// Starts a control plane of its own, because the test kills hosts.
pub fn control_plane() -> ControlPlane {
    ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns `count` names of Plugins that are assigned to this one of the replicas.
pub fn names_for(
    replica: &Replica,
    all: &[&Replica],
    namespace: &str,
    count: usize,
) -> Vec<String> {
    let mut group = Group::default();
    let epochs: BTreeMap<&str, _> = all
        .iter()
        .map(|one| (one.identity.as_str(), group.join(&one.identity)))
        .collect();
    let names = (0..).map(|number| format!("touch-{number}"));
    let own = Some(epochs[replica.identity.as_str()]);
    names
        .filter(|name| assigned(&ObjectKey::namespaced(namespace, name), &group) == own)
        .take(count)
        .collect()
}

/// Returns the identity of the replica that a Plugin's status names.
pub fn replica_of(plugin: &Value) -> &str {
    plugin["status"]["replica"].as_str().unwrap_or_default()
}

/// Waits until this replica runs a Plugin, and all its watches are synced.
pub async fn until_run_by(namespace: &TestNamespace<'_>, plugin: &str, replica: &Replica) {
    namespace
        .until(kinds::PLUGIN, plugin, |found| match replica_of(found) {
            now if now == replica.identity => Ok(()),
            now => Err(format!("{now} runs it, not {}", replica.identity)),
        })
        .await;

    namespace
        .until_condition(plugin, "Ready", "True", "Running")
        .await;
}

/// Drops a well-behaved plugin in.
pub async fn drop_in(namespace: &TestNamespace<'_>, name: &str) {
    namespace
        .drop_in(&DropIn::new(name, guest("fixture-touch-v1")))
        .await;
}

/// Creates objects, whose names begin with `prefix`, while `during` runs, and until `after` has
/// passed since. Returns the longest time from the creation of one until a plugin has written to
/// it.
pub async fn longest_wait(
    namespace: &TestNamespace<'_>,
    prefix: &str,
    during: impl Future<Output = ()>,
    after: Duration,
) -> Duration {
    let mut created: BTreeMap<String, Instant> = BTreeMap::new();
    let mut longest = Duration::ZERO;
    let mut during = std::pin::pin!(during);
    let mut end: Option<Instant> = None;

    for number in 0.. {
        let name = format!("{prefix}-{number}");
        if end.is_none_or(|end| Instant::now() < end) {
            namespace.create_touchable(&name).await;
            created.insert(name, Instant::now());
        } else if created.is_empty() {
            break;
        }

        let pause = tokio::time::sleep(Duration::from_millis(20));
        match end {
            None => tokio::select! {
                () = &mut during => end = Some(Instant::now() + after),
                () = pause => {}
            },
            Some(_) => pause.await,
        }

        for found in namespace.list(kinds::CONFIG_MAP).await {
            let name = found["metadata"]["name"].as_str().unwrap_or_default();
            if found["data"]["touched"].is_string()
                && let Some(since) = created.remove(name)
            {
                longest = longest.max(since.elapsed());
            }
        }

        assert!(
            created
                .values()
                .all(|since| since.elapsed() < Duration::from_secs(60)),
            "lost: {created:?}"
        );
    }

    longest
}

/// Waits until an object that is created now is touched. Returns the time that it took.
pub async fn time_until_touched(
    namespace: &TestNamespace<'_>,
    name: &str,
    began: Instant,
) -> Duration {
    namespace.create_touchable(name).await;
    eventually(&format!("{name} is touched"), async || {
        match namespace.get(kinds::CONFIG_MAP, name).await {
            Some(found) if found["data"]["touched"].is_string() => Ok(()),
            found => Err(format!("{found:?}")),
        }
    })
    .await;

    began.elapsed()
}
