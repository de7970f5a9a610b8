//! The modes of impersonation, and what each asks the authorizer.

use std::collections::BTreeMap;

use crate::{
    apimachinery::{attributes::Attributes, field::aggregate, names, status::Status},
    authn::user::{self, User},
    authz::rbac::Rbac,
    golang::quote,
};

/// The API group of users and groups in constrained impersonation, and of UIDs and extra fields in
/// both forms.
const GROUP: &str = "authentication.k8s.io";

/// From this number of groups or extra values on, constrained impersonation first asks for all of
/// them at once.
const MANY: usize = 4;

/// A mode of impersonation.
pub(super) struct Mode {
    /// The name, which is part of the verbs; empty for unconstrained impersonation.
    name: &'static str,
    constraint: &'static str,
    applies: fn(&User, &User) -> bool,
}

/// The modes in the order in which they are tried.
pub(super) const MODES: [Mode; 5] = [
    Mode {
        name: "associated-node",
        constraint: "impersonate:associated-node",
        applies: |wanted, requestor| {
            let own_node = requestor.extra.get(user::NODE_NAME).map(Vec::as_slice);
            let is_own = |node: &str| matches!(own_node, Some([own]) if own == node);
            has_only_name(wanted)
                && user::split_node_user_name(&wanted.name).is_some_and(is_own)
                && user::split_account_user_name(&requestor.name).is_some()
        },
    },
    Mode {
        name: "arbitrary-node",
        constraint: "impersonate:arbitrary-node",
        applies: |wanted, _| {
            has_only_name(wanted) && user::split_node_user_name(&wanted.name).is_some()
        },
    },
    Mode {
        name: "serviceaccount",
        constraint: "impersonate:serviceaccount",
        applies: |wanted, _| {
            has_only_name(wanted) && user::split_account_user_name(&wanted.name).is_some()
        },
    },
    Mode {
        name: "user-info",
        constraint: "impersonate:user-info",
        applies: |wanted, _| {
            user::split_node_user_name(&wanted.name).is_none()
                && user::split_account_user_name(&wanted.name).is_none()
        },
    },
    Mode {
        name: "",
        constraint: "",
        applies: |_, _| true,
    },
];

fn has_only_name(wanted: &User) -> bool {
    wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty()
}

impl Mode {
    /// Returns the verb that the mode asks for on the user; empty for unconstrained impersonation.
    pub(super) fn constraint(&self) -> &'static str {
        self.constraint
    }

    /// Returns the user that the request is made as; None if the mode does not apply to the wanted
    /// user.
    pub(super) fn check(
        &self,
        authorizer: &Rbac<'_>,
        wanted: &User,
        attributes: &Attributes,
    ) -> Result<Option<User>, Status> {
        if !(self.applies)(wanted, &attributes.user) {
            return Ok(None);
        }

        if self.is_constrained() {
            let verb = format!("impersonate-on:{}:{}", self.name, attributes.verb);
            authorizer.require(&Attributes {
                verb,
                ..attributes.clone()
            })?;
        }

        let check = Check {
            mode: self,
            authorizer,
            requestor: &attributes.user,
        };
        let mut actual = check.user_name(wanted)?;

        if !wanted.uid.is_empty() {
            authorizer.require(&check.attributes(GROUP, "uids", &wanted.uid))?;
        }

        check.groups(&wanted.groups)?;
        check.extra(&wanted.extra)?;
        if actual.name == user::ANONYMOUS {
            actual.ensure_group(user::UNAUTHENTICATED);
        } else if !actual.is_in(user::UNAUTHENTICATED) {
            actual.ensure_group(user::AUTHENTICATED);
        }

        Ok(Some(actual))
    }

    fn is_constrained(&self) -> bool {
        !self.name.is_empty()
    }
}

/// The checks of the fields of one wanted user.
struct Check<'a> {
    mode: &'a Mode,
    authorizer: &'a Rbac<'a>,
    requestor: &'a User,
}

