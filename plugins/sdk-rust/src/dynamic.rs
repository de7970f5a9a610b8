//! Objects of kinds without a Rust type.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::options::{DeleteOptions, ListOptions, Page, Patch, Read};
use crate::{ApiError, Context, GroupVersionKind, Object, ObjectKey, object_meta};

/// An object of a kind without a Rust type. All of its fields survive a read and a write.
///
/// ```
/// # use operetta_sdk::{DynamicObject, GroupVersionKind};
/// # use serde_json::json;
/// let kind = GroupVersionKind::new("example.com/v1", "Widget");
/// let widget = DynamicObject::new(&kind, ("shop", "a")).with("spec", json!({"size": 3}));
/// assert_eq!(widget.pointer("/spec/size"), Some(&json!(3)));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DynamicObject {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The object's `metadata`.
    pub metadata: ObjectMeta,
    /// All other fields by name: `spec`, `status`, `data`, …
    pub data: Map<String, Value>,
}

impl DynamicObject {
    /// Returns an object of a kind with a key and no other fields.
    pub fn new(kind: &GroupVersionKind, key: impl Into<ObjectKey>) -> Self {
        Self {
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
            metadata: object_meta(key),
            data: Map::new(),
        }
    }

    /// Sets a field, e.g. `spec`.
    #[must_use]
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.data.insert(field.to_owned(), value);
        self
    }

    /// Returns the value at a JSON pointer outside the metadata, e.g. `/spec/replicas`.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        let (field, rest) = split(pointer)?;
        self.data.get(field)?.pointer(rest)
    }

    /// Returns the value at a JSON pointer outside the metadata, to change it.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Value> {
        let (field, rest) = split(pointer)?;
        self.data.get_mut(field)?.pointer_mut(rest)
    }
}

fn split(pointer: &str) -> Option<(&str, &str)> {
    let path = pointer.strip_prefix('/')?;
    Some(path.find('/').map_or((path, ""), |at| path.split_at(at)))
}

impl Object for DynamicObject {
    fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(self.api_version.clone(), self.kind.clone())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Serialize for DynamicObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(Some(3 + self.data.len()))?;

        map.serialize_entry("apiVersion", &self.api_version)?;
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("metadata", &self.metadata)?;
        for (name, value) in &self.data {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for DynamicObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut data = Map::deserialize(deserializer)?;
        let mut text = |name| match data.remove(name) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(D::Error::custom(format_args!("{name} is not a string"))),
            None => Ok(String::new()),
        };

        let api_version = text("apiVersion")?;
        let kind = text("kind")?;
        let metadata = match data.remove("metadata") {
            Some(metadata) => serde_json::from_value(metadata).map_err(D::Error::custom)?,
            None => ObjectMeta::default(),
        };

        Ok(Self {
            api_version,
            kind,
            metadata,
            data,
        })
    }
}

/// Reads, patches and deletions of a kind without a Rust type; [`Context::dynamic`] returns them.
/// To create or update a [`DynamicObject`], use the functions of the [`Context`].
#[derive(Clone, Debug)]
pub struct DynamicApi<'a> {
    pub(crate) context: &'a Context,
    pub(crate) kind: GroupVersionKind,
}

impl DynamicApi<'_> {
    /// Reads an object from the cache.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: not-found if the object does not exist.
    pub fn get(&self, key: impl Into<ObjectKey>) -> Result<DynamicObject, ApiError> {
        self.context.read(&self.kind, &key.into(), Read::Cached)
    }

    /// Reads an object from the API server.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: not-found if the object does not exist.
    pub fn get_live(&self, key: impl Into<ObjectKey>) -> Result<DynamicObject, ApiError> {
        self.context.read(&self.kind, &key.into(), Read::Live)
    }

    /// Reads an object from the cache; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an [`ApiError`], except not-found.
    pub fn get_opt(&self, key: impl Into<ObjectKey>) -> Result<Option<DynamicObject>, ApiError> {
        crate::context::found(self.get(key))
    }

    /// Reads every page of a list.
    ///
    /// # Errors
    /// Returns an [`ApiError`].
    pub fn list(&self, options: ListOptions) -> Result<Vec<DynamicObject>, ApiError> {
        self.context.list_all(&self.kind, options)
    }

    /// Reads one page of a list.
    ///
    /// # Errors
    /// Returns an [`ApiError`].
    pub fn list_page(&self, options: &ListOptions) -> Result<Page<DynamicObject>, ApiError> {
        self.context.read_page(&self.kind, options)
    }

    /// Patches an object and returns it as stored.
    ///
    /// # Errors
    /// Returns an [`ApiError`].
    pub fn patch(
        &self,
        key: impl Into<ObjectKey>,
        patch: Patch,
    ) -> Result<DynamicObject, ApiError> {
        self.context.send_patch(&self.kind, &key.into(), patch)
    }

    /// Deletes the object of this key.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: not-found, and conflict if a precondition does not hold.
    pub fn delete(
        &self,
        key: impl Into<ObjectKey>,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        self.context.send_delete(&self.kind, &key.into(), options)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_survive_read_and_write() {
        let given = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "spec": {"n": [1]}, "more": true});
        let object: DynamicObject = serde_json::from_value(given.clone()).expect("reads");
        assert_eq!(object.pointer("/spec/n/0"), Some(&json!(1)));
        assert_eq!(object.pointer("/more"), Some(&json!(true)));
        assert_eq!(object.pointer("/none/n"), None);
        assert_eq!(serde_json::to_value(&object).expect("writes"), given);
    }
}
