//! CEL rules of custom resources (`x-kubernetes-validations`).
//!
//! Evaluations are bounded by steps. The real server also estimates the cost of rules when a definition is created, and
//! refuses expensive ones; that is not done here yet.

mod compile;
pub mod evaluate;
pub mod form;
mod schema_types;
mod values;
