//! CEL rules of custom resources (`x-kubernetes-validations`).
//!
//! The cost of rules is estimated when a definition is written, and expensive ones are refused.
//! Evaluations are bounded by steps.

mod compile;
pub mod costs;
pub mod evaluate;
pub mod form;
mod schema_types;
mod sizes;
mod values;
