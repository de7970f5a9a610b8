//! Who may use the endpoints for users: TokenReview authenticates, SubjectAccessReview authorizes,
//! as in controller-runtime's `WithAuthenticationAndAuthorization` for metrics.
//!
//! Decisions are cached for ten seconds. The API server strips the header `Authorization` from
//! requests it proxies to a Service, so clients behind it, and other replicas, send the token in
//! [`FORWARDED`] instead.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, Hash, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::{Api, Client, api::PostParams};
use operetta_api::{
    GROUP,
    reasons::{self, Reason},
};
use operetta_core::{authz::recorded_permissions::Need, object::ObjectKey, status::ApiError};
use operetta_kube::{
    authz::access_review::SubjectAccessReviews,
    client::{
        api_client::{ApiClient, Identity},
        own_token::{AUDIENCE, FORWARDED},
    },
};
use parking_lot::Mutex;

use super::{
    connections::network_of,
    headers,
    object_path::{CORE, namespace as namespace_of},
    shares::Shares,
};

/// How long a decision is cached.
const KEPT: Duration = Duration::from_secs(10);
/// How many decisions are cached. One more clears the cache.
const MAX_KEPT: usize = 1_000;
/// The maximum number of reviews in flight: invalid tokens cost the API server no more.
const AT_ONCE: u32 = 8;
/// The maximum number of reviews in flight of one user, and of the tokens that one network sends and
/// that are not known yet.
const OF_USER: u32 = 4;
/// The maximum length of a token in bytes.
const MAX_TOKEN: usize = 16 * 1024;

const NO_TOKEN: &str = "send a bearer token of the cluster in the header Authorization, such as that of `kubectl create token NAME`";

/// The permission a request needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Required {
    need: Need,
    /// The Plugin's name, if this is about a subresource of one.
    name: Option<String>,
}

impl Required {
    /// Returns the permission for a path of the endpoints: `get` on a subresource of the Plugin, or
    /// `get` on the path itself (`nonResourceURLs` of a ClusterRole). Since `plugins/retry` changes
    /// something, it needs `create`.
    pub fn of(path: &str) -> Self {
        let subresource = Self::plugin_resource;
        match path.split('/').collect::<Vec<_>>()[..] {
            ["", "logs", namespace, name] => subresource("get", "plugins/log", namespace, name),
            ["", "rbac", namespace, name] => {
                subresource("get", "plugins/permissions", namespace, name)
            }
            ["", "retry", namespace, name] => {
                subresource("create", "plugins/retry", namespace, name)
            }
            ["", "reconciles", namespace, name] => subresource("get", "plugins", namespace, name),
            [
                "",
                "why" | "facts",
                group,
                _version,
                plural,
                namespace,
                name,
            ] => Self::get(
                Some(group).filter(|group| *group != CORE),
                plural,
                namespace_of(namespace),
                name,
            ),
            ["", "page", "api", "plugins", namespace, name, "log"] => {
                subresource("get", "plugins/log", namespace, name)
            }
            ["", "page", "api", "plugins", namespace, name, ..]
            | ["", "page", "plugins", namespace, name] => {
                subresource("get", "plugins", namespace, name)
            }
            _ => Self {
                need: Need {
                    path: path.to_owned(),
                    verb: "get".to_owned(),
                    ..Need::default()
                },
                name: None,
            },
        }
    }

    /// Returns the permission to read an object. `group` is empty for the core group.
    pub fn get(group: Option<&str>, plural: &str, namespace: Option<&str>, name: &str) -> Self {
        let need = Need::resource("get", group.unwrap_or_default(), plural, namespace);
        Self {
            need,
            name: Some(name.to_owned()),
        }
    }

    /// Returns the permission for a verb on a Plugin or one of its subresources.
    pub fn plugin_resource(verb: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self {
            need: Need::resource(verb, GROUP, resource, Some(namespace)),
            name: Some(name.to_owned()),
        }
    }

    /// Returns the permission to list the Plugins in one namespace, or in all.
    pub fn list_plugins(namespace: Option<&str>) -> Self {
        Self {
            need: Need::resource("list", GROUP, "plugins", namespace),
            name: None,
        }
    }

