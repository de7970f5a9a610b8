//! The `spec.digest` of a drop-in's Plugin, which an annotation of the ConfigMap sets, or somebody else.
//!
//! Whoever may update a ConfigMap may change its annotation, too. So the annotation never replaces a digest that somebody set
//! on the Plugin. Kubernetes records who set it in `metadata.managedFields`.

use operetta_api::annotations::COMPONENT_DIGEST;
use operetta_core::object::Object;
use serde::Deserialize;
use serde_json::Value;

use crate::plugin::crd::Plugin;

/// A field manager's entry in `metadata.managedFields`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Managed {
    manager: String,
    fields_v1: Value,
}

/// Returns the field manager, other than `own`, that has set `spec.digest`. The Plugin must have been read with its managed
/// fields.
pub fn foreign_manager(plugin: &Object, own: &str) -> Option<String> {
    let managed = plugin.at(".metadata.managedFields").and_then(|text| serde_json::from_str::<Vec<Managed>>(text).ok());
    let others = managed.unwrap_or_default().into_iter().filter(|entry| entry.manager != own);
    let mut pinning = others.filter(|entry| entry.fields_v1.pointer("/f:spec/f:digest").is_some());
    pinning.next().map(|entry| entry.manager)
}

/// Reports whether the drop-in controller has still to apply the annotation of a Plugin's ConfigMap. A digest without an
/// annotation is somebody else's, and not waited for.
pub fn is_pending(plugin: &Plugin, config_map: &Object) -> bool {
    let owners = plugin.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| owner.controller == Some(true) && owner.kind == "ConfigMap");
    let annotation = config_map.along(["metadata", "annotations", COMPONENT_DIGEST]);
    let annotation = annotation.and_then(|text| serde_json::from_str::<String>(text).ok());
    owners.any(|owner| owner.uid == config_map.uid()) && annotation.is_some() && annotation != plugin.spec.digest
}

#[cfg(test)]
mod tests {
    use operetta_core::object::{ManagedFields, kind::GroupVersionKind};
    use serde_json::json;

    use super::*;

    #[test]
    fn digest_belongs_to_the_manager_that_set_it() {
        let digest = json!({"f:spec": {"f:digest": {}}});
        let other = json!({"f:spec": {"f:suspend": {}}});
        for (managed, expected) in [
            (json!([]), None),
            (json!([{"manager": "own", "fieldsV1": digest}, {"manager": "kubectl", "fieldsV1": other}]), None),
            (
                json!([{"manager": "own", "fieldsV1": digest}, {"manager": "kubectl", "fieldsV1": digest}]),
                Some("kubectl"),
            ),
        ] {
            let text = json!({
                "apiVersion": "operetta.dev/v1alpha1", "kind": "Plugin",
                "metadata": {"name": "a", "namespace": "n", "managedFields": managed},
            });
            let kind = GroupVersionKind::new("operetta.dev/v1alpha1", "Plugin");
            let plugin = Object::from_json(&text.to_string(), &kind, ManagedFields::Keep).expect("an object");
            assert_eq!(foreign_manager(&plugin, "own").as_deref(), expected, "{text}");
        }
    }
}
