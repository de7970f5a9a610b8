//! Permissions: whether a Plugin may run here at all, and which permissions it needs.

pub mod allowed_code;
pub mod consent;
pub mod consent_watch;
pub mod permissions;
