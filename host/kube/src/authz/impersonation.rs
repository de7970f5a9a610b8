//! The host's permission to impersonate ServiceAccounts: who the host is, and which accounts it may
//! impersonate.
//!
//! The permission has two forms. With constrained impersonation (Kubernetes 1.36,
//! [KEP-5284](https://github.com/kubernetes/enhancements/issues/5284)), the API server checks
//! `impersonate:serviceaccount` for the account and `impersonate-on:serviceaccount:VERB` for the
//! request. Before 1.36, `impersonate` alone decides.

use http::Request;
use operetta_core::{
    authz::{
        access_review::{Access, AccessVerb, ServiceAccount},
        host_permissions::HostPermissions,
    },
    status::{ApiError, ErrorKind},
};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OnceCell;

use crate::{
    authz::{
        access_review::ANY_VERSION,
        impersonation_refusal::{CONSTRAINED, CONSTRAINED_GROUP, LEGACY},
    },
    client::api_client::ApiClient,
};

/// Extra field in the user of a plugin's write: the epoch of the sending replica.
pub const EPOCH: &str = "operetta.dev/epoch";

/// The host's permissions to impersonate ServiceAccounts.
pub struct Impersonation {
    api_client: ApiClient,
    own_user: OnceCell<String>,
    permissions: HostPermissions,
}

impl Impersonation {
    /// Creates a client with the identity of `api_client`, which must be the host's. It reports the
    /// user and groups to `permissions`.
    pub fn new(api_client: ApiClient, permissions: HostPermissions) -> Self {
        Self {
            api_client,
            own_user: OnceCell::new(),
            permissions,
        }
    }

    /// The host's user name at the API server.
    ///
    /// # Errors
    /// The API server's error, if it cannot be asked.
    pub async fn own_user(&self) -> Result<&str, ApiError> {
        self.own_user
            .get_or_try_init(|| self.review_self())
            .await
            .map(String::as_str)
    }

    /// The host's ServiceAccount; None if the host runs as another kind of user.
    ///
    /// # Errors
    /// Same as [`Self::own_user`].
    pub async fn own_account(&self) -> Result<Option<ServiceAccount>, ApiError> {
        let account = self
            .own_user()
            .await?
            .strip_prefix("system:serviceaccount:");
        Ok(account
            .and_then(|account| account.split_once(':'))
            .map(|(namespace, name)| ServiceAccount {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }))
    }

    /// Whether the host may impersonate a ServiceAccount at all. The API server still checks each
    /// such request. A denial stops a plugin, and authorizers besides RBAC don't tell when they
    /// start allowing it, so it is decided again after [`HostPermissions::KEEP`].
    ///
    /// # Errors
    /// `Unavailable` if the API server cannot be asked.
    pub async fn may_act_as(&self, account: &ServiceAccount) -> Result<bool, ApiError> {
        let forms = [(CONSTRAINED, CONSTRAINED_GROUP), (LEGACY, "")].map(|(verb, group)| Access {
            verb: AccessVerb::Impersonate(verb),
            group: group.to_owned(),
            version: ANY_VERSION.to_owned(),
            resource: "serviceaccounts".to_owned(),
            namespace: Some(account.namespace.clone()),
            name: Some(account.name.clone()),
        });

        if forms
            .iter()
            .any(|form| self.permissions.is_known_allowed(form))
        {
            return Ok(true);
        }

        for form in &forms {
            if self.permissions.allows_now(form).await? {
                return Ok(true);
            }
        }

        Ok(false)
    }

    /// Whether writes as a ServiceAccount may carry an epoch. Only unconstrained impersonation
    /// supports that: `impersonate:serviceaccount` names nothing but the account. The API server
    /// must allow `impersonate` for both.
    ///
    /// # Errors
    /// `Unavailable` if the API server cannot be asked.
    pub async fn may_send_epoch(&self, account: &ServiceAccount) -> Result<bool, ApiError> {
        let extra = Access {
            verb: AccessVerb::Impersonate(LEGACY),
            group: CONSTRAINED_GROUP.to_owned(),
            version: ANY_VERSION.to_owned(),
            resource: format!("userextras/{EPOCH}"),
            namespace: None,
            name: None,
        };

        let of_account = Access {
            group: String::new(),
            resource: "serviceaccounts".to_owned(),
            namespace: Some(account.namespace.clone()),
            name: Some(account.name.clone()),
            ..extra.clone()
        };

        Ok(self.permissions.allows(&extra).await? && self.permissions.allows(&of_account).await?)
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
            #[serde(default)]
            groups: Vec<String>,
        }

        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review.to_string().into_bytes())
            .map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))?;

        let review: Review =
            serde_json::from_str(&self.api_client.send(request).await?).map_err(|error| {
                ApiError::new(
                    ErrorKind::Other,
                    format!("failed to decode the answer to a SelfSubjectReview: {error}"),
                )
            })?;

        let UserInfo { username, groups } = review.status.user_info;
        self.permissions.set_user(&username, &groups);
        Ok(username)
    }
}
