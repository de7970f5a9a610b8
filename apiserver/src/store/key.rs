//! The names of objects.

use std::sync::Arc;

/// The name of an object in its resource.
///
/// Keys are ordered like etcd's, by the bytes of `NAMESPACE/NAME`: `a-b/x` comes before `a/x`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// Names an object in a namespace.
    #[must_use]
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// Names a cluster-scoped object.
    #[must_use]
    pub fn cluster(name: &str) -> Self {
        Self(name.into())
    }

    /// Names an object of a namespace, or a cluster-scoped one if there is none.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        namespace.map_or_else(
            || Self::cluster(name),
            |namespace| Self::namespaced(namespace, name),
        )
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

    /// Returns `NAMESPACE/NAME`, or just the name of a cluster-scoped object.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reports whether the object is in a namespace; `None` stands for all of them.
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
