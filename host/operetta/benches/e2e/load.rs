//! The load: Foos are created, and their Deployments arrive.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use tokio::sync::mpsc;

/// The creators of a load that is flat out.
pub const AT_ONCE: usize = 16;
/// The time after which a Deployment that has not arrived is missing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Creates Foos in a namespace and watches its Deployments.
pub struct Load {
    foos: Api<DynamicObject>,
    arrivals: mpsc::UnboundedReceiver<(String, Instant)>,
    created: usize,
}

impl Load {
    /// Begins to watch, and returns when the controller makes a Deployment of a first Foo.
    ///
    /// # Errors
    /// Returns an error if a Foo cannot be created, or its Deployment does not arrive.
    pub async fn begin(client: Client, namespace: &str) -> anyhow::Result<Self> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("samplecontroller.k8s.io", "v1alpha1", "Foo"));
        let arrivals = watch_deployments(client.clone(), namespace);
        let mut load = Self { foos: Api::namespaced_with(client, namespace, &kind), arrivals, created: 0 };
        load.paced(1, Duration::from_millis(1)).await?;
        Ok(load)
    }

    /// Creates Foos, one each `pace`, and waits for all of their Deployments. Returns the latencies, the least first.
    ///
    /// # Errors
    /// Returns an error if a Foo cannot be created, or a Deployment does not arrive.
    pub async fn paced(&mut self, count: usize, pace: Duration) -> anyhow::Result<Vec<Duration>> {
        let mut created: HashMap<String, Instant> = HashMap::new();
        let mut ticks = tokio::time::interval(pace);
        for name in self.names(count) {
            ticks.tick().await;
            create(&self.foos, &name).await?;
            created.insert(name, Instant::now());
        }
        let mut latencies = Vec::with_capacity(count);
        while latencies.len() < count {
            let (name, at) = self.arrival().await?;
            if let Some(start) = created.remove(&name) {
                latencies.push(at.saturating_duration_since(start));
            }
        }
        latencies.sort();
        Ok(latencies)
    }

    /// Creates Foos, [`AT_ONCE`] at a time, and waits for all of their Deployments. Returns the time.
    ///
    /// # Errors
    /// Returns an error if a Foo cannot be created, or a Deployment does not arrive.
    pub async fn flat_out(&mut self, count: usize) -> anyhow::Result<Duration> {
        let names = self.names(count);
        let start = Instant::now();
        let foos = &self.foos;
        let mut creations = stream::iter(&names).map(|name| create(foos, name)).buffer_unordered(AT_ONCE);
        while creations.try_next().await?.is_some() {}
        drop(creations);
        let mut last = start;
        for _ in 0..count {
            last = self.arrival().await?.1.max(last);
        }
        Ok(last - start)
    }

    /// Returns the names of the next Foos.
    fn names(&mut self, count: usize) -> Vec<String> {
        let first = self.created;
        self.created += count;
        (first..self.created).map(|number| format!("foo-{number}")).collect()
    }

    async fn arrival(&mut self) -> anyhow::Result<(String, Instant)> {
        let arrival = tokio::time::timeout(PATIENCE, self.arrivals.recv()).await;
        let arrival = arrival.map_err(|_| anyhow::anyhow!("no Deployment for {PATIENCE:?}"))?;
        arrival.ok_or_else(|| anyhow::anyhow!("the watch of Deployments ended"))
    }
}

async fn create(foos: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
    let wanted: DynamicObject = serde_json::from_value(serde_json::json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo",
        "metadata": {"name": name}, "spec": {"deploymentName": name, "replicas": 1},
    }))?;
    foos.create(&PostParams::default(), &wanted).await?;
    Ok(())
}

/// Watches Deployments, and sends the name of each created one and the time when the watch received it.
fn watch_deployments(client: Client, namespace: &str) -> mpsc::UnboundedReceiver<(String, Instant)> {
    let (arrived, arrivals) = mpsc::unbounded_channel();
    let deployments: Api<Deployment> = Api::namespaced(client, namespace);
    tokio::spawn(async move {
        let mut events = watcher(deployments, watcher::Config::default()).default_backoff().boxed();
        while let Ok(Some(event)) = events.try_next().await {
            // Nobody changes a Deployment: there are no controllers.
            if let watcher::Event::Apply(deployment) | watcher::Event::InitApply(deployment) = event
                && let Some(name) = deployment.metadata.name
                && arrived.send((name, Instant::now())).is_err()
            {
                return;
            }
        }
    });
    arrivals
}
