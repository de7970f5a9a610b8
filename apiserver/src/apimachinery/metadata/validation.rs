//! The validation of `ObjectMeta`, for built-in kinds, custom resources and the objects embedded in
//! them.
//!
//! It finds the errors of apimachinery's [`objectmeta.go`], in its order.
//!
//! [`objectmeta.go`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/api/validation/objectmeta.go

use serde_json::Value;

use crate::{
    apimachinery::{
        field::{ErrorList, FieldError, Path, Shown},
        json, names,
        options::validate_field_manager,
        selector::objects::validate_labels,
    },
    golang,
};

/// The largest size of all annotations in bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// The metadata of an object, as opposed to the object.
#[derive(Clone, Copy, Debug)]
pub struct Metadata<'a>(&'a Value);

impl<'a> Metadata<'a> {
    /// Takes the metadata of an object.
    pub fn of(object: &'a Value) -> Self {
        Self(object.get("metadata").unwrap_or(&Value::Null))
    }

    /// Takes a metadata object.
    pub fn new(metadata: &'a Value) -> Self {
        Self(metadata)
    }

    fn get(&self, field: &str) -> &'a Value {
        self.0.get(field).unwrap_or(&Value::Null)
    }

    fn text(&self, field: &str) -> &'a str {
        self.get(field).as_str().unwrap_or_default()
    }

    fn generation(&self) -> i64 {
        self.get("generation").as_i64().unwrap_or(0)
    }

    fn list(&self, field: &str) -> &'a [Value] {
        self.get(field).as_array().map_or(&[], Vec::as_slice)
    }

    fn finalizers(&self) -> Vec<&'a str> {
        self.list("finalizers")
            .iter()
            .filter_map(Value::as_str)
            .collect()
    }

    /// Returns the finalizers that older metadata doesn't have, sorted and each once.
    pub(crate) fn finalizers_added_to(&self, old: Option<Self>) -> Vec<&'a str> {
        let before = old.map(|old| old.finalizers()).unwrap_or_default();

        let mut added = self.finalizers();
        added.retain(|name| !before.contains(name));
        added.sort_unstable();
        added.dedup();
        added
    }
}

/// Validates the metadata of a new object, whose name has been generated. `name_rule` is the rule
/// for the names of its kind; with `true`, for the beginning of one.
pub fn validate(
    meta: Metadata<'_>,
    namespaced: bool,
    name_rule: impl Fn(&str, bool) -> Vec<String>,
    path: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();

    let prefix = meta.text("generateName");
    if !prefix.is_empty() {
        let path = path.child("generateName");
        invalid_each(&path, prefix, name_rule(prefix, true), &mut errors);
    }

    let name = meta.text("name");
    if name.is_empty() {
        let detail = "name or generateName is required";
        errors.push(FieldError::required(path.child("name"), detail));
    } else {
        let path = path.child("name");
        invalid_each(&path, name, name_rule(name, false), &mut errors);
    }

    check_namespace(meta, namespaced, &path.child("namespace"), &mut errors);

    if meta.generation() < 0 {
        let detail = "must be greater than or equal to 0";
        let path = path.child("generation");
        errors.push(FieldError::invalid(path, meta.generation(), detail));
    }

    check_descriptions(meta, path, &mut errors);
    check_finalizers(meta, &path.child("finalizers"), &mut errors);
    check_managed_fields(meta, &path.child("managedFields"), &mut errors);
    errors
}

