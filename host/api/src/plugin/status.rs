//! The status of a Plugin.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plugin::KindFinalizers;

/// The state of a Plugin, as the host reports it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginStatus {
    /// The metadata.generation that this status describes.
    pub observed_generation: Option<i64>,
    /// The digest of the component that runs: `sha256:` and the hash in hex.
    pub digest: Option<String>,
    /// The size of the component that runs, in bytes.
    pub size_bytes: Option<i64>,
    /// The most important condition's reason.
    pub reason: Option<String>,
    /// The most important condition's message.
    pub message: Option<String>,
    /// What to run to solve the problems in the conditions. Their messages have the same commands,
    /// quoted for a shell.
    pub remedies: Vec<RemedyStatus>,
    /// Its controllers, as the manifest declares them.
    pub controllers: Vec<ControllerStatus>,
    /// The process, if the component is one.
    pub process: Option<ProcessStatus>,
    /// The finalizers that the host has seen it put on objects, and that are declared neither in the
    /// manifest nor in `spec.process.finalizers`. A deleted Plugin removes these first, too.
    pub finalizers: Vec<KindFinalizers>,
    /// The plugin's use of the host; updated once a minute while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Loaded, Ready and Degraded.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The admin address of the host that runs the plugin, for `operetta logs`; for a sharded
    /// plugin, of the host that runs shard 0.
    pub host: Option<String>,
    /// The replicas of the host that run the plugin.
    #[serde(flatten)]
    pub owner: Owner,
}

/// Commands that solve a problem, to be run one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RemedyStatus {
    /// The commands.
    pub commands: Vec<CommandStatus>,
}

/// A command that solves a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CommandStatus {
    /// The program and its arguments.
    pub argv: Vec<String>,
}

/// The replicas that run a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    /// The Lease of the group of replicas that runs the plugin, as `NAMESPACE/NAME`. Hosts that are
    /// installed in other namespaces leave the plugin alone as long as that Lease has members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The identity of the host's replica that runs the plugin; for a sharded plugin, each replica
    /// with its shard numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica: Option<String>,
    /// The epoch of that replica. Only the replica with this epoch acts for the plugin, while it is
    /// a member of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// The epoch of the replica that is prepared to take the plugin over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor: Option<i64>,
    /// The shards of a sharded plugin, in order. `epoch` and `successor` are then set in each
    /// shard.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub shards: Vec<ShardStatus>,
    /// The replicas that run a sharded plugin, each with its own view of the plugin.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicaStatus>,
}

/// A shard of a plugin, and the replica that runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShardStatus {
    /// The number of the shard, from 0.
    pub shard: i64,
    /// The identity of the replica of the host that runs the shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica: Option<String>,
    /// The epoch of that replica. Only the replica with this epoch acts for the shard, while it is
    /// a member of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// The epoch of the replica that is prepared to take the shard over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor: Option<i64>,
}

/// A replica that runs shards of a plugin, and its own view of the plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaStatus {
    /// The identity of the replica.
    pub replica: String,
    /// The admin address of this replica, for `operetta logs --host`.
    pub host: Option<String>,
    /// True if all controllers run there.
    pub ready: bool,
    /// True if something is wrong there.
    pub degraded: bool,
    /// The reason of its most important condition.
    pub reason: Option<String>,
    /// The message of its most important condition.
    pub message: Option<String>,
    /// The controllers, with the counts of this replica.
    pub controllers: Vec<ControllerStatus>,
    /// The plugin's use of this replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// One of the plugin's controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerStatus {
    /// The controller's name in the manifest.
    pub name: String,
    /// The kind that the controller reconciles.
    #[serde(rename = "for")]
    pub for_: String,
    /// The only namespace whose objects it reconciles; all if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The number of reconciles since this host started the plugin; updated once a minute, as are
    /// `errors` and `queued`.
    pub reconciles: i64,
    /// The number of failed reconciles.
    pub errors: i64,
    /// The number of keys that wait for a worker.
    pub queued: i64,
    /// The number of keys whose last reconcile failed.
    pub failing: i32,
    /// The last failure, while any key fails.
    pub last_error: Option<String>,
}

/// The life of a process, as a container's status has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessStatus {
    /// When it started, in RFC 3339; left out while it does not run.
    pub started_at: Option<String>,
    /// How often it was started again because it had ended.
    pub restart_count: i32,
    /// True if it runs, its startupProbe has succeeded, and its readinessProbe succeeds.
    pub ready: bool,
    /// How it ended the last time.
    pub last_termination: Option<Termination>,
}

/// The end of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Termination {
    /// `Completed`, `Error`, `OOMKilled`, `Trap`, `Unresponsive`, `StartError`, or `ProbeFailed` if
    /// the host ended it because of its livenessProbe or startupProbe.
    pub reason: String,
    /// The exit code, or the one of a container that ended so.
    pub exit_code: i32,
    /// What the program printed last, or where it was.
    pub message: String,
    /// When it ended, in RFC 3339.
    pub finished_at: String,
}

/// A plugin's use of the host since this host started it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Processor time of the plugin's code, in milliseconds.
    pub cpu_milliseconds: i64,
    /// The peak linear memory of one instance, in bytes.
    pub peak_memory_bytes: i64,
    /// Calls to the host, logs and Events included.
    pub calls: i64,
    /// Bytes that the host caches for the plugin now: its share of the objects that it watches and
    /// reads.
    pub cached_bytes: i64,
}

/// A condition (`metav1.Condition`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Loaded, Ready or Degraded.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// One CamelCase word.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// The time of the last change of `status`, in RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// The metadata.generation that the condition describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
