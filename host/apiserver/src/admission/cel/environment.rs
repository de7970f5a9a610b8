//! The variables of expressions, with their types.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{Expr, SelectExpr};

use super::types::{self, Type};

/// The variables that an expression may use.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    names: BTreeMap<String, Type>,
    /// The types of `variables`, if the expression may use them.
    variables: Option<BTreeMap<String, Type>>,
}

impl Environment {
    /// Returns the variables of the expressions of a policy.
    pub fn of_policy(has_params: bool, has_authorizer: bool) -> Self {
        let mut names = BTreeMap::from([
            ("object".to_owned(), Type::Dyn),
            ("oldObject".to_owned(), Type::Dyn),
            ("request".to_owned(), types::REQUEST),
            ("namespaceObject".to_owned(), types::NAMESPACE),
        ]);
        if has_params {
            names.insert("params".to_owned(), Type::Dyn);
        }
        if has_authorizer {
            names.insert("authorizer".to_owned(), types::AUTHORIZER);
            names.insert("authorizer.requestResource".to_owned(), types::RESOURCE_CHECK);
        }
        Self { names, variables: None }
    }

    /// Returns the environment with the variables that a policy defines.
    #[must_use]
    pub fn with_variables(mut self, variables: BTreeMap<String, Type>) -> Self {
        self.variables = Some(variables);
        self
    }

    /// Returns the environment of messages, which cannot ask the authorizer.
    #[must_use]
    pub fn without_authorizer(&self) -> Self {
        let mut environment = self.clone();
        environment.names.retain(|name, _| !name.starts_with("authorizer"));
        environment
    }

    /// Returns the type of a variable that a policy defines.
    pub(super) fn variable(&self, name: &str) -> Option<Type> {
        self.variables.as_ref().and_then(|variables| variables.get(name).cloned())
    }

    /// Returns the types of the variables that a policy defines.
    pub fn variable_types(&self) -> BTreeMap<String, Type> {
        self.variables.clone().unwrap_or_default()
    }

    /// Returns the type of a name.
    pub(super) fn name(&self, name: &str) -> Option<Type> {
        if name == "variables" && self.variables.is_some() {
            return Some(types::VARIABLES);
        }
        self.names.get(name).cloned()
    }
}

/// Reports whether a selection is `authorizer.requestResource`, which is a variable and not a field.
pub(super) fn is_request_resource(select: &SelectExpr) -> bool {
    select.field == "requestResource" && matches!(&select.operand.expr, Expr::Ident(name) if name == "authorizer")
}
