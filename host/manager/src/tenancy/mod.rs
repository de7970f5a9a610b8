//! Tenancy: the quotas of plugins and namespaces, and the shares that the scheduler gives them.

pub mod admission;
pub mod cache_quota;
pub mod quotas;
pub mod tenants;
