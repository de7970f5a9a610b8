//! Names that become parts of a request's path. Names that pass the gate's check lead to the object that they name, as the
//! path is read again, and to no other.
//!
//! The input: an apiVersion, a kind, a namespace and a name, each on a line.

use operetta_core::{
    gate::{
        path::{check_key, check_kind},
        raw_request::{RawRequest, Target},
    },
    object::{ObjectKey, kind::GroupVersionKind},
};

use crate::cut;

/// See the module.
pub fn path(data: &[u8]) {
    if std::str::from_utf8(data).is_err() {
        return;
    }
    let (api_version, rest) = cut(data, b'\n');
    let (kind, rest) = cut(rest, b'\n');
    let (namespace, name) = cut(rest, b'\n');
    let part = |bytes| std::str::from_utf8(bytes).expect("a part between line ends");
    let (api_version, namespace, name) = (part(api_version), part(namespace), part(name));
    let key = ObjectKey::namespaced(namespace, name);
    if check_kind(&GroupVersionKind::new(api_version, part(kind))).is_err() || check_key(&key).is_err() {
        return;
    }
    let root = if api_version.contains('/') { "apis" } else { "api" };
    let path = format!("/{root}/{api_version}/namespaces/{namespace}/configmaps/{name}");
    let request = RawRequest { method: "GET".to_owned(), path: path.clone(), ..RawRequest::default() };
    let target = request.target().unwrap_or_else(|error| panic!("{path}: {error}"));
    let Target::Resource(resource) = target else { panic!("{path} is no resource: {target:?}") };
    assert_eq!(resource.api_version, api_version, "{path}");
    assert_eq!(resource.plural, "configmaps", "{path}");
    assert_eq!(resource.key(), Some(key), "{path}");
    assert_eq!(resource.subresource, None, "{path}");
}
