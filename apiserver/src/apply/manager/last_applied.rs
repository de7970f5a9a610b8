//! The annotation of client-side apply.
//!
//! `kubectl apply` without `--server-side` keeps its last configuration in an annotation. When the
//! manager `kubectl` applies, the fields in that configuration do not conflict, and the annotation
//! is kept up to date. See
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/lastappliedmanager.go>.

use serde_json::{Map, Value, json};

use super::metadata::annotations;
use crate::{
    apimachinery::json,
    apply::{merge::Conflict, typed::TypedValue, value::json_text},
};

/// The annotation of client-side apply.
pub const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager that takes over from client-side apply.
pub(super) const KUBECTL: &str = "kubectl";

/// The most bytes that an object's annotations may take, keys and values together.
const MAX_ANNOTATIONS_SIZE: usize = 256 * 1024;

/// The configuration in an object's annotation, if it is of this version.
pub(super) fn last_applied(object: &Value, api_version: &str) -> Option<Value> {
    let text = annotations(object)?
        .get(LAST_APPLIED_ANNOTATION)?
        .as_str()
        .filter(|text| !text.is_empty())?;
    let applied = json::read(text.as_bytes()).ok()?;
    (applied["apiVersion"] == api_version).then_some(applied)
}

/// The conflicts that the last client-side apply does not explain, or `None` if it cannot be
/// compared.
///
/// It explains a field that it set to the live object's value.
pub(super) fn unexplained_conflicts(
    live: &TypedValue,
    last_applied: &TypedValue,
    conflicts: &[Conflict],
) -> Option<Vec<Conflict>> {
    let comparison = last_applied.compare(live).ok()?;

    let fields = last_applied.field_set().ok()?;
    let explained = fields
        .difference(&comparison.modified)
        .difference(&comparison.added)
        .difference(&comparison.removed);

    let unexplained = conflicts
        .iter()
        .filter(|conflict| !explained.contains(&conflict.path.0));
    Some(unexplained.cloned().collect())
}

/// Writes the applied configuration into the annotation, if the object has one.
pub(super) fn update_annotation(object: &mut Value, applied: &Value) {
    let has_annotation = annotations(object)
        .and_then(|annotations| annotations.get(LAST_APPLIED_ANNOTATION)?.as_str())
        .is_some_and(|text| !text.is_empty());
    if !has_annotation {
        return;
    }

    let mut applied = applied.clone();
    if let Some(Value::Object(annotations)) = applied.pointer_mut("/metadata/annotations") {
        annotations.remove(LAST_APPLIED_ANNOTATION);
    }

    let text = format!("{}\n", json_text(&applied));
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        annotations.insert(LAST_APPLIED_ANNOTATION.into(), json!(text));
        if size(annotations) > MAX_ANNOTATIONS_SIZE {
            annotations.remove(LAST_APPLIED_ANNOTATION);
        }
    }
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum()
}
