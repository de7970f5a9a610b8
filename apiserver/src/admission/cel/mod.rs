//! The expressions of admission policies: their variables, and the functions of their `authorizer`.
//!
//! The language itself is that of the module `cel` of this crate. Each expression is bounded by
//! itself: there is no budget for all expressions of a request.

mod authorizer;
mod environment;
mod scope;
pub(super) mod types;

pub use self::{
    authorizer::ResourceCheck,
    environment::Environment,
    scope::{Scope, Variable},
};
use crate::cel::{self, ast::Expr};
pub use crate::{
    cel::{EvalError, types::Type, value::Val},
    golang::pattern::Patterns,
};

/// A checked expression.
#[derive(Debug, Clone)]
pub struct Program {
    source: String,
    expression: Expr,
    output: Type,
}

impl Program {
    /// Parses and checks an expression whose result must be of one of these types.
    ///
    /// # Errors
    /// Fails with the message that kube-apiserver shows in the field of the expression.
    pub fn compile(
        source: &str,
        environment: &Environment,
        outputs: &[Type],
    ) -> Result<Self, String> {
        let program = Self::compile_any(source, environment)?;
        if !outputs.contains(&program.output) {
            let outputs: Vec<String> = outputs.iter().map(Type::declared_name).collect();
            let wanted = match outputs.as_slice() {
                [one] => one.clone(),
                several => format!("one of [{}]", several.join(" ")),
            };

            return Err(format!(
                "must evaluate to {wanted} but got {}",
                program.output.declared_name()
            ));
        }

        Ok(program)
    }

    /// Parses and checks an expression of any type.
    ///
    /// # Errors
    /// Fails as [`Self::compile`] does.
    pub fn compile_any(source: &str, environment: &Environment) -> Result<Self, String> {
        let (expression, checked) = cel::compile(source, &environment.names())?;
        Ok(Self {
            source: source.to_owned(),
            expression,
            output: checked.ty,
        })
    }

    /// Returns the text of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the parsed expression.
    pub fn expression(&self) -> &Expr {
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
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Val, EvalError> {
        scope.evaluate(&self.expression)
    }
}
