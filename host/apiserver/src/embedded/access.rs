//! Who sends a request, and what they may do: tokens, impersonation and RBAC.

use std::sync::Arc;

use http::{header::AUTHORIZATION, request::Parts};
use parking_lot::Mutex;

use super::{objects::StoredObjects, refused};
use crate::{
    authz::{
        self,
        attributes::Authorizer as _,
        authenticate::Authenticator,
        impersonation::{Impersonation, is_impersonation_header},
        rbac::Rbac,
        user::User,
    },
    http::{self as api, ApiError, Attributes, Environment, Requester},
};

/// Authenticates and authorizes requests.
pub(super) struct Access {
    pub objects: Arc<StoredObjects>,
    pub authenticator: Arc<Authenticator>,
    pub environment: Environment,
    pub impersonation: Mutex<Impersonation>,
}

impl Access {
    /// Returns the user that sends a request, whoever it acts as.
    fn sender(&self, parts: &Parts) -> Result<User, ApiError> {
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if let (None, Some(user)) = (header, parts.extensions.get::<User>()) {
            return Ok(user.clone());
        }
        let now = self.environment.now().as_second();
        self.authenticator.authenticate(header, &*self.objects, now).map_err(|error| refused(&error))
    }
}

impl api::Authenticator for Access {
    fn authenticate(&self, parts: &Parts, attributes: &Attributes) -> Result<Requester, ApiError> {
        let sender = self.sender(parts)?;
        let is_wanted = |name: &http::HeaderName| is_impersonation_header(name.as_str());
        let headers =
            parts.headers.iter().filter(|(name, _)| is_wanted(name)).map(|(name, value)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            });
        let headers: Vec<(String, String)> = headers.collect();
        if headers.is_empty() {
            return Ok(Requester { user: sender, ..Requester::default() });
        }
        let attributes = authorizer_attributes(&sender, attributes);
        let rbac = Rbac::new(&*self.objects);
        let found = self.impersonation.lock().impersonate(&rbac, &attributes, &headers);
        Ok(match found.map_err(|error| refused(&error))? {
            Some(found) => Requester { user: found.user, sender: Some(sender), constraint: found.constraint },
            None => Requester { user: sender, ..Requester::default() },
        })
    }
}

impl api::Authorizer for Access {
    fn authorize(&self, user: &User, attributes: &Attributes) -> Result<(), ApiError> {
        let attributes = authorizer_attributes(user, attributes);
        Rbac::new(&*self.objects).require(&attributes).map_err(|error| refused(&error))
    }
}

/// Returns a request as the authorizer sees it.
fn authorizer_attributes(user: &User, attributes: &Attributes) -> authz::attributes::Attributes {
    let selected = || authz::request_info::required_name(&attributes.field_selector);
    let is_collection = matches!(attributes.verb.as_str(), "list" | "watch");
    let name = match attributes.name.as_str() {
        "" if is_collection => selected().unwrap_or_default(),
        name => name.to_owned(),
    };
    authz::attributes::Attributes {
        user: user.clone(),
        verb: attributes.verb.clone(),
        namespace: attributes.namespace.clone(),
        group: attributes.group.clone(),
        version: attributes.version.clone(),
        resource: attributes.resource.clone(),
        subresource: attributes.subresource.clone(),
        name,
        is_resource: attributes.is_resource(),
        path: attributes.path.clone(),
    }
}
