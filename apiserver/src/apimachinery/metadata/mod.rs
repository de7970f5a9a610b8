//! `ObjectMeta`: reading and setting single fields, the fields that only the server sets, and the
//! validation.

mod validation;

pub use self::validation::{
    Metadata, validate, validate_annotations, validate_common, validate_update, version_required,
};

use serde_json::{Map, Value};

/// Returns a text field of the metadata, or `""`.
#[must_use]
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns an integer field of the metadata.
#[must_use]
pub fn integer(object: &Value, field: &str) -> Option<i64> {
    object.get("metadata")?.get(field)?.as_i64()
}

/// Returns the finalizers.
#[must_use]
pub fn finalizers(object: &Value) -> Vec<&str> {
    let list = object
        .get("metadata")
        .and_then(|metadata| metadata.get("finalizers"))
        .and_then(Value::as_array);
    list.map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Reports whether the object is being deleted.
#[must_use]
pub fn is_terminating(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// Sets a field of the metadata, or removes it when the value is `null`.
pub fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    let value = value.into();
    let Some(members) = object.as_object_mut() else {
        return;
    };
    let metadata = members
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    let Some(fields) = metadata.as_object_mut() else {
        return;
    };
    if value.is_null() {
        fields.remove(field);
    } else {
        fields.insert(field.into(), value);
    }
}

/// Copies a field of the metadata, or removes it when `from` has none.
fn copy(from: &Value, to: &mut Value, field: &str) {
    set(
        to,
        field,
        from.get("metadata")
            .and_then(|metadata| metadata.get(field))
            .cloned()
            .unwrap_or_default(),
    );
}

/// Removes from a new object what only the server sets, as `WipeObjectMetaSystemFields` does in
/// apiserver's [`rest/meta.go`].
///
/// [`rest/meta.go`]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/registry/rest/meta.go
pub fn clear_system_fields(object: &mut Value) {
    for field in [
        "creationTimestamp",
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        set(object, field, Value::Null);
    }
}

/// Gives an update the fields that only the server sets. They are those of the old object, as
/// `BeforeUpdate` has it in apiserver's [`rest/update.go`].
///
/// A uid or a grace period that differs from the old one stays: [`validate_update`] refuses it.
///
/// [`rest/update.go`]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/registry/rest/update.go
pub fn keep_system_fields(new: &mut Value, old: &Value) {
    copy(old, new, "generation");

    if text(new, "uid").is_empty() {
        copy(old, new, "uid");
    }

    for field in ["creationTimestamp", "deletionTimestamp"] {
        if !text(old, field).is_empty() {
            copy(old, new, field);
        }
    }

    if integer(new, "deletionGracePeriodSeconds").is_none() {
        copy(old, new, "deletionGracePeriodSeconds");
    }

    // Upstream's storage drops it before it writes the object.
    set(new, "selfLink", Value::Null);
}

/// Removes the namespace of an object whose resource has none.
pub fn drop_namespace(object: &mut Value) {
    if let Some(Value::Object(fields)) = object.get_mut("metadata") {
        fields.remove("namespace");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn update_keeps_what_only_the_server_sets() {
        let old = json!({"metadata": {
            "uid": "1", "generation": 2, "creationTimestamp": "a", "deletionTimestamp": "b",
            "deletionGracePeriodSeconds": 30,
        }});

        let mut empty = json!({"metadata": {"uid": "", "selfLink": "/"}});
        keep_system_fields(&mut empty, &old);
        assert_eq!(empty, old);

        let mut changed = json!({"metadata": {
            "uid": "2", "generation": 9, "creationTimestamp": "x", "deletionTimestamp": "y",
            "deletionGracePeriodSeconds": 0,
        }});
        keep_system_fields(&mut changed, &old);

        // Validation refuses these two.
        let mut expected = old;
        expected["metadata"]["uid"] = json!("2");
        expected["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        assert_eq!(changed, expected);
    }

    #[test]
    fn update_keeps_deletion_that_the_old_object_lacks_for_validation_to_refuse() {
        let old = json!({"metadata": {"uid": "1"}});
        let deleted = json!({"metadata": {"uid": "1", "deletionTimestamp": "b", "deletionGracePeriodSeconds": 0}});

        let mut new = deleted.clone();
        keep_system_fields(&mut new, &old);
        assert_eq!(new, deleted);
    }
}
