//! CEL rules of custom resources (`x-kubernetes-validations`).
//!
//! The parser and the type checker are our own, since the messages of the real server name types and positions. The
//! functions of the Kubernetes libraries are those of the crate `kube-cel`.
//!
//! Evaluations are bounded by steps. The real server also estimates the cost of rules when a definition is created, and
//! refuses expensive ones; that is not done here yet.

pub mod ast;
mod check;
mod compile;
mod convert;
mod declarations;
mod duration;
mod eval;
pub mod evaluate;
mod functions;
mod library;
mod literals;
mod parse;
pub mod rules;
mod schema_types;
mod times;
mod token;
mod types;
mod value;
pub mod words;
