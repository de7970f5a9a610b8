//! The definition of `metadata`, as far as merging needs it.

use serde_json::{Value, json};

use super::openapi::Definitions;

/// The definition of `metadata`.
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

pub(super) fn object_meta_definitions() -> Definitions {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let time = json!({"type": "string", "format": "date-time"});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});

    let owner = json!({
        "type": "object", "x-kubernetes-map-type": "atomic",
        "properties": {
            "apiVersion": text, "kind": text, "name": text, "uid": text,
            "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
        },
    });

    let managed_fields = json!({
        "type": "object",
        "properties": {
            "manager": text, "operation": text, "apiVersion": text, "time": time, "fieldsType": text,
            "fieldsV1": {"type": "object"}, "subresource": text,
        },
    });

    let object_meta = json!({
        "type": "object",
        "properties": {
            "name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text,
            "resourceVersion": text, "generation": number, "creationTimestamp": time, "deletionTimestamp": time,
            "deletionGracePeriodSeconds": number, "labels": texts, "annotations": texts,
            "ownerReferences": {
                "type": "array", "items": owner,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            },
            "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "managedFields": {"type": "array", "items": managed_fields, "x-kubernetes-list-type": "atomic"},
        },
    });

    [(OBJECT_META.to_owned(), object_meta)]
        .into_iter()
        .collect::<serde_json::Map<String, Value>>()
}
