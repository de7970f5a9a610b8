//! Validation of the metadata of objects.

use serde_json::Value;

use super::field::{FieldError, Path, Shown};
use super::names;

/// The metadata of an object, decoded.
#[derive(Clone, Copy, Debug)]
pub struct Metadata<'a>(&'a Value);

/// A rule for names; the flag says that the name is only the begin of one.
pub type NameRule<'a> = &'a dyn Fn(&str, bool) -> Vec<String>;

const MAX_ANNOTATIONS: usize = 256 << 10;
const IMMUTABLE: &str = "field is immutable";

impl<'a> Metadata<'a> {
    /// Takes the metadata of an object.
    pub fn of(object: &'a Value) -> Self {
        Self(object.get("metadata").unwrap_or(&Value::Null))
    }

    /// Takes a metadata object.
    pub fn new(metadata: &'a Value) -> Self {
        Self(metadata)
    }

    /// Returns a string field, empty if there is none.
    pub fn text(&self, field: &str) -> &'a str {
        self.0.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the generation.
    pub fn generation(&self) -> i64 {
        self.0.get("generation").and_then(Value::as_i64).unwrap_or(0)
    }

    fn texts(&self, field: &str) -> Vec<(&'a str, &'a str)> {
        let Some(Value::Object(entries)) = self.0.get(field) else { return Vec::new() };
        let mut sorted: Vec<_> =
            entries.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())).collect();
        sorted.sort_unstable();
        sorted
    }

    fn list(&self, field: &str) -> &'a [Value] {
        self.0.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn finalizers(&self) -> Vec<&'a str> {
        self.list("finalizers").iter().filter_map(Value::as_str).collect()
    }
}

/// Validates the metadata of a new object.
pub fn validate(meta: Metadata<'_>, namespaced: bool, rule: NameRule<'_>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let prefix = meta.text("generateName");
    if !prefix.is_empty() {
        let details = rule(prefix, true).into_iter();
        errors.extend(details.map(|detail| FieldError::invalid_text(&path.child("generateName"), prefix, detail)));
    }
    let name = meta.text("name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name or generateName is required"));
    } else {
        let details = rule(name, false).into_iter();
        errors.extend(details.map(|detail| FieldError::invalid_text(&path.child("name"), name, detail)));
    }
    check_namespace(meta, namespaced, &path.child("namespace"), &mut errors);
    if meta.generation() < 0 {
        let shown = Shown::raw(meta.generation().to_string());
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("generation"), shown, detail));
    }
    check_common(meta, path, &mut errors);
    check_finalizers(meta, &path.child("finalizers"), &mut errors);
    check_managed_fields(meta, &path.child("managedFields"), &mut errors);
    errors
}

fn check_namespace(meta: Metadata<'_>, namespaced: bool, path: &Path, errors: &mut Vec<FieldError>) {
    let namespace = meta.text("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(path, "")),
        (true, false) => {
            let details = names::dns1123_label(namespace).into_iter();
            errors.extend(details.map(|detail| FieldError::invalid_text(path, namespace, detail)));
        }
        (false, false) => errors.push(FieldError::forbidden(path, "not allowed on this type")),
        (false, true) => {}
    }
}

/// Validates labels, annotations and owner references.
fn check_common(meta: Metadata<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let labels = path.child("labels");
    for (key, value) in meta.texts("labels") {
        errors.extend(names::label_key(key).into_iter().map(|detail| FieldError::invalid_text(&labels, key, detail)));
        let details = names::label_value(value).into_iter();
        errors.extend(details.map(|detail| FieldError::invalid_text(&labels, value, detail)));
    }
    let annotations = path.child("annotations");
    let mut size = 0;
    for (key, value) in meta.texts("annotations") {
        let details = names::label_key(&key.to_lowercase()).into_iter();
        errors.extend(details.map(|detail| FieldError::invalid_text(&annotations, key, detail)));
        size += key.len() + value.len();
    }
    if size > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(&annotations, i64::try_from(MAX_ANNOTATIONS).unwrap_or(i64::MAX)));
    }
    check_owners(meta, &path.child("ownerReferences"), errors);
}

