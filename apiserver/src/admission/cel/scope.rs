//! The values that an expression can use.

use std::{cell::RefCell, collections::BTreeMap};

use super::{
    authorizer::{self, Requestor, ResourceCheck},
    types,
};
use crate::{
    authn::user::User,
    authz::rbac::Rbac,
    cel::{
        EvalError,
        ast::Expr,
        eval::{Evaluated, Evaluation, Host},
        value::{Opaque, Val},
    },
    golang::pattern::Patterns,
};

/// A variable that a policy defines: it is evaluated when it is first used.
#[derive(Debug)]
pub struct Variable<'a> {
    /// The name.
    pub name: &'a str,
    /// The expression.
    pub expression: &'a Expr,
}

/// The value of `variables`, whose fields are those of the scope.
#[derive(Debug, PartialEq, Eq)]
struct Variables;

impl Opaque for Variables {
    fn runtime_type_name(&self) -> &str {
        types::VARIABLES
    }
}

/// The values that an expression can use.
pub struct Scope<'a> {
    names: Vec<(&'static str, Val)>,
    patterns: &'a Patterns,
    variables: &'a [Variable<'a>],
    computed: RefCell<BTreeMap<&'a str, Evaluated>>,
    requestor: Option<Requestor<'a>>,
}

impl<'a> Scope<'a> {
    /// Creates a scope with values by name.
    pub fn new(names: BTreeMap<&'static str, Val>, patterns: &'a Patterns) -> Self {
        let names = names.into_iter().collect();
        Self {
            names,
            patterns,
            variables: &[],
            computed: RefCell::default(),
            requestor: None,
        }
    }

    /// Adds the variables of a policy.
    #[must_use]
    pub fn with_variables(mut self, variables: &'a [Variable<'a>]) -> Self {
        self.variables = variables;
        self.names
            .push(("variables", Val::opaque(types::VARIABLES, Variables)));
        self
    }

    /// Adds the authorizer, and the resource of the request as `authorizer.requestResource`.
    #[must_use]
    pub fn with_authorizer(
        mut self,
        authorizer: &'a Rbac<'a>,
        user: &'a User,
        request: ResourceCheck,
    ) -> Self {
        self.names.extend(authorizer::variables(request));
        self.requestor = Some((authorizer, user));
        self
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// Fails as the reference interpreter does.
    pub fn evaluate(&self, expression: &Expr) -> Evaluated {
        Evaluation::new(self.patterns, &self.names)
            .with_host(self)
            .eval(expression)
    }

    /// Evaluates a variable of the policy, once.
    fn variable(&self, name: &str) -> Evaluated {
        let variable = self.variables.iter().find(|variable| variable.name == name);
        let variable = variable.ok_or_else(|| format!("no such key: {name}"))?;
        if let Some(known) = self.computed.borrow().get(variable.name) {
            return known.clone();
        }

        let value = self
            .evaluate(variable.expression)
            .map_err(|error| -> EvalError {
                format!("composited variable {name:?} fails to evaluate: {error}")
            });

        self.computed
            .borrow_mut()
            .insert(variable.name, value.clone());

        value
    }
}

impl Host for Scope<'_> {
    fn field(&self, value: &Val, name: &str) -> Option<Evaluated> {
        value.as_opaque::<Variables>().map(|_| self.variable(name))
    }

    fn call(&self, function: &str, args: &[Val]) -> Option<Evaluated> {
        let (target, args) = args.split_first()?;
        authorizer::call(self.requestor, target, function, args)
    }
}
