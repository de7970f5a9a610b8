//! CEL rules of custom resources (`x-kubernetes-validations`).

pub mod ast;
pub mod costs;
pub mod declarations;
pub mod evaluate;
pub mod parse;
pub mod rules;
pub mod token;
pub mod types;
