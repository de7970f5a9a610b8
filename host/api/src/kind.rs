//! Names of kinds.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind as clients name it (apimachinery's `schema.GroupVersionKind`), kept as the two fields that every object has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupVersionKind {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The kind, e.g. `Deployment`.
    pub kind: String,
}

impl GroupVersionKind {
    /// Names a kind by its `apiVersion` and `kind` fields.
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }

    /// Returns the API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// Returns the version, e.g. `v1`.
    pub fn version(&self) -> &str {
        self.api_version.rsplit_once('/').map_or(self.api_version.as_str(), |(_, version)| version)
    }
}

/// Writes `Deployment.apps/v1`, and `Pod.v1` for a kind of the core group.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.api_version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_api_version_into_group_and_version() {
        let apps = GroupVersionKind::new("apps/v1", "Deployment");
        assert_eq!((apps.group(), apps.version()), ("apps", "v1"));
        let core = GroupVersionKind::new("v1", "Pod");
        assert_eq!((core.group(), core.version()), ("", "v1"));
        assert_eq!(core.to_string(), "Pod.v1");
    }
}
