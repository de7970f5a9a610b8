//! Validation of an object's metadata.

use serde_json::Value;

use super::{
    super::{object::items, resources::resource_of_kind},
    ErrorList,
};
use crate::apimachinery::{
    field::Path,
    metadata::{self, Metadata},
    names::{self, ValidateName},
};

/// Validates the metadata of a new object of a kind.
pub(super) fn validate(api_version: &str, kind: &str, object: &Value, errors: &mut ErrorList) {
    let namespaced =
        resource_of_kind(api_version, kind).is_some_and(|resource| resource.namespaced);
    errors.extend(metadata::validate(
        Metadata::of(object),
        namespaced,
        name_format(api_version, kind),
        &Path::new("metadata"),
    ));

    qualified_finalizers(api_version, kind, object, errors);
}

/// Validates that finalizers have a domain, which core's validation demands of its kinds.
pub(super) fn qualified_finalizers(
    api_version: &str,
    kind: &str,
    object: &Value,
    errors: &mut ErrorList,
) {
    if !is_validated_by_core(api_version, kind) {
        return;
    }

    for (index, finalizer) in items(object, "metadata.finalizers")
        .iter()
        .filter_map(Value::as_str)
        .enumerate()
    {
        let path = format!("metadata.finalizers[{index}]");
        finalizer_name(finalizer, &path, errors);
    }
}

/// Validates a finalizer: a standard one, or a name with a domain.
pub(super) fn finalizer_name(finalizer: &str, path: &str, errors: &mut ErrorList) {
    let standard = ["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer);
    if !finalizer.contains('/') && !standard {
        errors.invalid(
            path,
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}

/// Reports whether core's validation checks a kind's metadata.
fn is_validated_by_core(api_version: &str, kind: &str) -> bool {
    let group = api_version.split('/').next().unwrap_or_default();
    let others = [
        "coordination.k8s.io",
        "events.k8s.io",
        "policy",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
    ];

    kind != "Event" && !others.contains(&group)
}

/// Returns the check of the names of a kind.
fn name_format(api_version: &str, kind: &str) -> ValidateName {
    match (api_version, kind) {
        ("v1", "Service" | "Namespace") | ("apps/v1", "StatefulSet") => names::name_is_dns_label,
        ("rbac.authorization.k8s.io/v1", _)
        | ("policy/v1", "PodDisruptionBudget")
        | ("v1", "Event") => names::name_is_path_segment,
        _ => names::name_is_dns_subdomain,
    }
}
