//! The attributes of a request, as authorization and admission see them.

use crate::{
    apimachinery::{group_resource::GroupResource, status::Status},
    authn::user::User,
    golang::quote,
};

/// A request, as authorization and admission see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The user.
    pub user: User,
    /// The verb: `get`, `list`, …; for a request outside of the API the lowercase HTTP method.
    pub verb: String,
    /// The namespace; empty for cluster-scoped requests and for all namespaces.
    pub namespace: String,
    /// The API group.
    pub group: String,
    /// The API version; `*` stands for any.
    pub version: String,
    /// The resource.
    pub resource: String,
    /// The subresource; may be empty.
    pub subresource: String,
    /// The name of the object; may be empty.
    pub name: String,
    /// True if the request is one for a resource, and not just for a path.
    pub is_resource: bool,
    /// The URL path.
    pub path: String,
    /// The label selector of the query; may be empty.
    pub label_selector: String,
    /// The field selector of the query; may be empty.
    pub field_selector: String,
}

impl Attributes {
    /// Returns the resource and the subresource, if there is one, as `resource/subresource`.
    pub fn combined_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// Returns the 403 that answers the denied request. The `reason` is the authorizer's, and may
    /// be empty.
    pub fn forbidden(&self, reason: &str) -> Status {
        let denial = escape_html(&self.denial());
        let message = if reason.is_empty() {
            denial
        } else {
            format!("{denial}: {reason}")
        };
        Status::forbidden(
            &GroupResource::new(&self.group, &self.resource),
            &self.name,
            &message,
        )
    }

    fn denial(&self) -> String {
        let user = quote(&self.user.name);
        let verb = &self.verb;
        if !self.is_resource {
            return format!("User {user} cannot {verb} path {}", quote(&self.path));
        }
        let resource = quote(&self.combined_resource());
        let group = quote(&self.group);
        let scope = match self.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quote(namespace)),
        };
        format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
    }
}

/// Escapes what could pass for HTML, as the API server does in messages that quote the request.
pub(crate) fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// An authorizer's decision about a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// True if the request is allowed. Without this the authorizer has no opinion, and the request
    /// is denied.
    pub allowed: bool,
    /// The rule that allows the request, or the errors met while looking for one; may be empty.
    pub reason: String,
}
