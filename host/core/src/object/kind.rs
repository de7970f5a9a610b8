//! How a kind is named, independent of the resource that serves it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind as clients name it (apimachinery's `schema.GroupVersionKind`), kept as the two fields every object carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupVersionKind {
    /// `group/version`, or only the version for the core group.
    pub api_version: String,
    /// The kind, e.g. `Deployment`.
    pub kind: String,
}

impl GroupVersionKind {
    /// Names a kind by its `apiVersion` and `kind` fields.
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// The version, e.g. `v1`.
    pub fn version(&self) -> &str {
        self.api_version.rsplit_once('/').map_or(self.api_version.as_str(), |(_, version)| version)
    }
}

/// As kubectl names a kind in full: `Deployment.apps/v1`, and `Pod.v1` in the core group.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.api_version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_and_version_come_from_the_api_version() {
        let apps = GroupVersionKind::new("apps/v1", "Deployment");
        assert_eq!((apps.group(), apps.version()), ("apps", "v1"));
        let core = GroupVersionKind::new("v1", "Pod");
        assert_eq!((core.group(), core.version()), ("", "v1"));
        assert_eq!(core.to_string(), "Pod.v1");
    }
}
