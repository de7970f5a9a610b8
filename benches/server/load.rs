//! Requests and watches, and how fast they are.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::future::try_join_all;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    CONNECTIONS, PACE, WATCHERS,
    connection::{Connection, Connector},
};

/// The ConfigMaps that are created while delays are measured.
const PACED: usize = 100;

/// The clients of one server, which work in a namespace of their own.
pub struct Load {
    connector: Connector,
    connections: Vec<Connection>,
    /// The path of the namespace's ConfigMaps.
    path: String,
    created: usize,
}

/// What watchers have seen.
pub struct FanOut {
    pub events_per_second: f64,
    pub delay_p99: Duration,
}

impl Load {
    /// Opens the connections, and creates the namespace.
    pub async fn new(connector: Connector, namespace: &str) -> anyhow::Result<Self> {
        let mut connections = try_join_all((0..CONNECTIONS).map(|_| connector.connect())).await?;
        let object = json!({"metadata": {"name": namespace}}).to_string();
        connections[0]
            .request("POST", "/api/v1/namespaces", object)
            .await?;
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        Ok(Self {
            connector,
            connections,
            path,
            created: 0,
        })
    }

    /// Creates ConfigMaps and returns how many a second were created.
    pub async fn creates(&mut self, count: usize) -> anyhow::Result<f64> {
        let first = self.created;
        self.created += count;
        let path = self.path.clone();
        self.spread(count, |index| {
            ("POST", path.clone(), config_map(first + index))
        })
        .await
    }

    /// Gets ConfigMaps and returns how many a second were read.
    pub async fn gets(&mut self, count: usize) -> anyhow::Result<f64> {
        let (path, created) = (self.path.clone(), self.created);
        // The step is prime, so that neighbours in time are none in the store.
        self.spread(count, |index| {
            (
                "GET",
                format!("{path}/{}", name(index * 7919 % created)),
                String::new(),
            )
        })
        .await
    }

    /// Sends requests over all connections at once. Returns their number per second.
    async fn spread(
        &mut self,
        count: usize,
        request: impl Fn(usize) -> (&'static str, String, String),
    ) -> anyhow::Result<f64> {
        let requests: Vec<_> = (0..count).map(request).collect();
        let began = Instant::now();
        let mut tasks = Vec::new();
        for (at, mut connection) in self.connections.drain(..).enumerate() {
            let own: Vec<_> = requests
                .iter()
                .skip(at)
                .step_by(CONNECTIONS)
                .cloned()
                .collect();
            tasks.push(tokio::spawn(async move {
                for (method, path, body) in own {
                    connection.request(method, &path, body).await?;
                }
                anyhow::Ok(connection)
            }));
        }
        for task in tasks {
            self.connections.push(task.await??);
        }
        Ok(count as f64 / began.elapsed().as_secs_f64())
    }

    /// Creates ConfigMaps, first at once and then at a pace, while watchers see them.
    pub async fn fan_out(&mut self, count: usize) -> anyhow::Result<FanOut> {
        let first = self.created;
        let watchers = self.watchers(count).await?;
        let began = Instant::now();
        self.creates(count).await?;
        finished(watchers).await?;
        let took = began.elapsed().as_secs_f64();
        let watchers = self.watchers(PACED).await?;
        let paced = first + count;
        let mut sent = Vec::new();
        for index in paced..paced + PACED {
            let body = config_map(index);
            sent.push(Instant::now());
            self.connections[0]
                .request("POST", &self.path, body)
                .await?;
            tokio::time::sleep(PACE).await;
        }
        self.created += PACED;
        let mut delays = Vec::new();
        for arrivals in finished(watchers).await? {
            let arrivals = arrivals.iter().zip(&sent);
            delays.extend(arrivals.map(|(arrived, sent)| arrived.saturating_duration_since(*sent)));
        }
        delays.sort();
        Ok(FanOut {
            events_per_second: (count * WATCHERS) as f64 / took,
            delay_p99: delays[delays.len() * 99 / 100],
        })
    }

    /// Begins the watches. Each ends after this many events.
    async fn watchers(&mut self, count: usize) -> anyhow::Result<Vec<Watcher>> {
        let list = self.connections[0]
            .request("GET", &format!("{}?limit=1", self.path), String::new())
            .await?;
        let list: Value = serde_json::from_slice(&list)?;
        let revision = list["metadata"]["resourceVersion"]
            .as_str()
            .context("a list without a revision")?;
        let path = format!("{}?watch=1&resourceVersion={revision}", self.path);
        let begin = async || {
            let mut connection = self.connector.connect().await?;
            let response = connection.send("GET", &path, String::new()).await?;
            anyhow::ensure!(
                response.status().is_success(),
                "{path}: {}",
                response.status()
            );
            Ok(tokio::spawn(async move {
                // The connection ends with its sender.
                let _connection = connection;
                arrivals(response.into_body(), count).await
            }))
        };
        try_join_all((0..WATCHERS).map(|_| begin())).await
    }
}

/// Returns the times at which a watcher gets its events.
type Watcher = JoinHandle<anyhow::Result<Vec<Instant>>>;

async fn finished(watchers: Vec<Watcher>) -> anyhow::Result<Vec<Vec<Instant>>> {
    let mut found = Vec::new();
    for watcher in watchers {
        found.push(watcher.await??);
    }
    Ok(found)
}

async fn arrivals(mut body: Incoming, count: usize) -> anyhow::Result<Vec<Instant>> {
    let mut arrivals = Vec::with_capacity(count);
    while arrivals.len() < count {
        let frame = body.frame().await.context("the watch ended")??;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        let now = Instant::now();
        // Each event is a line.
        arrivals.extend(data.iter().filter(|byte| **byte == b'\n').map(|_| now));
    }
    Ok(arrivals)
}

fn name(index: usize) -> String {
    format!("object-{index:06}")
}

/// Returns a ConfigMap of about a kilobyte.
fn config_map(index: usize) -> String {
    let labels = json!({"app.kubernetes.io/name": "bench", "app.kubernetes.io/instance": format!("bench-{index}")});
    let data = json!({"settings.yaml": "key: value\n".repeat(60), "mode": "fast"});
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name(index), "labels": labels}, "data": data,
    })
    .to_string()
}
