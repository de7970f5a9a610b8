//! The host's permission to impersonate ServiceAccounts: the host's own identity and the accounts it may impersonate.
//!
//! There are two forms of the permission. Constrained impersonation (Kubernetes 1.36) checks
//! `impersonate:serviceaccount` for the account and `impersonate-on:serviceaccount:VERB` for the request. Before 1.36,
//! `impersonate` alone decides.

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

/// The maximum number of cached decisions. Beyond it, expired ones are dropped.
const KEPT: usize = 1024;

/// The permissions of the host to impersonate ServiceAccounts.
pub struct Impersonation {
    wire: Wire,
    own_user: OnceCell<String>,
    kept: Mutex<HashMap<ServiceAccount, (Instant, bool)>>,
}

impl Impersonation {
    /// Creates a client that asks as the identity of `wire`, which is the host's.
    pub fn new(wire: Wire) -> Self {
        Self { wire, own_user: OnceCell::new(), kept: Mutex::default() }
    }

    /// Returns the host's user name at the API server.
    ///
    /// # Errors
    /// The API server's error when it cannot be asked.
    pub async fn own_user(&self) -> Result<&str, ApiError> {
        self.own_user.get_or_try_init(|| self.review_self()).await.map(String::as_str)
    }

    /// Returns the ServiceAccount of the host; None if the host runs as another kind of user.
    ///
    /// # Errors
    /// Fails as [`Self::own_user`] does.
    pub async fn own_account(&self) -> Result<Option<ServiceAccount>, ApiError> {
        let account = self.own_user().await?.strip_prefix("system:serviceaccount:");
        Ok(account
            .and_then(|account| account.split_once(':'))
            .map(|(namespace, name)| ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }))
    }

    /// Reports whether the host may impersonate a ServiceAccount at all. The API server checks each request made that
    /// way.
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
