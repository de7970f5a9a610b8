//! The permissions needed by a plugin's requests, watches and Events.

use std::{sync::Arc, time::SystemTime};

use operetta_core::{
    authz::recorded_permissions::{Need, RecordedPermissions},
    gate::{call::Call, operation::Verb, path::check_key},
    object::{ObjectKey, selector::required_name},
    ports::{EventNote, EventSink},
};
use serde::{Deserialize, Serialize};

use crate::discovery::ApiResource;

/// The permission needed by a call, with the object's name if a rule with `resourceNames` can grant
/// it.
pub type RequiredPermission = (Need, Option<String>);

/// A permission and its current decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Needed {
    /// The permission.
    #[serde(flatten)]
    pub need: Need,
    /// The reviewed name, if the permission is not granted for all names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the ServiceAccount has the permission.
    pub allowed: bool,
    /// Whether this is only one namespace's part of a permission in all namespaces.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// The permissions a plugin needs.
pub struct Needs {
    /// The permissions, in order.
    pub needed: Vec<Needed>,
    /// How many calls did not fit into the record.
    pub missed: u64,
    /// Whether a call was recorded, as opposed to only watches.
    pub called: bool,
    /// When recording started.
    pub since: SystemTime,
}

/// The permission needed by a call, in the terms of the API server's RequestInfo. `is_cached` tells
/// whether a cache answers the call.
pub(crate) fn of_call(resource: &ApiResource, call: &Call, is_cached: bool) -> RequiredPermission {
    // A raw or proxied request without a name is about the collection.
    let verb = match (call.verb, &call.name) {
        (Verb::Get, None) => "list",
        (Verb::Delete, None) => "deletecollection",
        (verb, _) => verb.as_str(),
    };
    // In `proxy/path`, only the first segment is the subresource.
    let subresource = call
        .subresource
        .as_deref()
        .and_then(|rest| rest.split('/').next());
    let need = need(resource, verb, subresource, call.namespace.as_deref());

    let is_list = verb == "list";
    let name = match call.verb {
        _ if is_list || verb == "watch" => call.field_selector.as_deref().and_then(required_name),
        Verb::Create => None,
        _ => call.name.clone(),
    };
    let cached = is_cached && is_list && resource.namespaced && need.namespace.is_none();
    (Need { cached, ..need }, name)
}

/// Permission to watch a resource in one namespace, or in all of them. `fields` is the field
/// selector.
pub fn of_watch(
    resource: &ApiResource,
    namespace: Option<&str>,
    fields: &str,
) -> Vec<RequiredPermission> {
    let call = |verb| {
        let need = need(resource, verb, None, namespace);
        (
            Need {
                cached: resource.namespaced && need.namespace.is_none(),
                ..need
            },
            required_name(fields),
        )
    };

    ["list", "watch"].map(call).to_vec()
}

fn need(
    resource: &ApiResource,
    verb: &str,
    subresource: Option<&str>,
    namespace: Option<&str>,
) -> Need {
    let subresource = subresource.filter(|name| !name.is_empty());
    let plural = subresource.map_or(resource.plural.clone(), |name| {
        format!("{}/{name}", resource.plural)
    });
    Need::resource(
        verb,
        resource.kind.group(),
        &plural,
        namespace.filter(|_| resource.namespaced),
    )
}

/// An Event sink that records the permission to write Events, and passes them on.
pub struct RecordingEvents {
    sink: Arc<dyn EventSink>,
    observed: Arc<RecordedPermissions>,
}

impl RecordingEvents {
    /// Creates a sink in front of `sink`.
    pub fn new(sink: Arc<dyn EventSink>, observed: Arc<RecordedPermissions>) -> Self {
        Self { sink, observed }
    }
}

impl EventSink for RecordingEvents {
    fn emit(&self, note: EventNote) {
        // The recorder writes the Event in this namespace, and patches it to count repetitions.
        let namespace = note.key.namespace.as_deref().unwrap_or("default");
        if check_key(&ObjectKey::namespaced(namespace, &note.key.name)).is_ok() {
            for verb in ["create", "patch"] {
                self.observed
                    .note(&Need::resource(verb, "", "events", Some(namespace)), None);
            }
        }
        self.sink.emit(note);
    }
}

#[cfg(test)]
mod tests {
    use operetta_core::{
        gate::{
            operation::{
                Get, List, ListOptions, Operation, PatchBody, Read, Write, WriteAction,
                WriteOptions,
            },
            raw_request::{RawRequest, Target},
        },
        object::kind::GroupVersionKind,
    };

    use super::*;

