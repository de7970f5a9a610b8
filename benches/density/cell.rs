//! One measurement: a new control plane, a number of tenants, and one kind of operator.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt,
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use operetta_testkit::{ControlPlane, DropIn, Kind, bench::number, guest, metric_sum, usage};
use serde_json::json;
use tokio::time::{sleep, timeout_at};

use crate::operators::{Operator, Tenant};

/// The length of the quiet window, in seconds.
const SECONDS: usize = 30;
/// The time by which all operators must be ready.
const LIMIT: Duration = Duration::from_secs(900);
/// The tenants that are created at once.
const AT_ONCE: usize = 4;
const FOO: Kind = Kind("samplecontroller.k8s.io/v1alpha1", "Foo");
/// The ServiceAccount of each tenant.
const SERVICE_ACCOUNT: &str = "plugin";

/// The measured values.
#[derive(Clone, Debug)]
pub struct Cell {
    pub private_mb: f64,
    pub anonymous_mb: f64,
    pub rss_mb: f64,
    pub watches: f64,
    pub connections: f64,
    pub server_rss_mb: f64,
    /// In percent of a core, as the other processor times.
    pub server_cpu: f64,
    pub etcd_cpu: f64,
    pub idle_cpu: f64,
    pub ready_seconds: f64,
}

/// Runs so many operators and measures them.
///
/// # Errors
/// Returns an error if the control plane does not start, or the operators do not become ready.
pub async fn measure(operator: &Operator, size: usize) -> anyhow::Result<Cell> {
    let control_plane = ControlPlane::start(&[]).map_err(anyhow::Error::msg)?;
    control_plane.install_host();
    control_plane.apply(include_str!("../../examples/sample-controller/crd.yaml"));
    let code = guest("sample-controller");
    let code = matches!(operator, Operator::Plugin(_))
        .then(|| DropIn::compressed("sample-controller", &code));
    let tenants = futures::stream::iter(0..size).map(|_| tenant(&control_plane, code.as_ref()));
    let tenants: Vec<Tenant> = tenants.buffer_unordered(AT_ONCE).collect().await;
    let watches_before = watches(&control_plane).await;

    let began = Instant::now();
    let mut operators = operator.start(&control_plane, &tenants)?;
    let ready = until_ready(control_plane.client().await, size).await;
    let ready_seconds = began.elapsed().as_secs_f64();
    operators
        .check()
        .and(ready)
        .map_err(|error| error.context(operators.log_tail()))?;
    sleep(Duration::from_secs(
        number("SETTLE", operator.settle_seconds()) as u64,
    ))
    .await;

    let pids = operators.pids();
    let server = control_plane.pid("kube-apiserver");
    let idle = QuietWindow::of(&[&pids, &[server], &[control_plane.pid("etcd")]]).await;
    operators.check()?;
    let port = control_plane
        .config()
        .await
        .cluster_url
        .port_u16()
        .context("the API server's port")?;
    let sum = |of: fn(u32) -> u64| usage::megabytes(pids.iter().map(|pid| of(*pid)).sum());
    Ok(Cell {
        private_mb: sum(usage::private_bytes),
        anonymous_mb: sum(usage::anonymous_bytes),
        rss_mb: sum(usage::memory_bytes),
        watches: watches(&control_plane).await - watches_before,
        connections: pids
            .iter()
            .map(|pid| usage::connections(*pid, port))
            .sum::<usize>() as f64,
        server_rss_mb: usage::megabytes(usage::memory_bytes(server)),
        idle_cpu: idle.percent(0),
        server_cpu: idle.percent(1),
        etcd_cpu: idle.percent(2),
        ready_seconds,
    })
}

/// Creates a namespace with a Foo, a ServiceAccount with all permissions in it, and the code of a
/// plugin.
async fn tenant(control_plane: &ControlPlane, code: Option<&DropIn>) -> Tenant {
    let namespace = control_plane.namespace("tenant").await;
    namespace.allow_all(SERVICE_ACCOUNT).await;
    let spec = json!({"deploymentName": "foo", "replicas": 1});
    namespace
        .create_object(FOO, json!({"metadata": {"name": "foo"}, "spec": spec}))
        .await;
    if let Some(code) = code {
        namespace.drop_in(code).await;
    }
    let kubeconfig = match code {
        Some(_) => None,
        None => Some(control_plane.kubeconfig_of(namespace.name(), SERVICE_ACCOUNT)),
    };
    Tenant {
        namespace: namespace.name().to_owned(),
        kubeconfig,
    }
}

/// Waits until so many namespaces have a Deployment.
async fn until_ready(client: Client, count: usize) -> anyhow::Result<()> {
    let end = tokio::time::Instant::now() + LIMIT;
    let deployments: Api<PartialObjectMeta<Deployment>> = Api::all(client);
    let events = watcher(deployments, watcher::Config::default())
        .default_backoff()
        .applied_objects();
    let mut events = events.boxed();
    let mut ready = HashSet::new();
    while ready.len() < count {
        let event = timeout_at(end, events.try_next()).await;
        let event = event
            .with_context(|| format!("{} of {count} are ready after {LIMIT:?}", ready.len()))?;
        ready.extend(
            event?
                .context("the watch of Deployments ended")?
                .namespace(),
        );
    }
    Ok(())
}

/// Returns the number of watches that kube-apiserver serves.
async fn watches(control_plane: &ControlPlane) -> f64 {
    metric_sum(
        &control_plane.metrics().await,
        "apiserver_longrunning_requests",
        &["verb=\"WATCH\""],
    )
}

/// The processor time of groups of processes during a quiet window.
struct QuietWindow {
    used: Vec<Duration>,
    length: Duration,
}

impl QuietWindow {
    async fn of(groups: &[&[u32]]) -> Self {
        let times = || -> Vec<Duration> {
            groups
                .iter()
                .map(|pids| pids.iter().map(|pid| usage::cpu_time(*pid)).sum())
                .collect()
        };
        let began = Instant::now();
        let before = times();
        sleep(Duration::from_secs(number("SECONDS", SECONDS) as u64)).await;
        let used = times()
            .into_iter()
            .zip(before)
            .map(|(after, before)| after - before)
            .collect();
        Self {
            used,
            length: began.elapsed(),
        }
    }

    /// Returns the share of a group, in percent of a core.
    fn percent(&self, group: usize) -> f64 {
        self.used[group].as_secs_f64() / self.length.as_secs_f64() * 100.0
    }
}
