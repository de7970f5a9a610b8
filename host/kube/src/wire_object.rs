//! Objects as kube's `watcher` carries them: parsed once into the host's own form, never into a tree.

use std::borrow::Cow;

use kube::{
    Resource,
    core::{DynamicResourceScope, ObjectMeta},
};
use operetta_core::object::{ManagedFields, Object};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::value::RawValue;

use crate::discovery::ApiResource;

/// An object of any kind; with `METADATA`, requests ask for PartialObjectMetadata.
#[derive(Clone, Debug)]
pub struct WireObject<const METADATA: bool> {
    /// Only what `watcher` looks at: the name and the resourceVersion.
    meta: ObjectMeta,
    object: Object,
}

impl<const METADATA: bool> WireObject<METADATA> {
    /// The object, without managedFields; without apiVersion and kind if it came in a list.
    pub fn into_object(self) -> Object {
        self.object
    }
}

impl<'de, const METADATA: bool> Deserialize<'de> for WireObject<METADATA> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let object = Object::untyped(text.get(), ManagedFields::Drop).map_err(D::Error::custom)?;
        let meta = ObjectMeta {
            name: Some(object.header.key.name.clone()),
            resource_version: Some(object.header.resource_version.clone()),
            ..ObjectMeta::default()
        };
        Ok(Self { meta, object })
    }
}

impl<const METADATA: bool> Resource for WireObject<METADATA> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.group().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.version().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn metadata_api() -> bool {
        METADATA
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::WatchEvent;

    #[test]
    fn a_watch_line_becomes_an_object_without_managed_fields() {
        let line = r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7","managedFields":[]}}}"#;
        let event: WatchEvent<WireObject<false>> = serde_json::from_str(line).expect("parses");
        let WatchEvent::Added(object) = event else { panic!("not an addition") };
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        assert_eq!(
            object.into_object().json(),
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"}}"#
        );
    }
}
