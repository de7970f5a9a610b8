//! Owner references of objects.

use serde::Deserialize;

/// One entry of metadata.ownerReferences.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// The owner's apiVersion.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name. The owner is in the same namespace or cluster-scoped.
    pub name: String,
    /// The owner's uid.
    pub uid: String,
    /// Whether this owner is the managing controller.
    #[serde(default)]
    pub controller: bool,
}
