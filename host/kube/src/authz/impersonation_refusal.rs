//! Verbs of impersonation, and rewording denials of it.
//!
//! A plugin sees the API server's denial as one of its own ServiceAccount, with the command to
//! grant the permission.

use bytes::Bytes;
use operetta_core::{
    authz::access_review::ServiceAccount,
    remedy::{Advice, Remedy},
};
use serde_json::{Value, json};

/// Constrained impersonation: the verb for the account.
pub const CONSTRAINED: &str = "impersonate:serviceaccount";
/// Unconstrained impersonation.
pub const LEGACY: &str = "impersonate";
/// Constrained impersonation: the API group of accounts.
pub const CONSTRAINED_GROUP: &str = "authentication.k8s.io";
/// Constrained impersonation: the verb for the request, followed by the request's own verb.
pub const CONSTRAINED_ON: &str = "impersonate-on:serviceaccount:";

/// The command that lets the host impersonate a ServiceAccount.
pub fn grant_command(account: &ServiceAccount) -> Option<Remedy> {
    Remedy::new(["operetta", "grant", &account.name, "-n", &account.namespace])
}

/// Turns a denial of the host's impersonation into a denial of the ServiceAccount, with the command
/// to grant the permission. Returns any other body unchanged.
///
/// If constrained impersonation does not cover a request, the API server denies it in the host's
/// name, before checking the ServiceAccount's permissions. But the plugin needs a response about
/// its own permissions.
pub(crate) fn reword(body: Bytes, account: &ServiceAccount) -> Bytes {
    let Ok(mut status) = serde_json::from_slice::<Value>(&body) else {
        return body;
    };
    let reworded = status["message"]
        .as_str()
        .and_then(|message| reword_message(message, account));
    let Some(message) = reworded else { return body };
    status["message"] = json!(message);
    Bytes::from(status.to_string())
}

fn reword_message(message: &str, account: &ServiceAccount) -> Option<String> {
    let grant = grant_command(account);
    if let Some((before, after)) = message.split_once(&format!("\" cannot {CONSTRAINED_ON}")) {
        // The name in front is the host's.
        let (about, _host) = before.rsplit_once("User \"")?;
        let user = account.user();
        let message =
            format!("{about}User {user:?} cannot {after}, or the host was not granted it");
        return Some(Advice::from(message).with(": ", grant).text);
    }

    let of_account = [CONSTRAINED, LEGACY]
        .iter()
        .any(|verb| message.contains(&format!("\" cannot {verb} resource ")));
    of_account.then(|| Advice::from(message).with(": ", grant).text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "system:serviceaccount:operetta-system:operetta";

    fn reworded(message: &str) -> String {
        let account = ServiceAccount {
            namespace: "team".to_owned(),
            name: "p".to_owned(),
        };
        let body = json!({"kind": "Status", "code": 403, "message": message}).to_string();
        let status: Value =
            serde_json::from_slice(&reword(Bytes::from(body), &account)).expect("JSON");
        assert_eq!(status["code"], 403);
        status["message"].as_str().expect("a message").to_owned()
    }

    #[test]
    fn denied_constrained_impersonation_names_account_and_remedy() {
        let message = reworded(&format!(
            "secrets \"x\" is forbidden: User \"{HOST}\" cannot impersonate-on:serviceaccount:get resource \"secrets\" in \
             API group \"\" in the namespace \"a\""
        ));
        assert_eq!(
            message,
            "secrets \"x\" is forbidden: User \"system:serviceaccount:team:p\" cannot get resource \"secrets\" in API \
             group \"\" in the namespace \"a\", or the host was not granted it: operetta grant p -n team"
        );
    }

    #[test]
    fn denied_impersonation_has_the_remedy() {
        for (verb, group) in [
            ("impersonate:serviceaccount", "authentication.k8s.io"),
            ("impersonate", ""),
        ] {
            let refused = format!(
                "User \"{HOST}\" cannot {verb} resource \"serviceaccounts\" in API group {group:?}"
            );
            assert_eq!(
                reworded(&refused),
                format!("{refused}: operetta grant p -n team")
            );
        }
    }

    #[test]
    fn other_refusals_stay_as_they_are() {
        let account = ServiceAccount {
            namespace: "team".to_owned(),
            name: "p".to_owned(),
        };
        for body in [
            r#"{"message":"pods is forbidden: User \"u\" cannot list resource \"pods\""}"#,
            r#"{"message":7}"#,
            "not JSON",
            "",
        ] {
            assert_eq!(reword(Bytes::from(body), &account), body);
        }
    }
}
