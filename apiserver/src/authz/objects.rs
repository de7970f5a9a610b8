//! Access to the objects of the store.

use std::sync::Arc;

use serde_json::Value;

/// Objects by group, resource, namespace and name. The namespace is empty for cluster-scoped
/// objects.
///
/// The objects of a group are the same in all its versions here: the callers read fields that all
/// versions share.
pub trait Objects {
    /// Returns an object, or None if it does not exist.
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>>;

    /// Returns the objects of a resource in a namespace, ordered by name; of all namespaces if
    /// `namespace` is empty.
    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Value>>;
}

/// Returns a string field of an object by its path; empty if it is absent.
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    let mut value = object;
    for key in path {
        value = &value[*key];
    }
    value.as_str().unwrap_or_default()
}

/// Returns a list of strings; empty if it is absent, without the elements that are no strings.
pub(crate) fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}
