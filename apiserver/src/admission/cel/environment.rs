//! The variables of expressions, with their types.

use std::collections::BTreeMap;

use super::types::{self, Type};

/// The variables that an expression may use.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    names: BTreeMap<&'static str, Type>,
    /// The types of `variables`, if the expression may use them.
    variables: Option<BTreeMap<String, Type>>,
}

impl Environment {
    /// Returns the variables of the expressions of a policy.
    pub fn of_policy(has_params: bool, has_authorizer: bool) -> Self {
        let mut names = BTreeMap::from([
            ("object", Type::Dyn),
            ("oldObject", Type::Dyn),
            ("request", types::request()),
            ("namespaceObject", types::namespace()),
        ]);

        if has_params {
            names.insert("params", Type::Dyn);
        }

        if has_authorizer {
            names.insert("authorizer", types::AUTHORIZER);
            names.insert("authorizer.requestResource", types::RESOURCE_CHECK);
        }

        Self {
            names,
            variables: None,
        }
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
        environment
            .names
            .retain(|name, _| !name.starts_with("authorizer"));
        environment
    }

    /// Returns the types of the variables that a policy defines.
    pub fn variable_types(&self) -> BTreeMap<String, Type> {
        self.variables.clone().unwrap_or_default()
    }

    /// Returns the names that expressions can use, with their types.
    pub(super) fn names(&self) -> Vec<(&str, Type)> {
        let variables = self
            .variables
            .clone()
            .map(|fields| ("variables", types::object(types::VARIABLES, fields)));
        self.names
            .iter()
            .map(|(name, ty)| (*name, ty.clone()))
            .chain(variables)
            .collect()
    }
}
