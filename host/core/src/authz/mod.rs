//! Permissions: what a ServiceAccount may read from the caches, and which permissions a plugin has
//! used.

pub mod access;
pub mod access_review;
pub mod bindings;
mod decisions;
pub mod host_permissions;
pub mod recorded_permissions;
pub mod refused_calls;
