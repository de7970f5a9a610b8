//! Names of objects.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of one object of a kind (apimachinery's `types.NamespacedName`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The namespace; `None` for objects of cluster-scoped kinds.
    pub namespace: Option<String>,
    /// The object's `metadata.name`.
    pub name: String,
}

impl ObjectKey {
    /// Returns the key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// Returns the key of an object of a cluster-scoped kind.
    pub fn cluster_scoped(name: impl Into<String>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// Returns a key in the same namespace with another name.
    #[must_use]
    pub fn beside(&self, name: impl Into<String>) -> Self {
        Self {
            namespace: self.namespace.clone(),
            name: name.into(),
        }
    }
}

/// Writes `NAMESPACE/NAME`, or the name alone (client-go's `MetaNamespaceKeyFunc`).
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

impl From<&Self> for ObjectKey {
    fn from(key: &Self) -> Self {
        key.clone()
    }
}

impl<Namespace: Into<String>, Name: Into<String>> From<(Namespace, Name)> for ObjectKey {
    fn from((namespace, name): (Namespace, Name)) -> Self {
        Self::namespaced(namespace, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_namespace_and_name() {
        assert_eq!(ObjectKey::from(("shop", "db")).to_string(), "shop/db");
        assert_eq!(ObjectKey::cluster_scoped("node-1").to_string(), "node-1");
        assert_eq!(
            ObjectKey::from(("shop", "db")).beside("cache").to_string(),
            "shop/cache"
        );
    }
}
