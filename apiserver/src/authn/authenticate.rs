//! Authentication: from the `Authorization` header to a user.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    apimachinery::status::Status,
    authn::{
        signing::SigningKey,
        token_claims::Claims,
        user::{AUTHENTICATED, User, quote_list},
    },
    authz::objects::Objects,
};

/// The issuer of tokens and their default audience, unless configured otherwise.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc";

/// Authenticates requests by static tokens and by tokens of ServiceAccounts. Requests without
/// credentials are of the user `system:anonymous`.
#[derive(Debug, Clone)]
pub struct Authenticator {
    pub(super) key: Arc<SigningKey>,
    pub(super) issuer: String,
    static_tokens: BTreeMap<String, User>,
}

/// An authenticated user, with those of the wanted audiences that its token is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// The user, in the group `system:authenticated`.
    pub user: User,
    /// The audiences.
    pub audiences: Vec<String>,
}

impl Authenticator {
    /// Creates an authenticator with a key and the issuer of its tokens, which is also the audience
    /// of this server.
    pub fn new(key: Arc<SigningKey>, issuer: impl Into<String>) -> Self {
        Self {
            key,
            issuer: issuer.into(),
            static_tokens: BTreeMap::new(),
        }
    }

    /// Adds a static token.
    #[must_use]
    pub fn with_token(mut self, token: impl Into<String>, user: User) -> Self {
        self.static_tokens.insert(token.into(), user);
        self
    }

    /// Returns the audiences of this server.
    pub fn audiences(&self) -> Vec<String> {
        vec![self.issuer.clone()]
    }

    /// Returns the document `/.well-known/openid-configuration`; `keys` is the URL of
    /// `/openid/v1/jwks`.
    pub fn openid_configuration(&self, keys: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": keys,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// Returns the user of a request by its `Authorization` header. A header that is no bearer
    /// token is ignored.
    ///
    /// # Errors
    /// `Unauthorized` if the token is unknown, invalid, or not for this server.
    pub fn authenticate(
        &self,
        header: Option<&str>,
        objects: &dyn Objects,
        now: i64,
    ) -> Result<User, Status> {
        let Some(token) = header.and_then(bearer_token) else {
            return Ok(User::anonymous());
        };
        let authenticated = self.authenticate_token(token, &self.audiences(), objects, now);

        authenticated
            .map(|authenticated| authenticated.user)
            .map_err(|_| Status::unauthorized())
    }

    /// Returns the user of a token that is for at least one of the wanted audiences.
    ///
    /// # Errors
    /// Fails if the token is unknown, invalid, or for other audiences. The text is what a
    /// TokenReview shows.
    pub fn authenticate_token(
        &self,
        token: &str,
        wanted: &[String],
        objects: &dyn Objects,
        now: i64,
    ) -> Result<Authenticated, TokenError> {
        let mut authenticated = match self.static_tokens.get(token) {
            Some(user) => self.static_user(user, wanted)?,
            None => self.account(token, wanted, objects, now)?,
        };
        authenticated.user.ensure_group(AUTHENTICATED);

        Ok(authenticated)
    }

    /// Accepts a static token for the audiences of this server only.
    fn static_user(&self, user: &User, wanted: &[String]) -> Result<Authenticated, TokenError> {
        let audiences: Vec<String> = self
            .audiences()
            .into_iter()
            .filter(|own| wanted.contains(own))
            .collect();
        if audiences.is_empty() {
            Err(TokenError::Unknown)
        } else {
            Ok(Authenticated {
                user: user.clone(),
                audiences,
            })
        }
    }

    fn account(
        &self,
        token: &str,
        wanted: &[String],
        objects: &dyn Objects,
        now: i64,
    ) -> Result<Authenticated, TokenError> {
        let claims = self
            .key
            .verify(token, &self.issuer)
            .map_err(|error| TokenError::Refused(error.to_owned()))?;
        let claims = claims.ok_or(TokenError::Unknown)?;
        let claims =
            Claims::deserialize(&claims).map_err(|error| TokenError::Refused(error.to_string()))?;
        let own = if claims.aud.is_empty() {
            self.audiences()
        } else {
            claims.aud.clone()
        };

        let audiences: Vec<String> = wanted
            .iter()
            .filter(|audience| own.contains(audience))
            .cloned()
            .collect();
        if audiences.is_empty() {
            return Err(TokenError::Refused(format!(
                "token audiences {} is invalid for the target audiences {}",
                quote_list(&own),
                quote_list(wanted)
            )));
        }

        let user = claims.user(objects, now).map_err(TokenError::Refused)?;
        Ok(Authenticated { user, audiences })
    }
}

/// A token that does not authenticate anybody.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenError {
    /// Nobody knows the token.
    #[error("invalid bearer token")]
    Unknown,
    /// The token is one of a ServiceAccount, and not valid.
    #[error("[invalid bearer token, {0}]")]
    Refused(String),
}

/// Returns the token of an `Authorization` header.
fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, rest) = header.trim().split_once(' ')?;
    let token = rest.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_has_a_bearer_token() {
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            (" bearer abc def ", Some("abc")),
            ("BEARER abc", Some("abc")),
            ("Bearer  abc", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("Basic abc", None),
            ("", None),
        ] {
            assert_eq!(bearer_token(header), token, "{header:?}");
        }
    }
}
