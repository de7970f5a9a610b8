//! Role-based access control: the authorizer, and the rules that apply to a user.

use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;

use crate::{
    apimachinery::{
        attributes::{Attributes, Decision},
        field::aggregate,
        group_resource::GroupResource,
        status::Status,
    },
    authn::user::{self, User},
    authz::{
        objects::{Objects, text},
        rules::PolicyRule,
    },
    golang::quote,
};

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// Authorizes by the roles and bindings in a store. Members of `system:masters` may do everything.
///
/// Bindings apply in the order of their names, those of the cluster first. (kube-apiserver's order
/// is random, so its reason for an allowed request is, too, if several bindings allow it.)
pub struct Rbac<'a> {
    objects: &'a dyn Objects,
}

/// The rules that apply to a user, with errors for the bindings that could not be followed.
#[derive(Debug, Default)]
pub struct UserRules {
    /// The rules.
    pub rules: Vec<PolicyRule>,
    /// An error per binding whose role is missing.
    pub errors: Vec<RoleError>,
}

/// A reference to a role that cannot be followed. The text is the authorizer's, which names the
/// resource in singular.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RoleError {
    /// There is no such Role or ClusterRole.
    #[error("{}.{GROUP} {} not found", kind.to_lowercase(), quote(name))]
    Missing {
        /// The kind.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The reference is to another kind.
    #[error("unsupported role reference kind: {}", quote(.0))]
    UnknownKind(String),
}

impl RoleError {
    /// Returns the answer to the write of an object of `resource`. It names that resource, and not
    /// the role's.
    pub fn in_write_of(&self, resource: &str) -> Status {
        match self {
            Self::Missing { name, .. } => {
                Status::not_found(&GroupResource::new(GROUP, resource), name)
            }
            Self::UnknownKind(_) => Status::plain(self.to_string()),
        }
    }
}

impl<'a> Rbac<'a> {
    /// Creates an authorizer on a store.
    pub fn new(objects: &'a dyn Objects) -> Self {
        Self { objects }
    }

    /// Returns all rules that apply to a user in a namespace; in the whole cluster if the namespace
    /// is empty.
    pub fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        let mut found = UserRules::default();
        self.visit(user, namespace, &mut |rules| {
            match rules {
                Ok((_, rules)) => found.rules.extend(rules),
                Err(error) => found.errors.push(error),
            }
            true
        });

        found
    }

    /// Returns the rules of the role that a binding in a namespace refers to.
    ///
    /// # Errors
    /// Fails if there is no such role, or if the reference is to another kind.
    pub fn role_rules(
        &self,
        role_ref: &Value,
        namespace: &str,
    ) -> Result<Vec<PolicyRule>, RoleError> {
        let name = text(role_ref, &["name"]);
        let (kind, resource, namespace) = match text(role_ref, &["kind"]) {
            "Role" => ("Role", "roles", namespace),
            "ClusterRole" => ("ClusterRole", "clusterroles", ""),
            kind => return Err(RoleError::UnknownKind(kind.to_owned())),
        };
        let role = self.objects.get(GROUP, resource, namespace, name);
        let role = role.ok_or_else(|| RoleError::Missing {
            kind,
            name: name.to_owned(),
        })?;

        Ok(PolicyRule::all_of(&role))
    }

    /// Calls `visitor` with the rules of each binding that applies to the user, until it returns
    /// false.
    fn visit(&self, user: &User, namespace: &str, visitor: &mut Visitor<'_>) {
        let mut bindings: Vec<Arc<Value>> = self.objects.list(GROUP, "clusterrolebindings", "");
        let of_cluster = bindings.len();
        if !namespace.is_empty() {
            bindings.extend(self.objects.list(GROUP, "rolebindings", namespace));
        }

        for (index, binding) in bindings.iter().enumerate() {
            let namespace = if index < of_cluster { "" } else { namespace };
            let Some(subject) = applying_subject(user, binding, namespace) else {
                continue;
            };
            let rules = self.role_rules(&binding["roleRef"], namespace);
            if !visitor(rules.map(|rules| {
                (
                    Source {
                        binding,
                        subject,
                        namespace,
                    },
                    rules,
                )
            })) {
                return;
            }
        }
    }
}

type Visitor<'v> = dyn FnMut(Result<(Source<'_>, Vec<PolicyRule>), RoleError>) -> bool + 'v;

/// The binding and subject that a rule applies by.
struct Source<'b> {
    binding: &'b Value,
    subject: &'b Value,
    /// The namespace of the binding; empty for a ClusterRoleBinding.
    namespace: &'b str,
}

impl Source<'_> {
    fn describe(&self) -> String {
        let name = text(self.binding, &["metadata", "name"]);
        let (kind, name) = match self.namespace {
            "" => ("ClusterRoleBinding", quote(name)),
            namespace => ("RoleBinding", quote(&format!("{name}/{namespace}"))),
        };
        let role_kind = text(self.binding, &["roleRef", "kind"]);
        let role = quote(text(self.binding, &["roleRef", "name"]));

        format!(
            "{kind} {name} of {role_kind} {role} to {}",
            self.describe_subject()
        )
    }

    fn describe_subject(&self) -> String {
        let kind = text(self.subject, &["kind"]);
        let name = text(self.subject, &["name"]);
        if kind != "ServiceAccount" {
            return format!("{kind} {}", quote(name));
        }

        let namespace = match text(self.subject, &["namespace"]) {
            "" => self.namespace,
            namespace => namespace,
        };
        format!("{kind} {}", quote(&format!("{name}/{namespace}")))
    }
}

fn applying_subject<'b>(user: &User, binding: &'b Value, namespace: &str) -> Option<&'b Value> {
    let subjects = binding["subjects"].as_array()?;
    subjects.iter().find(|subject| {
        let name = text(subject, &["name"]);
        match text(subject, &["kind"]) {
            "User" => user.name == name,
            "Group" => user.is_in(name),
            "ServiceAccount" => {
                let own = text(subject, &["namespace"]);
                let namespace = if own.is_empty() { namespace } else { own };
                !namespace.is_empty() && user::is_account(&user.name, namespace, name)
            }
            _ => false,
        }
    })
}

impl Rbac<'_> {
    /// Allows a request or returns the 403 that answers it.
    ///
    /// # Errors
    /// `Forbidden` if the request is not allowed.
    pub fn require(&self, attributes: &Attributes) -> Result<(), Status> {
        let decision = self.authorize(attributes);
        if decision.allowed {
            Ok(())
        } else {
            Err(attributes.forbidden(&decision.reason))
        }
    }

    /// Decides whether a user may do what it requests.
    pub fn authorize(&self, attributes: &Attributes) -> Decision {
        if attributes.user.is_in(user::MASTERS) {
            return Decision {
                allowed: true,
                reason: String::new(),
            };
        }

        let mut reason = None;
        let mut errors = Vec::new();
        self.visit(&attributes.user, &attributes.namespace, &mut |rules| {
            match rules {
                Err(error) => errors.push(error.to_string()),
                Ok((source, rules)) => {
                    if rules.iter().any(|rule| rule.allows(attributes)) {
                        reason = Some(format!("RBAC: allowed by {}", source.describe()));
                    }
                }
            }

            reason.is_none()
        });

        match reason {
            Some(reason) => Decision {
                allowed: true,
                reason,
            },
            None if errors.is_empty() => Decision::default(),
            None => Decision {
                allowed: false,
                reason: format!("RBAC: {}", aggregate(&errors)),
            },
        }
    }
}
