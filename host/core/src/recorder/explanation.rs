//! The answer to a question about an object: a tree of changes and their causes.

use serde::{Deserialize, Serialize};

use super::record::ObjectRef;

/// An object's changes, each with its causes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The changes, newest first.
    pub changes: Vec<Step>,
    /// Older changes recorded but not explained because of the limit. For an object that changes
    /// very often, not all of them are counted.
    pub older: usize,
    /// How many objects, triggers and calls were left out, and changes whose Plugin was, because the
    /// asker may not read them.
    pub hidden: usize,
    /// Replicas of the host that did not answer, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub silent: Vec<String>,
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Time in milliseconds since 1970-01-01 UTC.
    pub at: u64,
    /// The object.
    pub object: Named,
    /// `created`, `changed` or `deleted`.
    pub change: String,
    /// The resourceVersion after the change.
    pub resource_version: String,
    /// The changed fields; None if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Who wrote.
    pub by: Writer,
    /// Causes of the writing reconcile; empty for writers outside.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub because: Vec<Because>,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// The `group/version`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

/// A writer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Writer {
    /// A plugin's reconcile.
    Plugin(Box<PluginWriter>),
    /// A plugin the asker may not read.
    HiddenPlugin,
    /// Somebody outside this host: the field managers with the latest time in the object's
    /// managedFields. Unless the list is empty, one of them has written.
    Outside {
        /// The field managers, with the subresource after a slash.
        managers: Vec<String>,
    },
}

/// A reconcile with a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginWriter {
    /// The Plugin as namespace/name.
    pub plugin: String,
    /// The controller.
    pub controller: String,
    /// The reconciled object.
    pub object: Named,
    /// The id of the reconcile.
    pub reconcile: String,
    /// The verb, with the subresource after a slash.
    pub verb: String,
    /// The sha256 of the plugin's code.
    pub digest: String,
    /// The ServiceAccount it wrote as.
    pub service_account: String,
    /// The reads before the write.
    pub reads: Vec<ReadBefore>,
}

/// A read before a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadBefore {
    /// Verb, kind and name.
    pub text: String,
    /// The resourceVersion read; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub resource_version: String,
    /// Whether the cache may have answered.
    pub is_cached: bool,
}

/// A cause of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Because {
    /// A change of an object.
    Change(Box<Step>),
    /// A change explained elsewhere in the answer, or too far back.
    Seen {
        /// The object.
        object: Named,
        /// Its resourceVersion.
        resource_version: String,
    },
    /// An event whose change is no longer recorded, or was never seen.
    Unrecorded {
        /// The object.
        object: Named,
        /// Its resourceVersion.
        resource_version: String,
    },
    /// A cause other than a change, in words.
    Other {
        /// The cause.
        text: String,
    },
    /// An object the asker may not read.
    Hidden,
}

impl From<&ObjectRef> for Named {
    fn from(object: &ObjectRef) -> Self {
        let ObjectRef { kind, key } = object;
        Self {
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }
}
