//! The suite's custom resource.

use operetta_sdk::Resource;
use operetta_sdk::k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
#[resource(
    group = "conformance.operetta.dev",
    version = "v1",
    kind = "Widget",
    status = "WidgetStatus"
)]
pub(crate) struct WidgetSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) big: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<Quantity>,
    /// The outer `None` stands for a missing field, the inner one for null.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) note: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) touched: Option<bool>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WidgetStatus {
    #[serde(default)]
    pub(crate) phase: String,
}

/// Reads a field that is present, null or not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_null_from_missing() {
        let note = |text| {
            serde_json::from_str::<WidgetSpec>(text)
                .expect("a spec")
                .note
        };
        assert_eq!(note("{}"), None);
        assert_eq!(note(r#"{"note": null}"#), Some(None));
        assert_eq!(note(r#"{"note": "a"}"#), Some(Some("a".to_owned())));
    }
}
