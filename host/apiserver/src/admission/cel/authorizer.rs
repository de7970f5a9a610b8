//! The authorizer in expressions: `authorizer.group("").resource("pods").namespace("a").check("get").allowed()`.

use std::sync::Arc;

use kube_cel::cel::objects::Opaque;

use super::{
    error::EvalError,
    scope::Scope,
    values::{self, Value},
};
use crate::authz::{
    attributes::{Attributes, Authorizer, Decision},
    names,
    user::{self, User},
};

/// A check of access to a resource that is still being put together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceCheck {
    /// The ServiceAccount to check for; None for the user of the request.
    pub account: Option<(String, String)>,
    /// The API group.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// The subresource; may be empty.
    pub subresource: String,
    /// The namespace; may be empty.
    pub namespace: String,
    /// The name; may be empty.
    pub name: String,
}

/// A value of the authorizer library.
#[derive(Debug, PartialEq, Eq)]
enum Check {
    Authorizer(Option<(String, String)>),
    Group(Option<(String, String)>, String),
    Path(Option<(String, String)>, String),
    Resource(ResourceCheck),
    Decision(bool, String),
}

impl Opaque for Check {
    fn runtime_type_name(&self) -> &str {
        match self {
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::Group(..) => "kubernetes.authorization.GroupCheck",
            Self::Path(..) => "kubernetes.authorization.PathCheck",
            Self::Resource(_) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(..) => "kubernetes.authorization.Decision",
        }
    }
}

fn value(check: Check) -> Value {
    Value::Opaque(Arc::new(check))
}

impl<'a> Scope<'a> {
    /// Adds the authorizer, and the resource of the request as `authorizer.requestResource`.
    #[must_use]
    pub fn with_authorizer(mut self, authorizer: &'a dyn Authorizer, user: &'a User, request: ResourceCheck) -> Self {
        self.names.insert("authorizer", value(Check::Authorizer(None)));
        self.names.insert("authorizer.requestResource", resource_value(request));
        self.authorizer = Some((authorizer, user));
        self
    }
}

fn resource_value(check: ResourceCheck) -> Value {
    value(Check::Resource(check))
}

/// Calls a function of the library; None if the target is no value of the library.
pub(super) fn call(
    scope: &Scope<'_>,
    target: &Value,
    name: &str,
    arguments: &[Value],
) -> Option<Result<Value, EvalError>> {
    let Value::Opaque(opaque) = target else { return None };
    let check = opaque.downcast_ref::<Check>()?;
    let texts: Option<Vec<&str>> = arguments
        .iter()
        .map(|argument| match argument {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    Some(texts.ok_or(EvalError::NoSuchOverload).and_then(|texts| check.call(scope, name, &texts)))
}

impl Check {
    fn call(&self, scope: &Scope<'_>, name: &str, arguments: &[&str]) -> Result<Value, EvalError> {
        match (self, name, arguments) {
            (Self::Authorizer(account), "path", [path]) => {
                not_empty("path", path)?;
                Ok(value(Self::Path(account.clone(), (*path).to_owned())))
            }
            (Self::Authorizer(account), "group", [group]) => {
                Ok(value(Self::Group(account.clone(), (*group).to_owned())))
            }
            (Self::Authorizer(_), "serviceAccount", [namespace, name]) => service_account(namespace, name),
            (Self::Group(account, group), "resource", [resource]) => {
                not_empty("resource", resource)?;
                Ok(resource_value(ResourceCheck {
                    account: account.clone(),
                    group: group.clone(),
                    resource: (*resource).to_owned(),
                    ..ResourceCheck::default()
                }))
            }
            (Self::Resource(check), "check", [verb]) => decide(scope, check.account.as_ref(), check.attributes(verb)),
            (Self::Resource(check), name, [argument]) => check.with(name, argument).map(resource_value),
            (Self::Path(account, path), "check", [verb]) => {
                let attributes = Attributes { path: path.clone(), verb: (*verb).to_owned(), ..Attributes::default() };
                decide(scope, account.as_ref(), attributes)
            }
            (Self::Decision(allowed, _), "allowed", []) => Ok(Value::Bool(*allowed)),
            (Self::Decision(_, reason), "reason", []) => Ok(values::string(reason.as_str())),
            (Self::Decision(..), "errored", []) => Ok(Value::Bool(false)),
            (Self::Decision(..), "error", []) => Ok(values::string("")),
            _ => Err(EvalError::NoSuchOverload),
        }
    }
}

impl ResourceCheck {
    /// Returns the check with one more property. Role-based access control does not look at selectors.
    fn with(&self, name: &str, argument: &str) -> Result<Self, EvalError> {
        let mut check = self.clone();
        match name {
            "subresource" => check.subresource = argument.to_owned(),
            "namespace" => check.namespace = argument.to_owned(),
            "name" => check.name = argument.to_owned(),
            "fieldSelector" | "labelSelector" => {}
            _ => return Err(EvalError::NoSuchOverload),
        }
        Ok(check)
    }

    fn attributes(&self, verb: &str) -> Attributes {
        Attributes {
            verb: verb.to_owned(),
            namespace: self.namespace.clone(),
            group: self.group.clone(),
            version: "*".to_owned(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            name: self.name.clone(),
            is_resource: true,
            ..Attributes::default()
        }
    }
}

fn not_empty(what: &str, text: &str) -> Result<(), EvalError> {
    if text.trim().is_empty() { Err(EvalError::Message(format!("{what} must not be empty"))) } else { Ok(()) }
}

fn service_account(namespace: &str, name: &str) -> Result<Value, EvalError> {
    if !names::is_dns_subdomain(name) {
        return Err(EvalError::Message("Invalid service account name".to_owned()));
    }
    if !names::is_dns_label(namespace) {
        return Err(EvalError::Message("Invalid service account namespace".to_owned()));
    }
    Ok(value(Check::Authorizer(Some((namespace.to_owned(), name.to_owned())))))
}

fn decide(scope: &Scope<'_>, account: Option<&(String, String)>, attributes: Attributes) -> Result<Value, EvalError> {
    let Some((authorizer, requestor)) = scope.authorizer else { return Err(EvalError::NoSuchOverload) };
    let user = match account {
        None => requestor.clone(),
        Some((namespace, name)) => User {
            name: user::account_user_name(namespace, name),
            groups: user::account_groups(namespace),
            ..User::default()
        },
    };
    let Decision { allowed, reason } = authorizer.authorize(&Attributes { user, ..attributes });
    Ok(value(Check::Decision(allowed, reason)))
}
