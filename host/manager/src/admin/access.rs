//! Who may use the endpoints for users: authentication by TokenReview, authorization by SubjectAccessReview, as
//! controller-runtime's `WithAuthenticationAndAuthorization` does for metrics.
//!
//! Decisions are kept for ten seconds. The API server removes the header `Authorization` from requests that it forwards to a
//! Service, so a client that comes through it sends its token in [`FORWARDED`] instead.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, Hash, RandomState},
    time::{Duration, Instant},
};

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use operetta_api::GROUP;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// The header with the token of a client that comes through the API server.
pub const FORWARDED: &str = "x-operetta-authorization";

/// The time for which a decision is kept.
const KEPT: Duration = Duration::from_secs(10);
/// The maximum number of decisions that are kept. Beyond it all are dropped.
const MAX_KEPT: usize = 1_000;
/// The maximum number of reviews in flight: invalid tokens cost the API server no more.
const AT_ONCE: usize = 8;
/// The maximum length of a token in bytes.
const MAX_TOKEN: usize = 16 * 1024;

/// The permission that a request needs, with the verb `get`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Needed {
    /// A subresource of a Plugin.
    Plugin {
        /// The Plugin's namespace.
        namespace: String,
        /// The Plugin's name.
        name: String,
        /// The subresource, such as `log`.
        subresource: &'static str,
    },
    /// A path that is no resource (`nonResourceURLs` of a ClusterRole).
    Path(String),
}

impl Needed {
    /// Returns the permission for a path of the endpoints.
    pub fn of(path: &str) -> Self {
        let plugin = |namespace: &str, name: &str, subresource| Self::Plugin {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource,
        };
        match path.split('/').collect::<Vec<_>>()[..] {
            ["", "logs", namespace, name] => plugin(namespace, name, "log"),
            ["", "rbac", namespace, name] => plugin(namespace, name, "permissions"),
            _ => Self::Path(path.to_owned()),
        }
    }
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plugin { namespace, name, subresource } => write!(
                f,
                "get resource \"plugins/{subresource}\" in API group \"{GROUP}\" in the namespace {namespace:?} (Plugin {name:?})"
            ),
            Self::Path(path) => write!(f, "get path {path:?}"),
        }
    }
}

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no valid token.
    Unauthorized(String),
    /// The user lacks the permission.
    Forbidden(String),
    /// The API server cannot be asked.
    Unavailable(String),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Unauthorized(text) => {
                (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
            }
            Self::Forbidden(text) => (StatusCode::FORBIDDEN, text).into_response(),
            Self::Unavailable(text) => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
        }
    }
}

/// The access control of the endpoints for users.
pub struct AccessControl {
    client: Client,
    reviews: Semaphore,
    users: Kept<Result<UserInfo, Refusal>>,
    decisions: Kept<Result<(), Refusal>>,
}

impl AccessControl {
    /// Creates an access control that creates reviews as the host.
    pub fn new(client: Client) -> Self {
        Self { client, reviews: Semaphore::new(AT_ONCE), users: Kept::default(), decisions: Kept::default() }
    }

    /// Checks that the request's user has the permission.
    ///
    /// # Errors
    /// Returns the reason why not.
    pub async fn check(&self, headers: &HeaderMap, needed: &Needed) -> Result<(), Refusal> {
        let token = token(headers)?;
        let key = self.users.key(&token);
        if let Some(decision) = self.decisions.get(self.decisions.key(&(key, needed))) {
            return decision;
        }
        let _permit = self.reviews.acquire().await;
        let user = match self.users.get(key) {
            Some(user) => user,
            None => self.users.put(key, self.authenticate(token).await),
        }?;
        self.decisions.put(self.decisions.key(&(key, needed)), self.authorize(user, needed).await)
    }

