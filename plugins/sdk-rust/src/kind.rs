//! The traits of kinds and objects, over which the rest of the crate is generic.
//!
//! A type that implements [`Kind`] stands for one kind, as every k8s-openapi type does. An
//! [`Object`] is a value that returns its kind: a [`Kind`], or a
//! [`DynamicObject`](crate::DynamicObject).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{GroupVersionKind, ObjectKey};

/// A type that stands for one kind.
///
/// Every k8s-openapi type with metadata is one. For a custom resource, derive
/// [`Resource`](crate::Resource) on its spec; for a struct of your own, [`kind!`](crate::kind!)
/// writes this implementation in one line.
pub trait Kind: Serialize + DeserializeOwned {
    /// `group/version`, or the version alone for the core group.
    const API_VERSION: &'static str;
    /// The kind.
    const KIND: &'static str;

    /// Returns the object's metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// Returns the object's metadata, to change it.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Returns the kind with its group and version.
    fn gvk() -> GroupVersionKind {
        GroupVersionKind::new(Self::API_VERSION, Self::KIND)
    }
}

/// Returns the metadata of a new object: its name and namespace, and nothing else.
///
/// ```
/// # use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
/// # use operetta_sdk::object_meta;
/// let map = ConfigMap { metadata: object_meta(("shop", "contact")), ..ConfigMap::default() };
/// ```
pub fn object_meta(key: impl Into<ObjectKey>) -> ObjectMeta {
    let ObjectKey { namespace, name } = key.into();
    ObjectMeta {
        name: Some(name),
        namespace,
        ..ObjectMeta::default()
    }
}

impl<T> Kind for T
where
    T: k8s_openapi::Resource
        + k8s_openapi::Metadata<Ty = ObjectMeta>
        + Serialize
        + DeserializeOwned,
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

/// Implements [`Kind`] for a struct of your own: a serde struct with a field `metadata:
/// ObjectMeta`.
///
/// [`Resource`](crate::Resource) writes struct and implementation; this macro is for structs of
/// another shape.
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
/// The struct needs no fields for `apiVersion` and `kind`: the SDK adds them to every object that
/// it sends.
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

/// An object that returns its kind: every [`Kind`], and [`DynamicObject`](crate::DynamicObject).
pub trait Object: Serialize + DeserializeOwned {
    /// Returns the object's kind.
    fn group_version_kind(&self) -> GroupVersionKind;
    /// Returns the object's metadata.
    fn meta(&self) -> &ObjectMeta;
    /// Returns the object's metadata, to change it.
    fn meta_mut(&mut self) -> &mut ObjectMeta;

    /// Returns `metadata.name`; empty if there is none.
    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    /// Returns `metadata.namespace`.
    fn namespace(&self) -> Option<&str> {
        self.meta()
            .namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty())
    }

    /// Returns the object's key.
    fn key(&self) -> ObjectKey {
        ObjectKey {
            namespace: self.namespace().map(str::to_owned),
            name: self.name().to_owned(),
        }
    }

    /// Returns `metadata.uid`; `None` for an object that was not read from the API server.
    fn uid(&self) -> Option<&str> {
        self.meta().uid.as_deref().filter(|uid| !uid.is_empty())
    }

    /// Returns `metadata.resourceVersion`.
    fn resource_version(&self) -> Option<&str> {
        self.meta()
            .resource_version
            .as_deref()
            .filter(|version| !version.is_empty())
    }

    /// Returns the value of a label.
    fn label(&self, name: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(name).map(String::as_str)
    }

    /// Returns the value of an annotation.
    fn annotation(&self, name: &str) -> Option<&str> {
        self.meta()
            .annotations
            .as_ref()?
            .get(name)
            .map(String::as_str)
    }

    /// Returns the labels, to change them.
    fn labels_mut(&mut self) -> &mut BTreeMap<String, String> {
        self.meta_mut().labels.get_or_insert_default()
    }

    /// Returns the annotations, to change them.
    fn annotations_mut(&mut self) -> &mut BTreeMap<String, String> {
        self.meta_mut().annotations.get_or_insert_default()
    }

    /// Reports whether the object has a deletionTimestamp: it is deleted as soon as its finalizers
    /// are removed.
    fn is_being_deleted(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }
}

impl<T: Kind> Object for T {
    fn group_version_kind(&self) -> GroupVersionKind {
        T::gvk()
    }

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.metadata_mut()
    }
}