impl Check<'_> {
    fn attributes(&self, group: &str, resource: &str, name: &str) -> Attributes {
        let verb = if self.mode.is_constrained() {
            self.mode.constraint
        } else {
            "impersonate"
        };

        Attributes {
            user: self.requestor.clone(),
            verb: verb.to_owned(),
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            is_resource: true,
            ..Attributes::default()
        }
    }

    /// Returns the group of users and groups.
    fn group(&self) -> &'static str {
        if self.mode.is_constrained() {
            GROUP
        } else {
            ""
        }
    }

    fn user_name(&self, wanted: &User) -> Result<User, Status> {
        let mut actual = wanted.clone();
        let mut attributes = self.attributes(self.group(), "users", &wanted.name);
        if let Some(node) =
            user::split_node_user_name(&wanted.name).filter(|_| self.mode.is_constrained())
        {
            attributes.resource = "nodes".to_owned();
            // A decision about the associated node holds for whichever node that is.
            attributes.name = if self.mode.name == "associated-node" {
                "*"
            } else {
                node
            }
            .to_owned();

            actual.groups = vec![user::NODES.to_owned()];
        }

        if let Some((namespace, name)) = user::split_account_user_name(&wanted.name) {
            attributes.resource = "serviceaccounts".to_owned();
            attributes.namespace = namespace.to_owned();
            attributes.name = name.to_owned();
            if wanted.groups.is_empty() {
                actual.groups = user::account_groups(namespace);
            }
        }

        self.authorizer.require(&attributes)?;

        Ok(actual)
    }

    fn groups(&self, groups: &[String]) -> Result<(), Status> {
        let attributes = |name: &str| self.attributes(self.group(), "groups", name);
        if self.mode.is_constrained() {
            if groups.iter().any(String::is_empty) {
                return Err(
                    attributes("").forbidden("impersonating the empty string group is not allowed")
                );
            }

            if groups.iter().any(|group| group == user::MASTERS) {
                let denied = attributes(user::MASTERS);
                return Err(
                    denied.forbidden("impersonating the system:masters group is not allowed")
                );
            }

            if groups.len() >= MANY && self.authorizer.authorize(&attributes("*")).allowed {
                return Ok(());
            }
        }

        groups
            .iter()
            .try_for_each(|group| self.authorizer.require(&attributes(group)))
    }

    fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        let attributes = |key: &str, value: &str| Attributes {
            subresource: key.to_owned(),
            ..self.attributes(GROUP, "userextras", value)
        };

        if self.mode.is_constrained() {
            if let Some(error) = extra
                .iter()
                .find_map(|(key, values)| extra_error(key, values))
            {
                return Err(attributes("", "").forbidden(&error));
            }

            let is_large =
                extra.len() >= MANY || extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if is_large && self.authorizer.authorize(&attributes("*", "*")).allowed {
                return Ok(());
            }
        }

        for (key, values) in extra {
            values
                .iter()
                .try_for_each(|value| self.authorizer.require(&attributes(key, value)))?;
        }

        Ok(())
    }
}

/// Returns why constrained impersonation refuses an extra field, whoever asks.
fn extra_error(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    if let Some(error) = prefixed_path_error(key) {
        return Some(format!(
            "impersonating an invalid key in extra is not allowed: {error}"
        ));
    }

    if key != key.to_lowercase() {
        return Some(format!(
            "impersonating a non-lowercase key in extra is not allowed: {}",
            quote(key)
        ));
    }

    if values.is_empty() {
        return Some("impersonating empty values in extra is not allowed".to_owned());
    }

    let has_empty = values.iter().any(String::is_empty);
    has_empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

/// Returns what is wrong with a path that begins with a domain, such as `example.com/key`.
fn prefixed_path_error(key: &str) -> Option<String> {
    let Some((host, path)) = key
        .split_once('/')
        .filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return Some(format!(
            "extra.key: Invalid value: {}: {detail}",
            quote(key)
        ));
    };

    let mut errors: Vec<String> = names::dns1123_subdomain(host)
        .iter()
        .map(|error| format!("extra.key: Invalid value: {}: {error}", quote(host)))
        .collect();

    if !path
        .chars()
        .all(|char| char.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(char))
    {
        let detail =
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.push(format!(
            "extra.key: Invalid value: {}: {detail}",
            quote(path)
        ));
    }

    (!errors.is_empty()).then(|| aggregate(&errors))
}
