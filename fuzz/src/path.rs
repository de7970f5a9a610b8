//! Names that become segments of a request's path. A path made of names that pass the gate's check,
//! when it is parsed again, addresses the named object and no other.
//!
//! The input: an apiVersion, a kind, a namespace and a name, one on each line.

use operetta_core::{
    gate::{
        path::{check_key, check_kind, encoded},
        raw_request::{RawRequest, Target},
    },
    object::{ObjectKey, kind::GroupVersionKind},
};

use crate::cut;

/// Checks the module's invariants on one input.
pub fn path(data: &[u8]) {
    if std::str::from_utf8(data).is_err() {
        return;
    }
    let (api_version, rest) = cut(data, b'\n');
    let (kind, rest) = cut(rest, b'\n');
    let (namespace, name) = cut(rest, b'\n');
    let part = |bytes| std::str::from_utf8(bytes).expect("a line of UTF-8");
    let (api_version, namespace, name) = (part(api_version), part(namespace), part(name));
    let key = ObjectKey::namespaced(namespace, name);
    if check_kind(&GroupVersionKind::new(api_version, part(kind))).is_err()
        || check_key(&key).is_err()
    {
        return;
    }
    let root = if api_version.contains('/') {
        "apis"
    } else {
        "api"
    };
    let segment = encoded(name);
    let path = format!("/{root}/{api_version}/namespaces/{namespace}/configmaps/{segment}");
    let request = RawRequest {
        method: "GET".to_owned(),
        path: path.clone(),
        ..RawRequest::default()
    };
    let target = request
        .target()
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    let Target::Resource(resource) = target else {
        panic!("{path} is not a resource: {target:?}")
    };
    assert_eq!(resource.api_version, api_version, "{path}");
    assert_eq!(resource.plural, "configmaps", "{path}");
    assert_eq!(resource.key(), Some(key), "{path}");
    assert_eq!(resource.subresource, None, "{path}");
}
