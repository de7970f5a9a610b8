//! Names of kinds.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::{is_dns_label, is_dns_subdomain};

/// The longest group, version and name of a kind together, in bytes.
const MAX_NAME: usize = 253;

/// A kind as clients name it (apimachinery's `schema.GroupVersionKind`), kept as the two fields
/// that every object has.
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
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
        }
    }

    /// Checks that the names are valid, so that the API server's path for the kind stays below its
    /// group and version.
    ///
    /// # Errors
    /// The name of the invalid field, and a message about it.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        check_api_version(&self.api_version).map_err(|message| ("apiVersion", message))?;

        let kind = &self.kind;
        if kind.is_empty() {
            return Err(("kind", "it is empty".to_owned()));
        }

        if kind.len() > 63
            || !kind
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            let message = format!(
                "{:?} is not a kind's name (letters and digits, at most 63)",
                shown(kind)
            );
            return Err(("kind", message));
        }

        Ok(())
    }

    /// Returns the API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version
            .rsplit_once('/')
            .map_or("", |(group, _)| group)
    }

    /// Returns the version, e.g. `v1`.
    pub fn version(&self) -> &str {
        self.api_version
            .rsplit_once('/')
            .map_or(self.api_version.as_str(), |(_, version)| version)
    }
}

/// Checks an `apiVersion`: `version`, or `group/version`, of DNS names.
///
/// # Errors
/// A message that quotes it.
pub fn check_api_version(api_version: &str) -> Result<(), String> {
    let (group, version) = match api_version.split_once('/') {
        Some((group, version)) => (Some(group), version),
        None => (None, api_version),
    };

    if version.is_empty() || version.contains('/') || group == Some("") {
        return Err(format!(
            "{:?} is not `version` or `group/version`",
            shown(api_version)
        ));
    }

    if api_version.len() > MAX_NAME || !is_dns_label(version) || !group.is_none_or(is_dns_subdomain)
    {
        return Err(format!(
            "{:?} has a group or a version that is not a DNS name",
            shown(api_version)
        ));
    }

    Ok(())
}

/// Shortens a text for a message.
fn shown(text: &str) -> String {
    text.chars().take(128).collect()
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

    #[test]
    fn refuses_names_that_reach_another_path() {
        for api_version in [
            "",
            "/",
            "/v1",
            "apps/",
            "apps/v1/",
            "apps/v1/namespaces/victim/deployments",
            "apps/v1/watch/deployments",
            "apps/v1?watch=1",
            "apps/../v1",
            "v1%2f..",
            "Apps/v1",
            "apps/v1 ",
            "é/v1",
        ] {
            let error = GroupVersionKind::new(api_version, "Deployment")
                .check()
                .expect_err(api_version);
            assert_eq!(error.0, "apiVersion");
        }

        assert!(
            GroupVersionKind::new("v".repeat(64), "Pod")
                .check()
                .is_err()
        );

        for kind in ["", "a/b", "Pod?", "..", "é"] {
            assert_eq!(
                GroupVersionKind::new("v1", kind).check().expect_err(kind).0,
                "kind"
            );
        }

        for (api_version, kind) in [
            ("v1", "Pod"),
            ("apps/v1", "Deployment"),
            ("a.b-c.dev/v1alpha1", "Foo2"),
        ] {
            assert_eq!(GroupVersionKind::new(api_version, kind).check(), Ok(()));
        }
    }
}
