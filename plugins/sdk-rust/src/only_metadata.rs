//! Objects reduced to their metadata (controller-runtime's `builder.OnlyMetadata`).

use std::fmt;
use std::marker::PhantomData;

use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Kind, ObjectMeta};

/// The metadata of a `T`; reads skip all other fields. It is smaller and faster than the whole
/// object where names, labels, annotations and owners are enough.
///
/// ```
/// # use operetta_sdk::{Action, Context, Error, Object, OnlyMetadata};
/// # use operetta_sdk::k8s_openapi::api::core::v1::Pod;
/// fn reconcile(ctx: &Context, pod: OnlyMetadata<Pod>) -> Result<Action, Error> {
///     operetta_sdk::tracing::info!(team = pod.label("team"), "{}", pod.name());
///     Ok(Action::done())
/// }
/// ```
///
/// It can be patched and deleted, own other objects and have Events. It cannot be created or
/// updated: that would drop the other fields.
pub struct OnlyMetadata<T> {
    /// The object's metadata.
    pub metadata: ObjectMeta,
    kind: PhantomData<fn() -> T>,
}

impl<T: Kind> Kind for OnlyMetadata<T> {
    const API_VERSION: &'static str = T::API_VERSION;
    const KIND: &'static str = T::KIND;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<'de, T> Deserialize<'de> for OnlyMetadata<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Part {
            metadata: ObjectMeta,
        }

        let Part { metadata } = Part::deserialize(deserializer)?;
        Ok(Self {
            metadata,
            kind: PhantomData,
        })
    }
}

/// Always fails: only whole objects are sent.
impl<T> Serialize for OnlyMetadata<T> {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom(
            "only the metadata was read: patch the object, or read all of it",
        ))
    }
}

impl<T> Clone for OnlyMetadata<T> {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            kind: PhantomData,
        }
    }
}

impl<T> fmt::Debug for OnlyMetadata<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.metadata.fmt(f)
    }
}
