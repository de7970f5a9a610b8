//! The load: objects are created, and the ends of their work arrive.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
};

use crate::{arrivals::Arrivals, subject::Subject};

/// The creators of a load that is flat out.
pub const AT_ONCE: usize = 16;
/// The time after which an object whose work has not ended is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// Creates objects in a namespace and watches for the end of their work.
pub struct Load {
    subject: Subject,
    objects: Api<DynamicObject>,
    arrivals: Arrivals,
    created: usize,
}

impl Load {
    /// Begins to watch, and returns when the controller has done its work for a first object.
    ///
    /// # Errors
    /// Returns an error if an object cannot be created, or its work does not end.
    pub async fn begin(subject: Subject, client: Client, namespace: &str) -> anyhow::Result<Self> {
        let arrivals = subject.arrivals(&client, namespace);
        let objects = Api::namespaced_with(client, namespace, &subject.kind());
        let mut load = Self {
            subject,
            objects,
            arrivals,
            created: 0,
        };
        load.paced(1, Duration::from_millis(1)).await?;
        Ok(load)
    }

    /// Creates objects, one each `pace`, and waits for the end of the work for all. Returns the
    /// latencies, the least first.
    ///
    /// # Errors
    /// Returns an error if an object cannot be created, or its work does not end.
    pub async fn paced(&mut self, count: usize, pace: Duration) -> anyhow::Result<Vec<Duration>> {
        let mut created: HashMap<String, Instant> = HashMap::new();
        let mut ticks = tokio::time::interval(pace);
        for name in self.names(count) {
            ticks.tick().await;
            self.create(&name).await?;
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

    /// Creates objects, [`AT_ONCE`] at a time, and waits for the end of the work for all. Returns
    /// the time.
    ///
    /// # Errors
    /// Returns an error if an object cannot be created, or its work does not end.
    pub async fn flat_out(&mut self, count: usize) -> anyhow::Result<Duration> {
        let names = self.names(count);
        let start = Instant::now();
        let this = &*self;
        let mut creations = stream::iter(&names)
            .map(|name| this.create(name))
            .buffer_unordered(AT_ONCE);
        while creations.try_next().await?.is_some() {}
        drop(creations);
        let mut last = start;
        for _ in 0..count {
            last = self.arrival().await?.1.max(last);
        }
        Ok(last - start)
    }

    /// Returns the names of the next objects.
    fn names(&mut self, count: usize) -> Vec<String> {
        let first = self.created;
        self.created += count;
        (first..self.created)
            .map(|number| format!("object-{number}"))
            .collect()
    }

    async fn arrival(&mut self) -> anyhow::Result<(String, Instant)> {
        let arrival = tokio::time::timeout(PATIENCE, self.arrivals.recv()).await;
        let arrival = arrival.map_err(|_| anyhow::anyhow!("no work ended for {PATIENCE:?}"))?;
        arrival.ok_or_else(|| anyhow::anyhow!("the watch ended"))
    }

    async fn create(&self, name: &str) -> anyhow::Result<()> {
        let wanted = DynamicObject::new(name, &self.subject.kind());
        let wanted = wanted.data(serde_json::json!({"spec": self.subject.spec(name)}));
        self.objects.create(&PostParams::default(), &wanted).await?;
        Ok(())
    }
}