fn check_owners(meta: Metadata<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let owners = meta.list("ownerReferences");
    let mut controller: Option<String> = None;
    for owner in owners {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let api_version = text("apiVersion");
        if api_version.is_empty() || api_version.matches('/').count() > 1 || api_version.ends_with('/') {
            let detail = "version must not be empty";
            errors.push(FieldError::invalid_text(&path.child("apiVersion"), api_version, detail));
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.push(FieldError::invalid_text(&path.child(field), "", "must not be empty"));
            }
        }
        if api_version == "v1" && text("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, Shown::value(owner), detail));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let this = format!("{}/{}", text("kind"), text("name"));
            if let Some(first) = &controller {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                     and {this}"
                );
                errors.push(FieldError::invalid(path, Shown::raw(owners_json(owners)), detail));
            } else {
                controller = Some(this);
            }
        }
    }
}

/// Writes owner references with their fields in the order of the Go type.
fn owners_json(owners: &[Value]) -> String {
    let write = |owner: &Value| {
        let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
        let present = fields.iter().filter_map(|field| Some((field, owner.get(field)?)));
        let texts: Vec<_> =
            present.map(|(field, value)| format!("\"{field}\":{}", crate::golang::json(value))).collect();
        format!("{{{}}}", texts.join(","))
    };
    format!("[{}]", owners.iter().map(write).collect::<Vec<_>>().join(","))
}

fn check_finalizers(meta: Metadata<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let finalizers = meta.finalizers();
    for finalizer in &finalizers {
        let details = names::label_key(finalizer).into_iter();
        errors.extend(details.map(|detail| FieldError::invalid_text(path, finalizer, detail)));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, Shown::value(&finalizers.into()), detail));
    }
}

fn check_managed_fields(meta: Metadata<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    for (at, entry) in meta.list("managedFields").iter().enumerate() {
        let path = path.index(at);
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text("operation"), "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid_text(&path.child("operation"), text("operation"), detail));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            let detail = "must be `FieldsV1`";
            errors.push(FieldError::invalid_text(&path.child("fieldsType"), text("fieldsType"), detail));
        }
        if text("manager").len() > 128 {
            errors.push(FieldError::too_long(&path.child("manager"), 128));
        }
        if text("subresource").len() > 256 {
            errors.push(FieldError::too_long(&path.child("subresource"), 256));
        }
    }
}

/// Gives an update what it cannot change: the old generation, and the fields that the server sets.
pub fn keep_system_fields(new: &mut Value, old: &Value) {
    let (Some(before), Some(Value::Object(fields))) = (old.get("metadata"), new.get_mut("metadata")) else { return };
    let missing = |field: &str, fields: &serde_json::Map<String, Value>| {
        fields.get(field).is_none_or(|value| value.is_null() || value == "")
    };
    for field in ["generation", "creationTimestamp", "deletionTimestamp", "uid", "deletionGracePeriodSeconds"] {
        let replaces = !matches!(field, "uid" | "deletionGracePeriodSeconds") || missing(field, fields);
        match before.get(field).filter(|value| !value.is_null()) {
            Some(value) if replaces => drop(fields.insert(field.to_owned(), value.clone())),
            None if field == "generation" => drop(fields.remove(field)),
            _ => {}
        }
    }
}

/// Removes the namespace of an object whose resource has none.
pub fn drop_namespace(object: &mut Value) {
    if let Some(Value::Object(fields)) = object.get_mut("metadata") {
        fields.remove("namespace");
    }
}

/// Validates the metadata of an update.
pub fn validate_update(new: Metadata<'_>, old: Metadata<'_>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.0.get("deletionTimestamp").is_some_and(|time| !time.is_null()) {
        let before = old.finalizers();
        let mut added: Vec<_> = new.finalizers().into_iter().filter(|name| !before.contains(name)).collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let quoted: Vec<_> = added.into_iter().map(crate::golang::quote).collect();
            let rule = "no new finalizers can be added if the object is being deleted, found new finalizers";
            let detail = format!("{rule} []string{{{}}}", quoted.join(", "));
            errors.push(FieldError::forbidden(&path.child("finalizers"), detail));
        }
    }
    if new.text("resourceVersion").is_empty() {
        let detail = "must be specified for an update";
        errors.push(FieldError::invalid_text(&path.child("resourceVersion"), "", detail));
    }
    if new.generation() < old.generation() {
        let shown = Shown::raw(new.generation().to_string());
        errors.push(FieldError::invalid(&path.child("generation"), shown, "must not be decremented"));
    }
    for field in ["name", "namespace", "uid"] {
        if new.text(field) != old.text(field) {
            errors.push(FieldError::invalid_text(&path.child(field), new.text(field), IMMUTABLE));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let value = |meta: Metadata<'_>| meta.0.get(field).cloned().unwrap_or(Value::Null);
        if value(new) != value(old) {
            errors.push(FieldError::invalid(&path.child(field), Shown::value(&value(new)), IMMUTABLE));
        }
    }
    check_common(new, path, &mut errors);
    check_managed_fields(new, &path.child("managedFields"), &mut errors);
    errors
}

