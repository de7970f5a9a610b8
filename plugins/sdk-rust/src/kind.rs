//! Kinds, keys and objects: what the rest of the crate is generic over.
//!
//! [`Kind`] is a type that stands for one kind (every k8s-openapi type is one; [`kind!`](crate::kind!) makes your own
//! one). [`Object`] is any object that can tell its kind, so also a [`DynamicObject`](crate::DynamicObject).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind as clients name it, e.g. `apps/v1` `Deployment`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// `group/version`, or the version alone for the core group.
    pub api_version: Cow<'static, str>,
    /// The kind.
    pub kind: Cow<'static, str>,
}

impl GroupVersionKind {
    /// Names a kind.
    pub fn new(api_version: impl Into<Cow<'static, str>>, kind: impl Into<Cow<'static, str>>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }

    /// The kind that a type stands for.
    pub fn of<T: Kind>() -> Self {
        Self { api_version: Cow::Borrowed(T::API_VERSION), kind: Cow::Borrowed(T::KIND) }
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        group(&self.api_version)
    }
}

/// The group of an `apiVersion`.
pub(crate) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version, self.kind)
    }
}

/// The name of one object of a kind (apimachinery's `types.NamespacedName`). Written as `NAMESPACE/NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// `None` for objects of cluster-scoped kinds.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// The key of an object of a cluster-scoped kind.
    pub fn cluster_scoped(name: impl Into<String>) -> Self {
        Self { namespace: None, name: name.into() }
    }

    /// The key of another name in the same namespace: where the children of an object live.
    pub fn beside(&self, name: impl Into<String>) -> Self {
        Self { namespace: self.namespace.clone(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

impl From<&Self> for ObjectKey {
    fn from(key: &Self) -> Self {
        key.clone()
    }
}

impl<Namespace: Into<String>, Name: Into<String>> From<(Namespace, Name)> for ObjectKey {
    fn from((namespace, name): (Namespace, Name)) -> Self {
        Self::namespaced(namespace, name)
    }
}

/// A type that stands for one kind.
///
/// Every k8s-openapi type with metadata is one. For a type of your own, [`kind!`](crate::kind!) writes this
/// implementation in one line.
pub trait Kind: Serialize + DeserializeOwned {
    /// `group/version`, or the version alone for the core group.
    const API_VERSION: &'static str;
    /// The kind.
    const KIND: &'static str;

    /// The object's metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// The object's metadata, to change it.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
}

impl<T> Kind for T
where
    T: k8s_openapi::Resource + k8s_openapi::Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned,
{
    const API_VERSION: &'static str = <T as k8s_openapi::Resource>::API_VERSION;
    const KIND: &'static str = <T as k8s_openapi::Resource>::KIND;

    fn metadata(&self) -> &ObjectMeta {
        k8s_openapi::Metadata::metadata(self)
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        k8s_openapi::Metadata::metadata_mut(self)
    }
}

/// Implements [`Kind`] for a type of yours: a serde struct with a field `metadata: ObjectMeta`.
///
/// ```
/// use operetta_sdk::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
///
/// #[derive(Clone, serde::Serialize, serde::Deserialize)]
/// struct Foo {
///     metadata: ObjectMeta,
///     spec: FooSpec,
/// }
///
/// #[derive(Clone, serde::Serialize, serde::Deserialize)]
/// struct FooSpec {
///     replicas: i32,
/// }
///
/// operetta_sdk::kind!(Foo, "samplecontroller.k8s.io/v1alpha1", "Foo");
/// ```
///
/// `apiVersion` and `kind` need no fields: they are written with every object that is sent.
#[macro_export]
macro_rules! kind {
    ($type:ty, $api_version:expr, $kind:expr $(,)?) => {
        impl $crate::Kind for $type {
            const API_VERSION: &'static str = $api_version;
            const KIND: &'static str = $kind;

            fn metadata(&self) -> &$crate::ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut $crate::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// Any object that can tell its kind: every [`Kind`], and [`DynamicObject`](crate::DynamicObject).
pub trait Object: Serialize + DeserializeOwned {
    /// The object's kind.
    fn group_version_kind(&self) -> GroupVersionKind;
    /// The object's metadata.
    fn meta(&self) -> &ObjectMeta;
    /// The object's metadata, to change it.
    fn meta_mut(&mut self) -> &mut ObjectMeta;

    /// `metadata.name`; empty if there is none.
    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    /// `metadata.namespace`.
    fn namespace(&self) -> Option<&str> {
        self.meta().namespace.as_deref().filter(|namespace| !namespace.is_empty())
    }

    /// The object's key.
    fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace().map(str::to_owned), name: self.name().to_owned() }
    }

    /// `metadata.uid`; `None` for an object that was not read from the API server.
    fn uid(&self) -> Option<&str> {
        self.meta().uid.as_deref().filter(|uid| !uid.is_empty())
    }

    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> Option<&str> {
        self.meta().resource_version.as_deref().filter(|version| !version.is_empty())
    }

    /// The value of a label.
    fn label(&self, name: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(name).map(String::as_str)
    }

    /// The value of an annotation.
    fn annotation(&self, name: &str) -> Option<&str> {
        self.meta().annotations.as_ref()?.get(name).map(String::as_str)
    }

    /// The labels, to change them.
    fn labels_mut(&mut self) -> &mut BTreeMap<String, String> {
        self.meta_mut().labels.get_or_insert_default()
    }

    /// The annotations, to change them.
    fn annotations_mut(&mut self) -> &mut BTreeMap<String, String> {
        self.meta_mut().annotations.get_or_insert_default()
    }

    /// Whether the object has a deletionTimestamp: it goes as soon as its finalizers are gone.
    fn is_being_deleted(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }
}

impl<T: Kind> Object for T {
    fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::of::<T>()
    }

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.metadata_mut()
    }
}
