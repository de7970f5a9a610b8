//! The disturbances: swaps of the plugin's code, and restarts of the API server.

use std::{cell::RefCell, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use operetta_testkit::{ControlPlane, DropIn, digest, guest, wat_guest::numbered};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    foos::{Foos, insist},
    log::Outage,
};

/// The name of the Plugin and of its drop-in ConfigMap.
pub const PLUGIN: &str = "sample-controller";
/// The time in which a swap takes effect, restarts of the API server included.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

/// The kind of a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The ConfigMap with the code is changed, until the Plugin's status has the digest of the new
    /// code.
    Swap,
    /// The API server is killed, until it is ready again.
    Restart,
}

/// A disturbance.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub kind: Kind,
    /// The time since the load began.
    pub at: Duration,
    pub took: Duration,
    /// The time until the next Foo has a Deployment.
    pub until_deployed: Duration,
}

/// Disturbs a host for the time of a load.
pub struct Disturber<'a> {
    control_plane: &'a ControlPlane,
    client: Client,
    namespace: String,
    foos: &'a Foos,
    /// The beginning of the load.
    pub start: Instant,
    time: Duration,
    /// The disturbances that have ended.
    pub marks: RefCell<Vec<Mark>>,
    /// The restarts among them by the clock.
    pub outages: RefCell<Vec<Outage>>,
}

/// Returns the drop-in of one of the two versions of the plugin. They differ in a custom section,
/// and so in their digests.
pub fn version(number: usize) -> (DropIn, String) {
    let component = numbered(&guest(PLUGIN), number % 2);
    let digest = digest(&component);
    (DropIn::new(PLUGIN, component), digest)
}

impl<'a> Disturber<'a> {
    /// Begins to measure the time of the disturbances.
    pub fn new(
        control_plane: &'a ControlPlane,
        client: Client,
        namespace: &str,
        foos: &'a Foos,
        time: Duration,
    ) -> Self {
        let start = Instant::now();
        Self {
            control_plane,
            client,
            namespace: namespace.to_owned(),
            foos,
            start,
            time,
            marks: RefCell::default(),
            outages: RefCell::default(),
        }
    }

    /// Swaps the code each `period`.
    ///
    /// # Errors
    /// Returns an error if a swap has no effect within [`PATIENCE`].
    pub async fn swap(&self, period: Duration) -> anyhow::Result<()> {
        let kind = |group, version, kind| {
            ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
        };
        let api = |kind| {
            Api::<DynamicObject>::namespaced_with(self.client.clone(), &self.namespace, &kind)
        };
        let maps = api(kind("", "v1", "ConfigMap"));
        let plugins = api(kind("operetta.dev", "v1alpha1", "Plugin"));
        for (at, number) in self.schedule(period).zip(1..) {
            sleep_until(at).await;
            let (drop_in, digest) = version(number);
            let patch = Patch::Merge(json!({"binaryData": drop_in.object()["binaryData"]}));
            insist(format_args!("swap {number}"), async || {
                maps.patch(PLUGIN, &PatchParams::default(), &patch)
                    .await
                    .map(drop)
            })
            .await?;
            loop {
                let plugin = insist(format_args!("read the Plugin"), async || {
                    plugins.get(PLUGIN).await
                })
                .await?;
                if plugin.data["status"]["digest"] == digest.as_str() {
                    break;
                }
                anyhow::ensure!(
                    at.elapsed() < PATIENCE,
                    "swap {number} has no effect: {}",
                    plugin.data["status"]
                );
                sleep(POLL).await;
            }
            self.mark(Kind::Swap, at).await;
        }
        Ok(())
    }

    /// Kills the API server each `period`, and waits until it is ready again. etcd goes on.
    ///
    /// # Errors
    /// Returns an error if it does not start again.
    pub async fn restart(&self, period: Duration) -> anyhow::Result<()> {
        for at in self.schedule(period) {
            sleep_until(at).await;
            self.foos.set_up(false);
            let killed = Timestamp::now();
            let began = Instant::now();
            self.control_plane.kill_apiserver();
            let ready = || {
                http::Request::get("/readyz")
                    .body(Vec::new())
                    .expect("a request")
            };
            insist(format_args!("restart the API server"), async || {
                self.client.request_text(ready()).await
            })
            .await?;
            self.foos.set_up(true);
            self.outages.borrow_mut().push((killed, Timestamp::now()));
            self.mark(Kind::Restart, began).await;
        }
        Ok(())
    }

    /// Returns the times of a disturbance with this period: none at the very beginning or end.
    fn schedule(&self, period: Duration) -> impl Iterator<Item = Instant> {
        let times = (1..).map(move |number| period * number);
        times
            .take_while(|at| *at < self.time)
            .map(|at| self.start + at)
    }

    /// Records a disturbance that has ended, and waits until the plugin works again.
    async fn mark(&self, kind: Kind, at: Instant) {
        let took = at.elapsed();
        let deployed = || self.foos.ledger.borrow().deployed();
        let before = deployed();
        // At the end of the load there may be no next Foo.
        while deployed() == before && at.elapsed() < PATIENCE {
            sleep(POLL).await;
        }
        let mark = Mark {
            kind,
            at: at - self.start,
            took,
            until_deployed: at.elapsed(),
        };
        let times = [mark.at, took, mark.until_deployed].map(|time| time.as_secs_f64());
        println!(
            "{:>6.0} s: {kind:?} took {:.2} s, a new Deployment after {:.2} s",
            times[0], times[1], times[2]
        );
        self.marks.borrow_mut().push(mark);
    }
}
