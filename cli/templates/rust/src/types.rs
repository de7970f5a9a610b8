//! The kind {{kind}} of {{group}}/{{version}}. After a change, `operetta generate` updates
//! crd.yaml.

use operetta_sdk::Resource;
use serde::{Deserialize, Serialize};

/// The desired state of a {{kind}}.
#[derive(Resource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[resource(group = "{{group}}", version = "{{version}}", kind = "{{kind}}", status = "{{kind}}Status")]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct {{kind}}Spec {
    /// The text of the ConfigMap.
    #[cfg_attr(not(target_arch = "wasm32"), schemars(length(min = 1)))]
    pub message: String,
}

/// The observed state of a {{kind}}.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct {{kind}}Status {
    /// The name of the ConfigMap with the text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config_map: String,
}
