//! The custom resource Plugin: its spec, and its status, which the host reports.
//!
//! `deploy/crd/plugins.yaml` and its copy in the Helm chart are generated from these types.
//!
//! ```
//! use operetta_api::plugin::{ConfigMapSource, Plugin, PluginSpec, Source};
//!
//! let config_map = ConfigMapSource { name: "contact".to_owned(), key: None };
//! let source = Source { config_map: Some(config_map), ..Source::default() };
//! let spec = PluginSpec { service_account_name: Some("contact".to_owned()), ..PluginSpec::new(source) };
//! let plugin = Plugin::new("contact", spec);
//! assert_eq!(plugin.metadata.name.as_deref(), Some("contact"));
//! ```

mod process;
mod status;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::GroupVersionKind;

pub use process::{
    ConfigMapVolumeSource, Divisor, DownwardApiFile, DownwardApiVolumeSource, EmptyDirVolumeSource,
    EnvFromSource, EnvSource, EnvVar, EnvVarSource, FieldPath, FieldRef, GrpcAction, HttpGetAction,
    HttpHeader, KeySelector, KeyToPath, Metrics, Port, Probe, ProcessPort, ProcessSpec,
    ProjectedVolumeSource, ResourceField, ResourceFieldRef, Scheme, SecretProjection,
    SecretVolumeSource, ServiceAccountTokenProjection, TcpSocketAction, UnknownField, Volume,
    VolumeMount, VolumeProjection,
};
pub use status::{
    CommandStatus, Condition, ControllerStatus, Owner, PluginStatus, ProcessStatus, RemedyStatus,
    ReplicaStatus, ShardStatus, Termination, Usage,
};

pub use crate::API_VERSION;

/// The Plugin's kind.
pub const KIND: &str = "Plugin";

/// The largest number of shards of a Plugin.
pub const MAX_SHARDS: u32 = 32;

/// The component to run, its identity, its configuration and its limits.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "operetta.dev",
    version = "v1alpha1",
    kind = "Plugin",
    plural = "plugins",
    shortname = "plg",
    namespaced,
    status = "PluginStatus",
    doc = "A Plugin is a WebAssembly component whose controllers Operetta runs.",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status","description":"True if all controllers run"}"#,
    printcolumn = r#"{"name":"Degraded","type":"string","jsonPath":".status.conditions[?(@.type==\"Degraded\")].status","description":"True if something is wrong"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.reason","description":"The reason of the most important condition"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.message","description":"The message of the most important condition","priority":1}"#,
    printcolumn = r#"{"name":"Digest","type":"string","jsonPath":".status.digest","description":"The digest of the running component","priority":1}"#,
    printcolumn = r#"{"name":"Replica","type":"string","jsonPath":".status.replica","description":"The replica of the host that runs the plugin, or each with its shards","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PluginSpec {
    /// The source of the component: exactly one of these.
    pub source: Source,
    /// The digest of the component, as `operetta check` prints it. The host runs no other code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// The ServiceAccount in this namespace that the plugin acts as: RBAC decides what it may see
    /// and do. It must consent through the annotation `operetta.dev/allow-plugins`, and may never
    /// be `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub service_account_name: Option<String>,
    /// The plugin's configuration; any JSON object. Its fields take precedence over those of
    /// `configFrom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub config: Option<serde_json::Map<String, serde_json::Value>>,
    /// ConfigMaps and Secrets of this namespace that make up the configuration, read as the
    /// ServiceAccount, which needs permission to get each. Later ones take precedence over earlier
    /// ones. A change takes effect within seconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub config_from: Vec<ConfigSource>,
    /// Overrides of the component's manifest, for administrators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub controllers: Vec<ControllerOverride>,
    /// Stops all controllers of the plugin. Its queues start over when this is unset.
    #[serde(default)]
    pub suspend: bool,
    /// The number of shards into which the objects are split, by namespace and name, for a plugin
    /// that is too large for one replica of the host; 1 if left out. Replicas run different shards
    /// at the same time, each shard with its own workers and queue. When the number changes, all
    /// shards stop and then start again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub shards: Option<u32>,
    /// Limits of one reconcile.
    #[serde(default)]
    pub limits: Limits,
    /// Options of running the code.
    #[serde(default, skip_serializing_if = "Runtime::is_default")]
    pub runtime: Runtime,
    /// How the program is run, if the component is a process: an operator with a main of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSpec>,
}

