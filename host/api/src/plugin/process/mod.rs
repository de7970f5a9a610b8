//! How an operator's own program is run: fields of a Pod and its container, under their names.

mod env;
mod field;
mod port;
mod probe;
mod volume;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::plugin::KindFinalizers;

pub use env::{EnvFromSource, EnvSource, EnvVar, EnvVarSource, KeySelector};
pub use field::{Divisor, FieldPath, FieldRef, ResourceField, ResourceFieldRef, UnknownField};
pub use port::{Port, ProcessPort};
pub use probe::{GrpcAction, HttpGetAction, HttpHeader, Metrics, Probe, Scheme, TcpSocketAction};
pub use volume::{
    ConfigMapVolumeSource, DownwardApiFile, DownwardApiVolumeSource, EmptyDirVolumeSource,
    KeyToPath, ProjectedVolumeSource, SecretProjection, SecretVolumeSource,
    ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};

/// How a process is run. It gets what a container in a Pod gets: arguments, an environment, volumes,
/// the files of its ServiceAccount, probes, and SIGTERM before it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.volumeMounts) || self.volumeMounts.all(mount, has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name))",
        "message": "each of volumeMounts names one of volumes",
    },
    {
        "rule": "!has(self.livenessProbe) || !has(self.livenessProbe.successThreshold) || self.livenessProbe.successThreshold == 1",
        "message": "successThreshold of a livenessProbe must be 1",
    },
    {
        "rule": "!has(self.startupProbe) || !has(self.startupProbe.successThreshold) || self.startupProbe.successThreshold == 1",
        "message": "successThreshold of a startupProbe must be 1",
    },
    {
        "rule": "!has(self.readinessProbe) || !has(self.readinessProbe.terminationGracePeriodSeconds)",
        "message": "a readinessProbe ends nothing: terminationGracePeriodSeconds belongs to the other probes",
    },
]))]
pub struct ProcessSpec {
    /// The arguments of the program. `$(NAME)` stands for the value of a variable of `env` or
    /// `envFrom`, and `$$` for a dollar sign.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub args: Vec<String>,
    /// The environment variables. Later ones may refer to earlier ones and to those of `envFrom`, as
    /// arguments do. They are read when the process starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub env: Vec<EnvVar>,
    /// ConfigMaps and Secrets whose keys become environment variables. Later ones take precedence
    /// over earlier ones, and `env` over all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub env_from: Vec<EnvFromSource>,
    /// The volumes that `volumeMounts` may name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<Volume>,
    /// Where the process finds the volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["mountPath"]))]
    pub volume_mounts: Vec<VolumeMount>,
    /// The folder in which the process starts, by which it resolves relative paths; `/` if left out.
    /// The process finds it in its variable `PWD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), regex(pattern = r"^/"))]
    pub working_dir: Option<String>,
    /// Names of ports, which probes and `metrics` may use. A process may listen on others as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub ports: Vec<ProcessPort>,
    /// Restarts the process when it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<Probe>,
    /// Decides whether the process is ready; it is while it runs, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Until it has succeeded once, the other probes wait. If it fails, the process is restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_probe: Option<Probe>,
    /// The metrics that the process serves. The host's own `/metrics` has them, too, with the
    /// Plugin's name and namespace as labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// The finalizers that the process puts on objects. A deleted Plugin runs on until it has removed
    /// them from the objects that are being deleted. The host learns most of them from the process's
    /// writes; `status.finalizers` has those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["apiVersion", "kind"]))]
    pub finalizers: Vec<KindFinalizers>,
    /// How many seconds the process has to end after SIGTERM; 30 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 600))]
    pub termination_grace_period_seconds: Option<u32>,
}

impl ProcessSpec {
    /// Returns the number of a port; `None` if none of `ports` has this name. A name that is none of
    /// them may be a number, as in a Pod.
    pub fn port_number(&self, port: &Port) -> Option<u16> {
        match port {
            Port::Number(number) => Some(*number),
            Port::Name(name) => self
                .ports
                .iter()
                .find(|port| port.name.as_ref() == Some(name))
                .map(|port| port.container_port)
                .or_else(|| name.parse().ok().filter(|number| *number > 0)),
        }
    }
}

/// The schema of a field that is understood only to be refused, by a rule of its own.
fn refused_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "nullable": true})
}