/// Validates the metadata of an update. The fields that only the server sets must have been kept
/// before, as by [`keep_system_fields`](super::keep_system_fields).
pub fn validate_update(new: Metadata<'_>, old: Metadata<'_>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();

    if !old.get("deletionTimestamp").is_null() {
        let added = new.finalizers_added_to(Some(old));
        if !added.is_empty() {
            let quoted: Vec<_> = added.into_iter().map(golang::quote).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                quoted.join(", ")
            );
            errors.push(FieldError::forbidden(path.child("finalizers"), detail));
        }
    }

    if new.text("resourceVersion").is_empty() {
        let path = path.child("resourceVersion");
        errors.push(FieldError::invalid(path, "", VERSION_REQUIRED));
    }

    if new.generation() < old.generation() {
        let path = path.child("generation");
        let detail = "must not be decremented";
        errors.push(FieldError::invalid(path, new.generation(), detail));
    }

    // In Go these are strings: a missing one is equal to an empty one, and shown as such.
    for field in ["name", "namespace", "uid"] {
        if new.text(field) != old.text(field) {
            errors.push(FieldError::immutable(path.child(field), new.text(field)));
        }
    }
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if new.get(field) != old.get(field) {
            let value = new.get(field).clone();
            errors.push(FieldError::immutable(path.child(field), value));
        }
    }

    check_descriptions(new, path, &mut errors);
    check_managed_fields(new, &path.child("managedFields"), &mut errors);
    errors
}

/// Validates the metadata of an update by the rules for all kinds. The rules of the kind come
/// after them, and often find the same errors again.
pub fn validate_common(new: &Value, old: &Value, namespaced: bool) -> Vec<FieldError> {
    let path = Path::new("metadata");
    let (new, old) = (Metadata::of(new), Metadata::of(old));

    let mut errors = validate(new, namespaced, names::name_is_path_segment, &path);
    errors.extend(validate_update(new, old, &path));
    errors
}

const VERSION_REQUIRED: &str = "must be specified for an update";

/// The error of an update without a resourceVersion, of a kind that cannot be updated
/// unconditionally. The API server reports it before it validates.
pub fn version_required() -> FieldError {
    FieldError::invalid("metadata.resourceVersion", 0, VERSION_REQUIRED)
}

/// Validates annotations. Unlike label keys, their keys may have upper-case prefixes.
pub fn validate_annotations(annotations: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();

    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let details = names::qualified_name(&key.to_lowercase());
        invalid_each(path, key, details, &mut errors);
        size += key.len() + value.as_str().map_or(0, str::len);
    }

    if size > MAX_ANNOTATIONS {
        let max = i64::try_from(MAX_ANNOTATIONS).unwrap_or(i64::MAX);
        errors.push(FieldError::too_long(path, max));
    }

    errors
}

fn invalid_each(path: &Path, value: &str, details: Vec<String>, errors: &mut Vec<FieldError>) {
    let found = details
        .into_iter()
        .map(|detail| FieldError::invalid(path, value, detail));
    errors.extend(found);
}

fn check_namespace(
    meta: Metadata<'_>,
    namespaced: bool,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    match (namespaced, meta.text("namespace")) {
        (true, "") => errors.push(FieldError::required(path, "")),
        (true, namespace) => {
            invalid_each(path, namespace, names::dns1123_label(namespace), errors);
        }
        (false, "") => {}
        (false, _) => errors.push(FieldError::forbidden(path, "not allowed on this type")),
    }
}

/// Validates labels, annotations and owners.
fn check_descriptions(meta: Metadata<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let mut found = ErrorList::default();
    validate_labels(
        meta.get("labels"),
        path.child("labels").as_str(),
        &mut found,
    );
    errors.extend(found.into_list());

    let annotations = path.child("annotations");
    errors.extend(validate_annotations(meta.get("annotations"), &annotations));

    check_owners(
        meta.list("ownerReferences"),
        &path.child("ownerReferences"),
        errors,
    );
}

fn check_owners(owners: &[Value], path: &Path, errors: &mut Vec<FieldError>) {
    let mut controller: Option<String> = None;

    for owner in owners {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();

        let api_version = text("apiVersion");
        if api_version.is_empty()
            || api_version.matches('/').count() > 1
            || api_version.ends_with('/')
        {
            let path = path.child("apiVersion");
            let detail = "version must not be empty";
            errors.push(FieldError::invalid(path, api_version, detail));
        }

        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                let path = path.child(field);
                errors.push(FieldError::invalid(path, "", "must not be empty"));
            }
        }

        if (api_version, text("kind")) == ("v1", "Event") {
            let shown = Shown::raw(owner_json(owner));
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, shown, detail));
        }

        if owner["controller"] == true {
            let this = format!("{}/{}", text("kind"), text("name"));
            if let Some(first) = &controller {
                let shown: Vec<_> = owners.iter().map(owner_json).collect();
                let shown = Shown::raw(format!("[{}]", shown.join(",")));
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in \
                     references for {first} and {this}"
                );
                errors.push(FieldError::invalid(path, shown, detail));
            } else {
                controller = Some(this);
            }
        }
    }
}

