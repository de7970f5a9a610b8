//! How the gate describes a guest's call.

use std::collections::HashMap;

use crate::{
    gate::{
        operation::{Operation, Verb},
        raw_request::{RawRequest, ResourcePath, Target},
    },
    object::{ObjectKey, kind::GroupVersionKind},
};

/// A guest's call on objects, before it runs. The flight recorder, the audit, the hot-loop
/// detector, the record of permissions and the overlay of own writes all read this one description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The verb RBAC would check. A list by its path, or deletion of a collection, is a `get` or
    /// `delete` without a name.
    pub verb: Verb,
    /// The resource.
    pub resource: Resource,
    /// The subresource, e.g. `status`.
    pub subresource: Option<String>,
    /// The namespace; None for all namespaces and for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The object's name; None for a list, and for a create, since the API server may generate the
    /// name.
    pub name: Option<String>,
    /// The field selector of a list.
    pub field_selector: Option<String>,
    /// The field manager, if a write names one.
    pub field_manager: Option<String>,
    /// Whether the cache may answer this read.
    pub is_cached: bool,
    /// Whether this write stores nothing.
    pub is_dry_run: bool,
}

/// A call's resource, as named by the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// By kind, in a function of `objects`.
    Kind(GroupVersionKind),
    /// By the path of a raw or a proxied request.
    Path {
        /// The path, without a query.
        path: String,
        /// `group/version`, or the version of the core group; empty for discovery.
        api_version: String,
        /// The resource's plural name; empty for discovery.
        plural: String,
    },
}

impl Call {
    /// Describes an operation on objects. An empty namespace or subresource counts as none.
    pub fn of(operation: &dyn Operation) -> Self {
        let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        Self {
            verb: operation.verb(),
            resource: Resource::Kind(operation.kind().clone()),
            subresource: text(operation.subresource()),
            namespace: text(operation.namespace()),
            name: operation.name().map(str::to_owned),
            field_selector: operation.field_selector().map(str::to_owned),
            field_manager: operation.field_manager().map(str::to_owned),
            is_cached: operation.is_cached(),
            is_dry_run: operation.is_dry_run(),
        }
    }

    /// Describes a raw request and its parsed target.
    pub fn of_raw(request: &RawRequest, target: &Target) -> Self {
        let verb = request.verb();
        let parameters = request.parameters().unwrap_or_default();
        let is_dry_run = verb.is_write() && request.is_dry_run(&parameters);
        Self {
            is_cached: request.is_cached(),
            ..Self::of_path(verb, &request.path, target, &parameters, is_dry_run)
        }
    }

    /// Describes a request by its path, its parsed target and its query's parameters.
    pub(super) fn of_path(
        verb: Verb,
        path: &str,
        target: &Target,
        parameters: &HashMap<String, String>,
        is_dry_run: bool,
    ) -> Self {
        let ResourcePath {
            api_version,
            plural,
            namespace,
            name,
            subresource,
        } = match target {
            Target::Discovery => ResourcePath::default(),
            Target::Resource(path) => path.clone(),
        };

        Self {
            verb,
            resource: Resource::Path {
                path: path.to_owned(),
                api_version,
                plural,
            },
            subresource,
            namespace,
            name,
            is_cached: false,
            is_dry_run,
            field_selector: parameters.get("fieldSelector").cloned(),
            field_manager: parameters.get("fieldManager").cloned(),
        }
    }

    /// The object's key, with an empty name if the call names none.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            namespace: self.namespace.clone(),
            name: self.name.clone().unwrap_or_default(),
        }
    }
}
