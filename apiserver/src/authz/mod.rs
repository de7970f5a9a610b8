//! Authorization: RBAC, impersonation and reviews of access, as kube-apiserver does them.
//!
//! A request passes these modules after its user is known ([`authn`](crate::authn)):
//! [`impersonation`] replaces the user by the one in the `Impersonate-*` headers, if that is
//! allowed; [`rbac`] allows the request or not; and [`escalation`] refuses to write a role or
//! binding that gives more than the user has.
//!
//! The objects come from an [`objects::Objects`], which the store implements.

pub mod aggregation;
pub mod bootstrap;
pub mod escalation;
pub mod impersonation;
mod impersonation_modes;
pub mod objects;
pub mod rbac;
pub mod request_info;
mod review_selectors;
mod review_validation;
pub mod reviews;
pub mod rules;
