//! Users and requests, as authorization and admission see them.

pub use crate::authz::user::User;

/// A request, as authorization and admission see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The verb, such as `list`; of a path that is no resource the HTTP method in lower case.
    pub verb: String,
    /// The path of the URL.
    pub path: String,
    /// The API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The resource; `""` for a path that is no resource.
    pub resource: String,
    /// The subresource, or `""`.
    pub subresource: String,
    /// The namespace, or `""`.
    pub namespace: String,
    /// The name, or `""`.
    pub name: String,
    /// The label selector, or `""`.
    pub label_selector: String,
    /// The field selector, or `""`.
    pub field_selector: String,
}

impl Attributes {
    /// Reports whether the path names a resource.
    #[must_use]
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }
}