    /// Returns the Plugin this request is about.
    pub fn plugin(&self) -> Option<ObjectKey> {
        let Need {
            group, resource, ..
        } = &self.need;
        let is_plugin =
            group == GROUP && (resource == "plugins" || resource.starts_with("plugins/"));
        if !is_plugin {
            return None;
        }

        Some(ObjectKey::namespaced(
            self.need.namespace.clone()?,
            self.name.clone()?,
        ))
    }
}

impl fmt::Display for Required {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Need {
            verb,
            group,
            resource,
            path,
            namespace,
            ..
        } = &self.need;

        match (namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(
                f,
                "{verb} resource {resource:?} in API group {group:?} in the namespace {namespace:?} ({name:?})"
            ),
            (None, Some(name)) => write!(
                f,
                "{verb} resource {resource:?} in API group {group:?} ({name:?})"
            ),
            (Some(namespace), None) => {
                write!(
                    f,
                    "{verb} resource {resource:?} in API group {group:?} in the namespace {namespace:?}"
                )
            }
            _ if path.is_empty() => {
                write!(
                    f,
                    "{verb} resource {resource:?} in API group {group:?} at the cluster scope"
                )
            }
            _ => write!(f, "{verb} path {path:?}"),
        }
    }
}

/// The user of an authorized request. The response may depend on more of the user's permissions.
#[derive(Clone)]
pub struct Asker {
    access: Arc<AccessControl>,
    headers: HeaderMap,
}

impl Asker {
    /// Creates the asker for a request with these headers.
    pub fn new(access: Arc<AccessControl>, headers: &HeaderMap) -> Self {
        Self {
            access,
            headers: headers.clone(),
        }
    }

    /// Returns the header with the user's token, unchanged.
    pub fn credentials(&self) -> Option<&HeaderValue> {
        credentials(&self.headers)
    }

    /// Returns the user's name; empty if the API server knows none any more.
    pub async fn user(&self) -> String {
        let user = self.access.user(&self.headers).await;
        user.ok().and_then(|user| user.username).unwrap_or_default()
    }

    /// Reports whether the user has the permission; false if the API server cannot be asked.
    pub async fn may(&self, required: &Required) -> bool {
        self.access.check(&self.headers, required).await.is_ok()
    }

