//! A process's volumes: `Volume` of a Pod and `VolumeMount` of a container.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FieldRef;
use crate::plugin::bytes;

/// A volume: exactly one of its sources is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "[has(self.configMap), has(self.secret), has(self.projected), has(self.downwardAPI), has(self.emptyDir)].filter(given, given).size() == 1",
        "message": "set exactly one of configMap, secret, projected, downwardAPI and emptyDir",
    },
]))]
pub struct Volume {
    /// The name by which `volumeMounts` refers to it.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// The keys of a ConfigMap of the same namespace, as files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapVolumeSource>,
    /// The keys of a Secret of the same namespace, as files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretVolumeSource>,
    /// The files of several sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projected: Option<ProjectedVolumeSource>,
    /// Fields of the process, as files.
    #[serde(
        rename = "downwardAPI",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub downward_api: Option<DownwardApiVolumeSource>,
    /// A folder for the process's own files, empty at first. It is kept when the process is started
    /// again, and lost when the Plugin, its code or its replica changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDirVolumeSource>,
}

/// The keys of a ConfigMap as files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapVolumeSource {
    /// The ConfigMap's name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
    /// The keys, and the paths of their files; all keys under their own names if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub items: Vec<KeyToPath>,
    /// The mode of the files. It has no effect: a process has no users, and reads every file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 511))]
    pub default_mode: Option<u32>,
    /// Lets the process start even if the ConfigMap or one of the keys does not exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// The keys of a Secret as files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretVolumeSource {
    /// The Secret's name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub secret_name: String,
    /// The keys, and the paths of their files; all keys under their own names if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub items: Vec<KeyToPath>,
    /// The mode of the files. It has no effect: a process has no users, and reads every file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 511))]
    pub default_mode: Option<u32>,
    /// Lets the process start even if the Secret or one of the keys does not exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// A key and the path of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyToPath {
    /// The key.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
    /// The path of the file within the volume.
    #[schemars(length(min = 1, max = 1024))]
    pub path: String,
    /// The mode of the file. It has no effect: a process has no users, and reads every file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 511))]
    pub mode: Option<u32>,
}

/// The files of several sources in one volume. Where two have the same path, the later one is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectedVolumeSource {
    /// The sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub sources: Vec<VolumeProjection>,
    /// The mode of the files. It has no effect: a process has no users, and reads every file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 511))]
    pub default_mode: Option<u32>,
}

/// One source of a projected volume: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "[has(self.configMap), has(self.secret), has(self.downwardAPI), has(self.serviceAccountToken)].filter(given, given).size() == 1",
        "message": "set exactly one of configMap, secret, downwardAPI and serviceAccountToken",
    },
]))]
pub struct VolumeProjection {
    /// The keys of a ConfigMap of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapVolumeSource>,
    /// The keys of a Secret of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretProjection>,
    /// Fields of the process.
    #[serde(
        rename = "downwardAPI",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub downward_api: Option<DownwardApiVolumeSource>,
    /// A file in the place of a token. The host adds the identity of the ServiceAccount to each
    /// request, so it is no credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_token: Option<ServiceAccountTokenProjection>,
}

/// The keys of a Secret in a projected volume, where the field of its name has another name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretProjection {
    /// The Secret's name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
    /// The keys, and the paths of their files; all keys under their own names if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub items: Vec<KeyToPath>,
    /// Lets the process start even if the Secret or one of the keys does not exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// The place of a ServiceAccount's token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountTokenProjection {
    /// The path of the file within the volume.
    #[schemars(length(min = 1, max = 1024))]
    pub path: String,
    /// The audience. It has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// The token's lifetime. It has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_seconds: Option<i64>,
}

/// Fields of the process as files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DownwardApiVolumeSource {
    /// The files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub items: Vec<DownwardApiFile>,
    /// The mode of the files. It has no effect: a process has no users, and reads every file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 511))]
    pub default_mode: Option<u32>,
}

/// A field as a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DownwardApiFile {
    /// The path of the file within the volume.
    #[schemars(length(min = 1, max = 1024))]
    pub path: String,
    /// The field.
    pub field_ref: FieldRef,
}

/// A folder in the host's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmptyDirVolumeSource {
    /// How much its files may take, as a quantity; `64Mi` if left out. A write beyond it fails with
    /// ENOSPC. What they take counts towards the namespace's `memoryBytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[1-9][0-9]*(Ki|Mi|Gi|k|M|G)?$"))]
    pub size_limit: Option<String>,
    /// `Memory` or nothing. It is in memory in both cases.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = r"^(Memory)?$"))]
    pub medium: String,
}

impl EmptyDirVolumeSource {
    /// Returns `sizeLimit` in bytes. A text that does not match the CRD's pattern counts as left
    /// out.
    pub fn size_limit_bytes(&self) -> Option<usize> {
        bytes(self.size_limit.as_deref()?)
    }
}

/// Where a volume is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeMount {
    /// The volume's name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The path of the volume in the process's files.
    #[schemars(length(min = 1, max = 1024))]
    pub mount_path: String,
    /// The path within the volume that is mounted; all of it if left out. Files of ConfigMaps and
    /// Secrets that are mounted so stay as they were when the process started.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub sub_path: String,
    /// Lets the process not write there. Only an `emptyDir` can be written anyway.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}
