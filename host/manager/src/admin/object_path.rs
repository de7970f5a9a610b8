//! The path of an object in the endpoints and the page: GROUP/VERSION/PLURAL/NAMESPACE/NAME.

use operetta_core::{gate::path::encoded, object::ObjectKey};

/// Stands for the core group, whose name is empty.
pub const CORE: &str = "core";
/// Stands for the namespace of a cluster-scoped object.
pub const CLUSTER: &str = "_";

/// Returns the path of an object, escaped and without a leading slash.
///
/// ```
/// use operetta_core::object::ObjectKey;
/// use operetta_manager::admin::object_path::object_path;
///
/// assert_eq!(object_path("apps/v1", "deployments", &ObjectKey::namespaced("n", "a")), "apps/v1/deployments/n/a");
/// assert_eq!(object_path("v1", "pods", &ObjectKey::namespaced("n", "a b")), "core/v1/pods/n/a%20b");
/// assert_eq!(object_path("v1", "nodes", &ObjectKey::cluster_scoped("a")), "core/v1/nodes/_/a");
/// ```
pub fn object_path(api_version: &str, plural: &str, key: &ObjectKey) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or((CORE, api_version));
    let namespace = key.namespace.as_deref().unwrap_or(CLUSTER);
    format!(
        "{group}/{version}/{plural}/{namespace}/{}",
        encoded(&key.name)
    )
}

/// Returns the `apiVersion` for a group and version in a path.
pub fn api_version(group: &str, version: &str) -> String {
    if group == CORE {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Returns the namespace in a path, or None for a cluster-scoped object.
pub fn namespace(segment: &str) -> Option<&str> {
    Some(segment).filter(|segment| !segment.is_empty() && *segment != CLUSTER)
}