    async fn authenticate(&self, token: String) -> Result<UserInfo, Refusal> {
        let spec = TokenReviewSpec { token: Some(token), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviewed = Api::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let status = reviewed.map_err(|error| unavailable("TokenReview", &error))?.status.unwrap_or_default();
        match (status.authenticated, status.user) {
            (Some(true), Some(user)) => Ok(user),
            _ => Err(Refusal::Unauthorized("the token is not valid at the API server".to_owned())),
        }
    }

    async fn authorize(&self, user: UserInfo, needed: &Needed) -> Result<(), Refusal> {
        let verb = || Some("get".to_owned());
        let (resource_attributes, non_resource_attributes) = match needed {
            Needed::Plugin { namespace, name, subresource } => {
                let attributes = ResourceAttributes {
                    verb: verb(),
                    group: Some(GROUP.to_owned()),
                    version: Some("*".to_owned()),
                    resource: Some("plugins".to_owned()),
                    subresource: Some((*subresource).to_owned()),
                    namespace: Some(namespace.clone()),
                    name: Some(name.clone()),
                    ..ResourceAttributes::default()
                };
                (Some(attributes), None)
            }
            Needed::Path(path) => (None, Some(NonResourceAttributes { verb: verb(), path: Some(path.clone()) })),
        };
        let name = user.username.clone().unwrap_or_default();
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            resource_attributes,
            non_resource_attributes,
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviewed = Api::all(self.client.clone()).create(&PostParams::default(), &review).await;
        let status = reviewed.map_err(|error| unavailable("SubjectAccessReview", &error))?.status.unwrap_or_default();
        match status.allowed {
            true => Ok(()),
            false => Err(Refusal::Forbidden(format!("User {name:?} cannot {needed}"))),
        }
    }
}

fn unavailable(review: &str, error: &kube::Error) -> Refusal {
    Refusal::Unavailable(format!("failed to create a {review}: {error}"))
}

/// Returns the bearer token of a request.
fn token(headers: &HeaderMap) -> Result<String, Refusal> {
    let missing = || {
        Refusal::Unauthorized(
            "send a bearer token of the cluster in the header Authorization, such as that of `kubectl create token NAME`"
                .to_owned(),
        )
    };
    let value = headers.get(FORWARDED).or_else(|| headers.get(header::AUTHORIZATION)).ok_or_else(missing)?;
    let value = value.to_str().map_err(|_not_ascii| missing())?;
    let (scheme, token) = value.split_once(' ').ok_or_else(missing)?;
    match scheme.eq_ignore_ascii_case("Bearer") && !token.is_empty() && token.len() <= MAX_TOKEN {
        true => Ok(token.to_owned()),
        false => Err(missing()),
    }
}

/// Decisions by the hash of what they are about, so that no token stays in memory.
struct Kept<T> {
    hasher: [RandomState; 2],
    decisions: Mutex<HashMap<[u64; 2], (Instant, T)>>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { hasher: Default::default(), decisions: Mutex::default() }
    }
}

impl<T: Clone> Kept<T> {
    fn key(&self, about: &impl Hash) -> [u64; 2] {
        [self.hasher[0].hash_one(about), self.hasher[1].hash_one(about)]
    }

    fn get(&self, key: [u64; 2]) -> Option<T> {
        let decisions = self.decisions.lock();
        let (at, decision) = decisions.get(&key)?;
        (at.elapsed() < KEPT).then(|| decision.clone())
    }
}

impl<T: Clone> Kept<Result<T, Refusal>> {
    /// Keeps a decision, unless the API server could not be asked. Returns it.
    fn put(&self, key: [u64; 2], decision: Result<T, Refusal>) -> Result<T, Refusal> {
        if !matches!(decision, Err(Refusal::Unavailable(_))) {
            let mut decisions = self.decisions.lock();
            if decisions.len() >= MAX_KEPT {
                decisions.clear();
            }
            decisions.insert(key, (Instant::now(), decision.clone()));
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
            .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn token_comes_from_either_header() {
        assert_eq!(token(&headers(&[("authorization", "Bearer a")])), Ok("a".to_owned()));
        assert_eq!(token(&headers(&[("authorization", "bearer a"), (FORWARDED, "Bearer b")])), Ok("b".to_owned()));
        for lines in [vec![], vec![("authorization", "Basic a")], vec![("authorization", "Bearer ")]] {
            let Err(Refusal::Unauthorized(text)) = token(&headers(&lines)) else { panic!("{lines:?}") };
            assert!(text.contains("kubectl create token"), "{text}");
        }
    }

    #[test]
    fn log_needs_permission_on_its_plugin() {
        let log = Needed::of("/logs/team/a");
        let expected = Needed::Plugin { namespace: "team".to_owned(), name: "a".to_owned(), subresource: "log" };
        assert_eq!(log, expected);
        assert_eq!(
            log.to_string(),
            "get resource \"plugins/log\" in API group \"operetta.dev\" in the namespace \"team\" (Plugin \"a\")"
        );
        assert_eq!(Needed::of("/metrics"), Needed::Path("/metrics".to_owned()));
        assert_eq!(Needed::of("/logs/team/a/b"), Needed::Path("/logs/team/a/b".to_owned()));
    }
}