impl PluginSpec {
    /// Returns the spec of a plugin with this source and defaults for everything else.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            digest: None,
            service_account_name: None,
            config: None,
            config_from: Vec::new(),
            controllers: Vec::new(),
            suspend: false,
            shards: None,
            limits: Limits::default(),
            runtime: Runtime::default(),
            process: None,
        }
    }
}

/// The finalizers that a plugin puts on the objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindFinalizers {
    /// `group/version`, or the version alone for the core group.
    #[schemars(length(min = 1, max = 253))]
    pub api_version: String,
    /// The kind.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// The finalizers, such as `example.com/cleanup`.
    #[schemars(length(min = 1, max = 64))]
    pub finalizers: Vec<String>,
}

impl KindFinalizers {
    /// Returns the kind.
    pub fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(&self.api_version, &self.kind)
    }
}

/// Options of running the code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Runtime {
    /// Keeps instances between reconciles, for languages that are slow to start, such as Python.
    /// The memory that one reconcile leaves behind is then visible to the next ones: a plugin must
    /// neither rely on it nor fail because of it. If left out, each reconcile has a fresh instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<Warm>,
}

impl Runtime {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Bounds of an instance that is kept. It also ends when a reconcile traps or exceeds a limit, when
/// the code or the Plugin changes, and after five minutes without a reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Warm {
    /// The number of reconciles that one instance serves; 1000 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_calls: Option<u32>,
    /// The linear memory by which an instance may grow after its start, as a quantity; `64Mi` if
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[1-9][0-9]*(Ki|Mi|Gi|k|M|G)?$"))]
    pub max_memory_growth: Option<String>,
}

impl Warm {
    /// Returns `maxMemoryGrowth` in bytes. A text that does not match the CRD's pattern counts as
    /// left out.
    pub fn max_memory_growth_bytes(&self) -> Option<usize> {
        bytes(self.max_memory_growth.as_deref()?)
    }
}

/// The source of a component: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "[has(self.configMap), has(self.path), has(self.oci), has(self.url)].filter(given, given).size() == 1",
        "message": "set exactly one of configMap and path",
    },
    {
        "rule": "!has(self.oci) && !has(self.url)",
        "message": "oci and url are reserved: this version fetches nothing; use configMap or path",
    },
]))]
pub struct Source {
    /// A ConfigMap of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapSource>,
    /// A file on the host, below the `pluginDirectory` of its configuration, ending in `.wasm` or
    /// `.wasm.zst`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub path: Option<String>,
    /// Reserved for an artifact in an OCI registry; not supported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<String>,
    /// Reserved for a file on a web server; not supported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A component in a ConfigMap's binaryData.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapSource {
    /// The ConfigMap's name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
    /// The key in binaryData, ending in `.wasm` or `.wasm.zst`; the only such key if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A part of the configuration: exactly one of `configMapRef` and `secretRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.configMapRef) != has(self.secretRef)", "message": "set exactly one of configMapRef and secretRef"},
]))]
pub struct ConfigSource {
    /// A ConfigMap of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigRef>,
    /// A Secret of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<ConfigRef>,
}

impl ConfigSource {
    /// Returns the kind and the reference that are set; `None` for a value that the CRD rejects.
    pub fn chosen(&self) -> Option<(ConfigKind, &ConfigRef)> {
        let config_map = self
            .config_map_ref
            .as_ref()
            .map(|reference| (ConfigKind::ConfigMap, reference));
        config_map.or_else(|| Some((ConfigKind::Secret, self.secret_ref.as_ref()?)))
    }
}

/// The kinds that hold configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the kind of its name")]
pub enum ConfigKind {
    ConfigMap,
    Secret,
}

impl ConfigKind {
    /// Returns the kind with its version.
    pub fn gvk(self) -> GroupVersionKind {
        GroupVersionKind::new("v1", self.as_str())
    }

