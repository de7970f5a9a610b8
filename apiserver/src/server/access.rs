//! Who sends a request, and what they may do: tokens, impersonation and RBAC.

use std::sync::Arc;

use http::{header::AUTHORIZATION, request::Parts};
use parking_lot::Mutex;

use crate::{
    apimachinery::{attributes::Attributes, status::Status},
    authn::{authenticate::Authenticator, user::User},
    authz::{
        impersonation::{Impersonation, is_impersonation_header},
        rbac::Rbac,
    },
    server::{Environment, Requester, objects::StoredObjects},
};

/// Authenticates and authorizes requests.
pub(crate) struct Access {
    pub objects: Arc<StoredObjects>,
    pub authenticator: Arc<Authenticator>,
    pub environment: Environment,
    pub impersonation: Mutex<Impersonation>,
}

impl Access {
    /// Returns the user that sends a request, whoever it acts as.
    fn sender(&self, parts: &Parts) -> Result<User, Status> {
        let header = parts
            .headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        if let (None, Some(user)) = (header, parts.extensions.get::<User>()) {
            return Ok(user.clone());
        }

        let now = self.environment.now().as_second();
        self.authenticator.authenticate(header, &*self.objects, now)
    }

    /// Returns the user of a request. The extension [`User`] of the request is the user that the
    /// caller is trusted to be if it sends no credentials.
    ///
    /// # Errors
    ///
    /// 401, or the refusal of an impersonation.
    pub fn authenticate(
        &self,
        parts: &Parts,
        attributes: &Attributes,
    ) -> Result<Requester, Status> {
        let sender = self.sender(parts)?;
        let is_wanted = |name: &http::HeaderName| is_impersonation_header(name.as_str());
        let headers = parts
            .headers
            .iter()
            .filter(|(name, _)| is_wanted(name))
            .map(|(name, value)| {
                (
                    name.as_str().to_owned(),
                    String::from_utf8_lossy(value.as_bytes()).into_owned(),
                )
            });

        let headers: Vec<(String, String)> = headers.collect();
        if headers.is_empty() {
            return Ok(Requester {
                user: sender,
                ..Requester::default()
            });
        }

        let attributes = Attributes {
            user: sender.clone(),
            ..attributes.clone()
        };
        let rbac = Rbac::new(&*self.objects);
        let found = self
            .impersonation
            .lock()
            .impersonate(&rbac, &attributes, &headers);

        Ok(match found? {
            Some(found) => Requester {
                user: found.user,
                sender: Some(sender),
                constraint: found.constraint,
            },
            None => Requester {
                user: sender,
                ..Requester::default()
            },
        })
    }

    /// Allows a request.
    ///
    /// # Errors
    ///
    /// 403.
    pub fn authorize(&self, attributes: &Attributes) -> Result<(), Status> {
        Rbac::new(&*self.objects).require(attributes)
    }
}
