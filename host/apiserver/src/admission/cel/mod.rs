//! The Common Expression Language in admission policies.
//!
//! The parser and most functions are those of `kube-cel`. Its interpreter differs from the reference one in ways that
//! change decisions (a field of null is false, numbers of different types are never equal, errors of optional fields
//! are lost), so [`eval`] is an interpreter of its own on the parsed expression, and [`check`] a checker of types.
//! What neither knows is refused when a policy is created.
//!
//! Limits: `type`, types as values and `sortBy` are refused. There is no budget of cost. Messages of functions that
//! fail may differ from those of kube-apiserver.

mod authorizer;
mod calls;
pub mod check;
mod check_macros;
mod check_operators;
mod environment;
mod error;
pub mod eval;
mod functions;
mod macros;
mod operators;
mod scope;
mod source;
mod types;
mod values;

use kube_cel::cel::{IdedExpr, parser::Parser};
use thiserror::Error;

pub use self::{
    authorizer::ResourceCheck,
    environment::Environment,
    error::EvalError,
    scope::{Scope, Variable},
    types::Type,
    values::{Value, from_json},
};

/// A checked expression.
#[derive(Debug, Clone)]
pub struct Program {
    source: String,
    expression: IdedExpr,
    output: Type,
}

/// An expression that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompileError {
    /// The expression is wrong. The text is kube-apiserver's.
    #[error("{0}")]
    Invalid(String),
    /// The expression uses what this server does not support.
    #[error("the embedded API server does not support {0} in CEL expressions")]
    Unsupported(String),
}

/// The longest expression and the deepest nesting that the parser takes.
const MAX_LENGTH: usize = 100_000;
const MAX_DEPTH: u16 = 96;

impl Program {
    /// Parses and checks an expression whose result must be of one of these types.
    ///
    /// # Errors
    /// Fails with the message that kube-apiserver shows in the field of the expression.
    pub fn compile(source: &str, environment: &Environment, outputs: &[Type]) -> Result<Self, CompileError> {
        let program = Self::compile_any(source, environment)?;
        if program.output != Type::Unknown && !outputs.contains(&program.output) {
            let outputs: Vec<String> = outputs.iter().map(ToString::to_string).collect();
            let wanted = match outputs.as_slice() {
                [one] => one.clone(),
                several => format!("one of [{}]", several.join(" ")),
            };
            return Err(CompileError::Invalid(format!("must evaluate to {wanted} but got {}", program.output)));
        }
        Ok(program)
    }

    /// Parses and checks an expression of any type.
    ///
    /// # Errors
    /// Fails as [`Self::compile`] does.
    pub fn compile_any(source: &str, environment: &Environment) -> Result<Self, CompileError> {
        if source.len() > MAX_LENGTH {
            return Err(CompileError::Unsupported("more than 100,000 bytes".to_owned()));
        }
        let parser = Parser::default().max_recursion_depth(MAX_DEPTH).enable_optional_syntax(true);
        let expression = parser.parse(source).map_err(|errors| {
            let is_syntax = |message: &str| message.starts_with("Syntax error");
            let has_syntax = errors.errors.iter().any(|error| is_syntax(&error.msg));
            // What follows from a syntax error is not shown.
            let errors = errors.errors.iter().filter(|error| !has_syntax || is_syntax(&error.msg));
            let errors: Vec<String> =
                errors.map(|error| source::issue_at(source, error.pos.0, error.pos.1, &error.msg)).collect();
            CompileError::Invalid(format!("compilation failed: {}", errors.join("\n")))
        })?;
        let output = check::check(source, &expression, environment)?;
        Ok(Self { source: source.to_owned(), expression, output })
    }

    /// Returns the text of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the parsed expression.
    pub fn expression(&self) -> &IdedExpr {
        &self.expression
    }

    /// Returns the type of the result.
    pub fn output(&self) -> &Type {
        &self.output
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// Fails as the reference interpreter does.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, EvalError> {
        eval::evaluate(&self.expression, scope)
    }
}
