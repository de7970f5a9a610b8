//! Users, groups and the names of ServiceAccounts.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{apimachinery::names, golang};

/// The group of every authenticated user.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of requests without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of all nodes.
pub const NODES: &str = "system:nodes";
/// The group of all ServiceAccounts.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// The extra field that identifies the credential of a request.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// The extra field with the name of the Node of a ServiceAccount's token.
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

const ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const NODE_PREFIX: &str = "system:node:";

/// The identity of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The user name.
    pub name: String,
    /// The unique ID; may be empty.
    pub uid: String,
    /// The groups, in the order in which they were determined.
    pub groups: Vec<String>,
    /// Further fields, by lowercase key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns the user of a request without credentials.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Returns a user with groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Self {
            name: name.to_owned(),
            groups,
            ..Self::default()
        }
    }

    /// Reports whether the user is a member of a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|member| member == group)
    }

    /// Adds a group unless the user is a member.
    pub fn ensure_group(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
    }

    /// Returns the user as the `UserInfo` of the authentication API, without empty fields.
    pub fn info(&self) -> Value {
        let mut info = Map::new();
        if !self.name.is_empty() {
            info.insert("username".to_owned(), json!(self.name));
        }
        if !self.uid.is_empty() {
            info.insert("uid".to_owned(), json!(self.uid));
        }
        if !self.groups.is_empty() {
            info.insert("groups".to_owned(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            info.insert("extra".to_owned(), json!(self.extra));
        }

        Value::Object(info)
    }
}

/// Returns the user name of a ServiceAccount.
pub fn account_user_name(namespace: &str, name: &str) -> String {
    format!("{ACCOUNT_PREFIX}{namespace}:{name}")
}

/// Returns the groups of the ServiceAccounts of a namespace, without `system:authenticated`.
pub fn account_groups(namespace: &str) -> Vec<String> {
    vec![
        SERVICE_ACCOUNTS.to_owned(),
        format!("{SERVICE_ACCOUNTS}:{namespace}"),
    ]
}

/// Returns the namespace and name of a ServiceAccount from its user name; None if it is no valid
/// one.
pub fn split_account_user_name(user_name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user_name.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    let is_valid = names::is_dns1123_label(namespace) && names::is_dns1123_subdomain(name);
    is_valid.then_some((namespace, name))
}

/// Reports whether a user name is that of a ServiceAccount, comparing text only.
pub(crate) fn is_account(user_name: &str, namespace: &str, name: &str) -> bool {
    let rest = user_name
        .strip_prefix(ACCOUNT_PREFIX)
        .and_then(|rest| rest.strip_prefix(namespace));
    rest.and_then(|rest| rest.strip_prefix(':')) == Some(name)
}

/// Returns the name of a Node from its user name; None if it is no valid one.
pub fn split_node_user_name(user_name: &str) -> Option<&str> {
    user_name
        .strip_prefix(NODE_PREFIX)
        .filter(|name| names::is_dns1123_subdomain(name))
}

/// Quotes a list of strings as Go's `%q` does.
pub(crate) fn quote_list(items: &[String]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| golang::quote(item)).collect();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_user_name_splits_only_if_valid() {
        for (user, parts) in [
            ("system:serviceaccount:ns:sa", Some(("ns", "sa"))),
            ("system:serviceaccount:ns:s.a", Some(("ns", "s.a"))),
            ("system:serviceaccount:n.s:sa", None),
            ("system:serviceaccount:ns:sa:x", None),
            ("system:serviceaccount:ns:", None),
            ("system:serviceaccount::sa", None),
            ("system:serviceaccount:NS:sa", None),
            ("system:serviceaccount:ns", None),
            ("jane", None),
        ] {
            assert_eq!(split_account_user_name(user), parts, "{user}");
        }
    }

    #[test]
    fn node_user_name_splits_only_if_valid() {
        assert_eq!(
            split_node_user_name("system:node:n1.example"),
            Some("n1.example")
        );
        assert_eq!(split_node_user_name("system:node:N1"), None);
        assert_eq!(split_node_user_name("system:node:"), None);
    }
}
