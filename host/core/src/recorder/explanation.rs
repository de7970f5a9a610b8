//! The answer to a question about an object: a tree of changes and their causes.

use serde::{Deserialize, Serialize};

use super::record::ObjectRef;

/// The changes of an object, each with its causes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The changes, the newest first.
    pub changes: Vec<Step>,
    /// The number of older changes that are recorded and not explained, because of the limit; those
    /// of an object that changes very often are not all counted.
    pub older: usize,
    /// The number of objects that are left out, and of changes whose Plugin is, because the asker
    /// may not read them.
    pub hidden: usize,
    /// The replicas of the host that did not answer, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub silent: Vec<String>,
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The time in milliseconds since 1970-01-01 UTC.
    pub at: u64,
    /// The object.
    pub object: Named,
    /// `created`, `changed` or `deleted`.
    pub change: String,
    /// The resourceVersion after the change.
    pub resource_version: String,
    /// The fields that changed; None if they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// The writer.
    pub by: Writer,
    /// The causes of the reconcile that wrote; empty for writers outside.
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
    /// A reconcile of a plugin.
    Plugin(Box<PluginWriter>),
    /// A plugin that the asker may not read.
    HiddenPlugin,
    /// Somebody outside of this host: the field managers of the latest time in the object's
    /// managedFields. One of them has written, unless they are none.
    Outside {
        /// The field managers, with the subresource after a slash.
        managers: Vec<String>,
    },
}

/// A reconcile that wrote.
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
    /// The ServiceAccount as which it wrote.
    pub service_account: String,
    /// The reads before the write.
    pub reads: Vec<ReadBefore>,
}

/// A read before a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadBefore {
    /// The verb, kind and name.
    pub text: String,
    /// The resourceVersion that was read; empty if it is not known.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub resource_version: String,
    /// True if the cache may have answered.
    pub is_cached: bool,
}

/// A cause of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Because {
    /// A change of an object.
    Change(Box<Step>),
    /// A change that is explained elsewhere in the answer, or too far back.
    Seen {
        /// The object.
        object: Named,
        /// Its resourceVersion.
        resource_version: String,
    },
    /// An event of an object whose change is not recorded any more, or was not seen.
    Unrecorded {
        /// The object.
        object: Named,
        /// Its resourceVersion.
        resource_version: String,
    },
    /// A cause without a change, in words.
    Other {
        /// The cause.
        text: String,
    },
    /// An object that the asker may not read.
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
