//! The host's right to act as ServiceAccounts: who the host is, whom it may impersonate, and what a refusal of it means.
//!
//! Two forms of the right exist. Constrained impersonation (Kubernetes 1.36) checks `impersonate:serviceaccount` for the
//! account and `impersonate-on:serviceaccount:VERB` for the request; before, `impersonate` alone decides.

use std::collections::HashMap;

use bytes::Bytes;
use http::Request;
use operetta_core::{
    authz::{access_review::ServiceAccount, recorded_permissions::Need},
    status::{ApiError, ErrorKind},
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::OnceCell, time::Instant};

use crate::{
    authz::{access_review, watch_scope::KEEP},
    client::wire::Wire,
};

/// The verb of constrained impersonation that names the account.
pub const CONSTRAINED: &str = "impersonate:serviceaccount";
/// The verb of unconstrained impersonation.
pub const LEGACY: &str = "impersonate";
/// The API group of the accounts in constrained impersonation.
pub const CONSTRAINED_GROUP: &str = "authentication.k8s.io";
/// The verb of constrained impersonation that names the request, up to the request's own verb.
pub const CONSTRAINED_ON: &str = "impersonate-on:serviceaccount:";

/// Answers kept; one more ends those that are over.
const KEPT: usize = 1024;

/// The rights of the host to act as ServiceAccounts.
pub struct Impersonation {
    wire: Wire,
    own_user: OnceCell<String>,
    kept: Mutex<HashMap<ServiceAccount, (Instant, bool)>>,
}

impl Impersonation {
    /// Creates the questions of the identity of `wire`, which is the host.
    pub fn new(wire: Wire) -> Self {
        Self { wire, own_user: OnceCell::new(), kept: Mutex::default() }
    }

    /// Returns the user name that the API server knows the host by.
    ///
    /// # Errors
    /// The API server's error when it cannot be asked.
    pub async fn own_user(&self) -> Result<&str, ApiError> {
        self.own_user.get_or_try_init(|| self.review_self()).await.map(String::as_str)
    }

    /// Returns the ServiceAccount that the host itself runs as; None when it runs as another kind of user.
    ///
    /// # Errors
    /// As [`Self::own_user`].
    pub async fn own_account(&self) -> Result<Option<ServiceAccount>, ApiError> {
        let account = self.own_user().await?.strip_prefix("system:serviceaccount:");
        Ok(account
            .and_then(|account| account.split_once(':'))
            .map(|(namespace, name)| ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }))
    }

    /// Reports whether the host may act as a ServiceAccount at all. Which requests it may make so is checked by the API
    /// server for each.
    ///
    /// # Errors
    /// The API server's error when it cannot be asked.
    pub async fn may_act_as(&self, account: &ServiceAccount) -> Result<bool, ApiError> {
        if let Some((asked, allowed)) = self.kept.lock().get(account)
            && asked.elapsed() < KEEP
        {
            return Ok(*allowed);
        }
        let asked = Instant::now();
        let mut allowed = false;
        for (verb, group) in [(CONSTRAINED, CONSTRAINED_GROUP), (LEGACY, "")] {
            let need = Need::resource(verb, group, "serviceaccounts", Some(&account.namespace));
            allowed = allowed || access_review::has(&self.wire, &need, Some(&account.name)).await?;
        }
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT {
            kept.retain(|_, (asked, _)| asked.elapsed() < KEEP);
        }
        kept.insert(account.clone(), (asked, allowed));
        Ok(allowed)
    }

    async fn review_self(&self) -> Result<String, ApiError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Review {
            status: ReviewStatus,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ReviewStatus {
            user_info: UserInfo,
        }
        #[derive(Deserialize)]
        struct UserInfo {
            username: String,
        }
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review.to_string().into_bytes())
            .map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))?;
        let review: Review = serde_json::from_str(&self.wire.send(request).await?).map_err(|error| {
            ApiError::new(ErrorKind::Other, format!("failed to decode the answer to a SelfSubjectReview: {error}"))
        })?;
        Ok(review.status.user_info.username)
    }
}

/// Returns the command that lets the host act as a ServiceAccount.
pub fn grant_command(account: &ServiceAccount) -> String {
    format!("operetta grant {} -n {}", account.name, account.namespace)
}

/// Rewords a refusal of the host's impersonation as one of the ServiceAccount, with the command that grants it. Another
/// body stays as it is.
///
/// The API server refuses a request that constrained impersonation does not cover in the name of the host, before it asks
/// about the ServiceAccount. For a plugin the answer must be about its own permissions.
pub(crate) fn reword(body: Bytes, account: &ServiceAccount) -> Bytes {
    let Ok(mut status) = serde_json::from_slice::<Value>(&body) else { return body };
    let reworded = status["message"].as_str().and_then(|message| reword_message(message, account));
    let Some(message) = reworded else { return body };
    status["message"] = json!(message);
    Bytes::from(status.to_string())
}

fn reword_message(message: &str, account: &ServiceAccount) -> Option<String> {
    let grant = grant_command(account);
    if let Some((before, after)) = message.split_once(&format!("\" cannot {CONSTRAINED_ON}")) {
        // The name in front of it is the host's.
        let (about, _host) = before.rsplit_once("User \"")?;
        let user = account.user();
        return Some(format!("{about}User {user:?} cannot {after}, or the host was not granted it: {grant}"));
    }
    let of_account = [CONSTRAINED, LEGACY].iter().any(|verb| message.contains(&format!("\" cannot {verb} resource ")));
    of_account.then(|| format!("{message}: {grant}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "system:serviceaccount:operetta-system:operetta";

    fn reworded(message: &str) -> String {
        let account = ServiceAccount { namespace: "team".to_owned(), name: "p".to_owned() };
        let body = json!({"kind": "Status", "code": 403, "message": message}).to_string();
        let status: Value = serde_json::from_slice(&reword(Bytes::from(body), &account)).expect("JSON");
        assert_eq!(status["code"], 403);
        status["message"].as_str().expect("a message").to_owned()
    }

    #[test]
    fn refusal_of_constrained_impersonation_names_account_and_cure() {
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
    fn refusal_to_act_as_account_has_the_cure() {
        for (verb, group) in [("impersonate:serviceaccount", "authentication.k8s.io"), ("impersonate", "")] {
            let refused = format!("User \"{HOST}\" cannot {verb} resource \"serviceaccounts\" in API group {group:?}");
            assert_eq!(reworded(&refused), format!("{refused}: operetta grant p -n team"));
        }
    }

    #[test]
    fn other_refusals_stay_as_they_are() {
        let account = ServiceAccount { namespace: "team".to_owned(), name: "p".to_owned() };
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
