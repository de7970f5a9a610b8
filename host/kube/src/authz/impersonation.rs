//! The host's right to act as ServiceAccounts: who the host is, whom it may impersonate, and what a refusal of it means.
//!
//! Two forms of the right exist. Constrained impersonation (Kubernetes 1.36) checks `impersonate:serviceaccount` for the
//! account and `impersonate-on:serviceaccount:VERB` for the request; before, `impersonate` alone decides.

use std::collections::HashMap;

use http::Request;
use operetta_core::{
    authz::{access_review::ServiceAccount, recorded_permissions::Need},
    status::{ApiError, ErrorKind},
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::{sync::OnceCell, time::Instant};

use crate::{
    authz::{
        access_review,
        impersonation_refusal::{CONSTRAINED, CONSTRAINED_GROUP, LEGACY},
        watch_scope::KEEP,
    },
    client::wire::Wire,
};

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
