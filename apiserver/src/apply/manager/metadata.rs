//! The parts of `metadata` that field management reads and writes.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::apply::fieldpath::{FieldPath, FieldSet};

/// Fields that nobody manages. Upstream is `stripSet` in
/// <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/stripmeta.go>.
pub(super) static UNMANAGED: LazyLock<FieldSet> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];

    let top = ["apiVersion", "kind", "metadata"].map(|field| FieldPath::fields([field]));

    top.into_iter()
        .chain(metadata.map(|field| FieldPath::fields(["metadata", field])))
        .collect()
});

/// The entries of `managedFields`, or `None` if it is not a list.
pub(super) fn managed_fields(object: &Value) -> Option<&Vec<Value>> {
    object["metadata"]["managedFields"].as_array()
}

/// Replaces the entries of `managedFields`, and removes the field if there are none.
pub(super) fn set_managed_fields(object: &mut Value, entries: Vec<Value>) {
    if entries.is_empty() {
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        return;
    }

    let Value::Object(object) = object else {
        return;
    };

    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata {
        metadata.insert("managedFields".into(), Value::Array(entries));
    }
}

/// A copy of an object without `managedFields`, which nobody manages.
pub(super) fn without_managed_fields(object: &Value) -> Value {
    let Value::Object(fields) = object else {
        return object.clone();
    };

    let fields = fields.iter().map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let metadata = metadata.iter().filter(|(name, _)| *name != "managedFields");
            (
                name.clone(),
                metadata
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
            )
        }
        _ => (name.clone(), value.clone()),
    });

    Value::Object(fields.collect())
}

pub(super) fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object["metadata"]["annotations"].as_object()
}

/// `namespace/name; group/version, Kind=kind`, for messages.
pub(super) fn describe(object: &Value) -> String {
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };

    format!(
        "{}/{}; {}",
        text("namespace"),
        text("name"),
        group_version_kind(object)
    )
}

/// `group/version, Kind=kind`. The core group is empty.
pub(super) fn group_version_kind(object: &Value) -> String {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}
