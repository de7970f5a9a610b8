//! Impersonation: requests that are made as another user.
//!
//! There are two forms. Constrained impersonation (KEP-5284) asks for `impersonate-on:MODE:VERB` on
//! what is requested and for `impersonate:MODE` on the user, for the modes `associated-node`,
//! `arbitrary-node`, `serviceaccount` and `user-info`. Unconstrained impersonation asks for
//! `impersonate` on the user and on each group, UID and extra field. The modes are tried in this
//! order. The first error is the answer if none allows the request.

use std::{collections::BTreeMap, num::NonZeroUsize};

use lru::LruCache;

use crate::{
    apimachinery::{attributes::Attributes, status::Status},
    authn::user::User,
    authz::{
        impersonation_modes::{MODES, Mode},
        rbac::Rbac,
    },
    golang::quote,
};

const PREFIX: &str = "impersonate-";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// The number of users whose last modes are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// Decides about impersonation. It remembers the mode that a user impersonated by last, which is
/// tried first: so the error of a denied request depends on what the user did before, as it does in
/// kube-apiserver.
///
/// Unlike kube-apiserver it keeps no decision: a permission that is taken away has no effect from
/// the next request on, not only after ten seconds.
#[derive(Debug)]
pub struct Impersonation {
    last_modes: LruCache<String, usize>,
}

impl Default for Impersonation {
    fn default() -> Self {
        Self {
            last_modes: LruCache::new(REMEMBERED),
        }
    }
}

/// An impersonated user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonated {
    /// The user that the request is made as.
    pub user: User,
    /// The verb that allowed it, such as `impersonate:serviceaccount`; empty for unconstrained
    /// impersonation. The audit log has it.
    pub constraint: &'static str,
}

impl Impersonation {
    /// Returns the user that a request is made as, or None if it has no headers of impersonation.
    ///
    /// `attributes` are those of the request, with the user that sends it.
    ///
    /// # Errors
    /// `BadRequest` if headers are without `Impersonate-User`, `Forbidden` if the user may not
    /// impersonate.
    pub fn impersonate(
        &mut self,
        authorizer: &Rbac<'_>,
        attributes: &Attributes,
        headers: &[(String, String)],
    ) -> Result<Option<Impersonated>, Status> {
        let Some(wanted) = wanted_user(headers)? else {
            return Ok(None);
        };
        let remembered = self.last_modes.get(&attributes.user.name).copied();
        let others = (0..MODES.len()).filter(|index| Some(*index) != remembered);
        let mut first_error = None;

        for index in remembered.into_iter().chain(others) {
            let mode: &Mode = &MODES[index];
            match mode.check(authorizer, &wanted, attributes) {
                Ok(None) => {}
                Ok(Some(user)) => {
                    self.last_modes.put(attributes.user.name.clone(), index);
                    return Ok(Some(Impersonated {
                        user,
                        constraint: mode.constraint(),
                    }));
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }

        // The last mode applies to every user, so it has either succeeded or failed.
        Err(first_error
            .unwrap_or_else(|| Status::internal("all impersonation modes failed".to_owned())))
    }
}

/// Reports whether a header belongs to impersonation. Such headers end here: what comes after does
/// not see them.
pub fn is_impersonation_header(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with(PREFIX)
}

fn wanted_user(headers: &[(String, String)]) -> Result<Option<User>, Status> {
    let values = |name: &'static str| {
        headers
            .iter()
            .filter(move |(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.clone())
    };

    let mut wanted = User {
        name: values("impersonate-user").next().unwrap_or_default(),
        uid: values("impersonate-uid").next().unwrap_or_default(),
        groups: values("impersonate-group").collect(),
        extra: BTreeMap::new(),
    };

    for (key, value) in headers {
        if let Some(key) = key.to_ascii_lowercase().strip_prefix(EXTRA_PREFIX) {
            wanted
                .extra
                .entry(percent_decode(key))
                .or_default()
                .push(value.clone());
        }
    }

    match (wanted.name.is_empty(), wanted == User::default()) {
        (false, _) => Ok(Some(wanted)),
        (true, true) => Ok(None),
        (true, false) => {
            let shown = go_syntax(&wanted);
            Err(Status::bad_request(format!(
                "requested {shown} without impersonating a user name"
            )))
        }
    }
}

/// Decodes `%XX`; a malformed text stays as it is.
fn percent_decode(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }

        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return text.to_owned();
        };

        decoded.push((high * 16 + low) as u8);
    }

    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

/// Shows a user as Go prints the struct, which is part of the message.
fn go_syntax(user: &User) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| quote(item)).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let groups = if user.groups.is_empty() {
        "[]string(nil)".to_owned()
    } else {
        list(&user.groups)
    };

    let extra: Vec<String> = user
        .extra
        .iter()
        .map(|(key, values)| format!("{}:{}", quote(key), list(values)))
        .collect();
    let extra = match extra.as_slice() {
        [] => "map[string][]string(nil)".to_owned(),
        extra => format!("map[string][]string{{{}}}", extra.join(", ")),
    };

    format!(
        "&user.DefaultInfo{{Name:\"\", UID:{}, Groups:{groups}, Extra:{extra}}}",
        quote(&user.uid)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn headers_make_the_wanted_user() {
        let wanted = wanted_user(&headers(&[
            ("Impersonate-User", "jane"),
            ("impersonate-group", "b"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Extra-Acme.com%2fProject", "x"),
            ("Impersonate-Extra-acme.com%2Fproject", "y"),
            ("Impersonate-Extra-Bad%2", "z"),
            ("Impersonate-Uid", "7"),
        ]));
        let wanted = wanted.expect("valid headers").expect("a user");
        assert_eq!((wanted.name.as_str(), wanted.uid.as_str()), ("jane", "7"));
        assert_eq!(wanted.groups, ["b", "a"]);
        assert_eq!(wanted.extra["acme.com/project"], ["x", "y"]);
        assert_eq!(wanted.extra["bad%2"], ["z"]);
    }

    #[test]
    fn headers_without_user_are_refused() {
        let error = wanted_user(&headers(&[
            ("Impersonate-Group", "g"),
            ("Impersonate-Extra-K", "v"),
        ]));
        assert_eq!(
            error.expect_err("no user").to_string(),
            concat!(
                r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, "#,
                r#"Extra:map[string][]string{"k":[]string{"v"}}} without impersonating a user name"#
            )
        );
        assert_eq!(wanted_user(&headers(&[("Accept", "x")])), Ok(None));
    }
}
