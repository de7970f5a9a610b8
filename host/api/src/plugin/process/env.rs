//! A process's environment: `EnvVar` and `EnvFromSource` of a container.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FieldRef, ResourceFieldRef};
use crate::plugin::ConfigKind;

/// An environment variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!(has(self.value) && has(self.valueFrom))", "message": "set one of value and valueFrom"},
]))]
pub struct EnvVar {
    /// The variable's name.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[^=]+$"))]
    pub name: String,
    /// Its value; empty if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where its value comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<EnvVarSource>,
}

/// The source of a variable's value: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "[has(self.fieldRef), has(self.resourceFieldRef), has(self.configMapKeyRef), has(self.secretKeyRef)].filter(given, given).size() == 1",
        "message": "set exactly one of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef",
    },
]))]
pub struct EnvVarSource {
    /// A field of the process, which stands for a Pod's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_ref: Option<FieldRef>,
    /// A limit of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_field_ref: Option<ResourceFieldRef>,
    /// A key of a ConfigMap of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeySelector>,
    /// A key of a Secret of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeySelector>,
}

impl EnvVarSource {
    /// Returns the key of a ConfigMap or Secret, if the source is one.
    pub fn key(&self) -> Option<(ConfigKind, &KeySelector)> {
        let config_map = self.config_map_key_ref.as_ref();
        config_map
            .map(|key| (ConfigKind::ConfigMap, key))
            .or_else(|| Some((ConfigKind::Secret, self.secret_key_ref.as_ref()?)))
    }
}

/// One key of a ConfigMap or Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeySelector {
    /// The name of the ConfigMap or Secret.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
    /// The key.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
    /// Leaves the variable out if the object or its key does not exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// A ConfigMap or Secret whose keys become variables: exactly one of `configMapRef` and `secretRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.configMapRef) != has(self.secretRef)", "message": "set exactly one of configMapRef and secretRef"},
]))]
pub struct EnvFromSource {
    /// What stands before each key in the variable's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = r"^[^=]*$"))]
    pub prefix: String,
    /// A ConfigMap of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<EnvSource>,
    /// A Secret of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<EnvSource>,
}

impl EnvFromSource {
    /// Returns the kind and the reference that are set; `None` for a value that the CRD rejects.
    pub fn chosen(&self) -> Option<(ConfigKind, &EnvSource)> {
        let config_map = self.config_map_ref.as_ref();
        config_map
            .map(|reference| (ConfigKind::ConfigMap, reference))
            .or_else(|| Some((ConfigKind::Secret, self.secret_ref.as_ref()?)))
    }
}

/// A ConfigMap or Secret by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvSource {
    /// The name of the ConfigMap or Secret.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
    /// Lets the process start even if this ConfigMap or Secret does not exist.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}
