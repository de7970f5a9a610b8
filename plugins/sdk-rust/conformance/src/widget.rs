//! The suite's custom resource, as types.

use operetta_sdk::ObjectMeta;
use operetta_sdk::k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Widget {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: WidgetSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<WidgetStatus>,
}

operetta_sdk::kind!(Widget, "conformance.operetta.dev/v1", "Widget");

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WidgetSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) big: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<Quantity>,
    /// The outer `None`: it is missing. The inner one: it is null.
    #[serde(default, deserialize_with = "there", skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) touched: Option<bool>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WidgetStatus {
    #[serde(default)]
    pub(crate) phase: String,
}

/// What is there, null or not.
fn there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_missing_are_two_things() {
        let note = |text| serde_json::from_str::<WidgetSpec>(text).expect("a spec").note;
        assert_eq!(note("{}"), None);
        assert_eq!(note(r#"{"note": null}"#), Some(None));
        assert_eq!(note(r#"{"note": "a"}"#), Some(Some("a".to_owned())));
    }
}
