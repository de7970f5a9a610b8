//! The Common Expression Language as kube-apiserver runs it: for the rules of custom resources and for admission
//! policies.
//!
//! [`parse::parse`] makes the tree of an expression, [`check::check`] finds its types and its mistakes,
//! [`cost::estimate`] bounds its cost, and [`eval::Evaluation`] evaluates it. All are our own, since messages name types
//! and positions, and since decisions depend on how errors and numbers of different types behave. The functions of the
//! Kubernetes libraries are those of the crate `kube-cel`.
//!
//! Limits: messages of functions of the libraries that fail may differ from those of kube-apiserver. Evaluations are
//! bounded by steps, which approximate the costs that kube-apiserver counts.

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

/// Parses and checks an expression with variables of given types.
///
/// # Errors
/// Returns kube-apiserver's message about the mistakes in it.
pub fn compile(text: &str, variables: &[(&str, Type)]) -> Result<(Expr, Checked), String> {
    let failed = |issues: Vec<_>| format!("compilation failed: {}", render(text, &issues));
    let expr = parse::parse(text).map_err(failed)?;
    let checked = check::check(&expr, variables).map_err(failed)?;
    Ok((expr, checked))
}
