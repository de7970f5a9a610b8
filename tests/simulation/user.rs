//! The user of a run: creates, changes and deletes Foos and their Deployments, as the seed decides.

use std::{sync::Arc, time::Duration};

use http::Method;
use rand::{Rng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    cluster::{Cluster, DEPLOYMENTS, FOOS},
    faults::up_to,
    history::History,
};

/// The Foos that may exist at once.
const FOO_COUNT: u32 = 4;

/// The longest time between two actions.
const PAUSE: Duration = Duration::from_secs(6);

/// The user.
pub struct User {
    /// The API server.
    pub cluster: Cluster,
    /// The history of the run.
    pub history: Arc<History>,
    /// The decisions.
    pub random: StdRng,
}

impl User {
    /// Does this number of random actions.
    pub async fn act(&mut self, actions: u32) {
        for _ in 0..actions {
            let name = format!("foo-{}", self.random.random_range(0..FOO_COUNT));
            match self.random.random_range(0..10) {
                0..4 => self.put(&name).await,
                4 => self.delete(FOOS, &name).await,
                5 => {
                    self.delete(FOOS, &name).await;
                    self.put(&name).await;
                }
                6 => self.delete(DEPLOYMENTS, &name).await,
                7 => {
                    let replicas = self.random.random_range(0..12);
                    self.patch(
                        DEPLOYMENTS,
                        &name,
                        "",
                        &json!({"spec": {"replicas": replicas}}),
                    )
                    .await;
                }
                _ => self.roll_out(&name).await,
            }

            // Often several things happen at once.
            if self.random.random_bool(0.6) {
                let pause = up_to(&mut self.random, PAUSE);
                sleep(pause).await;
            }
        }
    }

    /// Creates a Foo, or gives it another size.
    async fn put(&mut self, name: &str) {
        let replicas = self.random.random_range(1..=10);
        let spec = json!({"deploymentName": name, "replicas": replicas});
        let object = json!({
            "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo",
            "metadata": {"name": name}, "spec": spec,
        });

        let status = self.request(Method::POST, FOOS, Some(&object)).await;
        if status == 409 {
            self.patch(FOOS, name, "", &json!({"spec": spec})).await;
        }
    }

    /// Reports some Pods of a Deployment as available, as its controller would.
    async fn roll_out(&mut self, name: &str) {
        let available = self.random.random_range(0..=10);
        let counts =
            json!({"replicas": 10, "readyReplicas": available, "availableReplicas": available});
        self.patch(DEPLOYMENTS, name, "/status", &json!({"status": counts}))
            .await;
    }

    async fn delete(&self, collection: &str, name: &str) {
        self.request(Method::DELETE, &format!("{collection}/{name}"), None)
            .await;
    }

    async fn patch(&self, collection: &str, name: &str, part: &str, patch: &Value) {
        self.request(
            Method::PATCH,
            &format!("{collection}/{name}{part}"),
            Some(patch),
        )
        .await;
    }

    /// Sends a request. The object may exist or not.
    async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> u16 {
        let (status, answer) = self.cluster.request(method.clone(), path, body).await;
        assert!(
            matches!(status, 200 | 201 | 404 | 409),
            "{method} {path}: {status} {answer}"
        );

        self.history.record(format!(
            "  user {method} {path} {status} {}",
            body.unwrap_or(&Value::Null)
        ));
        status
    }
}
