//! Permissions: the API server's authorizer, what the host itself may watch, and what each plugin
//! needs and may see.

pub mod access_review;
pub mod difference;
pub mod filtered_view;
pub mod granted_roles;
pub mod impersonation;
pub mod impersonation_refusal;
mod pending_deletions;
pub mod permission_watch;
mod plugin_permissions;
pub mod probe;
pub mod required_permissions;
pub mod rules;
pub mod watch_scope;
