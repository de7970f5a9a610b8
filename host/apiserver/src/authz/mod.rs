//! Authentication, authorization and impersonation as kube-apiserver does them.
//!
//! Pure functions over JSON objects and the small types of this module. The callers are the HTTP handlers:
//!
//! 1. [`authenticate`]: the `Authorization` header becomes a [`user::User`];
//! 2. [`request_info`]: method and URL become the [`attributes::Attributes`] of the request;
//! 3. [`impersonation`]: the `Impersonate-*` headers replace the user, if the user may;
//! 4. [`rbac`]: the attributes are allowed or denied, [`attributes::Attributes::forbidden`] is the answer to a denial;
//! 5. [`escalation`]: a write of a role or binding is refused if it gives more than the user has.
//!
//! The objects come from an [`objects::Objects`], which the store implements.

pub mod aggregation;
pub mod attributes;
pub mod authenticate;
pub mod bootstrap;
pub mod error;
pub mod escalation;
pub mod impersonation;
mod impersonation_modes;
pub mod names;
pub mod objects;
pub mod rbac;
pub mod request_info;
mod review_selectors;
mod review_validation;
pub mod reviews;
pub mod rules;
pub mod signing;
pub mod token_claims;
pub mod token_request;
pub mod token_review;
pub mod user;
