//! What the controllers of a comparison do: an example that exists as a plugin and natively.

use std::{fmt, time::Duration};

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::{
    Client,
    api::{ApiResource, GroupVersionKind},
};
use operetta_testkit::{AuditEvent, DropIn, Host, TestNamespace, guest, plugin_path};
use serde_json::{Value, json};

use crate::{arrivals, arrivals::Arrivals, contestant::Name};

/// The ServiceAccount of the plugin and of the peers.
pub const SERVICE_ACCOUNT: &str = "plugin";

/// An example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Kubernetes' sample-controller: a Deployment, a status and an Event for each Foo. The plugin
    /// is in Rust.
    SampleController,
    /// A kubebuilder project: two Deployments, a Secret and a StatefulSet for each CloudManager,
    /// one after the other is ready. The plugin and the native controller are the same Go code, on
    /// controller-runtime.
    CloudManager,
}

/// The loads of a turn.
pub struct Loads {
    /// The objects that are created before anything is measured.
    pub warm_up: usize,
    /// The objects of the paced load.
    pub paced: usize,
    /// The time from one of them to the next.
    pub pace: Duration,
    /// The objects of the load that is flat out.
    pub flat_out: usize,
}

impl Subject {
    /// Returns the subject that the command line names; the sample-controller without a name.
    ///
    /// # Errors
    /// Returns an error if it names another one.
    pub fn chosen() -> anyhow::Result<Self> {
        let all = [Self::SampleController, Self::CloudManager];
        let name = std::env::args()
            .skip(1)
            .find(|argument| !argument.starts_with('-'));
        let Some(name) = name else {
            return Ok(Self::SampleController);
        };
        let found = all.into_iter().find(|subject| subject.to_string() == name);
        found.ok_or_else(|| anyhow::anyhow!("{name} is neither of {all:?}"))
    }

    /// Returns the prefix of its metrics, which is the name of its report.
    pub fn report(self) -> &'static str {
        match self {
            Self::SampleController => "e2e",
            Self::CloudManager => "cloud",
        }
    }

    /// Returns the controllers that it exists for, ours first.
    pub fn controllers(self) -> &'static [Name] {
        match self {
            Self::SampleController => &[Name::Operetta, Name::ControllerRuntime, Name::KubeRs],
            Self::CloudManager => &[Name::Operetta, Name::ControllerRuntime],
        }
    }

    /// Returns the file name of a controller's program in `target/peers`.
    pub fn program(self, name: Name) -> &'static str {
        match (self, name) {
            (_, Name::Operetta) => "operetta-host",
            (Self::SampleController, Name::ControllerRuntime) => "peer-sample-controller",
            (Self::CloudManager, Name::ControllerRuntime) => "peer-cloud-manager",
            (_, Name::KubeRs) => "peer-kube-rs-sample-controller",
        }
    }

    /// Returns the manifest of its CRD.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn crd(self) -> std::io::Result<String> {
        std::fs::read_to_string(format!("../examples/{self}/crd.yaml"))
    }

    /// Returns the loads.
    pub fn loads(self) -> Loads {
        let millis = Duration::from_millis;
        match self {
            Self::SampleController => Loads {
                warm_up: 50,
                paced: 300,
                pace: millis(20),
                flat_out: 1_000,
            },
            Self::CloudManager => Loads {
                warm_up: 20,
                paced: 100,
                pace: millis(100),
                flat_out: 200,
            },
        }
    }

    /// Installs the plugin.
    pub async fn install(self, host: &Host, namespace: &TestNamespace<'_>) {
        let name = self.to_string();
        match self {
            Self::SampleController => {
                namespace.drop_in(&DropIn::new(&name, guest(&name))).await;
            }
            Self::CloudManager => {
                let component = plugin_path("cloud-manager-go").display().to_string();
                let account = ["--name", &name, "--service-account", SERVICE_ACCOUNT];
                let bundle = host.run(
                    &[
                        &["bundle", &component, "-n", namespace.name()],
                        &account[..],
                    ]
                    .concat(),
                );
                assert!(bundle.status.success(), "{bundle:?}");
                namespace
                    .control_plane()
                    .apply(&String::from_utf8_lossy(&bundle.stdout));
            }
        }
        namespace
            .until_condition(&name, "Ready", "True", "Running")
            .await;
    }

    /// Returns the kind whose objects are created.
    pub fn kind(self) -> ApiResource {
        let (group, version, kind) = match self {
            Self::SampleController => ("samplecontroller.k8s.io", "v1alpha1", "Foo"),
            Self::CloudManager => ("cloudmanagercontroller.huayun.com", "v1", "CloudManager"),
        };
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
    }

    /// Returns the spec of a new object.
    pub fn spec(self, name: &str) -> Value {
        match self {
            Self::SampleController => json!({"deploymentName": name, "replicas": 1}),
            Self::CloudManager => {
                let part = |part: &str| json!({"deployment": {"name": format!("{name}-{part}"), "image": "nginx"}});
                let storage =
                    json!({"class": "standard", "accessModes": ["ReadWriteOnce"], "size": "1Gi"});
                let set =
                    json!({"name": format!("{name}-db"), "image": "mariadb", "storage": storage});
                json!({
                    "front": part("front"), "identity": part("identity"),
                    "db": {"statefulSet": set, "rootPass": "s3cret"},
                })
            }
        }
    }

    /// Watches for the end of each object's work: its Deployment is there, or its phase is `ready`.
    /// The parts of a CloudManager are reported as ready when they are created, which kubelets
    /// would do.
    pub fn arrivals(self, client: &Client, namespace: &str) -> Arrivals {
        match self {
            Self::SampleController => arrivals::of_deployments(client.clone(), namespace),
            Self::CloudManager => {
                arrivals::make_ready::<Deployment>(client.clone(), namespace);
                arrivals::make_ready::<StatefulSet>(client.clone(), namespace);
                arrivals::of_phase(client.clone(), namespace, &self.kind(), "ready")
            }
        }
    }

    /// Reports whether a request is the controller's. This program creates the objects and makes
    /// their parts ready; the others are of the API server itself and of the host's other duties.
    pub fn is_of_controller(self, event: &AuditEvent) -> bool {
        let of = &event.object_ref;
        let (own, parts): (_, &[&str]) = match self {
            Self::SampleController => ("foos", &["deployments"]),
            Self::CloudManager => ("cloudmanagers", &["deployments", "statefulsets", "secrets"]),
        };
        let is_part = parts.contains(&of.resource.as_str());
        let is_here = of.resource == own || is_part || of.resource == "events";
        let is_ours = (event.verb == "create" && of.resource == own)
            || (is_part && of.subresource == "status");
        is_here && !is_ours && event.verb != "watch"
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SampleController => "sample-controller",
            Self::CloudManager => "cloud-manager",
        })
    }
}