    /// Waits until the user loses the permission or the token expires. An unreachable API server
    /// revokes nothing.
    pub async fn until_refused(&self, required: &Required) {
        loop {
            tokio::time::sleep(KEPT).await;
            match self.access.check(&self.headers, required).await {
                Ok(()) | Err(Refusal::Unavailable(_)) => {}
                Err(_) => return,
            }
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request has no token.
    NoToken,
    /// The token is invalid.
    Unauthorized(String),
    /// The user lacks the permission.
    Forbidden(String),
    /// The API server can't be reached.
    Unavailable(String),
}

impl Refusal {
    /// Returns the message.
    pub fn message(&self) -> &str {
        match self {
            Self::NoToken => NO_TOKEN,
            Self::Unauthorized(text) | Self::Forbidden(text) | Self::Unavailable(text) => text,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let unauthorized = |reason: Reason, text: String| {
            let mut response = headers::error(StatusCode::UNAUTHORIZED, reason, text);
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            response
        };
        match self {
            Self::NoToken => unauthorized(reasons::TOKEN_MISSING, NO_TOKEN.to_owned()),
            Self::Unauthorized(text) => unauthorized(reasons::TOKEN_REFUSED, text),
            Self::Forbidden(text) => {
                headers::error(StatusCode::FORBIDDEN, reasons::ENDPOINT_FORBIDDEN, text)
            }
            Self::Unavailable(text) => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
        }
    }
}

/// The access control of the endpoints for users.
pub struct AccessControl {
    client: Client,
    reviews: SubjectAccessReviews,
    in_flight: Shares,
    users: Kept<Result<UserInfo, Refusal>>,
    decisions: Kept<Result<(), Refusal>>,
}

impl AccessControl {
    /// Creates an access control. It sends its reviews as the host.
    ///
    /// # Errors
    /// When the client can't act as the host.
    pub fn new(client: Client) -> Result<Self, ApiError> {
        let reviews = SubjectAccessReviews::new(ApiClient::new(client.clone(), &Identity::Host)?);
        let in_flight = Shares::new(AT_ONCE, OF_USER);
        Ok(Self {
            client,
            reviews,
            in_flight,
            users: Kept::default(),
            decisions: Kept::default(),
        })
    }

    /// Checks that the request's user has the permission.
    ///
    /// # Errors
    /// Why the user doesn't.
    pub async fn check(&self, headers: &HeaderMap, required: &Required) -> Result<(), Refusal> {
        let token = token(headers)?;
        let about_user = self.users.key(&token);
        let about_both = self.decisions.key(&(about_user, required));
        if let Some(decision) = self.decisions.get(about_both) {
            return decision;
        }

        let user = self.known_user(headers, about_user, token).await?;
        let user_name = user.username.clone().unwrap_or_default();
        let _seat = self.in_flight.begin(&user_name).await;
        // An earlier request may have been waiting with the same question.
        if let Some(decision) = self.decisions.get(about_both) {
            return decision;
        }

        self.decisions
            .put(about_both, self.authorize(user, required).await)
    }

    /// Returns the user of a request.
    ///
    /// # Errors
    /// Why the API server doesn't accept the token.
    pub async fn user(&self, headers: &HeaderMap) -> Result<UserInfo, Refusal> {
        let token = token(headers)?;
        let about_user = self.users.key(&token);
        self.known_user(headers, about_user, token).await
    }

    async fn known_user(
        &self,
        headers: &HeaderMap,
        about_user: [u64; 2],
        token: String,
    ) -> Result<UserInfo, Refusal> {
        if let Some(user) = self.users.get(about_user) {
            return user;
        }

        // Whose token it is, the review says; until then, only where it comes from is known.
        let stranger = format!("network {}", network_of(headers));
        let _seat = self.in_flight.begin(&stranger).await;
        match self.users.get(about_user) {
            Some(user) => user,
            None => self.users.put(about_user, self.authenticate(token).await),
        }
    }

    async fn authenticate(&self, token: String) -> Result<UserInfo, Refusal> {
        // A token's audience is either the API server, as in a kubeconfig, or only hosts.
        for audiences in [None, Some(vec![AUDIENCE.to_owned()])] {
            let spec = TokenReviewSpec {
                token: Some(token.clone()),
                audiences,
            };
            let review = TokenReview {
                spec,
                ..TokenReview::default()
            };
            let reviewed = Api::all(self.client.clone())
                .create(&PostParams::default(), &review)
                .await;
            let status = reviewed
                .map_err(|error| unavailable("TokenReview", &error))?
                .status
                .unwrap_or_default();
            if let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) {
                return Ok(user);
            }
        }

        let message = format!(
            "the token is not valid, neither for the API server nor for the audience {AUDIENCE}"
        );
        Err(Refusal::Unauthorized(message))
    }

    async fn authorize(&self, user: UserInfo, required: &Required) -> Result<(), Refusal> {
        let user_name = user.username.clone().unwrap_or_default();
        let reviewed = self
            .reviews
            .has(&user.into(), &required.need, required.name.as_deref())
            .await;
        match reviewed.map_err(|error| unavailable("SubjectAccessReview", &error))? {
            true => Ok(()),
            false => Err(Refusal::Forbidden(format!(
                "User {user_name:?} cannot {required}"
            ))),
        }
    }
}

fn unavailable(review: &str, error: &impl fmt::Display) -> Refusal {
    Refusal::Unavailable(format!("failed to create a {review}: {error}"))
}

/// Returns the bearer token of a request.
///
/// # Errors
/// [`Refusal::NoToken`].
pub fn token(headers: &HeaderMap) -> Result<String, Refusal> {
    let value = credentials(headers)
        .and_then(|value| value.to_str().ok())
        .ok_or(Refusal::NoToken)?;
    match value.split_once(' ') {
        Some((scheme, token))
            if scheme.eq_ignore_ascii_case("Bearer")
                && !token.is_empty()
                && token.len() <= MAX_TOKEN =>
        {
            Ok(token.to_owned())
        }
        _ => Err(Refusal::NoToken),
    }
}

/// Returns the header with the request's token, unchanged.
pub fn credentials(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers
        .get(FORWARDED)
        .or_else(|| headers.get(header::AUTHORIZATION))
}

/// Decisions of the last ten seconds, by the hash of their subject, so that no token stays in memory.
pub(crate) struct Kept<T> {
    hasher: [RandomState; 2],
    decisions: Mutex<HashMap<[u64; 2], (Instant, T)>>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self {
            hasher: Default::default(),
            decisions: Mutex::default(),
        }
    }
}

impl<T: Clone> Kept<T> {
    pub(crate) fn key(&self, about: &impl Hash) -> [u64; 2] {
        [
            self.hasher[0].hash_one(about),
            self.hasher[1].hash_one(about),
        ]
    }

