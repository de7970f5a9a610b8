//! A write, as admission sees it.

use serde_json::{Map, Value, json};

use crate::{
    apimachinery::{group_resource::GroupResource, status::Status},
    authn::user::User,
    authz::objects::text,
};

/// The operation of a request on its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creates it.
    Create,
    /// Replaces it.
    Update,
    /// Deletes it.
    Delete,
    /// Connects to it.
    Connect,
}

impl Operation {
    /// Returns the name that rules and expressions use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A kind of objects with its resource, in one version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// The API group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The resource.
    pub resource: String,
    /// The kind.
    pub kind: String,
}

impl Endpoint {
    /// Reports whether its objects are Namespaces.
    pub(crate) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.kind == "Namespace"
    }
}

/// An authorized request to write or delete an object.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionRequest<'a> {
    /// The operation.
    pub operation: Operation,
    /// The resource in the URL.
    pub endpoint: &'a Endpoint,
    /// The same resource in other versions and groups, for policies that match equivalent requests.
    pub equivalents: &'a [Endpoint],
    /// The subresource; may be empty.
    pub subresource: &'a str,
    /// The namespace; empty for cluster-scoped objects. A Namespace has its own name here.
    pub namespace: &'a str,
    /// The name in the URL; on create the name of the object, which may be empty.
    pub name: &'a str,
    /// The user, after impersonation.
    pub user: &'a User,
    /// The object as it is to be stored; None on delete, and while admission may change it.
    pub object: Option<&'a Value>,
    /// The stored object; None on create.
    pub old: Option<&'a Value>,
    /// The `CreateOptions`, `UpdateOptions`, `PatchOptions` or `DeleteOptions`.
    pub options: &'a Value,
}

impl<'a> AdmissionRequest<'a> {
    /// Adds the object. One that is created gives the request its name.
    #[must_use]
    pub fn with_object<'b>(self, object: &'b Value) -> AdmissionRequest<'b>
    where
        'a: 'b,
    {
        let name = if self.name.is_empty() {
            text(object, &["metadata", "name"])
        } else {
            self.name
        };
        let namespace = if self.endpoint.is_namespace() {
            name
        } else {
            self.namespace
        };

        AdmissionRequest {
            object: Some(object),
            name,
            namespace,
            ..self
        }
    }

    /// Returns the 403 by which an admission plugin refuses the request.
    pub fn forbidden(&self, cause: &str) -> Status {
        Status::forbidden(
            &GroupResource::new(&self.endpoint.group, &self.endpoint.resource),
            &self.shown_name(),
            cause,
        )
    }

    /// Reports whether nothing is to be stored.
    pub fn is_dry_run(&self) -> bool {
        self.options["dryRun"]
            .as_array()
            .is_some_and(|dry_run| !dry_run.is_empty())
    }

    /// Returns the name that errors show.
    pub fn shown_name(&self) -> String {
        let metadata = |field| {
            self.object
                .map(|object| text(object, &["metadata", field]))
                .unwrap_or_default()
        };
        let names = [self.name, metadata("name"), metadata("generateName")];

        names
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or("Unknown")
            .to_owned()
    }

    /// Reports whether the request is for a resource of a group, and not for a subresource.
    pub fn is_for(&self, group: &str, resource: &str) -> bool {
        self.endpoint.group == group
            && self.endpoint.resource == resource
            && self.subresource.is_empty()
    }

    /// Returns the request as the variable `request` of expressions, seen as one for `matched`.
    pub(super) fn variable(&self, matched: &Endpoint) -> Value {
        let kind =
            |of: &Endpoint| json!({"group": of.group, "version": of.version, "kind": of.kind});
        let resource = |of: &Endpoint| json!({"group": of.group, "version": of.version, "resource": of.resource});
        let mut request = Map::new();
        let mut set = |name: &str, value: Value| request.insert(name.to_owned(), value);
        set("uid", json!(""));
        set("kind", kind(matched));
        set("resource", resource(matched));
        set("requestKind", kind(self.endpoint));
        set("requestResource", resource(self.endpoint));

        for (name, value) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ] {
            if !value.is_empty() {
                set(name, json!(value));
            }
        }

        set("operation", json!(self.operation.name()));
        set("userInfo", self.user.info());
        set("object", Value::Null);
        set("oldObject", Value::Null);
        set("dryRun", json!(self.is_dry_run()));
        set("options", self.options.clone());

        Value::Object(request)
    }
}
