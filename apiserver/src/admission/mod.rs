//! Admission: what is refused or completed after a request was authorized and before its object is
//! stored.
//!
//! Pure functions over JSON objects. The caller calls them in the order of kube-apiserver:
//!
//! 1. [`limit_ranger::complete`] and [`service_account::complete`] before the object is validated;
//!    the name of an object with `generateName` is not known yet;
//! 2. the validation of the object;
//! 3. [`limit_ranger::admit`], [`pod_security::admit`], [`policies::Policies::admit`] and
//!    [`resource_quota::admit`].
//!
//! Objects that configure admission are checked when they are written: [`validation`] for policies
//! and bindings, [`resource_quota::check_supported`], [`limit_ranger::check_supported`] and
//! [`pod_security::check_namespace`].

pub mod cel;
pub mod limit_ranger;
mod matching;
pub mod params;
pub(crate) mod plugins;
pub mod pod_security;
pub mod policies;
mod policy;
pub mod request;
pub mod resource_quota;
pub mod service_account;
pub mod validation;
mod validation_rules;
