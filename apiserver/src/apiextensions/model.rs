//! The parts of a CustomResourceDefinition.

use serde::Deserialize;
use serde_json::Value;

use super::schema::Schema;

/// A CustomResourceDefinition, decoded.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Definition {
    /// The metadata as it is.
    pub metadata: Value,
    /// What the author wants.
    pub spec: Spec,
    /// What the server has made of it.
    pub status: DefinitionStatus,
}

/// The specification of a definition.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// The API group.
    pub group: String,
    /// The names of the resource.
    pub names: Names,
    /// `Namespaced` or `Cluster`.
    pub scope: String,
    /// The versions, in the order of the author.
    pub versions: Vec<Version>,
    /// The way from one version to another.
    pub conversion: Option<Conversion>,
    /// Says that unknown fields stay, which new definitions must not say.
    pub preserve_unknown_fields: bool,
}

/// The names of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the fields have the names and meanings of the API"
)]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub kind: String,
    pub list_kind: String,
    pub categories: Vec<String>,
}

/// A version of a resource.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the fields have the names and meanings of the API"
)]
pub struct Version {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub deprecated: bool,
    pub deprecation_warning: Option<String>,
    pub schema: Option<Validation>,
    pub subresources: Option<Subresources>,
    pub additional_printer_columns: Vec<Column>,
    pub selectable_fields: Vec<SelectableField>,
}

/// The schema of a version.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Validation {
    /// The schema.
    #[serde(rename = "openAPIV3Schema")]
    pub schema: Option<Schema>,
}

/// The subresources of a version.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Subresources {
    /// Says that there is `/status`.
    pub status: Option<Value>,
    /// Says that there is `/scale`.
    pub scale: Option<Scale>,
}

/// The places of the fields of `/scale`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Scale {
    /// The place of the wanted replicas.
    pub spec_replicas_path: String,
    /// The place of the present replicas.
    pub status_replicas_path: String,
    /// The place of the selector of the replicas, as a string.
    pub label_selector_path: Option<String>,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the fields have the names and meanings of the API"
)]
pub struct Column {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i32,
    pub json_path: String,
}

/// A field that field selectors can use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SelectableField {
    /// The place of the field.
    pub json_path: String,
}

/// The way from one version to another.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Conversion {
    /// `None` or `Webhook`.
    pub strategy: String,
    /// The webhook.
    pub webhook: Option<Webhook>,
}

/// A conversion webhook.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Webhook {
    /// Its address.
    pub client_config: Option<Value>,
    /// The versions of ConversionReview that it knows.
    pub conversion_review_versions: Option<Vec<String>>,
}

/// The status of a definition.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DefinitionStatus {
    /// The conditions.
    pub conditions: Option<Vec<Value>>,
    /// The names that are in use.
    pub accepted_names: Names,
    /// The versions in which objects may be stored.
    pub stored_versions: Option<Vec<String>>,
}

impl DefinitionStatus {
    /// Reports whether a condition is true.
    pub fn is_true(&self, condition: &str) -> bool {
        self.conditions
            .iter()
            .flatten()
            .any(|c| c["type"] == condition && c["status"] == "True")
    }

    /// Returns the stored versions.
    pub fn stored(&self) -> &[String] {
        self.stored_versions.as_deref().unwrap_or_default()
    }
}

impl Version {
    /// Returns the schema.
    pub fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()?.schema.as_ref()
    }

    /// Returns the scale subresource.
    pub fn scale(&self) -> Option<&Scale> {
        self.subresources.as_ref()?.scale.as_ref()
    }

    /// Reports whether there is a status subresource.
    pub fn has_status(&self) -> bool {
        self.subresources
            .as_ref()
            .is_some_and(|subresources| subresources.status.is_some())
    }
}
