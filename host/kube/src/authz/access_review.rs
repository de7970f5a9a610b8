//! Access reviews: asks the API server's authorizer about a user, or about the host itself.

use std::collections::BTreeMap;

use async_trait::async_trait;
use http::Request;
use k8s_openapi::api::authentication::v1::UserInfo;
use operetta_core::{
    authz::{
        access_review::{Access, AccessReviewer, ReadVerb, ServiceAccount},
        recorded_permissions::Need,
    },
    status::{ApiError, ErrorKind},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{client::api_client::ApiClient, discovery::ApiResource};

/// Reviews access by creating SubjectAccessReviews as the host.
pub struct SubjectAccessReviews {
    api_client: ApiClient,
}

impl SubjectAccessReviews {
    /// Creates a reviewer on `api_client`. Its identity must be allowed to create
    /// subjectaccessreviews.
    pub fn new(api_client: ApiClient) -> Self {
        Self { api_client }
    }
}

/// The user in an access review, with everything the API server's authorizers may look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Subject {
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

impl From<&ServiceAccount> for Subject {
    fn from(account: &ServiceAccount) -> Self {
        Self {
            user: account.user(),
            groups: account.groups().to_vec(),
            ..Self::default()
        }
    }
}

/// The user from a TokenReview.
impl From<UserInfo> for Subject {
    fn from(info: UserInfo) -> Self {
        Self {
            user: info.username.unwrap_or_default(),
            uid: info.uid,
            groups: info.groups.unwrap_or_default(),
            extra: info.extra.unwrap_or_default(),
        }
    }
}

#[derive(Serialize)]
struct Spec<'a> {
    #[serde(flatten)]
    subject: &'a Subject,
    #[serde(flatten)]
    attributes: Value,
}

#[derive(Deserialize)]
struct Review {
    #[serde(default)]
    status: ReviewStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewStatus {
    allowed: bool,
}

impl SubjectAccessReviews {
    /// Whether the subject has a permission, for all names or for one.
    ///
    /// # Errors
    /// The API server's error, if it cannot be asked.
    pub async fn has(
        &self,
        subject: &Subject,
        need: &Need,
        name: Option<&str>,
    ) -> Result<bool, ApiError> {
        self.ask(subject, need, ANY_VERSION, name).await
    }

    async fn ask(
        &self,
        subject: &Subject,
        need: &Need,
        version: &str,
        name: Option<&str>,
    ) -> Result<bool, ApiError> {
        let attributes = match need.path.as_str() {
            "" => json!({"resourceAttributes": attributes(need, version, name)}),
            path => json!({"nonResourceAttributes": {"verb": need.verb, "path": path}}),
        };

        ask(
            &self.api_client,
            "SubjectAccessReview",
            &Spec {
                subject,
                attributes,
            },
        )
        .await
    }
}

/// The version in a review about a permission rather than a request: RBAC has none.
pub(crate) const ANY_VERSION: &str = "*";

/// The `resourceAttributes` of a review about all names, or one.
fn attributes(need: &Need, version: &str, name: Option<&str>) -> Value {
    let (resource, subresource) = need
        .resource
        .split_once('/')
        .unwrap_or((&need.resource, ""));
    let mut attributes =
        json!({"verb": need.verb, "group": need.group, "resource": resource, "version": version});
    let subresource = Some(subresource).filter(|text| !text.is_empty());

    for (field, value) in [
        ("subresource", subresource),
        ("namespace", need.namespace.as_deref()),
        ("name", name),
    ] {
        if let Some(value) = value {
            attributes[field] = json!(value);
        }
    }

    attributes
}

/// Creates a review of this kind and returns its decision.
async fn ask(api_client: &ApiClient, kind: &str, spec: &impl Serialize) -> Result<bool, ApiError> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    let request = Request::post(format!(
        "/apis/authorization.k8s.io/v1/{}s",
        kind.to_lowercase()
    ))
    .header(http::header::CONTENT_TYPE, "application/json")
    .body(review.to_string().into_bytes())
    .map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))?;

    let answer: Review =
        serde_json::from_str(&api_client.send(request).await?).map_err(|error| {
            ApiError::new(
                ErrorKind::Other,
                format!("failed to decode the answer to an access review: {error}"),
            )
        })?;

    Ok(answer.status.allowed)
}

fn need(access: &Access) -> (Need, Option<&str>) {
    let Access {
        verb,
        group,
        resource,
        namespace,
        name,
        version: _,
    } = access;

    (
        Need::resource(verb.as_str(), group, resource, namespace.as_deref()),
        name.as_deref(),
    )
}

#[async_trait]
impl AccessReviewer for SubjectAccessReviews {
    async fn review(&self, subject: &ServiceAccount, access: &Access) -> Result<bool, ApiError> {
        let (need, name) = need(access);
        self.ask(&subject.into(), &need, &access.version, name)
            .await
    }

    async fn review_host(&self, access: &Access) -> Result<bool, ApiError> {
        let (need, name) = need(access);
        // Every authenticated user may ask about itself.
        let spec = json!({"resourceAttributes": attributes(&need, &access.version, name)});
        ask(&self.api_client, "SelfSubjectAccessReview", &spec).await
    }
}

/// The access to review for reading `resource` from the cache.
pub(crate) fn reading(
    resource: &ApiResource,
    verb: ReadVerb,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Access {
    Access {
        verb: verb.into(),
        group: resource.kind.group().to_owned(),
        version: resource.kind.version().to_owned(),
        resource: resource.plural.clone(),
        namespace: namespace.filter(|_| resource.namespaced).map(str::to_owned),
        name: name.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use operetta_core::object::kind::GroupVersionKind;

    use super::*;

    #[test]
    fn review_of_a_read_has_the_version_of_the_kind() {
        let resource = ApiResource {
            kind: GroupVersionKind::new("policy/v1beta1", "Budget"),
            plural: "budgets".to_owned(),
            namespaced: true,
            subresources: vec![],
            watchable: true,
            former_plural: None,
        };
        let access = reading(&resource, ReadVerb::Get, None, Some("b"));
        let (need, name) = need(&access);
        let attributes = attributes(&need, &access.version, name);
        assert_eq!(attributes["version"], "v1beta1");
        assert_eq!(
            (&attributes["group"], &attributes["name"]),
            (&json!("policy"), &json!("b"))
        );
    }
}
