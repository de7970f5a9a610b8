//! Tenancy: the quotas of plugins and of their namespaces.

pub mod cache_quota;
pub mod quotas;
