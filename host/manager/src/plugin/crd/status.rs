//! What the host reports on a Plugin.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the host makes of a Plugin.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginStatus {
    /// The metadata.generation that this status is about.
    pub observed_generation: Option<i64>,
    /// sha256 of the component that runs.
    pub digest: Option<String>,
    /// Bytes of the component that runs.
    pub size_bytes: Option<i64>,
    /// The most important condition's reason.
    pub reason: Option<String>,
    /// The most important condition's message.
    pub message: Option<String>,
    /// Its controllers, as the manifest declares them.
    pub controllers: Vec<ControllerStatus>,
    /// What it has used of the host; brought up to date once a minute while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Loaded, Ready and Degraded.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Where the host that runs it answers `operetta logs`.
    pub host: Option<String>,
}

/// One of the plugin's controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerStatus {
    /// Its name in the manifest.
    pub name: String,
    /// The kind it reconciles.
    #[serde(rename = "for")]
    pub for_: String,
    /// Reconciles since this host runs it; brought up to date once a minute, as are `errors` and `queued`.
    pub reconciles: i64,
    /// How many of them failed.
    pub errors: i64,
    /// Keys that wait for a worker.
    pub queued: i64,
    /// Keys whose last reconcile failed.
    pub failing: i32,
    /// The last failure, while any key fails.
    pub last_error: Option<String>,
}

/// What a plugin has used since this host runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Milliseconds of processor time that its code took.
    pub cpu_milliseconds: i64,
    /// The most linear memory that one of its instances had, in bytes.
    pub peak_memory_bytes: i64,
    /// Calls to the host, logs and Events included.
    pub calls: i64,
    /// Bytes that the host caches for it now: its part of what it watches and reads.
    pub cached_bytes: i64,
}

/// As metav1.Condition.
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
    /// When `status` last changed; RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// The metadata.generation it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