/// Validates the metadata of an update as the real server does for all objects, before the rules of their kind.
pub fn validate_common(new: &Value, old: &Value, namespaced: bool) -> Vec<FieldError> {
    let path = Path::new("metadata");
    let mut errors = validate(Metadata::of(new), namespaced, &names::path_segment, &path);
    errors.extend(validate_update(Metadata::of(new), Metadata::of(old), &path));
    errors
}

/// Returns the error of an update without a resourceVersion, which the real server's store reports alone.
pub fn missing_version(new: &Value) -> Option<FieldError> {
    let path = Path::new("metadata").child("resourceVersion");
    let missing = Metadata::of(new).text("resourceVersion").is_empty();
    missing.then(|| FieldError::invalid(&path, Shown::raw("0"), "must be specified for an update"))
}

/// Lists the warnings about new finalizers that are not qualified by a domain.
pub fn finalizer_warnings(new: Metadata<'_>, old: Option<Metadata<'_>>) -> Vec<String> {
    let before = old.map(|old| old.finalizers()).unwrap_or_default();
    let mut added: Vec<_> = new.finalizers().into_iter().filter(|name| !before.contains(name)).collect();
    added.sort_unstable();
    added.dedup();
    let mut warnings = Vec::new();
    for name in added {
        let quoted = crate::golang::quote(name);
        warnings.extend(names::label_key(name).into_iter().map(|e| format!("metadata.finalizers: {quoted}: {e}")));
        let standard = ["orphan", "foregroundDeletion", "kubernetes"].contains(&name);
        if !name.contains('/') && !standard {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            let rule = "to avoid accidental conflicts with other finalizer writers";
            let advice = format!("prefer a domain-qualified finalizer name{path} {rule}");
            warnings.push(format!("metadata.finalizers: {quoted}: {advice}"));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(metadata: Value) -> Vec<String> {
        let errors = validate(Metadata::new(&metadata), true, &names::object_name, &Path::new("metadata"));
        errors.iter().map(|error| format!("{}: {}", error.field, error.kind.reason())).collect()
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
        let expected: Vec<_> = fields.iter().map(|field| format!("metadata.{field}: FieldValueInvalid")).collect();
        assert_eq!(errors(metadata), expected);
        assert_eq!(errors(json!({})), ["metadata.name: FieldValueRequired", "metadata.namespace: FieldValueRequired"]);
    }

    #[test]
    fn refuses_changes_of_immutable_metadata() {
        let old = json!({"name": "a", "uid": "1", "generation": 2, "deletionTimestamp": "x", "finalizers": ["a/b"]});
        let new = json!({"name": "b", "uid": "1", "generation": 1, "finalizers": ["a/b", "c/d"]});
        let errors = validate_update(Metadata::new(&new), Metadata::new(&old), &Path::new("metadata"));
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        let expected = ["finalizers", "resourceVersion", "generation", "name", "deletionTimestamp"];
        assert_eq!(fields, expected.map(|field| format!("metadata.{field}")));
    }

    #[test]
    fn warns_of_unqualified_finalizers_once_they_are_new() {
        let (old, new) = (json!({"finalizers": ["old"]}), json!({"finalizers": ["old", "new", "a.b", "a.b/c"]}));
        let warnings = finalizer_warnings(Metadata::new(&new), Some(Metadata::new(&old)));
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].contains("\"a.b\": prefer") && warnings[1].contains("\"new\": prefer"));
    }
}
