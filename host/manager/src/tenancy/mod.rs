//! Tenancy: quotas of plugins and namespaces, and their shares in the scheduler.

pub mod admission;
pub mod cache_quota;
pub mod quotas;
pub mod tenants;
