//! The managers of an object and their fields.

use std::{collections::BTreeMap, fmt};

use serde_json::json;

use crate::apply::fieldpath::FieldSet;

/// The operation of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// It applies configurations.
    Apply,
    /// It creates, updates and patches.
    Update,
}

impl Operation {
    /// Returns the name in `managedFields`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The identity of an entry of `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// The name of the manager.
    pub name: String,
    /// The operation.
    pub operation: Operation,
    /// The version in which it updates. Empty for appliers, which have one entry for all versions.
    pub api_version: String,
    /// The subresource that it writes, or empty.
    pub subresource: String,
}

impl ManagerId {
    /// The key by which the API server sorts managers: the JSON of the entry's fields.
    pub(crate) fn sort_key(&self) -> String {
        let fields = [
            ("manager", self.name.as_str()),
            ("operation", self.operation.as_str()),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ];

        let fields = fields.iter().filter(|(_, value)| !value.is_empty());
        fields
            .map(|(name, value)| format!("\"{name}\":{}", json!(value)))
            .collect::<Vec<_>>()
            .join(",")
    }
}

/// The fields that a manager manages in a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedSet {
    /// The fields.
    pub set: FieldSet,
    /// The apiVersion of the object in which the fields have these paths.
    pub api_version: String,
    /// Whether they were applied.
    pub applied: bool,
}

/// The managers of an object.
pub type ManagedSets = BTreeMap<ManagerId, VersionedSet>;
