//! The roles and bindings that kube-apiserver 1.36 creates at its start.

use serde_json::Value;

const OBJECTS: &str = include_str!("bootstrap.json");

/// Returns the roles and bindings: ClusterRoles, ClusterRoleBindings, and the Roles and
/// RoleBindings of `kube-system` and `kube-public`, in this order. The aggregated roles `admin`,
/// `edit` and `view` have their rules.
///
/// # Errors
/// Fails if the embedded data is malformed, which a test excludes.
pub fn objects() -> Result<Vec<Value>, serde_json::Error> {
    serde_json::from_str(OBJECTS)
}
