//! The values that an expression can use.

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
};

use kube_cel::{
    KubeCelExt,
    cel::{Context, IdedExpr},
};

use super::{error::EvalError, values::Value};
use crate::authz::{attributes::Authorizer, user::User};

/// A variable that a policy defines: it is evaluated when it is first used.
#[derive(Debug)]
pub struct Variable<'a> {
    /// The name.
    pub name: &'a str,
    /// The expression.
    pub expression: &'a IdedExpr,
}

/// The values that an expression can use.
pub struct Scope<'a> {
    pub(super) names: BTreeMap<&'static str, Value>,
    variables: &'a [Variable<'a>],
    computed: RefCell<BTreeMap<&'a str, Result<Value, EvalError>>>,
    /// The library, made when its first function is called.
    functions: OnceCell<Context<'static>>,
    pub(super) authorizer: Option<(&'a dyn Authorizer, &'a User)>,
}

impl<'a> Scope<'a> {
    /// Creates a scope with values by name.
    pub fn new(names: BTreeMap<&'static str, Value>) -> Self {
        Self { names, variables: &[], computed: RefCell::default(), functions: OnceCell::new(), authorizer: None }
    }

    /// Adds the variables of a policy.
    #[must_use]
    pub fn with_variables(mut self, variables: &'a [Variable<'a>]) -> Self {
        self.variables = variables;
        self
    }

    pub(super) fn functions(&self) -> &Context<'static> {
        self.functions.get_or_init(|| Context::default().with_all())
    }

    pub(super) fn name(&self, name: &str) -> Option<&Value> {
        self.names.get(name)
    }

    pub(super) fn variable(&self, name: &str) -> Option<&'a Variable<'a>> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// Returns the value of a variable if it was evaluated before.
    pub(super) fn computed(&self, variable: &Variable<'a>) -> Option<Result<Value, EvalError>> {
        self.computed.borrow().get(variable.name).cloned()
    }

    /// Keeps the value of a variable.
    pub(super) fn keep(&self, variable: &Variable<'a>, value: Result<Value, EvalError>) {
        self.computed.borrow_mut().insert(variable.name, value);
    }
}