    /// Returns the kind's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    /// Returns the kind's plural resource name.
    pub fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
        }
    }
}

/// One key of a ConfigMap or a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.targetPath) || has(self.key)", "message": "targetPath needs a key, whose value goes there"},
]))]
pub struct ConfigRef {
    /// The name of the ConfigMap or Secret.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
    /// The key; `config.json` or `config.yaml`, whichever exists, if left out. Its value is a JSON
    /// object or a YAML mapping, whose fields become fields of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
    /// The field of the configuration that holds the key's value as a string, e.g. `cloud.token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = r"^[^.\s]+(\.[^.\s]+)*$"))]
    pub target_path: Option<String>,
    /// Lets the plugin run even if this ConfigMap or Secret does not exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// Overrides of one controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControllerOverride {
    /// The controller's name in the component's manifest.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The number of keys reconciled at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub workers: Option<u32>,
    /// Every key is reconciled again after this many seconds, at least 10; 0 means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 2_592_000))]
    pub resync_seconds: Option<u32>,
    /// Filters that an event of the reconciled kind must all pass; an empty list lets every event
    /// pass. Each is written as in the manifest: a name, `{changed: $.spec.replicas}`, `{matches:
    /// $.status.ready}`, `{any: […]}` or `{not: …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "predicates")]
    pub predicates: Option<Vec<serde_json::Value>>,
}

/// Limits of one reconcile; those left out come from the host's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Linear memory, as a quantity: `64Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[1-9][0-9]*(Ki|Mi|Gi|k|M|G)?$"))]
    pub memory: Option<String>,
    /// The deadline in seconds, waiting included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u32>,
    /// The number of calls to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub host_calls: Option<u32>,
}

impl Limits {
    /// Returns the memory limit in bytes. A text that does not match the CRD's pattern counts as
    /// left out.
    pub fn memory_bytes(&self) -> Option<usize> {
        bytes(self.memory.as_deref()?)
    }
}

/// Returns a quantity in bytes.
fn bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };

    digits.parse::<usize>().ok()?.checked_mul(unit)
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "nullable": true})
}

/// Returns the schema of a list of predicates, each a name or an object. A structural schema cannot
/// be recursive, as `any` and `not` are: the API server checks the names, and the host the rest.
fn predicates(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "nullable": true,
        "maxItems": 32,
        "items": {
            "description": "An event filter: a name, as in controller-runtime's `predicate` package, or a condition on the object.",
            // `pattern` applies to strings only, and the number of properties to objects only.
            "pattern": "^(GenerationChanged|LabelsChanged|AnnotationsChanged|ResourceVersionChanged)$",
            "minProperties": 1,
            "maxProperties": 1,
            "x-kubernetes-preserve-unknown-fields": true,
        },
    })
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;

    #[test]
    fn crd_in_the_repository_matches_types() {
        let text = "# Generated from host/api/src/plugin: run `make generate`.\n".to_owned()
            // A format that the API server supports: it warns of others.
            + &serde_yaml_ng::to_string(&Plugin::crd()).expect("yaml").replace("format: uint32", "format: int64").replace("format: uint16", "format: int32");
        for path in [
            "deploy/crd/plugins.yaml",
            "deploy/chart/operetta/files/plugins.yaml",
        ] {
            let file = format!("../../{path}");
            if std::env::var_os("UPDATE_GENERATED").is_some() {
                std::fs::write(&file, &text).expect("write");
            }

            let kept = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(kept == text, "{path} is out of date: run `make generate`");
        }
    }

    #[test]
    fn memory_is_a_quantity() {
        let bytes = |text: &str| {
            Limits {
                memory: Some(text.into()),
                ..Limits::default()
            }
            .memory_bytes()
        };

        assert_eq!(bytes("64Mi"), Some(64 << 20));
        assert_eq!(bytes("1G"), Some(1_000_000_000));
        assert_eq!(bytes("12"), Some(12));
        assert_eq!(bytes("64MiB"), None);
        assert_eq!(bytes("Mi"), None);
        assert_eq!(bytes("99999999999999999999Gi"), None);
    }
}
