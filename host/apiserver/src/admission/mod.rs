//! Admission: what is refused or completed after a request was authorized and before its object is stored.

pub mod cel;
mod matching;
pub mod namespace_lifecycle;
pub mod params;
pub mod pod_security;
pub mod policies;
mod policy;
pub mod request;
pub mod resource_quota;
mod selectors;
pub mod service_account;
pub mod validation;
mod validation_rules;
