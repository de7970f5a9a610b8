//! The kind {{kind}} of {{group}}/{{version}}. After a change, `operetta generate` brings crd.yaml up to date.

use operetta_sdk::ObjectMeta;
use serde::{Deserialize, Serialize};

/// One {{kind}}.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct {{kind}} {
    /// Name, namespace, labels and so on.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: {{kind}}Spec,
    /// What there is.
    #[serde(default)]
    pub status: {{kind}}Status,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct {{kind}}Spec {
    /// The text that the ConfigMap is to hold.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1)))]
    pub message: String,
}

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct {{kind}}Status {
    /// The ConfigMap that holds the text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config_map: String,
}

operetta_sdk::kind!({{kind}}, "{{group}}/{{version}}", "{{kind}}");
