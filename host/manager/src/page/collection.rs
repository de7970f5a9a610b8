//! The collection of a kind, as the page's paths name it: GROUP/VERSION/PLURAL, with `core` for the
//! empty group and `_` for the namespace of cluster-scoped objects.

use operetta_kube::client::user_api::segment;

use super::{failure::Failure, html::path};
use crate::admin::object_path::{CLUSTER, CORE};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Collection {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub plural: String,
}

impl Collection {
    /// Parses the segments of a path.
    ///
    /// # Errors
    /// When one of them isn't a valid name.
    pub(super) fn new(group: &str, version: &str, plural: &str) -> Result<Self, Failure> {
        for name in [group, version, plural] {
            segment(name).ok_or_else(|| Failure::bad_name(name))?;
        }
        let group = if group == CORE { "" } else { group };
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
        })
    }

    pub(super) fn of(api_version: &str, plural: &str) -> Result<Self, Failure> {
        let (group, version) = api_version.split_once('/').unwrap_or((CORE, api_version));
        Self::new(group, version, plural)
    }

    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the collection's path at the API server, in a namespace if one is given.
    ///
    /// # Errors
    /// When the namespace isn't a valid name.
    pub(super) fn url(&self, namespace: Option<&str>) -> Result<String, Failure> {
        let name = |name: &str| segment(name).ok_or_else(|| Failure::bad_name(name));
        let root = if self.group.is_empty() {
            "/api".to_owned()
        } else {
            format!("/apis/{}", name(&self.group)?)
        };
        let version = name(&self.version)?;
        let plural = name(&self.plural)?;

        Ok(match namespace {
            Some(namespace) => format!("{root}/{version}/namespaces/{}/{plural}", name(namespace)?),
            None => format!("{root}/{version}/{plural}"),
        })
    }

    /// Returns an object's path at the API server.
    ///
    /// # Errors
    /// When the namespace or the name isn't valid.
    pub(super) fn object_url(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<String, Failure> {
        let name = segment(name).ok_or_else(|| Failure::bad_name(name))?;
        Ok(format!("{}/{name}", self.url(namespace)?))
    }

    pub(super) fn page(&self) -> String {
        path(&["kinds", self.shown_group(), &self.version, &self.plural])
    }

    /// Returns the path of an object's page.
    pub(super) fn object_page(&self, namespace: Option<&str>, name: &str) -> String {
        let namespace = namespace
            .filter(|namespace| !namespace.is_empty())
            .unwrap_or(CLUSTER);
        path(&[
            "objects",
            self.shown_group(),
            &self.version,
            &self.plural,
            namespace,
            name,
        ])
    }

    fn shown_group(&self) -> &str {
        if self.group.is_empty() {
            CORE
        } else {
            &self.group
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_path_of_their_kind() {
        let pods = Collection::new("core", "v1", "pods").expect("names");
        assert_eq!(pods.url(None).expect("a path"), "/api/v1/pods");

        let roles = Collection::of("rbac.authorization.k8s.io/v1", "clusterroles").expect("names");
        let url = roles.object_url(None, "system:<b>x?y").expect("a path");
        assert_eq!(
            url,
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:%3Cb%3Ex%3Fy"
        );
        assert_eq!(
            pods.object_page(None, "a<b>"),
            "/page/objects/core/v1/pods/_/a%3Cb%3E"
        );

        for name in ["..", "a/../../secrets", "", "%2e%2e"] {
            assert!(Collection::new("core", "v1", name).is_err(), "{name}");
            assert!(
                pods.url(Some(name)).is_err() && pods.object_url(Some("n"), name).is_err(),
                "{name}"
            );
        }
    }
}
