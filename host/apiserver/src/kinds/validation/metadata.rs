//! Validation of an object's metadata.

use serde_json::Value;

use super::super::{
    errors::typed_object,
    object::{at, fields, has, int, is_true, items, text},
    resources::resource_of_kind,
};
use super::{errors::Errors, format};

/// The largest size of all annotations in bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// Validates the metadata of a new object of a kind.
pub(super) fn validate(api_version: &str, kind: &str, object: &Value, errors: &mut Errors) {
    let metadata = at(object, "metadata");
    let check = name_format(api_version, kind);
    let generate = text(metadata, "generateName");
    if !generate.is_empty() {
        // A prefix may end with a hyphen, because a suffix follows.
        let masked = generate.strip_suffix('-').map(|rest| format!("{rest}a"));
        errors.invalid_each("metadata.generateName", generate, &check(masked.as_deref().unwrap_or(generate)));
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        errors.required("metadata.name", "name or generateName is required");
    } else {
        errors.invalid_each("metadata.name", name, &check(name));
    }
    let namespaced = resource_of_kind(api_version, kind).is_some_and(|resource| resource.namespaced);
    match (namespaced, text(metadata, "namespace")) {
        (true, "") => errors.required("metadata.namespace", ""),
        (true, namespace) => errors.invalid_each("metadata.namespace", namespace, &format::label(namespace)),
        (false, "") => {}
        (false, _) => errors.forbidden("metadata.namespace", "not allowed on this type"),
    }
    errors.non_negative("metadata.generation", at(metadata, "generation"));
    common(metadata, errors);
    qualified_finalizers(api_version, kind, object, errors);
}

/// Validates the metadata of a changed object of any kind.
pub(super) fn validate_any(object: &Value, errors: &mut Errors) {
    let metadata = at(object, "metadata");
    errors.non_negative("metadata.generation", at(metadata, "generation"));
    common(metadata, errors);
}

/// Validates labels, annotations and owners.
fn described(metadata: &Value, errors: &mut Errors) {
    labels(metadata, "labels", "metadata.labels", errors);
    annotations(metadata, "metadata.annotations", errors);
    owners(items(metadata, "ownerReferences"), errors);
}

/// Validates labels, annotations, owners and finalizers.
fn common(metadata: &Value, errors: &mut Errors) {
    described(metadata, errors);
    let finalizers = items(metadata, "finalizers");
    for finalizer in finalizers.iter().filter_map(Value::as_str) {
        errors.invalid_each("metadata.finalizers", finalizer, &format::qualified_name(finalizer));
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid("metadata.finalizers", finalizers.to_vec(), detail);
    }
}

/// Validates the labels in a field.
pub(crate) fn labels(object: &Value, key: &str, path: &str, errors: &mut Errors) {
    for (key, value) in fields(object, key) {
        errors.invalid_each(path, key, &format::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        errors.invalid_each(path, value, &format::label_value(value));
    }
}

/// Validates annotations; their keys may have upper-case prefixes.
pub(crate) fn annotations(metadata: &Value, path: &str, errors: &mut Errors) {
    let annotations = fields(metadata, "annotations");
    for key in annotations.keys() {
        errors.invalid_each(path, key, &format::qualified_name(&key.to_lowercase()));
    }
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATIONS {
        errors.too_long(path, MAX_ANNOTATIONS);
    }
}

fn owners(references: &[Value], errors: &mut Errors) {
    const PATH: &str = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for reference in references {
        let version = text(reference, "apiVersion");
        if version.split('/').count() > 2 || version.rsplit('/').next().unwrap_or_default().is_empty() {
            errors.invalid("metadata.ownerReferences.apiVersion", version, "version must not be empty");
        }
        for key in ["kind", "name", "uid"] {
            if text(reference, key).is_empty() {
                errors.invalid(&format!("{PATH}.{key}"), "", "must not be empty");
            }
        }
        if (version, text(reference, "kind")) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.invalid(PATH, typed_object("meta/v1.OwnerReference", reference), detail);
        }
        if is_true(reference, "controller") {
            let name = format!("{}/{}", text(reference, "kind"), text(reference, "name"));
            match &controller {
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for \
                            {first} and {name}"
                    );
                    let list = typed_object("[]meta/v1.OwnerReference", &references.into());
                    errors.invalid(PATH, list, &detail);
                }
                None => controller = Some(name),
            }
        }
    }
}

/// Validates that the finalizers of kinds of core have a domain, as their validation demands.
pub(super) fn qualified_finalizers(api_version: &str, kind: &str, object: &Value, errors: &mut Errors) {
    if !is_validated_by_core(api_version, kind) {
        return;
    }
    for (index, finalizer) in items(object, "metadata.finalizers").iter().filter_map(Value::as_str).enumerate() {
        let path = format!("metadata.finalizers[{index}]");
        finalizer_name(finalizer, &path, errors);
    }
}

/// Validates a finalizer: a standard one, or a name with a domain.
pub(super) fn finalizer_name(finalizer: &str, path: &str, errors: &mut Errors) {
    let standard = ["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer);
    if !finalizer.contains('/') && !standard {
        errors.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

/// Reports whether a kind's metadata is checked by the validation of core and of the kinds that use it.
fn is_validated_by_core(api_version: &str, kind: &str) -> bool {
    let group = api_version.split('/').next().unwrap_or_default();
    let others = ["coordination.k8s.io", "events.k8s.io", "policy", "apiextensions.k8s.io", "apiregistration.k8s.io"];
    kind != "Event" && !others.contains(&group)
}

/// Validates the metadata of an update.
pub(super) fn validate_update(old: &Value, new: &Value, errors: &mut Errors) {
    if has(old, "metadata.deletionTimestamp") {
        let before = items(old, "metadata.finalizers");
        let mut added: Vec<&str> = items(new, "metadata.finalizers")
            .iter()
            .filter(|finalizer| !before.contains(finalizer))
            .filter_map(Value::as_str)
            .collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            errors.forbidden("metadata.finalizers", &detail);
        }
    }
    let generation = |object: &Value| int(object, "metadata.generation").unwrap_or(0);
    if generation(new) < generation(old) {
        errors.invalid("metadata.generation", generation(new), "must not be decremented");
    }
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let path = format!("metadata.{key}");
        errors.immutable(&path, at(old, &path), at(new, &path));
    }
    described(at(new, "metadata"), errors);
}

/// Returns the check of the names of a kind.
fn name_format(api_version: &str, kind: &str) -> fn(&str) -> Vec<String> {
    match (api_version, kind) {
        ("v1", "Service" | "Namespace") | ("apps/v1", "StatefulSet") => format::label,
        ("rbac.authorization.k8s.io/v1", _) | ("policy/v1", "PodDisruptionBudget") | ("v1", "Event") => {
            format::path_segment
        }
        _ => format::subdomain,
    }
}
