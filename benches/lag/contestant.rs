//! The controllers that are compared, each behind a proxy that delays its watches.

use std::{fmt, process::Stdio, time::Duration};

use operetta_testkit::{
    DropIn, FaultProxy, Host, HostOptions, TestNamespace, guest, kinds,
    peers::{Peers, Process},
};
use serde_json::json;

use crate::{Case, outcome::Outcome};

/// The plugin, and its ServiceAccount, which the peer has too.
const PLUGIN: &str = "own-writes";
const SERVICE_ACCOUNT: &str = "plugin";

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Operetta,
    /// With EnableReadYourWritesConsistency.
    ReadYourWrites,
    /// With the defaults.
    ControllerRuntime,
}

impl Name {
    pub const ALL: [Self; 3] = [
        Self::Operetta,
        Self::ReadYourWrites,
        Self::ControllerRuntime,
    ];
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Operetta => "operetta",
            Self::ReadYourWrites => "controller-runtime-read-your-writes",
            Self::ControllerRuntime => "controller-runtime",
        })
    }
}

/// A running controller, which ends with this.
pub struct Contestant<'a> {
    namespace: &'a TestNamespace<'a>,
    running: Running,
    _proxy: FaultProxy,
}

enum Running {
    Host(Box<Host>),
    Peer(Process),
}

impl<'a> Contestant<'a> {
    /// Starts a controller whose watches are this late; None if it was not built.
    pub async fn start(
        name: Name,
        namespace: &'a TestNamespace<'a>,
        peers: &Peers,
        lag: Duration,
    ) -> Option<Self> {
        let control_plane = namespace.control_plane();
        let proxy = FaultProxy::start(control_plane).await;
        proxy.lag_watches(lag);

        let running = if name == Name::Operetta {
            let kubeconfig = proxy.kubeconfig_of(control_plane, "operetta-system", "operetta");
            let options = HostOptions {
                kubeconfig: Some(kubeconfig),
                is_installed: true,
                ..HostOptions::default()
            };
            let host = Host::start(control_plane, &options).await;
            let plugin = DropIn::new(PLUGIN, guest("fixture-own-writes"));
            namespace.drop_in(&plugin).await;
            namespace
                .until_condition(PLUGIN, "Ready", "True", "Running")
                .await;
            Running::Host(Box::new(host))
        } else {
            let program = peers.program(&name.to_string(), "peer-lag")?;
            let kubeconfig = proxy.kubeconfig_of(control_plane, namespace.name(), SERVICE_ACCOUNT);
            let kubeconfig = kubeconfig.display().to_string();
            let consistent = format!("--read-your-writes={}", name == Name::ReadYourWrites);
            let arguments = [
                "--kubeconfig",
                &kubeconfig,
                &consistent,
                "--namespace",
                namespace.name(),
            ];
            let process = Process::start(&name.to_string(), &program, &arguments, Stdio::piped());
            Running::Peer(process)
        };

        Some(Self {
            namespace,
            running,
            _proxy: proxy,
        })
    }

    /// Plays one case.
    ///
    /// # Errors
    /// Returns an error if the controller's answer cannot be read.
    pub async fn play(&mut self, case: Case, reads: usize) -> anyhow::Result<Outcome> {
        let Running::Peer(process) = &mut self.running else {
            return self.play_in_host(case, reads).await;
        };

        process.tell(&json!({"form": case.form, "read": case.read, "count": reads}));
        // The proxy runs on the other threads.
        let line = tokio::task::block_in_place(|| process.line());
        Ok(serde_json::from_value(line)?)
    }

    async fn play_in_host(&self, case: Case, reads: usize) -> anyhow::Result<Outcome> {
        let name = format!("case-{}-{}", case.form, case.read);
        let labels = json!({"operetta-fixture": "true"});
        let data = json!({"form": case.form, "read": case.read, "count": reads.to_string()});
        let map = json!({"metadata": {"name": name, "labels": labels}, "data": data});
        self.namespace.create_object(kinds::CONFIG_MAP, map).await;

        let result = self.namespace.until(kinds::CONFIG_MAP, &name, |found| {
            let result = found["data"]["result"].as_str();
            result
                .map(str::to_owned)
                .ok_or_else(|| "no result".to_owned())
        });
        Ok(serde_json::from_str(&result.await)?)
    }

    /// Panics if the host reports an internal error.
    pub fn assert_sound(&self) {
        if let Running::Host(host) = &self.running {
            host.assert_sound();
        }
    }
}
