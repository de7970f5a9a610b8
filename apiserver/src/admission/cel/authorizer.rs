//! The authorizer in expressions:
//! `authorizer.group("").resource("pods").namespace("a").check("get").allowed()`.

use crate::{
    apimachinery::{
        attributes::{Attributes, Decision},
        names,
    },
    authn::user::{self, User},
    authz::rbac::Rbac,
    cel::{
        EvalError,
        eval::Evaluated,
        value::{Opaque, Val},
    },
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

/// The authorizer, and the user of the request.
pub(super) type Requestor<'a> = (&'a Rbac<'a>, &'a User);

/// A value of the authorizer library.
#[derive(Debug, PartialEq, Eq)]
enum Check {
    Authorizer(Option<(String, String)>),
    Group(Option<(String, String)>, String),
    Path(Option<(String, String)>, String),
    Resource(ResourceCheck),
    Decision(bool, String),
}

impl Check {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::Group(..) => "kubernetes.authorization.GroupCheck",
            Self::Path(..) => "kubernetes.authorization.PathCheck",
            Self::Resource(_) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(..) => "kubernetes.authorization.Decision",
        }
    }
}

impl Opaque for Check {
    fn runtime_type_name(&self) -> &str {
        self.type_name()
    }
}

fn value(check: Check) -> Val {
    Val::opaque(check.type_name(), check)
}

fn no_overload() -> EvalError {
    "no such overload".to_owned()
}

/// Returns the variables of the library: the authorizer, and the resource of the request.
pub(super) fn variables(request: ResourceCheck) -> [(&'static str, Val); 2] {
    [
        ("authorizer", value(Check::Authorizer(None))),
        ("authorizer.requestResource", resource_value(request)),
    ]
}

fn resource_value(check: ResourceCheck) -> Val {
    value(Check::Resource(check))
}

/// Calls a function of the library; None if the target is no value of the library.
pub(super) fn call(
    requestor: Option<Requestor<'_>>,
    target: &Val,
    name: &str,
    arguments: &[Val],
) -> Option<Evaluated> {
    let check = target.as_opaque::<Check>()?;
    let texts: Option<Vec<&str>> = arguments
        .iter()
        .map(|argument| match argument {
            Val::String(text) => Some(&**text),
            _ => None,
        })
        .collect();

    Some(
        texts
            .ok_or_else(no_overload)
            .and_then(|texts| check.call(requestor, name, &texts)),
    )
}

impl Check {
    fn call(&self, requestor: Option<Requestor<'_>>, name: &str, arguments: &[&str]) -> Evaluated {
        match (self, name, arguments) {
            (Self::Authorizer(account), "path", [path]) => {
                not_empty("path", path)?;
                Ok(value(Self::Path(account.clone(), (*path).to_owned())))
            }
            (Self::Authorizer(account), "group", [group]) => {
                Ok(value(Self::Group(account.clone(), (*group).to_owned())))
            }
            (Self::Authorizer(_), "serviceAccount", [namespace, name]) => {
                service_account(namespace, name)
            }
            (Self::Group(account, group), "resource", [resource]) => {
                not_empty("resource", resource)?;
                Ok(resource_value(ResourceCheck {
                    account: account.clone(),
                    group: group.clone(),
                    resource: (*resource).to_owned(),
                    ..ResourceCheck::default()
                }))
            }
            (Self::Resource(check), "check", [verb]) => {
                decide(requestor, check.account.as_ref(), check.attributes(verb))
            }
            (Self::Resource(check), name, [argument]) => {
                check.with(name, argument).map(resource_value)
            }
            (Self::Path(account, path), "check", [verb]) => {
                let attributes = Attributes {
                    path: path.clone(),
                    verb: (*verb).to_owned(),
                    ..Attributes::default()
                };
                decide(requestor, account.as_ref(), attributes)
            }
            (Self::Decision(allowed, _), "allowed", []) => Ok(Val::Bool(*allowed)),
            (Self::Decision(_, reason), "reason", []) => Ok(Val::text(reason)),
            (Self::Decision(..), "errored", []) => Ok(Val::Bool(false)),
            (Self::Decision(..), "error", []) => Ok(Val::text("")),
            _ => Err(no_overload()),
        }
    }
}

impl ResourceCheck {
    /// Returns the check with one more property. Role-based access control does not look at
    /// selectors.
    fn with(&self, name: &str, argument: &str) -> Result<Self, EvalError> {
        let mut check = self.clone();
        match name {
            "subresource" => check.subresource = argument.to_owned(),
            "namespace" => check.namespace = argument.to_owned(),
            "name" => check.name = argument.to_owned(),
            "fieldSelector" | "labelSelector" => {}
            _ => return Err(no_overload()),
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
    if text.trim().is_empty() {
        Err(format!("{what} must not be empty"))
    } else {
        Ok(())
    }
}

fn service_account(namespace: &str, name: &str) -> Evaluated {
    if !names::is_dns1123_subdomain(name) {
        return Err("Invalid service account name".to_owned());
    }
    if !names::is_dns1123_label(namespace) {
        return Err("Invalid service account namespace".to_owned());
    }

    Ok(value(Check::Authorizer(Some((
        namespace.to_owned(),
        name.to_owned(),
    )))))
}

fn decide(
    requestor: Option<Requestor<'_>>,
    account: Option<&(String, String)>,
    attributes: Attributes,
) -> Evaluated {
    let Some((authorizer, requestor)) = requestor else {
        return Err(no_overload());
    };

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
