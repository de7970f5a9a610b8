//! Permissions: what a ServiceAccount may read of the caches, and which permissions a plugin was seen to use.

pub mod access;
pub mod access_review;
pub mod bindings;
pub mod recorded_permissions;
