//! Finalizers under `operetta.dev/`.

/// Finalizer of a Plugin whose code puts finalizers on objects, and of the ServiceAccount, Roles
/// and RoleBindings it acts with in its own namespace. The host removes it once no deleted object
/// waits for the plugin.
pub const TEARDOWN: &str = "operetta.dev/teardown";

/// The ClusterRole with which the host sets and removes [`TEARDOWN`] where it is granted a
/// ServiceAccount. A RoleBinding gives it, and is the last object from which the host removes the
/// finalizer: a Role would be gone too early.
pub const TEARDOWN_ROLE: &str = "operetta-teardown";
