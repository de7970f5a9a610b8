//! The Common Expression Language as kube-apiserver runs it: for the rules of custom resources and
//! for admission policies.
//!
//! [`parse::parse`] builds the syntax tree, [`check::check`] finds types and mistakes,
//! [`cost::estimate`] bounds the cost, and [`eval::Evaluation`] evaluates. They are our own because
//! error messages name types and positions, and because admission decisions depend on how errors
//! and numbers of different types behave. The functions of the Kubernetes libraries come from the
//! crate `kube-cel`.
//!
//! Limits: messages of failing library functions may differ from kube-apiserver's, and evaluations
//! are bounded by steps, which only approximate its runtime costs.

pub mod ast;
pub mod check;
mod check_macros;
mod convert;
pub mod cost;
mod cost_functions;
mod cost_sizes;
mod declarations;
pub mod eval;
mod functions;
mod library;
mod literals;
mod macros;
pub mod parse;
mod parse_primary;
mod size;
mod times;
mod token;
pub mod types;
pub mod value;
pub mod words;

use self::ast::{Expr, render};
use self::check::Checked;
pub use self::convert::EvalError;
use self::types::Type;

/// Parses and checks an expression with variables of given types. Fails with kube-apiserver's
/// message about its mistakes.
pub fn compile(text: &str, variables: &[(&str, Type)]) -> Result<(Expr, Checked), String> {
    let failed = |issues: Vec<_>| format!("compilation failed: {}", render(text, &issues));
    let expr = parse::parse(text).map_err(failed)?;
    let checked = check::check(&expr, variables).map_err(failed)?;

    Ok((expr, checked))
}
