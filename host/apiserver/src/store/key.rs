//! The names of resources and objects.

use std::{fmt, sync::Arc};

/// A resource without its version, such as `deployments.apps`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    group: Arc<str>,
    resource: Arc<str>,
}

impl GroupResource {
    /// Names a resource. The core group is `""`.
    #[must_use]
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Returns the API group, `""` for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Returns the plural name, such as `deployments`.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(formatter, ".{}", self.group) }
    }
}

/// The name of an object in its resource.
///
/// Keys are ordered as etcd orders them, by `NAMESPACE/NAME` as bytes: `a-b/x` comes before `a/x`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// Names an object in a namespace.
    #[must_use]
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// Names an object of the cluster.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
        Self(name.into())
    }

    /// Names an object of a namespace, or of the cluster when there is none.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        namespace.map_or_else(|| Self::cluster(name), |namespace| Self::namespaced(namespace, name))
    }

    /// Returns the namespace.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// Returns `NAMESPACE/NAME`, or the name of an object of the cluster.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reports whether the object is in a namespace; every object is in `None`.
    #[must_use]
    pub fn is_in(&self, namespace: Option<&str>) -> bool {
        namespace.is_none_or(|namespace| self.namespace() == Some(namespace))
    }
}

impl From<&str> for ObjectKey {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl std::borrow::Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}
