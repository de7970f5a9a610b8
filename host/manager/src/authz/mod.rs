//! Permissions: whether a Plugin may run here at all, and what it needs to be granted.

pub mod allowed_code;
pub mod consent;
pub mod consent_watch;
pub mod permissions;