    fn resource(api_version: &str, plural: &str, namespaced: bool) -> ApiResource {
        let kind = GroupVersionKind::new(api_version, "Kind");
        ApiResource {
            kind,
            plural: plural.to_owned(),
            namespaced,
            subresources: vec![],
            watchable: true,
            former_plural: None,
        }
    }

    fn shown((need, name): &RequiredPermission) -> String {
        let Need {
            group,
            resource,
            verb,
            namespace,
            cached,
            ..
        } = need;
        let name = name.as_deref().unwrap_or("-");
        let cached = if *cached { " cached" } else { "" };
        format!(
            "{verb} {resource}.{group} {} {name}{cached}",
            namespace.as_deref().unwrap_or("*")
        )
    }

    fn raw(method: &str, url: &str, cached: bool) -> String {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let request = RawRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            ..RawRequest::default()
        };
        let target = request.target().expect(url);
        let Target::Resource(path) = &target else {
            panic!("{url} is no resource")
        };
        let resource = resource(&path.api_version, &path.plural, path.plural != "nodes");
        shown(&of_call(
            &resource,
            &Call::of_raw(&request, &target),
            cached,
        ))
    }

    #[test]
    fn raw_request_needs_permission_of_request_info() {
        for (method, url, cached, wanted) in [
            ("GET", "/api/v1/namespaces/n/pods", false, "list pods. n -"),
            ("GET", "/api/v1/pods", false, "list pods. * -"),
            ("GET", "/api/v1/pods", true, "list pods. * - cached"),
            ("GET", "/api/v1/namespaces/n/pods", true, "list pods. n -"),
            ("GET", "/api/v1/nodes", true, "list nodes. * -"),
            (
                "GET",
                "/api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Dp",
                false,
                "list pods. n p",
            ),
            ("GET", "/api/v1/namespaces/n/pods/p", false, "get pods. n p"),
            (
                "GET",
                "/api/v1/namespaces/n/pods/p/log",
                false,
                "get pods/log. n p",
            ),
            (
                "POST",
                "/api/v1/namespaces/n/pods/p/eviction",
                false,
                "create pods/eviction. n -",
            ),
            (
                "POST",
                "/apis/apps/v1/namespaces/n/deployments",
                false,
                "create deployments.apps n -",
            ),
            (
                "PUT",
                "/apis/apps/v1/namespaces/n/deployments/d/status",
                false,
                "update deployments/status.apps n d",
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/n/deployments/d",
                false,
                "patch deployments.apps n d",
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/n/deployments/d",
                false,
                "delete deployments.apps n d",
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/n/deployments",
                false,
                "deletecollection deployments.apps n -",
            ),
        ] {
            assert_eq!(raw(method, url, cached), wanted, "{method} {url}");
        }
    }

    #[test]
    fn operation_needs_permission_of_request_info() {
        let deployments = resource("apps/v1", "deployments", true);
        let kind = &deployments.kind;
        let of_operation = |operation: &dyn Operation| {
            let call = Call::of(operation);
            of_call(&deployments, &call, call.is_cached)
        };
        let list = |namespace: Option<&str>, fields: &str, read: Read| {
            let fields = Some(fields.to_owned());
            let options = ListOptions {
                fields,
                ..ListOptions::all(namespace.map(str::to_owned), read)
            };
            of_operation(&List {
                kind: kind.clone(),
                options,
            })
        };
        let key = ObjectKey::namespaced("n", "d");
        let patch = |subresource: Option<&str>| {
            let action = WriteAction::Patch {
                key: key.clone(),
                subresource: subresource.map(str::to_owned),
                body: PatchBody::Merge("{}".to_owned()),
                force: false,
            };
            of_operation(&Write {
                kind: kind.clone(),
                action,
                options: WriteOptions::default(),
            })
        };
        let get = Get {
            kind: kind.clone(),
            key: key.clone(),
            read: Read::Cached,
        };
        for (call, wanted) in [
            (of_operation(&get), "get deployments.apps n d"),
            (
                list(None, "", Read::Cached),
                "list deployments.apps * - cached",
            ),
            (list(None, "", Read::Live), "list deployments.apps * -"),
            (
                list(Some("n"), "metadata.name=d", Read::Cached),
                "list deployments.apps n d",
            ),
            (patch(Some("scale")), "patch deployments/scale.apps n d"),
            (patch(Some("")), "patch deployments.apps n d"),
        ] {
            assert_eq!(shown(&call), wanted);
        }
        let watch: Vec<String> = of_watch(&deployments, None, "").iter().map(shown).collect();
        assert_eq!(
            watch,
            [
                "list deployments.apps * - cached",
                "watch deployments.apps * - cached"
            ]
        );
        let watch = of_watch(&deployments, Some("n"), "metadata.name=d");
        assert_eq!(shown(&watch[1]), "watch deployments.apps n d");
    }
}