    pub(crate) fn get(&self, key: [u64; 2]) -> Option<T> {
        let decisions = self.decisions.lock();
        let (at, decision) = decisions.get(&key)?;
        (at.elapsed() < KEPT).then(|| decision.clone())
    }

    pub(crate) fn keep(&self, key: [u64; 2], decision: T) {
        let mut decisions = self.decisions.lock();
        if decisions.len() >= MAX_KEPT {
            decisions.clear();
        }
        decisions.insert(key, (Instant::now(), decision));
    }
}

impl<T: Clone> Kept<Result<T, Refusal>> {
    /// Caches and returns a decision. An unreachable API server isn't a decision.
    fn put(&self, key: [u64; 2], decision: Result<T, Refusal>) -> Result<T, Refusal> {
        if !matches!(decision, Err(Refusal::Unavailable(_))) {
            self.keep(key, decision.clone());
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| {
                (
                    header::HeaderName::from_static(name),
                    value.parse().expect("a value"),
                )
            })
            .collect()
    }

    #[test]
    fn token_comes_from_either_header() {
        assert_eq!(
            token(&headers(&[("authorization", "Bearer a")])),
            Ok("a".to_owned())
        );
        assert_eq!(
            token(&headers(&[
                ("authorization", "bearer a"),
                (FORWARDED, "Bearer b")
            ])),
            Ok("b".to_owned())
        );

        for lines in [
            vec![],
            vec![("authorization", "Basic a")],
            vec![("authorization", "Bearer ")],
        ] {
            assert_eq!(token(&headers(&lines)), Err(Refusal::NoToken), "{lines:?}");
        }
    }

    #[test]
    fn log_needs_permission_on_its_plugin() {
        let log = Required::of("/logs/team/a");
        assert_eq!(
            log.need,
            Need::resource("get", "operetta.dev", "plugins/log", Some("team"))
        );
        assert_eq!(log.plugin(), Some(ObjectKey::namespaced("team", "a")));
        assert_eq!(
            log.to_string(),
            "get resource \"plugins/log\" in API group \"operetta.dev\" in the namespace \"team\" (\"a\")"
        );

        let retry = Required::of("/retry/team/a").to_string();
        assert!(
            retry.starts_with("create resource \"plugins/retry\" in API group"),
            "{retry}"
        );

        let why = Required::of("/why/apps/v1/deployments/team/web");
        assert_eq!(
            why.need,
            Need::resource("get", "apps", "deployments", Some("team"))
        );
        assert_eq!(
            (why.name.as_deref(), why.plugin()),
            (Some("web"), None),
            "no Plugin, whatever its name"
        );

        let node = Required::of("/why/core/v1/nodes/_/a");
        assert_eq!(node.need, Need::resource("get", "", "nodes", None));
        assert_eq!(
            node.to_string(),
            "get resource \"nodes\" in API group \"\" (\"a\")"
        );

        let reconciles = Required::of("/reconciles/team/a");
        assert_eq!(
            reconciles.plugin(),
            Some(ObjectKey::namespaced("team", "a"))
        );

        let page = Required::of("/page/api/plugins/team/a");
        assert_eq!(
            page,
            Required::plugin_resource("get", "plugins", "team", "a")
        );
        assert_eq!(page.plugin(), Some(ObjectKey::namespaced("team", "a")));
        assert_eq!(Required::of("/page/api/plugins/team/a/log"), log);

        let all = Required::list_plugins(None).to_string();
        assert_eq!(
            all,
            "list resource \"plugins\" in API group \"operetta.dev\" at the cluster scope"
        );
        assert_eq!(Required::list_plugins(Some("team")).plugin(), None);

        for path in [
            "/metrics",
            "/logs/team/a/b",
            "/why/apps/v1/deployments/team",
        ] {
            let required = Required::of(path);
            assert_eq!(
                (required.need.path.as_str(), required.plugin()),
                (path, None)
            );
            assert_eq!(required.to_string(), format!("get path {path:?}"));
        }
    }
}