/// Writes an owner reference with the fields of the Go type in their order. The first four are
/// never omitted.
fn owner_json(owner: &Value) -> String {
    let always = ["apiVersion", "kind", "name", "uid"].map(|field| {
        let text = owner[field].as_str().unwrap_or_default();
        (field, json::to_string(&text.into()))
    });
    let optional = ["controller", "blockOwnerDeletion"]
        .into_iter()
        .filter(|field| !owner[field].is_null())
        .map(|field| (field, json::to_string(&owner[field])));

    let fields: Vec<_> = always
        .into_iter()
        .chain(optional)
        .map(|(field, value)| format!("\"{field}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn check_finalizers(meta: Metadata<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let finalizers = meta.finalizers();
    for finalizer in &finalizers {
        invalid_each(path, finalizer, names::qualified_name(finalizer), errors);
    }

    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, finalizers, detail));
    }
}

fn check_managed_fields(meta: Metadata<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    for (at, entry) in meta.list("managedFields").iter().enumerate() {
        let path = path.index(at);
        let text = |field: &str| entry[field].as_str().unwrap_or_default();

        let operation = text("operation");
        if !matches!(operation, "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(
                path.child("operation"),
                operation,
                detail,
            ));
        }

        let fields_type = text("fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            let path = path.child("fieldsType");
            errors.push(FieldError::invalid(path, fields_type, "must be `FieldsV1`"));
        }

        let manager = validate_field_manager(text("manager"), &path.child("manager"));
        errors.extend(manager);

        if text("subresource").len() > 256 {
            errors.push(FieldError::too_long(path.child("subresource"), 256));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(metadata: Value) -> Vec<String> {
        let errors = validate(
            Metadata::new(&metadata),
            true,
            names::name_is_dns_subdomain,
            &Path::new("metadata"),
        );
        errors
            .iter()
            .map(|error| format!("{}: {}", error.field, error.kind.reason()))
            .collect()
    }

    #[test]
    fn reports_each_part_of_metadata() {
        let metadata = json!({"name": "A", "generateName": "B", "namespace": "c.d", "labels": {"-": "é"},
            "annotations": {"/": ""}, "finalizers": ["orphan", "foregroundDeletion", "-"],
            "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]});
        let fields = [
            "generateName",
            "name",
            "namespace",
            "labels",
            "labels",
            "annotations",
            "annotations",
            "annotations",
            "ownerReferences.apiVersion",
            "ownerReferences.kind",
            "ownerReferences.name",
            "ownerReferences.uid",
            "finalizers",
            "finalizers",
        ];
        let expected: Vec<_> = fields
            .iter()
            .map(|field| format!("metadata.{field}: FieldValueInvalid"))
            .collect();
        assert_eq!(errors(metadata), expected);
        assert_eq!(
            errors(json!({})),
            [
                "metadata.name: FieldValueRequired",
                "metadata.namespace: FieldValueRequired"
            ]
        );
    }

    #[test]
    fn refuses_changes_of_immutable_metadata() {
        let old = json!({"name": "a", "uid": "1", "generation": 2, "deletionTimestamp": "x", "finalizers": ["a/b"]});
        let new = json!({"name": "b", "uid": "1", "generation": 1, "finalizers": ["a/b", "c/d"]});
        let errors = validate_update(
            Metadata::new(&new),
            Metadata::new(&old),
            &Path::new("metadata"),
        );
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        let expected = [
            "finalizers",
            "resourceVersion",
            "generation",
            "name",
            "deletionTimestamp",
        ];
        assert_eq!(fields, expected.map(|field| format!("metadata.{field}")));
    }
}
