//! One of the two controllers with its namespace and its proxy.

use std::{
    collections::BTreeSet,
    fmt,
    fs::File,
    time::{Duration, Instant},
};

use anyhow::Context;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::ListParams};
use operetta_testkit::{
    Ask, ControlPlane, DropIn, Fault, FaultProxy, Host, HostOptions, TestNamespace, eventually,
    guest, kinds,
    peers::{Native, Peers},
};
use serde_json::json;

/// The value that both controllers write.
const WANTED: &str = "v1";
/// The pause between two looks at the objects, which is how exact a recovery is.
const LOOK: Duration = Duration::from_millis(25);
/// The most writes of an object that a controller tries in a second of an outage.
const TRIES: usize = 4;
/// The most that it tries in addition, because it begins with short delays.
const FIRST_TRIES: usize = 100;
/// The writes of both controllers: they update ConfigMaps.
const WRITE: &str = "PUT /api/v1/namespaces/";

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Operetta,
    /// The program in benches/peers/go/outage.
    ControllerRuntime,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operetta => "operetta",
            Self::ControllerRuntime => "controller-runtime",
        })
    }
}

/// A running controller, which ends with this.
pub struct Side<'a> {
    pub name: Name,
    pub proxy: FaultProxy,
    namespace: TestNamespace<'a>,
    maps: Api<ConfigMap>,
    running: Running,
}

enum Running {
    Host(Box<Host>),
    Native(Native),
}

impl<'a> Side<'a> {
    /// Starts a controller; None if it was not built.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub async fn start(
        name: Name,
        control_plane: &'a ControlPlane,
        peers: &Peers,
    ) -> anyhow::Result<Option<Self>> {
        let namespace = control_plane.namespace(&name.to_string()).await;
        namespace.allow_all("plugin").await;
        let proxy = FaultProxy::start(control_plane).await;

        let running = match name {
            Name::Operetta => {
                let kubeconfig = proxy.kubeconfig_of(control_plane, "operetta-system", "operetta");
                let options = HostOptions {
                    kubeconfig: Some(kubeconfig),
                    is_installed: true,
                    ..HostOptions::default()
                };
                let host = Host::start(control_plane, &options).await;
                let plugin = DropIn::new("touch", guest("fixture-touch-v1"));
                namespace.drop_in(&plugin).await;
                namespace
                    .until_condition("touch", "Ready", "True", "Running")
                    .await;
                Running::Host(Box::new(host))
            }
            Name::ControllerRuntime => {
                let Some(program) = peers.program(&name.to_string(), "peer-outage") else {
                    return Ok(None);
                };
                let kubeconfig = proxy.kubeconfig_of(control_plane, namespace.name(), "plugin");
                let log = File::create(control_plane.folder().join("peer-outage.log"))?;
                let started = Native::start(&program, &kubeconfig, namespace.name(), log);
                Running::Native(started.with_context(|| program.display().to_string())?)
            }
        };

        let maps = Api::namespaced(control_plane.client().await, namespace.name());
        Ok(Some(Self {
            name,
            proxy,
            namespace,
            maps,
            running,
        }))
    }

    /// Creates objects.
    pub async fn create(&self) {
        for at in 0..crate::OBJECTS {
            self.namespace.create_touchable(&object(at)).await;
        }
    }

    /// Changes what the controller has written in all objects, past its proxy.
    pub async fn change(&self, tick: &str) {
        let touched = format!("changed at {tick}");
        for at in 0..crate::OBJECTS {
            let patch = json!({"data": {"touched": touched}});
            self.namespace
                .patch(kinds::CONFIG_MAP, &object(at), patch)
                .await;
        }
    }

    /// Lets all writes of the controller fail for an outage of this length, until the proxy heals.
    pub fn fail_writes(&self, outage: Duration) {
        let tries = TRIES * outage.as_secs() as usize + FIRST_TRIES;
        for _ in 0..tries * crate::OBJECTS {
            self.proxy.next(Ask::To(WRITE), Fault::status(503));
        }
    }

    /// Waits until a write to each object has failed.
    pub async fn until_all_failed(&self) {
        eventually("all keys fail", async || {
            let failed: BTreeSet<String> = self
                .proxy
                .asked()
                .into_iter()
                .filter(|asked| asked.fault != Fault::None)
                .filter_map(|asked| {
                    let path = asked.request.split('?').next()?;
                    path.rsplit('/').next().map(str::to_owned)
                })
                .collect();
            match failed.len() {
                crate::OBJECTS => Ok(()),
                count => Err(format!("{count} keys have failed")),
            }
        })
        .await;
    }

    /// Waits until all objects are as the controller wants them.
    pub async fn until_reconciled(&self) {
        eventually("all objects are reconciled", async || {
            match self.reconciled().await {
                count if count == crate::OBJECTS => Ok(()),
                count => Err(format!("{count} objects are reconciled by {}", self.name)),
            }
        })
        .await;
    }

    /// Returns the time from the end of the outage until all objects are reconciled; None if it is
    /// longer than the limit.
    pub async fn recovery(&self, ended: Instant, limit: Duration) -> Option<Duration> {
        while self.reconciled().await < crate::OBJECTS {
            if ended.elapsed() > limit {
                return None;
            }
            tokio::time::sleep(LOOK).await;
        }
        Some(ended.elapsed())
    }

    /// Checks that the outage has let no write through.
    ///
    /// # Errors
    /// Returns an error if it has.
    pub async fn assert_nothing_written(&self) -> anyhow::Result<()> {
        let written = self.reconciled().await;
        anyhow::ensure!(
            written == 0,
            "{written} objects were reconciled by {} during the outage",
            self.name
        );
        Ok(())
    }

    /// Checks that the controller still runs.
    ///
    /// # Errors
    /// Returns an error if the peer has ended.
    pub fn assert_sound(&mut self) -> anyhow::Result<()> {
        match &mut self.running {
            Running::Host(host) => host.assert_sound(),
            Running::Native(process) => {
                let ended = process.ended()?;
                anyhow::ensure!(ended.is_none(), "{} has ended: {ended:?}", self.name);
            }
        }
        Ok(())
    }

    async fn reconciled(&self) -> usize {
        let is_wanted = |object: &&ConfigMap| {
            let data = object.data.as_ref();
            data.and_then(|data| data.get("touched"))
                .is_some_and(|touched| touched == WANTED)
        };
        self.objects().await.iter().filter(is_wanted).count()
    }

    /// Returns the objects. The namespace also has the plugin's code, which is large.
    async fn objects(&self) -> Vec<ConfigMap> {
        let labelled = ListParams::default().labels("operetta-fixture=true");
        let all = self.maps.list(&labelled).await;
        all.expect("the API server itself is there").items
    }
}

fn object(at: usize) -> String {
    format!("object-{at}")
}
